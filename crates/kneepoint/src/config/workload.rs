//! The mix, `users` and `[slo]`: what is asked by whom, and when the stack counts as coping.

pub(super) mod content;
pub(super) mod expect;
pub(super) mod feeder;
pub(super) mod mix;
pub(super) mod request;
pub(super) mod uses;
pub(super) mod visits;

use crate::config::reader::tree::{Node, Value};
use crate::config::reader::{Reader, Section};

use kneepoint_model::{Slo, Workload};

/// Reads the mix.
pub(super) fn read(reader: &mut Reader<'_>, top: &Section<'_>) -> Workload {
    let mut workload = Workload::single("/");
    if let Some(learned) = mix::read(reader, top) {
        workload = learned;
    }
    if let Some(node) = top.get("users") {
        workload.users = reader.whole(node, 1, 1_000_000).unwrap_or(workload.users);
    }
    workload.feeders = feeder::read(reader, top);
    let mut drafts = Vec::new();
    if let Some(node) = top.get("request") {
        let expected = "[[request]] tables, at least one";
        let items = reader.array(node, expected);
        if items.is_empty() && matches!(node.value, Value::Array(_)) {
            reader.wrong(node.at, "the mix is empty", expected);
        }
        for item in items {
            let section = reader.section(item, "request");
            drafts.extend(section.map(|section| request::read(reader, &section)));
        }
        request::settle(reader, &mut drafts, &workload.feeders);
    }
    workload.sessions = visits::read(reader, top, &drafts);
    if top.get("request").is_some() {
        workload.requests = drafts.into_iter().map(|draft| draft.request).collect();
    }
    workload
}

/// Reads the SLO.
pub(super) fn read_slo(reader: &mut Reader<'_>, top: &Section<'_>) -> Slo {
    let mut slo = Slo::default();
    let Some(section) = top.get("slo").and_then(|node| reader.section(node, "slo")) else {
        return slo;
    };
    if let Some(node) = section.get("timeout") {
        slo.timeout = reader.duration(node).unwrap_or(slo.timeout);
    }
    if let Some(node) = section.get("errors") {
        slo.errors = reader.share(node).unwrap_or(slo.errors);
    }
    let given = section.get("response_time");
    if let Some(node) = given {
        response_time(reader, node, &mut slo);
    }
    if slo.response_time > slo.timeout {
        let at = given
            .or(section.get("timeout"))
            .map_or(section.at, |node| node.at);
        let message = "the response time exceeds the timeout: no request could take so long";
        reader.wrong(at, message, "a response time up to slo.timeout");
    }
    slo
}

fn response_time(reader: &mut Reader<'_>, node: &Node, slo: &mut Slo) {
    const EXPECTED: &str = "one quantile from p50 to p99.9, such as { p95 = \"200ms\" }";
    let entries = reader.entries(node, EXPECTED);
    let is_table = matches!(node.value, Value::Table(_));
    let [entry] = entries else {
        if is_table {
            let message = format!("found {} quantiles", entries.len());
            reader.wrong(node.at, message, EXPECTED);
        }
        return;
    };
    match quantile(&entry.key) {
        Some(quantile) => slo.quantile = quantile,
        None => {
            let message = format!("`{}` is no quantile of the SLO", entry.key);
            reader.wrong(entry.key_at, message, EXPECTED);
        }
    }
    slo.response_time = reader.duration(&entry.node).unwrap_or(slo.response_time);
}

/// `p95` is 0.95, `p99.9` is 0.999; one decimal at most.
fn quantile(name: &str) -> Option<f64> {
    let digits = name.strip_prefix('p')?;
    let decimals = digits
        .split_once('.')
        .map_or(0, |(_, decimals)| decimals.len());
    let plain = digits.chars().all(|c| c.is_ascii_digit() || c == '.');
    let percent: f64 = digits.parse().ok()?;
    let good = plain && decimals <= 1 && (50.0..=99.9).contains(&percent);
    good.then_some((percent * 10.0).round() / 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_exact() {
        assert_eq!(quantile("p95"), Some(0.95));
        assert_eq!(quantile("p99.9"), Some(0.999));
        for name in ["p49", "p100", "p99.95", "95", "p", "pfifty", "p-60", "p5e1"] {
            assert_eq!(quantile(name), None, "{name}");
        }
    }
}
