//! What a sequence measures: an arm, and the name that its configuration has in the record.

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
}
