//! What a run writes down, step by step, and the time it may take.

mod budget;
mod flight;
mod recorder;
mod store;

/// What the record calls the configuration that a run begins with.
pub const BASE: &str = "base";
/// What it calls the one that tuning ends with.
pub const BEST: &str = "best";

pub use budget::{ENDING, TimeNeed};
pub use flight::Flight;
use kneepoint_model::{Run, Setting};
use kneepoint_planner::comparison::describe_settings;
pub use recorder::{Event, Observer, Recorder, secrets_of};
pub use store::{Record, RunStore};

/// What people are told a configuration of the record is. Tuning gives those in between a number, which nobody else knows: each
/// is what the run began with and the changes that were kept until then. Others were named by people.
pub(crate) fn in_words(run: &Run, label: &str) -> String {
    let number = label
        .strip_prefix('v')
        .and_then(|number| number.parse::<u32>().ok());
    if number.is_none() || run.decisions.is_empty() {
        return label.to_owned();
    }
    let kept = run.decisions.iter().filter(|decision| decision.kept);
    let mut settings: Vec<Setting> = Vec::new();
    for setting in kept.flat_map(|decision| &decision.settings) {
        // A later change may be of what an earlier one set.
        settings.retain(|known| known.key != setting.key);
        settings.push(setting.clone());
    }
    match settings.is_empty() {
        true => "the configuration as it was".to_owned(),
        false => format!("the configuration with {}", describe_settings(&settings)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kneepoint_model::Layer;
    use kneepoint_model::run::Decision;

    #[test]
    fn a_number_of_tuning_is_told_as_the_changes_that_were_kept() {
        let decision = |name: &str, value: u32, kept| Decision {
            settings: vec![Setting::new(Layer::Php, name, value)],
            kept,
            ..Decision::default()
        };
        let mut run = Run::default();
        // Somebody called it so.
        assert_eq!(in_words(&run, "v3"), "v3");
        run.decisions = vec![decision("pm.max_children", 36, false)];
        assert_eq!(in_words(&run, "v3"), "the configuration as it was");
        run.decisions = vec![
            decision("pm.max_children", 36, true),
            decision("opcache.enable", 1, true),
            decision("listen.backlog", 511, false),
            decision("pm.max_children", 12, true),
        ];
        assert_eq!(
            in_words(&run, "v3"),
            "the configuration with php.opcache.enable = 1, php.pm.max_children = 12"
        );
        for label in [BASE, BEST, "vanilla"] {
            assert_eq!(in_words(&run, label), label);
        }
    }
}
