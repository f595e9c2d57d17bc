//! Makes a configuration the lab's own: its addresses, files and user, and nothing of the machine's nginx.

use super::config::NginxConfig;
use super::upstream::split_target;
use super::{USER, held, spelled};
use crate::text::nginx::{Block, Directive};
use crate::{NGINX_ACCESS_LOG, TierContext};
use kneepoint_model::{Address, Layer};

/// What of a `listen` stays when its address changes: how the socket behaves. TLS and HTTP/2 do not: the lab
/// speaks plain HTTP/1.1.
const LISTEN_KEPT: &[&str] = &[
    "backlog=",
    "reuseport",
    "deferred",
    "fastopen=",
    "so_keepalive=",
    "rcvbuf=",
    "sndbuf=",
];

/// The part of it that a Unix socket takes, too: the rest is about TCP, and Linux refuses `reuseport` there.
const LISTEN_KEPT_ON_UNIX: &[&str] = &["backlog=", "rcvbuf=", "sndbuf="];

/// The socket of the server with a number that serves nothing in the lab.
pub(super) fn other_socket(number: usize) -> String {
    format!("run/other-{number}.sock")
}

/// Changes what must change for the lab, and only that.
pub(super) fn adapt(site: &mut NginxConfig, context: &TierContext, listen: &Address) {
    main(&mut site.root, context);
    paths(&mut site.root, context);
    listeners(site, context, listen);
    if let Some(upstream) = &context.upstream {
        next_tier(site, upstream);
    }
    if context.layer == Layer::Web {
        document_root(site, context);
        held::admit_lab(site, context);
    }
    temporary_files(site, context);
    let include = |name: &str| context.path(name);
    site.server().push("include", &[&include("identity.conf")]);
    site.http().push("include", &[&include("status.conf")]);
}

fn main(root: &mut Block, context: &TierContext) {
    match context.as_root {
        true => root.set_first("user", &[USER]),
        false => {
            root.remove("user");
        }
    }
    root.remove("working_directory");
    root.set_first("pid", &[&context.path("run/nginx.pid")]);
    // `warn` is what tells of buffered responses; below it nothing of use is lost.
    root.set_first("error_log", &[&context.path("log/error.log"), "warn"]);
    root.set_first("daemon", &["off"]);
}

/// Points files at the private directory, and modules at where nginx would look for them.
fn paths(root: &mut Block, context: &TierContext) {
    let error_log = context.path("log/error.log");
    let access_log = context.path(NGINX_ACCESS_LOG);
    let prefix = context.program.fact("prefix").to_owned();
    let mut caches = 0;
    root.visit_mut(&mut |item| {
        let mut args = item.args();
        let Some(first) = args.first_mut() else {
            return;
        };
        match item.name().as_str() {
            "error_log" => args = vec![error_log.clone(), "warn".into()],
            "access_log" if first != "off" => *first = access_log.clone(),
            "load_module" if !first.starts_with('/') => *first = format!("{prefix}/{first}"),
            "proxy_cache_path" | "fastcgi_cache_path" | "uwsgi_cache_path" | "scgi_cache_path" => {
                caches += 1;
                *first = context.path(&format!("tmp/cache-{caches}"));
            }
            name if name.ends_with("_temp_path") => {
                *first = context.path(&format!("tmp/{}", name.trim_end_matches("_temp_path")));
            }
            _ => return,
        }
        item.set_args(&args.iter().map(String::as_str).collect::<Vec<_>>());
    });
    let logs = |http: &Block| http.find("access_log").is_some();
    if let Some(http) = root.find_mut("http").and_then(Directive::block_mut)
        && !logs(http)
    {
        http.push("access_log", &[&access_log, "combined"]);
    }
}

/// The serving server gets the tier's address; the others get sockets nobody connects to.
fn listeners(site: &mut NginxConfig, context: &TierContext, listen: &Address) {
    without_tls(site.http());
    let serving = site.server_position();
    let mut number = 0;
    for (at, item) in site.http().items_mut().iter_mut().enumerate() {
        if item.name() != "server" {
            continue;
        }
        let Some(server) = item.block_mut() else {
            continue;
        };
        let address = if at == serving {
            spelled(listen)
        } else {
            number += 1;
            format!("unix:{}", context.path(&other_socket(number - 1)))
        };
        listen_on(server, &address);
    }
}

fn listen_on(server: &mut Block, address: &str) {
    let mut kept: Vec<String> = vec![address.to_owned()];
    let first = server.items().iter().find(|item| item.name() == "listen");
    if let Some(listen) = first {
        let args = listen.args();
        let words = match address.starts_with("unix:") {
            true => LISTEN_KEPT_ON_UNIX,
            false => LISTEN_KEPT,
        };
        let stays = |arg: &&String| words.iter().any(|kept| arg.starts_with(kept));
        kept.extend(args.iter().skip(1).filter(stays).cloned());
    }
    let args: Vec<&str> = kept.iter().map(String::as_str).collect();
    server.keep_first("listen");
    match server.find_mut("listen") {
        Some(listen) => listen.set_args(&args),
        None => server.set_first("listen", &args),
    }
    without_tls(server);
}

/// nginx reads the certificates it is told of even where nothing listens for TLS.
fn without_tls(block: &mut Block) {
    let tls: Vec<String> = block
        .items()
        .iter()
        .map(Directive::name)
        .filter(|name| name.starts_with("ssl_") || name == "ssl" || name == "http2")
        .collect();
    for name in tls {
        block.remove(&name);
    }
}

/// Every upstream block, and every pass to an address, leads to the next tier.
fn next_tier(site: &mut NginxConfig, upstream: &Address) {
    let address = spelled(upstream);
    let pass = site.pass();
    let mut names = Vec::new();
    for item in site.http().items_mut() {
        if item.name() == "upstream" {
            names.extend(item.args());
            if let Some(block) = item.block_mut() {
                lead_to(block, &address);
            }
        }
    }
    site.http().visit_mut(&mut |item| {
        if item.name() != pass {
            return;
        }
        let args = item.args();
        let Some(target) = args.first() else { return };
        let (_, host, path) = split_target(target);
        // A variable may have held the scheme, too.
        let scheme = match pass {
            "proxy_pass" => "http://",
            _ => "",
        };
        let host = match names.iter().any(|name| name == host) {
            true => host,
            false => &address,
        };
        let colon = if host.starts_with("unix:") && !path.is_empty() {
            ":"
        } else {
            ""
        };
        let target = format!("{scheme}{host}{colon}{path}");
        item.set_args(&[&target]);
    });
}

/// One server in an upstream block, with the parameters of the first.
fn lead_to(block: &mut Block, address: &str) {
    block.keep_first("server");
    match block.find_mut("server") {
        Some(server) => {
            let mut args = server.args();
            args.retain(|arg| arg != "backup" && arg != "down" && arg != "resolve");
            match args.first_mut() {
                Some(first) => *first = address.to_owned(),
                None => args.push(address.to_owned()),
            }
            server.set_args(&args.iter().map(String::as_str).collect::<Vec<_>>());
        }
        None => block.push("server", &[address]),
    }
}

/// The application's directory in place of the one on the user's server.
fn document_root(site: &mut NginxConfig, context: &TierContext) {
    let new = context.app.document_root().to_string_lossy().into_owned();
    let old = site
        .effective("root")
        .and_then(|args| args.into_iter().next());
    let Some(old) = old else {
        return site.server().push("root", &[&new]);
    };
    let level = site.effective_level("root").unwrap_or(2).min(2);
    let change = &mut |item: &mut Directive| {
        let mut args = item.args();
        let mut changed = false;
        // SCRIPT_FILENAME and try_files of some configurations spell the directory out.
        for arg in &mut args {
            let rest = arg.strip_prefix(old.as_str());
            if let Some(rest) = rest.filter(|rest| rest.is_empty() || rest.starts_with(['/', '$']))
            {
                *arg = format!("{new}{rest}");
                changed = true;
            }
        }
        let about_files = matches!(item.name().as_str(), "root" | "alias" | "fastcgi_param");
        if changed && about_files {
            item.set_args(&args.iter().map(String::as_str).collect::<Vec<_>>());
        }
    };
    if level == 1 {
        let http = site.http();
        http.items_mut().iter_mut().for_each(&mut *change);
    }
    site.server().visit_mut(change);
}

fn temporary_files(site: &mut NginxConfig, context: &TierContext) {
    for kind in ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"] {
        let path = context.path(&format!("tmp/{kind}"));
        site.http().set(&format!("{kind}_temp_path"), &[&path]);
    }
}
