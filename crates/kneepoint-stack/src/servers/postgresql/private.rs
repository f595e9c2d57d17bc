//! What ties a PostgreSQL configuration to a place, how it becomes the lab's, and who may log in there.

use super::{ROLE, USER};
use crate::TierContext;
use crate::text::lines::Lines;
use std::net::SocketAddr;

/// Settings that decide where the server lives, where it finds libraries, or whom a commit waits for; a user's values never
/// apply in the lab.
const REMOVED: &[&str] = &[
    "external_pid_file",
    "stats_temp_directory",
    "ssl",
    "ssl_cert_file",
    "ssl_key_file",
    "cluster_name",
    "log_directory",
    "log_filename",
    "archive_mode",
    "archive_command",
    "primary_conninfo",
    "synchronous_standby_names",
    "dynamic_library_path",
    "jit_provider",
];

/// Whether a setting names a program to run, a library to load, a file or a directory, or another server: by how
/// PostgreSQL calls such settings, so that those of later versions are among them.
fn leads_out(key: &str) -> bool {
    const ENDINGS: [&str; 8] = [
        "_command",
        "_library",
        "_file",
        "_directory",
        "_directories",
        "_conninfo",
        "_tablespaces",
        "_tablespace",
    ];
    let key = key.to_ascii_lowercase();
    ENDINGS.iter().any(|ending| key.ends_with(ending))
        || key.starts_with("ssl")
        || key.starts_with("unix_socket_")
        || key.starts_with("syslog_")
}

/// Of a list of libraries those that are the server's own: a path may lead to what the application wrote.
fn own_libraries(names: &str) -> String {
    let own: Vec<&str> = names
        .split(',')
        .map(str::trim)
        .filter(|name| !name.contains('/'))
        .collect();
    own.join(",")
}

/// Makes a configuration the lab's: its address and directories, its log on standard error.
pub(super) fn adapt(document: &mut Lines, context: &TierContext, tcp: SocketAddr) {
    for key in REMOVED {
        document.remove(key);
    }
    // What was included stands in the document by now; a line that is left would bring what nobody looked at.
    for key in ["include", "include_dir", "include_if_exists"] {
        document.remove(key);
    }
    let leads_out: Vec<String> = document
        .keys()
        .filter(|key| leads_out(key))
        .map(str::to_owned)
        .collect();
    for key in leads_out {
        document.remove(&key);
    }
    let lists: Vec<String> = document
        .keys()
        .filter(|key| key.to_ascii_lowercase().ends_with("_libraries"))
        .map(str::to_owned)
        .collect();
    for key in lists {
        let own = own_libraries(&document.get(&key).unwrap_or_default());
        // Written anew: an escape of the old text may stand for a slash.
        document.remove(&key);
        document.set(&key, &own);
    }
    for (key, value) in [
        ("data_directory", context.path("data").as_str()),
        ("hba_file", &context.path("pg_hba.conf")),
        ("ident_file", &context.path("pg_ident.conf")),
        ("listen_addresses", &tcp.ip().to_string()),
        ("port", &tcp.port().to_string()),
        ("unix_socket_directories", &context.path("run")),
        ("logging_collector", "off"),
        ("log_destination", "stderr"),
    ] {
        document.set(key, value);
    }
}

/// Who may log in. The lab's role is a superuser, who can have programs run: only who is the server's user or root may be
/// it, and nobody over the network. The application's needs no password where nobody else reaches the network.
pub(super) fn logins(context: &TierContext) -> String {
    let method = password_method(context);
    format!(
        "local all {ROLE} peer map=lab\nlocal all {ROLE} reject\nhost all {ROLE} all reject\n\
         local all all {method}\nhost all all all {method}\n"
    )
}

/// How the application logs in.
fn password_method(context: &TierContext) -> &'static str {
    match context.own_network {
        true => "trust",
        // The cheapest for a server that is measured; it keeps others of this machine out for as long as a run takes.
        false => "md5",
    }
}

/// Which users of the system are the lab's role. Without root there is one, whom the directory of the socket admits alone.
pub(super) fn own_users(context: &TierContext) -> String {
    match context.as_root {
        true => format!("lab root {ROLE}\nlab {USER} {ROLE}\n"),
        false => format!("lab /^.*$ {ROLE}\n"),
    }
}
