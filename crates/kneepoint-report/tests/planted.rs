//! No secret that is planted anywhere in a run survives in any format.

#[allow(dead_code, reason = "samples of loads are there for other tests")]
use crate::support;
use kneepoint_model::redact::{Secrets, redact};
use kneepoint_model::{Body, Method, Part, PartContent, Request, Run, Scenario};
use kneepoint_report::{FORMATS, Options, render};
use proptest::prelude::*;
use serde_json::Value;
use std::collections::BTreeSet;

/// Where a secret stands in a scenario, beside harmless values.
fn planted(run: &Run, secrets: &[String; 8]) -> Option<Scenario> {
    let mut scenario = run.scenario.clone()?;
    let [variable, named, header, cookie, field, part, json, url] = secrets.clone();
    scenario.env.insert("BACKUP_TARGET".into(), variable);
    scenario.env.insert("DB_PASSWORD".into(), named);
    scenario.env.insert(
        "DATABASE_URL".into(),
        format!("mysql://app:{url}@10.0.0.5/x"),
    );
    let request = |body| Request {
        method: Method("POST".into()),
        headers: vec![
            ("X-Shop".into(), format!("Key {header}")),
            ("Cookie".into(), format!("theme=dark; sid={cookie}")),
        ],
        body: Some(body),
        ..Request::get("/login")
    };
    let requests = &mut scenario.workload.requests;
    requests.push(request(Body::Form(vec![("login".into(), field)])));
    requests.push(request(Body::Multipart(vec![Part {
        name: "answer".into(),
        content: PartContent::Value(part),
        filename: None,
        content_type: None,
    }])));
    requests.push(request(Body::Json(format!(
        "{{\"a\":[{{\"b\":{json:?}}}]}}"
    ))));
    Some(scenario)
}

/// The places of all texts in a value, alike for all items of a list.
fn places(value: &Value, at: &str, into: &mut BTreeSet<String>) {
    match value {
        Value::String(_) => drop(into.insert(at.to_owned())),
        Value::Array(items) => items
            .iter()
            .for_each(|item| places(item, &format!("{at}/*"), into)),
        Value::Object(fields) => fields
            .iter()
            .for_each(|(name, item)| places(item, &format!("{at}/{name}"), into)),
        _ => {}
    }
}

/// Writes words into every text at a place.
fn write(value: &mut Value, at: &str, place: &str, words: &str) {
    match value {
        Value::String(text) if at == place => text.push_str(words),
        Value::Array(items) => items
            .iter_mut()
            .for_each(|item| write(item, &format!("{at}/*"), place, words)),
        Value::Object(fields) => fields
            .iter_mut()
            .for_each(|(name, item)| write(item, &format!("{at}/{name}"), place, words)),
        _ => {}
    }
}

/// The run with words in every text that can hold any: no names of kinds, and no numbers.
fn written_everywhere(run: &Run, words: &str) -> Option<Run> {
    let mut value = serde_json::to_value(run).expect("JSON");
    // One with a number that is none does not come back from JSON.
    serde_json::from_value::<Run>(value.clone()).ok()?;
    let mut all = BTreeSet::new();
    places(&value, "", &mut all);
    for place in all {
        let mut tried = value.clone();
        write(&mut tried, "", &place, words);
        if serde_json::from_value::<Run>(tried.clone()).is_ok() {
            value = tried;
        }
    }
    serde_json::from_value(value).ok()
}

fn secret() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z0-9]{8,20}",
        "[A-Za-z0-9+/_.-]{12,30}",
        "[a-z]{4,8} [a-z0-9]{4,8}"
    ]
    .prop_filter("told from ordinary words", |text| {
        text.bytes().filter(u8::is_ascii_digit).count() >= 2
            && text.bytes().any(|b| b.is_ascii_lowercase())
            && !text.starts_with(['.', '-', '+'])
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 6, max_shrink_iters: 0, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_planted_secret_survives(
        secrets in proptest::array::uniform8(secret()),
        which in 0..100_usize,
    ) {
        let mut secrets = secrets;
        // A URL has neither of them in its password.
        secrets[7] = secrets[7].replace([' ', '/'], "-");
        let samples = support::all();
        let (name, sample) = &samples[which % samples.len()];
        let words = format!(" {} ", secrets.join(" "));
        let both = planted(sample, &secrets).zip(written_everywhere(sample, &words));
        let Some((scenario, mut run)) = both else {
            return Ok(());
        };
        run.scenario = Some(scenario.clone());
        let gone = |text: &str, what: &str| {
            let left = secrets.iter().find(|secret| text.contains(secret.as_str()));
            prop_assert_eq!(left, None, "{} of {}", what, name);
            Ok(())
        };
        // What a report shows of a run as it is, and of one that was cleaned as its file was written.
        let mut known = Secrets::default();
        known.know(&scenario);
        let mut written = run.clone();
        known.take_out_of(&mut written);
        for run in [&run, &written] {
            for format in FORMATS {
                gone(&render(run, format, &Options::default()), format.name)?;
            }
            let json = serde_json::to_string(&redact(run)).expect("JSON");
            gone(&json, "the record")?;
        }
        gone(&serde_json::to_string(&written).expect("JSON"), "the file")?;
    }
}
