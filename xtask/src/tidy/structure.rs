//! How the source is cut: crates, folders, modules, types.

pub(crate) mod arrows;
pub(super) mod doors;
pub(super) mod edges;
pub(super) mod lists;
pub(super) mod modules;
pub(super) mod names;
pub(super) mod rooms;
pub(super) mod sizes;
