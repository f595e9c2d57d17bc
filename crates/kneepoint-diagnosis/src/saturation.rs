//! Queues and pools that are full: workers, what they wait for, accept queues and local ports.

pub(crate) mod backlog;
pub(crate) mod pool;
pub(crate) mod ports;
pub(crate) mod waits;
