//! HAP-01: maxconn is small.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "HAP-01",
    name: "haproxy-few-connections",
    title: "HAProxy lets few connections in",
    what_it_is: "maxconn in the section global is how many connections HAProxy serves at once, all sites together. A \
        browser that keeps its connection open counts. Beyond the limit connections wait in the kernel's queue, and \
        no line in a log tells.",
    how_it_shows: "The site seems down for new visitors while those who are in are served quickly; CurrConns equals \
        Maxconn in `show info`.",
    unless: "It is meant as the queue before a small site.",
    what_to_write: "maxconn 20000 in global; each connection takes some 40 kB.",
    check,
};

const MOST: Directive = Directive {
    home: Home::Program(ServiceKind::Haproxy),
    name: "global maxconn",
    usual: "100000",
    beside: &[],
    severity: Severity::Risk,
    costs: |value, around| {
        /// Browsers keep connections for a minute: fewer are taken by some dozens of visitors a second \[ours\].
        const FEW: f64 = 2000.0;
        let most = value.number().filter(|most| *most < FEW)?;
        let mut timeouts = around.settings.every("defaults timeout");
        let kept = timeouts.find_map(|(text, _)| text.strip_prefix("http-keep-alive "));
        Some(match kept.and_then(seconds) {
            Some(kept_s) => format!(
                "with {kept_s} s of keep-alive, {:.0} new visitors a second take all of them",
                most / kept_s
            ),
            None => format!("the connection after {most:.0} waits, and browsers keep theirs open"),
        })
    },
    better: |_| "maxconn 20000".into(),
    weight: 0.2,
};

/// A time of HAProxy, in seconds: a bare number counts milliseconds.
fn seconds(text: &str) -> Option<f64> {
    let bare = text.trim().parse::<f64>().ok().map(|count| count / 1000.0);
    let written = || SettingValue::new(text, SettingSource::Default).seconds();
    bare.or_else(written).filter(|seconds| *seconds > 0.0)
}

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    MOST.check(&RULE, snapshot, found);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sick_and_healthy() {
        verify(
            &RULE,
            &[(
                haproxy(&[
                    ("global maxconn", "500"),
                    ("defaults timeout", "http-keep-alive 10000"),
                    ("defaults timeout", "client 30s"),
                ]),
                Severity::Risk,
                "50 new visitors",
            )],
        );
    }
}
