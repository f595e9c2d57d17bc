//! What the bench reads from a run's record. It reads leniently: a record of another version has other parts, and what is not
//! there is not known.

use kneepoint_model::{Account, Confidence};
use serde_json::Value;

/// A run's record.
pub(super) struct Record<'a>(pub(super) &'a Value);

/// What a diagnosis named.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Named {
    pub(super) code: String,
    pub(super) title: String,
    /// Everything the finding says, in which a culprit can be looked for.
    pub(super) text: String,
}

impl Record<'_> {
    /// # Errors
    /// The run did not finish: how it ended.
    pub(super) fn finished(&self) -> Result<(), String> {
        match self.at("/run/ended").and_then(Value::as_str) {
            Some("finished") => Ok(()),
            other => Err(format!(
                "the run did not finish: `{}`",
                other.unwrap_or("?")
            )),
        }
    }

    /// The first finding that is suspected or surer.
    pub(super) fn named(&self) -> Option<Named> {
        let findings = self.at("/run/findings")?.as_array()?;
        let first = findings.iter().find(|finding| {
            let sure = serde_json::from_value::<Confidence>(finding["confidence"].clone());
            sure.is_ok_and(|sure| sure >= Confidence::Suspected)
        })?;
        let mut said = first.clone();
        if let Some(said) = said.as_object_mut() {
            // What every finding of its kind says is no evidence.
            said.remove("source");
            said.remove("refuted_by");
        }
        let mut text = String::new();
        collect(&said, &mut text);
        Some(Named {
            code: first["code"].as_str().unwrap_or_default().to_owned(),
            title: first["title"].as_str().unwrap_or_default().to_owned(),
            text,
        })
    }

    /// The last limit of the configuration as it is: low, estimate, high per second.
    pub(super) fn limit(&self) -> Option<[f64; 3]> {
        let limits = self.at("/run/limits")?.as_array()?;
        let rate = &limits.iter().rev().find(|limit| limit["arm"] == "base")?["rate_hz"];
        // JSON has no infinity: an end that is missing is one.
        let end = |name: &str, missing: f64| rate[name].as_f64().unwrap_or(missing);
        Some([
            end("low", 0.0),
            rate["estimate"].as_f64()?,
            end("high", f64::INFINITY),
        ])
    }

    /// How much of the stack's CPU the last account explains; `None` where the record has no account that can be read.
    pub(super) fn explained(&self) -> Option<f64> {
        let account = self.at("/run/accounts")?.as_array()?.last()?;
        let account: Account = serde_json::from_value(account.clone()).ok()?;
        account.explained_share()
    }

    /// What was measured: path and the text that shows the right answer, of each request.
    pub(super) fn measured(&self) -> Vec<String> {
        let mut pages = Vec::new();
        if let Some(workload) = self.at("/run/scenario/workload") {
            requests(workload, &mut pages);
        }
        pages
    }

    fn at(&self, pointer: &str) -> Option<&Value> {
        self.0.pointer(pointer)
    }
}

/// Every text and number in a value.
fn collect(value: &Value, text: &mut String) {
    match value {
        Value::Array(values) => values.iter().for_each(|value| collect(value, text)),
        Value::Object(values) => values.values().for_each(|value| collect(value, text)),
        Value::String(said) => {
            text.push_str(said);
            text.push('\n');
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// The requests in a value, wherever they stand.
fn requests(value: &Value, pages: &mut Vec<String>) {
    match value {
        Value::Array(values) => values.iter().for_each(|value| requests(value, pages)),
        Value::Object(fields) => {
            if let (Some(path), Some(expect)) = (value["path"].as_str(), fields.get("expect")) {
                let texts = expect["body_contains"].as_array().into_iter().flatten();
                let texts: Vec<&str> = texts.filter_map(Value::as_str).collect();
                pages.push(match texts.as_slice() {
                    [] => format!("{path} (no text)"),
                    texts => format!("{path} \"{}\"", texts.join("\", \"")),
                });
            }
            fields.values().for_each(|value| requests(value, pages));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn record() -> Value {
        json!({ "run": {
            "ended": "finished",
            "scenario": { "workload": { "Mix": [
                { "path": "/", "expect": { "body_contains": ["Home"] } },
                { "path": "/feed", "expect": { "body_contains": [] } },
            ] } },
            "limits": [
                { "arm": "base", "rate_hz": { "low": 9.0, "estimate": 10.0, "high": null } },
                { "arm": "best", "rate_hz": { "low": 19.0, "estimate": 20.0, "high": 21.0 } },
            ],
            "findings": [
                { "code": "OPC-05", "title": "t", "confidence": "noted", "seen": [] },
                { "code": "APP-10", "title": "big options", "confidence": "suspected", "source": "wp_options",
                  "seen": [{ "what": "big_blob: 10 MB" }] },
            ],
        } })
    }

    #[test]
    fn the_first_finding_that_is_suspected_is_what_was_named() {
        let value = record();
        let record = Record(&value);
        assert_eq!(record.finished(), Ok(()));
        let named = record.named().expect("a finding");
        assert_eq!(
            (named.code.as_str(), named.title.as_str()),
            ("APP-10", "big options")
        );
        assert!(named.text.contains("big_blob"), "{}", named.text);
        // The source says the same of every finding of this kind.
        assert!(!named.text.contains("wp_options"), "{}", named.text);
    }

    #[test]
    fn how_much_is_explained_is_what_the_last_account_says() {
        use kneepoint_model::Layer;
        use kneepoint_model::account::{CpuOf, CpuPart};
        let part = |layer, share| CpuPart {
            of: CpuOf::Tier(layer),
            cores: 1.0,
            ms: 1.0,
            share,
        };
        let account = Account {
            cpu: vec![part(Layer::Php, 0.8), part(Layer::Db, 0.2)],
            ..Account::default()
        };
        // No stack of PHP's names its code: only the database is explained.
        let value = json!({ "run": { "accounts": [Account::default(), account] } });
        let explained = Record(&value).explained().expect("an account");
        assert!((explained - 0.2).abs() < 1e-9, "{explained}");
    }

    #[test]
    fn limit_and_pages_are_read_and_what_is_missing_is_not_known() {
        let value = record();
        let record = Record(&value);
        assert_eq!(record.limit(), Some([9.0, 10.0, f64::INFINITY]));
        assert_eq!(record.measured(), ["/ \"Home\"", "/feed (no text)"]);
        assert_eq!(record.explained(), None);
        let empty = json!({});
        let nothing = Record(&empty);
        assert!(
            nothing.finished().is_err() && nothing.named().is_none() && nothing.limit().is_none()
        );
        assert!(nothing.measured().is_empty());
    }
}
