//! What Kneepoint itself costs: the memory of its load generator, what profiling takes of those who are profiled, and what
//! many generators take of the one who coordinates them.

pub(crate) mod memory;
pub(crate) mod profile_cost;
pub(crate) mod scale;
