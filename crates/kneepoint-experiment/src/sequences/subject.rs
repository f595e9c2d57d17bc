//! What a sequence measures: an arm, and the name that its configuration has in the record.

use crate::record::{BASE, BEST};

/// An arm of the testbed, and its configuration in the record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Subject<'a> {
    /// The arm.
    pub arm: &'a str,
    /// What the record calls the configuration.
    pub label: &'a str,
}

impl<'a> Subject<'a> {
    /// An arm whose configuration is called as it is.
    #[must_use]
    pub fn named(name: &'a str) -> Self {
        Self {
            arm: name,
            label: name,
        }
    }

    /// What its R* is called: `R*` of what a run begins with, `R* after the changes`, `R* of v3`.
    #[must_use]
    pub fn its_limit(&self) -> String {
        match self.label {
            BASE => "R*".to_owned(),
            BEST => "R* after the changes".to_owned(),
            label => format!("R* of {label}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_reads_the_names_of_arms() {
        let said = |label| Subject { arm: "v4", label }.its_limit();
        assert_eq!(said("base"), "R*");
        assert_eq!(said("best"), "R* after the changes");
        assert_eq!(said("shop"), "R* of shop");
    }
}
