//! Connections to the next tier: the `upstream` block, and the HTTP headers that let a connection be kept.

use super::config::NginxConfig;
use super::tunables::KEEPALIVE_BY_DEFAULT;
use crate::text::nginx::{Block, Directive};
use kneepoint_model::Layer;

impl NginxConfig {
    /// The upstream block requests are passed to, when they are passed to one.
    fn upstream(&self) -> Option<&Block> {
        let name = self.upstream_name()?;
        let mut items = self.level(1).items().iter();
        items
            .find(|item| is_upstream(item, &name))
            .and_then(Directive::block)
    }

    fn upstream_mut(&mut self) -> Option<&mut Block> {
        let name = self.upstream_name()?;
        let mut items = self.http().items_mut().iter_mut();
        items
            .find(|item| is_upstream(item, &name))
            .and_then(Directive::block_mut)
    }

    /// What requests are passed to, without scheme and path: an upstream's name or an address.
    fn upstream_name(&self) -> Option<String> {
        let target = self.effective(self.pass())?.into_iter().next()?;
        let (_, host, _) = split_target(&target);
        Some(host.to_owned())
    }

    pub(super) fn upstream_setting(&self, name: &str) -> Option<String> {
        let block = self.upstream()?;
        if name == "max_fails" {
            let args = block.find("server")?.args();
            return args
                .iter()
                .find_map(|arg| Some(arg.strip_prefix("max_fails=")?.to_owned()));
        }
        let value = block.find(name)?.args().into_iter().next();
        // A cache of connections that HTTP/1.0 or `Connection: close` ends after one request keeps nothing.
        if name == "keepalive" && self.layer == Layer::Proxy && !self.connections_can_stay() {
            return Some("0".into());
        }
        value
    }

    fn connections_can_stay(&self) -> bool {
        let by_default = self.version >= KEEPALIVE_BY_DEFAULT;
        let version = self.effective("proxy_http_version");
        let new_enough = version.map_or(by_default, |args| args != ["1.0"]);
        let header = self
            .header_level()
            .and_then(|level| connection_header(self.level(level)));
        let open = header.map_or(by_default, |args| {
            args.get(1)
                .is_none_or(|value| !value.eq_ignore_ascii_case("close"))
        });
        new_enough && open
    }

    /// The innermost level with `proxy_set_header`: a level that sets one loses those of the levels above.
    fn header_level(&self) -> Option<usize> {
        self.effective_level("proxy_set_header")
    }

    pub(super) fn set_upstream(&mut self, name: &str, value: &str) {
        if name == "keepalive" {
            return self.set_keepalive(value);
        }
        self.ensure_upstream();
        let Some(block) = self.upstream_mut() else {
            return;
        };
        if name != "max_fails" {
            return block.set(name, &[value]);
        }
        for server in block
            .items_mut()
            .iter_mut()
            .filter(|item| item.name() == "server")
        {
            let mut args = server.args();
            args.retain(|arg| !arg.starts_with("max_fails="));
            args.push(format!("max_fails={value}"));
            server.set_args(&args.iter().map(String::as_str).collect::<Vec<_>>());
        }
    }

    fn set_keepalive(&mut self, value: &str) {
        let keep = value != "0";
        // Where connections are kept by default, keeping none has to be said.
        let by_default = self.version >= KEEPALIVE_BY_DEFAULT;
        if keep || by_default {
            self.ensure_upstream();
        }
        if let Some(block) = self.upstream_mut() {
            match keep || by_default {
                true => block.set("keepalive", &[value]),
                false => {
                    block.remove("keepalive");
                }
            }
        }
        if self.layer != Layer::Proxy {
            return;
        }
        if keep {
            self.set_effective("proxy_http_version", &["1.1"]);
            self.set_connection_header(Some(""));
        } else if !by_default {
            self.set_connection_header(None);
            for depth in 1..=self.depth() {
                self.level_mut(depth).remove("proxy_http_version");
            }
        }
    }

    fn set_connection_header(&mut self, value: Option<&str>) {
        let depth = self.header_level().unwrap_or(self.depth());
        let is_header = |item: &Directive| {
            item.name() == "proxy_set_header"
                && item
                    .args()
                    .first()
                    .is_some_and(|name| name.eq_ignore_ascii_case("connection"))
        };
        let block = self.level_mut(depth);
        let at = block.items().iter().position(is_header);
        match (at, value) {
            (Some(at), Some(value)) => block.items_mut()[at].set_args(&["Connection", value]),
            (None, Some(value)) => block.push("proxy_set_header", &["Connection", value]),
            (Some(at), None) => block.remove_at(at),
            (None, None) => {}
        }
    }

    /// Gives requests an upstream block to pass through when they went to an address directly.
    fn ensure_upstream(&mut self) {
        if self.upstream().is_some() {
            return;
        }
        let Some(target) = self
            .effective(self.pass())
            .and_then(|args| args.into_iter().next())
        else {
            return;
        };
        let (scheme, host, path) = split_target(&target);
        let name = match self.layer {
            Layer::Proxy => "kneepoint_web",
            _ => "kneepoint_php",
        };
        let (host, passed) = (host.to_owned(), format!("{scheme}{name}{path}"));
        let pass = self.pass();
        self.set_effective(pass, &[&passed]);
        if let Some(block) = self.http().insert_block("server", "upstream", &[name]) {
            block.push("server", &[&host]);
        }
    }
}

fn is_upstream(item: &Directive, name: &str) -> bool {
    item.name() == "upstream" && item.args().first().is_some_and(|own| own == name)
}

fn connection_header(block: &Block) -> Option<Vec<String>> {
    let headers = block
        .items()
        .iter()
        .rev()
        .filter(|item| item.name() == "proxy_set_header");
    headers.map(Directive::args).find(|args| {
        args.first()
            .is_some_and(|name| name.eq_ignore_ascii_case("connection"))
    })
}

/// Where what a target names by its host ends, and what of the request it asks for begins.
const PATHS: [&str; 3] = ["/", "$request_uri", "$uri"];

/// `http://web/app` as `http://`, `web`, `/app`; an address of FastCGI has neither scheme nor path.
pub(super) fn split_target(target: &str) -> (&str, &str, &str) {
    let Some(at) = target.find("://") else {
        return ("", target, "");
    };
    let (scheme, rest) = target.split_at(at + 3);
    let end = match rest.starts_with("unix:") {
        // `unix:/path/to.sock:/uri`
        true => rest[5..].find(':').map_or(rest.len(), |colon| 5 + colon),
        false => {
            let begins = PATHS.iter().filter_map(|path| rest.find(path));
            begins.filter(|at| *at > 0).min().unwrap_or(rest.len())
        }
    };
    let (host, path) = rest.split_at(end);
    (scheme, host, path.strip_prefix(':').unwrap_or(path))
}
