//! The text of Caddy's configuration.

use crate::TierContext;
use crate::php::runtime_config::{PROBE_PATH, RuntimeConfig};
use crate::tier::IDENTITY_PATH;
use kneepoint_model::Address;
use std::net::SocketAddr;

/// The whole configuration. Caddy serves files that are there, PHP all else.
pub(super) fn caddyfile(
    context: &TierContext,
    runtime: &RuntimeConfig,
    listen: &Address,
    admin: Option<&SocketAddr>,
) -> String {
    let quoted = |path: &str| format!("\"{}\"", path.replace('\\', "\\\\").replace('"', "\\\""));
    let threads = runtime.text("num_threads");
    let admin = admin.map_or_else(|| "off".to_owned(), ToString::to_string);
    let wait = match runtime.number("max_wait_time") {
        None | Some(0) => String::new(),
        Some(seconds) => format!("\t\tmax_wait_time {seconds}s\n"),
    };
    let (site, bind) = match listen {
        Address::Tcp(address) => (
            format!("http://:{}", address.port()),
            address.ip().to_string(),
        ),
        Address::Unix(path) => ("http://".to_owned(), format!("unix/{}", path.display())),
    };
    let root = context.app.document_root();
    let keeps = !runtime.text("worker").is_empty();
    let (worker, front) = match keeps {
        false => (String::new(), context.app.front_name()),
        true => (
            format!(
                "\t\tworker {{\n\t\t\tfile {keeper}\n\t\t\tnum {threads}\n\t\t}}\n",
                keeper = quoted(&context.path("keeper.php")),
            ),
            "keeper.php".to_owned(),
        ),
    };
    // One thread stays free for our own probe, which is no request of the application.
    let all = match keeps {
        false => threads.to_owned(),
        true => (runtime.number("num_threads").unwrap_or(1) + 1).to_string(),
    };
    // A directory's own index.php comes before a front controller of another name.
    let index = match front.as_str() {
        "index.php" => "",
        _ => " {path}/index.php",
    };
    let site_of_app = match keeps {
        false => format!(
            "\t\troot {}\n\t\tphp_server {{\n\t\t\ttry_files {{path}}{index} {front}\n\t\t}}\n",
            quoted(&root.to_string_lossy())
        ),
        true => format!(
            "\t\troot {root}\n\t\t@static file\n\t\thandle @static {{\n\t\t\tfile_server\n\t\t}}\n\t\thandle {{\n\t\t\troot {own}\n\t\t\trewrite * /{front}\n\t\t\tphp\n\t\t}}\n",
            root = quoted(&root.to_string_lossy()),
            own = quoted(context.path("").trim_end_matches('/')),
        ),
    };
    let own = quoted(context.path("").trim_end_matches('/'));
    format!(
        "{{\n\tadmin {admin}\n\tauto_https off\n\tpersist_config off\n\tmetrics\n\tlog {{\n\t\tlevel WARN\n\t}}\n\
         \tfrankenphp {{\n\t\tnum_threads {all}\n{wait}{worker}\t}}\n}}\n\
         {site} {{\n\tbind {bind}\n\
         \thandle {IDENTITY_PATH} {{\n\t\troot {own}\n\t\trewrite * /identity.txt\n\t\tfile_server\n\t}}\n\
         \thandle {PROBE_PATH} {{\n\t\troot {own}\n\t\trewrite * /probe.php\n\t\tphp\n\t}}\n\
         \thandle {{\n{site_of_app}\t}}\n}}\n"
    )
}
