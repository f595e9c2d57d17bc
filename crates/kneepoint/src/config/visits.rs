//! `[[session]]` and `think_time`: visitors who make several requests each.

use super::reader::{Reader, Section};
use super::request::Draft;
use super::suggest::nearest;
use super::tree::{Node, Value};
use super::values::alternatives;
use kneepoint_model::{Script, Sessions, ThinkTime};
use std::collections::BTreeSet;

/// Reads the sessions; `None` when every request stands for itself.
pub(super) fn read(
    reader: &mut Reader<'_>,
    top: &Section<'_>,
    drafts: &[Draft],
) -> Option<Sessions> {
    let pause = top.get("think_time").map(|node| {
        if top.get("session").is_none() {
            let message = "`think_time` without a [[session]]: no visitor makes a second request";
            reader.wrong(node.at, message, "[[session]] tables");
        }
        think_time(reader, node).unwrap_or_default()
    });
    let node = top.get("session")?;
    const EXPECTED: &str = "[[session]] tables, at least one";
    let items = reader.array(node, EXPECTED);
    if items.is_empty() && matches!(node.value, Value::Array(_)) {
        reader.wrong(node.at, "there are no sessions", EXPECTED);
    }
    let mut names = BTreeSet::new();
    let mut used = BTreeSet::new();
    let mut all_known = true;
    let mut scripts = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let Some(section) = reader.section(item, "session") else {
            continue;
        };
        let name = section.get("name").and_then(|node| {
            let name = reader.text(node, "a name for reports, such as \"buyer\"")?;
            reader.distinct(&mut names, name, node.at);
            Some(name.to_owned())
        });
        let weight = section.get("weight").and_then(|node| {
            reader.number(node, f64::MIN_POSITIVE, 1e9, "a weight above 0, such as 8")
        });
        let requests = steps(reader, &section, drafts);
        all_known &= requests.is_some();
        let requests = requests.unwrap_or_default();
        used.extend(requests.iter().copied());
        scripts.push(Script {
            name: name.unwrap_or_else(|| format!("session {}", index + 1)),
            weight: weight.unwrap_or(1.0),
            requests,
        });
    }
    // Behind a name that was mistyped may be any of them.
    if all_known {
        refuse_unused(reader, drafts, &used);
    }
    Some(Sessions {
        scripts,
        lengths: Vec::new(),
        think_time: pause.unwrap_or_default(),
    })
}

/// The requests of a session, as indices; `None` when one of them is not known.
fn steps(reader: &mut Reader<'_>, section: &Section<'_>, drafts: &[Draft]) -> Option<Vec<usize>> {
    const EXPECTED: &str = "names of requests, such as [\"login\", \"cart\"]";
    let Some(node) = section.get("requests") else {
        reader.missing(Some(section.at), "session.requests", EXPECTED);
        return None;
    };
    let items = reader.array(node, EXPECTED);
    if items.is_empty() && matches!(node.value, Value::Array(_)) {
        reader.wrong(node.at, "a session without requests", EXPECTED);
    }
    let names = || {
        drafts
            .iter()
            .filter_map(|draft| draft.request.name.as_deref())
    };
    let mut steps = Vec::new();
    let mut captured = BTreeSet::new();
    for item in items {
        let Some(name) = reader.text(item, EXPECTED) else {
            continue;
        };
        let named = |draft: &Draft| draft.request.name.as_deref() == Some(name);
        let Some(index) = drafts.iter().position(named) else {
            let message = format!("no request is called `{name}`");
            let expected = match names().next() {
                Some(_) => alternatives(names()),
                None => "a [[request]] with this `name`".to_owned(),
            };
            let problem = reader.wrong(item.at, message, expected);
            if let Some(near) = nearest(name, names()) {
                problem.help(format!("did you mean `{near}`?"));
            }
            continue;
        };
        refuse_too_early(reader, item, drafts, index, &captured);
        let captures = drafts[index].request.captures.iter();
        captured.extend(captures.map(|capture| capture.name.as_str()));
        steps.push(index);
    }
    (steps.len() == items.len()).then_some(steps)
}

/// A value must have been captured earlier in the same visit.
fn refuse_too_early(
    reader: &mut Reader<'_>,
    item: &Node,
    drafts: &[Draft],
    index: usize,
    captured: &BTreeSet<&str>,
) {
    let captures = |name: &str| {
        let mut all = drafts.iter().flat_map(|draft| &draft.request.captures);
        all.any(|capture| capture.name == name)
    };
    for (name, _) in &drafts[index].uses.0 {
        if captures(name) && !captured.contains(name.as_str()) {
            let message = format!("no request before this one captures `{{{{{name}}}}}`");
            let expected = "the request that captures it earlier in the session";
            reader.wrong(item.at, message, expected);
        }
    }
}

fn refuse_unused(reader: &mut Reader<'_>, drafts: &[Draft], used: &BTreeSet<usize>) {
    for (index, draft) in drafts.iter().enumerate() {
        if !used.contains(&index) {
            let what = match &draft.request.name {
                Some(name) => format!("`{name}` is in no session and would never be sent"),
                None => "this request has no `name`, so no session can send it".to_owned(),
            };
            reader.wrong(
                draft.at,
                what,
                "each request in a session: sessions replace the mix",
            );
        }
    }
}

fn think_time(reader: &mut Reader<'_>, node: &Node) -> Option<ThinkTime> {
    if !matches!(node.value, Value::Table(_)) {
        return reader.duration(node).map(ThinkTime::Fixed);
    }
    let section = reader.section(node, "think_time")?;
    let Some(mean) = section.get("mean") else {
        let wanted = "the mean of an exponential distribution, such as { mean = \"2s\" }";
        reader.missing(Some(section.at), "think_time.mean", wanted);
        return None;
    };
    let mean = reader.duration(mean)?;
    Some(ThinkTime::Exponential { mean })
}
