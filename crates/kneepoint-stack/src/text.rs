//! Lossless documents: what was parsed prints back byte for byte, and an edit touches one directive.
//!
//! Each parser takes any text, never panics, and never guesses: what it does not understand it either keeps
//! as it is or refuses with the line.

pub mod ini;
pub mod lines;
pub mod nginx;

/// A text that is not in its format.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct SyntaxError {
    /// Line, from 1.
    pub line: usize,
    /// What is wrong there.
    pub what: String,
}

impl SyntaxError {
    /// The same error as one of a file.
    pub(crate) fn of(self, file: &str) -> crate::StackError {
        crate::StackError::Syntax {
            file: file.to_owned(),
            line: self.line,
            what: self.what,
        }
    }
}
