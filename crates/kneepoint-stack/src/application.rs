//! What an application's own files of settings say, read without running anything.

pub mod code;
pub mod dotenv;
mod mentions;
mod switches;

pub use mentions::{Mention, Mentioned, likeliest, mentions, mentions_in};
pub use switches::{FILES, of_file, switches};
