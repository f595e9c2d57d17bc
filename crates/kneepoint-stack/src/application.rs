//! What an application's own files of settings say, read without running anything.

pub mod code;
pub mod dotenv;
mod switches;

pub use switches::{FILES, of_file, switches};
