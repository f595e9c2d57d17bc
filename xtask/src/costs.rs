//! What Kneepoint itself costs: the memory of its load generator, and what profiling takes of those who are profiled.

pub(crate) mod memory;
pub(crate) mod profile_cost;
