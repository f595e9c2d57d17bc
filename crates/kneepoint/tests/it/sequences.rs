//! Commands that are several measurements: comparisons, gates, plans and replays.

mod compare;
mod gate;
mod plan;
mod replay;
