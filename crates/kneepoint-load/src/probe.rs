//! Requests outside a load: one by itself, the one that asks whether a machine may be loaded, each of a workload once, and as many as a server that does nothing answers.

mod consent;
mod null_server;
mod owned;
mod rehearsal;
mod single;

pub use consent::{CONSENT_PATH, Consent, ConsentError, ConsentWatch, host_of};
pub use null_server::ceiling;
pub use owned::Owned;
pub use rehearsal::{Rehearsal, Rehearsed};
pub use single::{Fetched, fetch, identify};
