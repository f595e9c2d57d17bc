//! Servers as they are rendered, read and run: one program, so that it is linked once.

mod databases;
mod documents;
mod golden;
mod haproxy;
mod includes;
mod real;
mod render;
mod runtimes;
mod support;
mod users;
