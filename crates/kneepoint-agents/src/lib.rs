//! Drives one load from several machines: agents that take shares of it, and the coordinator that divides it, starts it at one
//! moment and puts together what they measured.
//!
//! This crate alone speaks to a NATS broker. It must never send a request to a system under test by itself (an agent has
//! [`kneepoint_load::Engine`] drive its share), never take a coordinator's word that a target may be loaded (an agent
//! looks for itself), and never leave a share that is lost out of the account. What passes between the two, in which
//! sizes and when, is docs/agents.md. The rooms, each of which knows only those above it:
//!
//! - `division`, `offset`, `moments`: who has which arrivals, whose clock says what, how long things may take;
//! - `messages`, `broker`: what is said, and the way it goes;
//! - `consent`, `agent`: the one who drives a share;
//! - `roll`, `union`, `fleet`: the one who put them up to it;
//! - `lab`: a broker and agents as processes of a lab.

#[cfg(test)]
#[path = "../../../tests/answering.rs"]
mod answering;

mod agent;
mod broker;
mod consent;
mod division;
mod error;
mod fleet;
mod lab;
mod messages;
mod moments;
mod offset;
mod roll;
mod union;

pub use agent::{AgentOptions, serve};
pub use broker::Access;
pub use division::divide;
pub use error::AgentsError;
pub use fleet::{Fleet, FleetGenerator, Wanted};
pub use lab::{LabBroker, entry};
pub use messages::Introduction;
