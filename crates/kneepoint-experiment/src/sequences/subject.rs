//! What a sequence measures: an arm, and the name that its configuration has in the record.

use crate::record::{BASE, BEST, in_words};
use kneepoint_model::Run;

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

    /// What its R* is called in a run: `R*` of what it begins with, `R* after the changes`, `R* of the configuration with
    /// php.pm = static`.
    #[must_use]
    pub fn its_limit(&self, run: &Run) -> String {
        match self.label {
            BASE => "R*".to_owned(),
            BEST => "R* after the changes".to_owned(),
            label => format!("R* of {}", in_words(run, label)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kneepoint_model::run::Decision;
    use kneepoint_model::{Layer, Setting};

    #[test]
    fn nobody_reads_the_names_of_arms() {
        let run = Run {
            decisions: vec![Decision {
                settings: vec![Setting::new(Layer::Php, "pm", "static")],
                kept: true,
                ..Decision::default()
            }],
            ..Run::default()
        };
        let said = |label| Subject { arm: "v4", label }.its_limit(&run);
        let of_v4 = "R* of the configuration with php.pm = static";
        assert_eq!(said("v4"), of_v4);
        assert_eq!(said("base"), "R*");
        assert_eq!(said("best"), "R* after the changes");
        assert_eq!(said("shop"), "R* of shop");
    }
}
