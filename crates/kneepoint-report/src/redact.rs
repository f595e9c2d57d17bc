//! Takes secrets out of a run before any format sees it.
//!
//! Three nets, since a secret travels under its name, inside a URL, or bare in a log line: values of names that
//! look secret, credentials in URLs and headers, and every later occurrence of a value that was found so.

mod names;
mod scan;
mod walk;

pub use names::is_secret_name;

use kneepoint_model::{LoadPoint, Run};
use scan::Grammar;

/// What stands where a secret stood.
pub const HIDDEN: &str = "•••";

/// Shortest secret that is searched for in free text: shorter ones are ordinary words too often.
const SHORTEST_SEARCHED: usize = 6;

/// The run with every secret replaced by [`HIDDEN`].
#[must_use]
pub fn redact(run: &Run) -> Run {
    let mut copy = run.clone();
    walk::run(&mut copy, &Secrets::of(run));
    copy
}

/// A sentence, log line or URL with the secrets replaced that can be recognised by their form alone.
#[must_use]
pub fn redact_text(text: &str) -> String {
    scan::hide(text, Grammar::Prose)
}

/// Takes out of a measured stretch what can be recognised as secret by its form alone.
pub(crate) fn redact_point(point: &mut LoadPoint) {
    walk::load(point, &Secrets::default());
}

/// What is known to be secret in one run.
#[derive(Debug, Default)]
struct Secrets {
    /// Values seen under secret names, longest first so that one inside another does not break it.
    values: Vec<String>,
    /// Application settings whose environment variable has a secret name.
    app_settings: Vec<String>,
}

impl Secrets {
    fn of(run: &Run) -> Self {
        let mut secrets = Self::default();
        if let Some(scenario) = &run.scenario {
            secrets.app_settings = scenario
                .app_settings
                .iter()
                .filter(|setting| is_secret_name(&setting.env))
                .map(|setting| setting.name.clone())
                .collect();
            for (name, value) in &scenario.env {
                secrets.learn(name, value);
            }
            for setting in scenario
                .app_settings
                .iter()
                .filter(|s| is_secret_name(&s.env))
            {
                setting
                    .values
                    .iter()
                    .for_each(|value| secrets.learn("SECRET", value));
            }
            for (name, value) in scenario.tiers.iter().flat_map(|tier| &tier.settings) {
                secrets.learn(name, value);
            }
        }
        for stack in [&run.base, &run.best].into_iter().flatten() {
            let tiers = stack.tiers.iter().flat_map(|tier| &tier.settings);
            for (name, value) in tiers.chain(&stack.app_values) {
                secrets.learn(name, value);
            }
        }
        secrets
            .values
            .sort_by(|a, b| b.len().cmp(&a.len()).then(a.cmp(b)));
        secrets.values.dedup();
        secrets
    }

    fn learn(&mut self, name: &str, value: &str) {
        if self.is_secret(name) {
            self.remember(value);
        }
        if let Some((_, password)) = scan::credentials(value).and_then(|c| c.split_once(':')) {
            self.remember(password);
        }
    }

    fn remember(&mut self, value: &str) {
        let ordinary = value.chars().all(|c| c.is_ascii_digit() || c == '.');
        if value.len() >= SHORTEST_SEARCHED && !ordinary {
            self.values.push(value.to_owned());
        }
    }

    fn is_secret(&self, name: &str) -> bool {
        is_secret_name(name) || self.app_settings.iter().any(|secret| secret == name)
    }

    /// Hides the values that are known to be secret, whatever stands around them.
    fn known(&self, text: &mut String) {
        for value in &self.values {
            if text.contains(value.as_str()) {
                *text = text.replace(value.as_str(), HIDDEN);
            }
        }
    }

    fn hide(&self, text: &mut String, grammar: Grammar) {
        self.known(text);
        let hidden = scan::hide(text, grammar);
        if hidden != *text {
            *text = hidden;
        }
    }

    fn prose(&self, text: &mut String) {
        self.hide(text, Grammar::Prose);
    }

    fn value(&self, name: &str, value: &mut String) {
        if self.is_secret(name) && !value.is_empty() {
            HIDDEN.clone_into(value);
        } else {
            self.prose(value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kneepoint_model::{JournalEntry, Scenario, run::EntryKind};

    fn scenario(env: &[(&str, &str)]) -> Scenario {
        Scenario {
            name: "shop".into(),
            root: "/srv/shop".into(),
            front: "public/index.php".into(),
            kind: kneepoint_model::AppKind::Laravel,
            env: env
                .iter()
                .map(|(k, v)| ((*k).into(), (*v).into()))
                .collect(),
            app_settings: Vec::new(),
            app_files: Vec::new(),
            tiers: Vec::new(),
            hosts: Default::default(),
            workload: kneepoint_model::Workload::single("/?api_token=q8Zr77xx"),
            slo: Default::default(),
            budget: kneepoint_model::Budget {
                time: std::time::Duration::from_secs(60),
                memory_bytes: None,
                keep: Vec::new(),
            },
        }
    }

    #[test]
    fn a_secret_is_gone_wherever_it_reappears() {
        let run = Run {
            scenario: Some(scenario(&[
                ("DB_PASSWORD", "hunter2-hunter2"),
                ("DATABASE_URL", "postgres://app:pa55w0rd@10.0.0.5/app"),
                ("CACHE_DRIVER", "redis"),
            ])),
            journal: vec![JournalEntry {
                at_s: 1.0,
                kind: EntryKind::Warning,
                text: "auth failed for hunter2-hunter2 and pa55w0rd, driver redis".into(),
            }],
            ..Run::default()
        };
        let redacted = redact(&run);
        let text = format!("{redacted:?}");
        for secret in ["hunter2", "pa55w0rd", "q8Zr77xx"] {
            assert!(!text.contains(secret), "{secret} is still in {text}");
        }
        assert_eq!(
            redacted.journal[0].text,
            "auth failed for ••• and •••, driver redis"
        );
        let env = &redacted.scenario.expect("a scenario").env;
        assert_eq!(env["CACHE_DRIVER"], "redis");
        assert_eq!(env["DATABASE_URL"], "postgres://•••@10.0.0.5/app");
    }

    #[test]
    fn redacting_twice_changes_nothing_more() {
        let run = Run {
            scenario: Some(scenario(&[("APP_KEY", "base64:AAAABBBBCCCC=")])),
            ended: "failed: token=abcdef123456 refused".into(),
            ..Run::default()
        };
        let once = redact(&run);
        assert_eq!(redact(&once), once);
        assert_eq!(once.ended, "failed: token=••• refused");
    }
}
