//! Sends requests, and only that: drives a schedule at a server over HTTP/1.1, HTTP/2 (both in the clear or over
//! TLS) or FastCGI and says how every single arrival ended.
//!
//! This crate alone opens connections to a system under test. It must never decide what a result means for the
//! server (that is diagnosis), never wait for the server before a request that is due (an open loop is open), and
//! never report a number without its own condition beside it ([`kneepoint_model::Health`]).
//!
//! [`Engine::run`] takes a [`LoadPlan`]. Each of its threads owns everything it needs (an epoll, connections,
//! users, histograms), so that sending shares nothing: `worker` holds the loop, `traffic` the requests and their account,
//! `starts` who begins a request when (`crowd` those who do so at a time of their own), `transfer` what happens on a connection (`transfer_tls` on an
//! encrypted one), `render` what is sent, `watch` what is looked for in answers, `recorder` what is written down, and
//! `tally` puts the threads together. HTTP/2 has a lane of its own, `http2`, with a loop of its own and all the rest.

pub mod access_log;
mod arrivals;
mod body;
mod checks;
mod connection;
mod cookies;
mod crowd;
mod draft;
mod engine;
mod examples;
mod fastcgi;
mod feeder;
mod fetch;
mod flight;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod gather;
mod health;
mod http;
mod http2;
mod lane;
mod namespace;
mod null_server;
mod page;
mod parser;
mod pause;
mod plan;
mod ports;
mod priority;
mod random;
mod recorder;
mod rehearsal;
mod render;
mod reply;
mod sendable;
mod slowest;
mod socket;
mod stamp;
mod starts;
mod stop;
mod tally;
mod target;
mod text;
mod tls;
mod traffic;
mod transfer;
mod transfer_tls;
mod visits;
mod watch;
mod worker;

pub use engine::Engine;
pub use fetch::{Fetched, fetch, identify};
pub use null_server::ceiling;
pub use page::{ErrorPage, Page, resolve_link};
pub use plan::{AbortRule, LoadError, LoadPlan, Mode, Progress};
pub use rehearsal::{Rehearsal, Rehearsed};
pub use stop::{StopRule, StopWhen};
pub use target::{HttpVersion, Target, Tls, Verify};
pub use text::REQUEST_ID;
