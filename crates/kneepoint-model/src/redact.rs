//! Takes secrets out of a run before it is written to a file, and once more before any format sees it.
//!
//! Values whose name is not known to be harmless do not stay: of `[app.env]`, headers, form fields and bodies. Beyond
//! them three nets, since a secret travels under its name, inside a URL, or bare in a log line: values of names that look
//! secret, credentials in URLs and headers, and every later occurrence of a value that was found so.

mod learn;
mod names;
mod scan;
pub mod shown;
mod walk;

pub use names::{is_harmless_variable, is_secret_name, is_secret_parameter};
pub use walk::Redact;
pub(crate) use walk::job as redact_job;

use crate::{LoadPoint, Request, Run, Scenario};
use scan::Grammar;

/// Fields whose texts are words of Kneepoint's own. Somebody's password may be such a word, or stand in one (`postgres`): a record
/// without it could not be read again, or would be read wrongly.
const OWN_WORDS: [&str; 10] = [
    "apply",
    "bound_by",
    "confidence",
    "kind",
    "layer",
    "metric",
    "phase",
    "schema",
    "server",
    "verdict",
];
/// Fields with many numbers written as one text.
const NUMBERS: [&str; 3] = ["failed_response", "response", "service"];

/// What stands where a secret stood.
pub const HIDDEN: &str = "•••";

/// The run with every secret replaced by [`HIDDEN`].
#[must_use]
pub fn redact(run: &Run) -> Run {
    let mut copy = run.clone();
    Secrets::of(run).take_out_of(&mut copy);
    copy
}

/// A sentence, log line or URL with the secrets replaced that can be recognised by their form alone.
#[must_use]
pub fn redact_text(text: &str) -> String {
    let mut text = text.to_owned();
    Secrets::default().prose(&mut text);
    text
}

/// Takes out of a measured stretch what can be recognised as secret by its form alone.
pub fn redact_point(point: &mut LoadPoint) {
    point.redact(&Secrets::default());
}

/// What is known to be secret in one run.
#[derive(Debug, Clone, Default)]
pub struct Secrets {
    /// Values seen under names that are not harmless, longest first so that one inside another does not break it.
    values: Vec<String>,
    /// Application settings whose environment variable has a secret name.
    app_settings: Vec<String>,
    /// Environment variables that the scenario declares as settings, so that a report may say their values.
    declared: Vec<String>,
}

impl Secrets {
    /// What a run's record gives away: of one that was read from a file little, since that was redacted when it was
    /// written.
    #[must_use]
    pub fn of(run: &Run) -> Self {
        let mut secrets = Self::default();
        if let Some(scenario) = &run.scenario {
            secrets.learn_scenario(scenario);
        }
        for stack in [&run.base, &run.best].into_iter().flatten() {
            secrets.learn_stack(stack);
        }
        secrets.settle();
        secrets
    }

    /// What requests give away that belong to no scenario.
    #[must_use]
    pub fn of_requests(requests: &[Request]) -> Self {
        let mut secrets = Self::default();
        requests
            .iter()
            .for_each(|request| secrets.learn_request(request));
        secrets.settle();
        secrets
    }

    /// Adds what a scenario gives away.
    pub fn know(&mut self, scenario: &Scenario) {
        self.learn_scenario(scenario);
        self.settle();
    }

    /// Adds what a text of `NAME=value` lines gives away, as applications have it in `.env`.
    pub fn know_dotenv(&mut self, text: &str) {
        self.learn_dotenv(text);
        self.settle();
    }

    /// Replaces every secret of a run by [`HIDDEN`]: by what each of its parts can hold, and, where a value is known, in
    /// every text of it that nobody thought of.
    pub fn take_out_of(&self, run: &mut Run) {
        run.redact(self);
        if self.values.is_empty() {
            return;
        }
        let Ok(mut json) = serde_json::to_value(&*run) else {
            return;
        };
        self.everywhere(&mut json);
        // A number that is none does not come back from JSON; the first net holds without the second.
        if let Ok(clean) = serde_json::from_value(json) {
            *run = clean;
        }
    }

    /// Hides in a sentence, log line or URL what is known to be secret and what looks so, and puts a mark in the place of
    /// characters that a terminal would obey or nobody would see.
    pub fn prose(&self, text: &mut String) {
        self.hide(text, Grammar::Prose);
        if text.contains(is_control) {
            *text = text.replace(is_control, "\u{fffd}");
        }
    }

    /// Hides the values that are known to be secret in every text of a JSON value that is not a word of Kneepoint's own.
    pub fn everywhere(&self, json: &mut serde_json::Value) {
        each_text(json, &mut |text| self.known(text));
    }

    /// The same for each text as [`Self::prose`]: also what looks secret.
    pub fn prose_everywhere(&self, json: &mut serde_json::Value) {
        each_text(json, &mut |text| self.prose(text));
    }

    fn is_secret(&self, name: &str) -> bool {
        is_secret_name(name) || self.app_settings.iter().any(|secret| secret == name)
    }

    /// Hides the values that are known to be secret, whatever stands around them.
    fn known(&self, text: &mut String) {
        for value in &self.values {
            if text.contains(value.as_str()) {
                *text = scan::without(text, value);
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

    fn value(&self, name: &str, value: &mut String) {
        if self.is_secret(name) && !value.is_empty() {
            HIDDEN.clone_into(value);
        } else {
            self.prose(value);
        }
    }

    /// Hides the value of an environment variable that is not known to be harmless.
    fn variable(&self, name: &str, value: &mut String) {
        let declared = self.declared.iter().any(|it| it == name);
        self.unless(is_harmless_variable(name) || declared, name, value);
    }

    /// Hides a value, unless it is harmless, or nothing but what stands for another value.
    fn unless(&self, harmless: bool, name: &str, value: &mut String) {
        if harmless || scan::is_placeholder(value) {
            self.value(name, value);
        } else if !value.is_empty() {
            HIDDEN.clone_into(value);
        }
    }
}

fn each_text(json: &mut serde_json::Value, change: &mut dyn FnMut(&mut String)) {
    match json {
        serde_json::Value::String(text) => change(text),
        serde_json::Value::Array(items) => {
            items.iter_mut().for_each(|item| each_text(item, change));
        }
        serde_json::Value::Object(fields) => {
            let of_others = |(name, item): &(&String, &mut serde_json::Value)| {
                !item.as_str().is_some_and(|text| is_own(name, text))
            };
            let fields = fields.iter_mut().filter(of_others);
            fields.for_each(|(_, item)| each_text(item, change));
        }
        _ => {}
    }
}

/// Whether a field holds nothing but a word of Kneepoint's own, or numbers.
fn is_own(field: &str, text: &str) -> bool {
    let in_word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "._-/".contains(c);
    let is_word = OWN_WORDS.contains(&field) && text.chars().all(in_word);
    is_word || NUMBERS.contains(&field)
}

/// What a terminal obeys and a log line does not need.
fn is_control(c: char) -> bool {
    shown::is_unseen(c) && c != '\n' && c != '\t' && c != '\r'
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{JournalEntry, Scenario, run::EntryKind};

    fn scenario(env: &[(&str, &str)]) -> Scenario {
        Scenario {
            name: "shop".into(),
            root: "/srv/shop".into(),
            front: "public/index.php".into(),
            kind: crate::AppKind::Laravel,
            env: env
                .iter()
                .map(|(k, v)| ((*k).into(), (*v).into()))
                .collect(),
            app_settings: Vec::new(),
            app_files: Vec::new(),
            changes: Default::default(),
            unreachable: Vec::new(),
            generators: None,
            peers: Vec::new(),
            jobs: Vec::new(),
            tiers: Vec::new(),
            hosts: Default::default(),
            workload: crate::Workload::single("/?api_token=q8Zr77xx"),
            slo: Default::default(),
            budget: crate::Budget {
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
        assert_eq!(env["DATABASE_URL"], HIDDEN);
    }

    #[test]
    fn whom_an_application_asks_is_told_and_what_opens_the_door_is_not() {
        let run = Run {
            scenario: Some(scenario(&[
                ("RATES_URL", "http://rates.example:8080/slow"),
                ("CHAT_URL", "https://chat.example/hooks/T0B4x9Qz?sign=f00dbabe"),
            ])),
            journal: vec![JournalEntry {
                at_s: 1.0,
                kind: EntryKind::Warning,
                text: "waits for http://rates.example:8080/slow and chat.example/hooks/T0B4x9Qz, sign f00dbabe"
                    .into(),
            }],
            ..Run::default()
        };
        assert_eq!(
            redact(&run).journal[0].text,
            "waits for http://rates.example:8080/slow and chat.example/hooks/•••, sign •••"
        );
    }

    #[test]
    fn a_terminal_is_told_nothing_to_obey() {
        let text = redact_text("log: \u{1b}]0;title\u{7}\u{1b}[2J\u{9b}31mred\n\tnext");
        assert_eq!(
            text,
            "log: \u{fffd}]0;title\u{fffd}\u{fffd}[2J\u{fffd}31mred\n\tnext"
        );
    }

    #[test]
    fn what_a_load_sends_is_known_where_a_page_says_it_again() {
        let mut request = Request::get("/");
        request.headers = [
            ("Authorization", "Bearer abc123def456"),
            ("Cookie", "sid=q1w2e3r4t5; theme=dark"),
            ("X-Api-Key", "k-9f8e7d6c"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
        let mut point = LoadPoint {
            examples: vec!["who is abc123def456, q1w2e3r4t5 or k-9f8e7d6c in the dark?".into()],
            ..LoadPoint::default()
        };
        point.redact(&Secrets::of_requests(&[request]));
        assert_eq!(point.examples, ["who is •••, ••• or ••• in the dark?"]);
    }

    #[test]
    fn what_a_file_of_settings_gives_away_is_known() {
        let mut secrets = Secrets::default();
        secrets.know_dotenv(
            "APP_NAME=Laravel\n# A=b\nexport DB_PASSWORD=\"correct horse\"\nSTRIPE=sk1live2abc3def4\nAPP_ENV=production\n",
        );
        let mut text = "Laravel in production: correct horse, sk1live2abc3def4".to_owned();
        secrets.prose(&mut text);
        assert_eq!(text, "Laravel in production: •••, •••");
    }

    #[test]
    fn an_index_of_tokens_is_told_and_what_opens_a_door_in_a_statement_is_not() {
        let change = crate::Change::Statement {
            name: "tokens_by_token",
        };
        let told = |value: &str| {
            let mut run = Run::default();
            run.decisions.push(crate::run::Decision {
                code: String::new(),
                layer: None,
                settings: vec![change.to(value)],
                effect: crate::Effect::default(),
                kept: true,
                ..Default::default()
            });
            redact(&run).decisions[0].settings[0].value.clone()
        };
        let index = "CREATE INDEX tokens_by_token ON tokens (token);";
        assert_eq!(told(index), index);
        let text = told("UPDATE t SET dsn = 'mysql://u:hunter2@h/d'");
        assert!(!text.contains("hunter2"), "{text}");
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
