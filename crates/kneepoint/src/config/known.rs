//! What a scenario may name: the servers of the stack crate.

use crate::config::Servers;
use kneepoint_model::{Layer, ServerKind, Tunable};

/// The servers Kneepoint can configure.
#[derive(Debug, Clone, Copy)]
pub struct StackServers;

impl Servers for StackServers {
    fn names(&self, layer: Layer) -> Vec<String> {
        kneepoint_stack::SERVERS
            .iter()
            .filter(|server| server.layers().contains(&layer))
            .map(|server| server.kind().to_owned())
            .collect()
    }

    fn tunables(&self, layer: Layer, server: &ServerKind) -> Vec<Tunable> {
        // Which version is installed is not asked here: the names are those of the newest known one, and
        // the stack crate refuses what the installed one lacks.
        let server = kneepoint_stack::server(server.as_str()).ok();
        let server = server.filter(|server| server.layers().contains(&layer));
        server.map_or_else(Vec::new, |server| server.tunables(layer, ""))
    }

    fn speaks_http(&self, runtime: &str) -> bool {
        kneepoint_stack::server(runtime).is_ok_and(kneepoint_stack::Server::speaks_http)
    }
}
