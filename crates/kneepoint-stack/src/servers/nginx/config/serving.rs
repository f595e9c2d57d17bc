//! Finds the server and location through which requests go on, as a path of positions from the root block.

use crate::text::nginx::{Block, Directive};

/// Every block that has the directive, with how likely it serves the application: a location for PHP files, or
/// for everything.
pub(super) fn collect(
    block: &Block,
    pass: &str,
    path: &mut Vec<usize>,
    found: &mut Vec<(Vec<usize>, u8)>,
) {
    for (at, item) in block.items().iter().enumerate() {
        let Some(inside) = item.block() else { continue };
        path.push(at);
        if inside.find(pass).is_some() {
            let args = item.args();
            let rank = match pass {
                "fastcgi_pass" if args.iter().any(|arg| arg.contains(r"\.php")) => 2,
                "proxy_pass" if args == ["/"] => 2,
                _ => u8::from(item.name() == "location"),
            };
            found.push((path.clone(), rank));
        }
        collect(inside, pass, path, found);
        path.pop();
    }
}

/// Whether a path leads through `http` and `server`.
pub(super) fn in_server(root: &Block, path: &[usize]) -> bool {
    let Some([first, second]) = path.first_chunk() else {
        return false;
    };
    let http = &root.items()[*first];
    http.name() == "http"
        && http
            .block()
            .is_some_and(|block| block.items()[*second].name() == "server")
}

pub(super) fn first_server(root: &Block) -> Option<Vec<usize>> {
    let block_at = |block: &Block, name: &str| {
        let is = |item: &Directive| item.name() == name && item.block().is_some();
        block.items().iter().position(is)
    };
    let http = block_at(root, "http")?;
    let server = block_at(root.items()[http].block()?, "server")?;
    Some(vec![http, server])
}
