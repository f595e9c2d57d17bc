//! Connections: sockets, TLS, the pool, local ports, the network namespace.

mod backoff;
mod line;
pub(crate) mod namespace;
mod pool;
mod ports;
pub(crate) mod rx_timestamp;
pub(crate) mod socket;
mod tls;

pub(crate) use backoff::Backoff;
pub(crate) use line::{Line, Lines};
pub(crate) use pool::{Connection, Kept, Phase, Pool, closed_meanwhile};
pub(crate) use ports::HeldPorts;
pub(crate) use socket::{Endpoint, Opening, Sources};
pub(crate) use tls::{Secure, ThreadTls, TlsSession};
