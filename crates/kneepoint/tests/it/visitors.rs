//! Pages and forms as visitors go through them.

mod forms;
mod pages;
mod visits;
