//! Reports in all their forms: one program, so that it is linked once.

mod claims;
mod formats;
mod page;
mod planted;
mod support;
mod visits;
