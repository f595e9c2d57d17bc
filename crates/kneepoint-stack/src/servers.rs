//! One file per server program, and the list of them.

use crate::Server;

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
    redis::Redis,
    postgresql::Postgresql,
    mariadb::Mariadb,
}
