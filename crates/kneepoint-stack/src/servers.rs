//! One file per server program, and the list of them.

use crate::{Server, StackError};

macro_rules! catalogue {
    ($($file:ident::$server:ident),* $(,)?) => {
        $(pub(crate) mod $file;)*

        /// Every server, one file each under `servers/`, in the order a request meets them.
        pub static SERVERS: &[&dyn Server] = &[$(&$file::$server),*];
    };
}

catalogue! {
    haproxy::Haproxy,
    nginx::Nginx,
    fpm::Fpm,
    apache::Apache,
    unit::Unit,
    frankenphp::FrankenPhp,
    swoole::Swoole,
    roadrunner::RoadRunner,
    redis::Redis,
    postgresql::Postgresql,
    mariadb::Mariadb,
}

/// The server of a kind.
///
/// # Errors
/// There is none of that name; the error lists the names there are.
pub fn server(kind: &str) -> Result<&'static dyn Server, StackError> {
    let found = SERVERS.iter().find(|server| server.kind() == kind);
    found.copied().ok_or_else(|| StackError::UnknownServer {
        kind: kind.to_owned(),
        known: SERVERS
            .iter()
            .map(|server| server.kind())
            .collect::<Vec<_>>()
            .join(", "),
    })
}
