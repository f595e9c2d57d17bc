//! Commands that are several measurements: comparisons, gates, plans and replays.

mod agents;
mod budgets;
mod closed_pipe;
mod compare;
mod gate;
mod plan;
mod replay;
