//! What a format is made of, however a server writes it.

use crate::entry::Field;

/// A piece of a format.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Piece {
    /// Text that every line has.
    Literal(String),
    /// A value.
    Field(Field),
}
