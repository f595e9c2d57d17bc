//! What a run leaves behind, however it ends: nothing, and the user's files as they were.

mod interrupted;
mod signals;
mod untouched;
