//! What ties a Redis configuration to a place, and how it becomes the lab's.

use crate::TierContext;
use crate::text::lines::Lines;
use kneepoint_model::Address;

/// Directives of a user's file that would join other servers, lock the lab out, or leave its directory.
const REMOVED: &[&str] = &[
    "requirepass",
    "masterauth",
    "aclfile",
    "user",
    "rename-command",
    "replicaof",
    "slaveof",
    "tls-port",
    "cluster-enabled",
    "cluster-config-file",
    "unixsocket",
    "unixsocketperm",
    "bind-source-addr",
];

/// Makes a configuration the lab's: its address, its directory, in the foreground, without passwords.
pub(super) fn adapt(document: &mut Lines, context: &TierContext, listen: &Address) {
    for key in REMOVED {
        document.remove(key);
    }
    // What was included stands in the document by now; a line that is left would bring what nobody looked at.
    document.remove("include");
    let leads_out = |key: &&str| {
        let key = key.to_ascii_lowercase();
        let others = [
            "tls-",
            "cluster-",
            "sentinel",
            "syslog-",
            "replica-announce-",
            // No replica is there: a server that waits for one takes no write.
            "min-replicas-",
            "min-slaves-",
        ];
        others.iter().any(|start| key.starts_with(start))
    };
    let leads_out: Vec<String> = document
        .keys()
        .filter(leads_out)
        .map(str::to_owned)
        .collect();
    for key in leads_out {
        document.remove(&key);
    }
    match listen {
        Address::Tcp(address) => {
            document.set_only("bind", &address.ip().to_string());
            document.set_only("port", &address.port().to_string());
        }
        Address::Unix(path) => {
            document.set_only("port", "0");
            document.set_only("unixsocket", &path.to_string_lossy());
            document.set_only("unixsocketperm", "777");
        }
    }
    for (key, value) in [
        ("protected-mode", "no"),
        ("daemonize", "no"),
        ("supervised", "no"),
        ("logfile", ""),
        ("dir", &context.path("data")),
        ("pidfile", &context.path("run/redis.pid")),
    ] {
        document.set_only(key, value);
    }
}
