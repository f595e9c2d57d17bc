//! What is seen within the workers of a real PHP-FPM.

mod account;
mod inside;
mod let_go;
mod profile;
