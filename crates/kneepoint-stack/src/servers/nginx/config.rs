//! An nginx configuration seen from the request: which server and location pass it on, and what is in effect
//! there. A setting is read from the innermost level that has it, and changed there.

mod access_log;
mod serving;

use super::{defaults, tunables};
use crate::StackError;
use crate::text::nginx::{self, Block};
use crate::tunable_spec::{self, version};
use access_log::log_kind;
use kneepoint_model::Layer;
use serving::{collect, first_server, in_server};
use std::collections::BTreeMap;
use std::fmt;

pub(super) struct NginxConfig {
    pub(super) root: Block,
    pub(super) layer: Layer,
    pub(super) version: [u32; 3],
}

impl NginxConfig {
    /// Parses a configuration and looks for the server that serves.
    ///
    /// # Errors
    /// Not nginx's format, or no server that passes requests on (when `needs_pass`), or no server at all.
    pub(super) fn parse(
        layer: Layer,
        file: &str,
        text: &str,
        needs_pass: bool,
        nginx: &str,
    ) -> Result<Self, StackError> {
        let mut root = nginx::parse(text).map_err(|error| error.of(file))?;
        if root.find("http").is_none() && root.find("server").is_some() {
            // A file of `sites-enabled`: it is meant to be included by a main file.
            let mut main = nginx::parse(&defaults::main(1)).map_err(|error| error.of(file))?;
            if let Some(http) = main.find_mut("http").and_then(|http| http.block_mut()) {
                http.adopt(root);
            }
            root = main;
        }
        let site = Self {
            root,
            layer,
            version: version(if nginx.is_empty() { "9999" } else { nginx }),
        };
        let unusable = |what: String| {
            Err(StackError::Unusable {
                file: file.to_owned(),
                what,
            })
        };
        let pass = site.pass();
        if site.path().len() < 2 {
            return unusable(
                "neither it nor a file it includes has a `server`; name the file that has".into(),
            );
        }
        if needs_pass && site.effective(pass).is_none() {
            return unusable(format!(
                "no server in it or in a file it includes has a `{pass}`; name the file of the server that passes requests on"
            ));
        }
        Ok(site)
    }

    /// Positions from the root: `http`, `server`, then the locations down to the one that passes requests on.
    /// Found anew at every use: edits move positions, and never what serves.
    fn path(&self) -> Vec<usize> {
        let mut found = Vec::new();
        collect(&self.root, self.pass(), &mut Vec::new(), &mut found);
        found.retain(|(path, _)| in_server(&self.root, path));
        // Of equal ranks the first in the file.
        let best = found.into_iter().rev().max_by_key(|(_, rank)| *rank);
        let path = best.map(|(path, _)| path);
        path.or_else(|| first_server(&self.root))
            .unwrap_or_default()
    }

    /// The directive that passes requests on.
    pub(super) fn pass(&self) -> &'static str {
        pass_of(self.layer)
    }

    pub(super) fn http(&mut self) -> &mut Block {
        self.level_mut(1)
    }

    pub(super) fn server(&mut self) -> &mut Block {
        self.level_mut(2)
    }

    /// How many levels there are: 1 is `http`, 2 the server, the last the innermost location.
    pub(super) fn depth(&self) -> usize {
        self.path().len()
    }

    /// The position of the server within `http`.
    pub(super) fn server_position(&self) -> usize {
        self.path().get(1).copied().unwrap_or(0)
    }

    pub(super) fn level(&self, depth: usize) -> &Block {
        let path = self.path();
        path.iter().take(depth).fold(&self.root, |block, at| {
            let inside = block.items().get(*at).and_then(nginx::Directive::block);
            inside.unwrap_or(block)
        })
    }

    pub(super) fn level_mut(&mut self, depth: usize) -> &mut Block {
        let path = self.path();
        let mut block = &mut self.root;
        for at in path.into_iter().take(depth) {
            block = block.items_mut()[at]
                .block_mut()
                .expect("a path is made of positions of blocks");
        }
        block
    }

    /// The level whose directive of this name is in effect.
    pub(super) fn effective_level(&self, name: &str) -> Option<usize> {
        (1..=self.depth())
            .rev()
            .find(|depth| self.level(*depth).find(name).is_some())
    }

    pub(super) fn effective(&self, name: &str) -> Option<Vec<String>> {
        let level = self.effective_level(name)?;
        Some(self.level(level).find(name)?.args())
    }

    /// Changes the directive in effect, or adds one: those about the next tier where requests are passed on,
    /// the others in `http`.
    pub(super) fn set_effective(&mut self, name: &str, args: &[&str]) {
        let own = name.starts_with("fastcgi_") || name.starts_with("proxy_");
        let default = if own { self.depth() } else { 1 };
        let level = self.effective_level(name).unwrap_or(default);
        self.level_mut(level).set(name, args);
    }

    /// What the configuration sets, by tunable name.
    pub(super) fn configured(&self) -> BTreeMap<String, String> {
        let specs = tunables::of(self.layer, "");
        tunable_spec::configured(&specs, |name| self.get(name))
    }

    pub(super) fn get(&self, name: &str) -> Option<String> {
        let joined = |args: Vec<String>| args.join(" ");
        match name {
            "worker_processes" | "worker_rlimit_nofile" => {
                Some(joined(self.root.find(name)?.args()))
            }
            "worker_connections" | "multi_accept" => {
                let events = self.root.find("events")?.block()?;
                Some(joined(events.find(name)?.args()))
            }
            "listen.backlog" => self.listen_parameter("backlog="),
            "listen.reuseport" => self.listen_parameter("reuseport").map(|_| "on".into()),
            "access_log" => self.effective(name).map(|args| log_kind(&args).to_owned()),
            // Its value can be followed by one for the client.
            "keepalive_timeout" => self.effective(name)?.into_iter().next(),
            _ => match name.strip_prefix("upstream.") {
                Some(name) => self.upstream_setting(name),
                None => self.effective(name).map(joined),
            },
        }
    }

    /// Sets a tunable to a checked value. `access_log` is the file that is written when logging is on.
    pub(super) fn set(&mut self, name: &str, value: &str, access_log: &str) {
        match name {
            "worker_processes" | "worker_rlimit_nofile" => self.root.set(name, &[value]),
            "worker_connections" | "multi_accept" => {
                if self.root.find("events").is_none() {
                    self.root.insert_block("http", "events", &[]);
                }
                if let Some(events) = self
                    .root
                    .find_mut("events")
                    .and_then(|item| item.block_mut())
                {
                    events.set(name, &[value]);
                }
            }
            "listen.backlog" => self.set_listen_parameter("backlog=", Some(value)),
            "listen.reuseport" => {
                self.set_listen_parameter("reuseport", (value == "on").then_some(""))
            }
            "access_log" => self.set_access_log(value, access_log),
            _ => match name.strip_prefix("upstream.") {
                Some(name) => self.set_upstream(name, value),
                None => {
                    let args: Vec<&str> = value.split_whitespace().collect();
                    self.set_effective(name, &args);
                }
            },
        }
    }

    fn listen_parameter(&self, prefix: &str) -> Option<String> {
        let args = self.level(2).find("listen")?.args();
        let found = args.iter().skip(1).find_map(|arg| arg.strip_prefix(prefix));
        found.map(str::to_owned)
    }

    fn set_listen_parameter(&mut self, prefix: &str, value: Option<&str>) {
        let Some(listen) = self.server().find_mut("listen") else {
            return;
        };
        let mut args = listen.args();
        args.retain(|arg| !arg.starts_with(prefix));
        args.extend(value.map(|value| format!("{prefix}{value}")));
        listen.set_args(&args.iter().map(String::as_str).collect::<Vec<_>>());
    }

    /// Servers that do not serve: they are kept and cut off.
    pub(super) fn other_servers(&self) -> usize {
        let servers = self.level(1).items().iter();
        servers
            .filter(|item| item.name() == "server")
            .count()
            .saturating_sub(1)
    }
}

fn pass_of(layer: Layer) -> &'static str {
    match layer {
        Layer::Proxy => "proxy_pass",
        _ => "fastcgi_pass",
    }
}

impl fmt::Display for NginxConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.root.fmt(f)
    }
}
