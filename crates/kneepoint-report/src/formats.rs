//! The list of formats: one file each, in the order they are offered.

use crate::Format;

mod csv;
mod html;
mod json;
mod junit;
mod markdown;
mod terminal;

/// Every format, in the order they are offered.
pub static FORMATS: &[&Format] = &[
    &terminal::FORMAT,
    &html::FORMAT,
    &markdown::FORMAT,
    &json::FORMAT,
    &csv::FORMAT,
    &junit::FORMAT,
];
