//! One file per server program. The list is `SERVERS` in `server.rs`.

pub(crate) mod apache;
pub(crate) mod fpm;
pub(crate) mod frankenphp;
pub(crate) mod haproxy;
pub(crate) mod mariadb;
pub(crate) mod nginx;
pub(crate) mod postgresql;
pub(crate) mod redis;
pub(crate) mod swoole;
pub(crate) mod unit;
