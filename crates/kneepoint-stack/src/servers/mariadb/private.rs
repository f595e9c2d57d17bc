//! What ties a MariaDB configuration to a place, and how it becomes the lab's.

use super::ROLE;
use super::options::{remove, set};
use crate::TierContext;
use crate::text::ini::Ini;
use std::net::SocketAddr;

/// Settings that decide where the server lives or join it to others; a user's values never apply in the lab.
const REMOVED: &[&str] = &[
    "user",
    "basedir",
    "chroot",
    "tmpdir",
    "slave_load_tmpdir",
    "aria_log_dir_path",
    "innodb_data_home_dir",
    "innodb_data_file_path",
    "innodb_log_group_home_dir",
    "innodb_undo_directory",
    "innodb_temp_data_file_path",
    "innodb_tmpdir",
    "log_error",
    "log_basename",
    "general_log_file",
    "slow_query_log_file",
    "log_slow_query_file",
    "log_bin",
    "log_bin_index",
    "relay_log",
    "relay_log_index",
    "relay_log_info_file",
    "master_info_file",
    "server_id",
    "ssl_ca",
    "ssl_cert",
    "ssl_key",
    "require_secure_transport",
    "init_file",
    "skip_networking",
    "skip_grant_tables",
    "plugin_load_add",
];

/// What the server runs before it takes connections.
pub(super) const FIRST: &str = "init.sql";
/// How the lab's own clients log in.
pub(super) const CLIENT: &str = "client.cnf";

/// Shuts the administrator's login, who may write files and load libraries: a password that the application does not
/// know, and no login but over the socket.
pub(super) fn first(password: &str) -> String {
    format!(
        "ALTER USER '{ROLE}'@'localhost' IDENTIFIED BY '{password}';\n\
         DROP USER IF EXISTS '{ROLE}'@'127.0.0.1';\n\
         DROP USER IF EXISTS '{ROLE}'@'::1';\n"
    )
}

/// Makes a configuration the lab's: its address and directories, its log on standard error.
pub(super) fn adapt(document: &mut Ini, context: &TierContext, tcp: SocketAddr) {
    // What starts with `wsrep_` is about a cluster, which the lab's server must not join.
    remove(document, |name| {
        REMOVED.contains(&name) || name.starts_with("wsrep_")
    });
    for (key, value) in [
        ("datadir", context.path("data").as_str()),
        ("init_file", &context.path(FIRST)),
        ("socket", &context.path("run/mysqld.sock")),
        ("pid_file", &context.path("run/mariadbd.pid")),
        ("tmpdir", &context.path("tmp")),
        ("bind_address", &tcp.ip().to_string()),
        ("port", &tcp.port().to_string()),
        // The lab has no name service: what a lookup costs there says nothing of the machine this is for.
        ("skip_name_resolve", "ON"),
    ] {
        set(document, &context.program.version, key, value);
    }
}
