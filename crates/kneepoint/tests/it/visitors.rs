//! Pages and forms as visitors go through them.

mod changes;
mod forms;
mod jobs;
mod pages;
mod visits;
