//! Capacity: from what requests take at low load to R* and response times at rates that were never driven
//! (`plan_capacity` of method.md).
//!
//! [`FirstLooks`] says which rates are low; [`LowLoadStep`] is what a step at one of [`SHARES`] shows, and [`steady`] leaves
//! out what else used the machine. `cost` tells the CPU of a request by rate, [`ClosedConnections`] up to which rate local
//! ports last, `wander` how much the machine's speed changes from step to step, `twin` is the queueing model, `fit` makes it
//! of what was measured ([`Model`]). Of a [`predict`]ion the highest rate is kept aside first, and the model that was made
//! without it must hit it; [`VerificationPair`]s hold the rest against what is measured after all.

mod averages;
mod cost;
mod fit;
mod looks;
mod low_load;
mod model;
mod ports;
mod prediction;
mod steady;
mod twin;
mod verification;
mod wander;

pub use looks::{FirstLooks, RoughCapacity};
pub use low_load::{LowLoadStep, PlannedHost, SHARES, scheduling};
pub use model::Model;
pub use ports::ClosedConnections;
pub use prediction::{Asked, HEADROOM, predict};
pub use steady::steady;
pub use verification::{BelowLimit, Claimed, VerificationPair};

#[cfg(test)]
mod tests;
