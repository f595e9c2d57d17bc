//! Sends requests, and only that: drives a schedule at a server and says how every single arrival ended.
//!
//! It speaks HTTP/1.1 and HTTP/2, both in the clear or over TLS, and FastCGI.
//!
//! This crate alone opens connections to a system under test. It must never decide what a result means for the
//! server (that is diagnosis), never wait for the server before a request that is due (an open loop is open), and
//! never report a number without its own condition beside it ([`kneepoint_model::Health`]).
//!
//! [`Engine::run`] takes a [`LoadPlan`]. Each of its threads owns everything it needs (an epoll, connections,
//! users, histograms), so that sending shares nothing. The rooms, each of which knows only those above it:
//!
//! - `in_flight`: the requests under way; `plan`: what a load is to do;
//! - `response`: what comes; `request`: what goes; `users`: whose it is;
//! - `connection`: what it goes out on; `arrivals`: who starts a request when; `measure`: what is written down;
//! - `ledger`: the requests of one thread and the account of them, whatever they go out on;
//! - `http2`, and `engine` with the loop for one request at a time on a connection: how a thread sends;
//! - `probe`: requests outside a load.

mod arrivals;
mod connection;
mod engine;
mod http2;
mod in_flight;
mod ledger;
mod measure;
mod plan;
mod probe;
mod request;
mod response;
mod users;

pub use engine::{Engine, Generator};
pub use kneepoint_model::workload::REQUEST_ID;
pub use plan::{
    AbortRule, HttpVersion, LoadError, LoadPlan, Mode, Progress, Share, StopRule, StopWhen, Target,
    Tls, Verify,
};
pub use probe::{
    CONSENT_PATH, Consent, ConsentError, ConsentWatch, Fetched, Owned, Rehearsal, Rehearsed,
    ceiling, fetch, host_of, identify,
};
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing {
    //! What the fuzz targets of `fuzz/` call.

    pub use crate::response::fuzzing::{fastcgi_response, http_response};
    pub use crate::users::cookies::cookies;
}
pub use response::{ErrorPage, Page, resolve_link};
