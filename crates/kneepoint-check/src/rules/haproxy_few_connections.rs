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
        let kept = around
            .settings
            .or("defaults timeout http-keep-alive", "10s");
        let seconds = kept.seconds().unwrap_or(10.0).max(1.0);
        Some(format!(
            "with {} of keep-alive, {:.0} new visitors a second take all of them",
            kept.text,
            most / seconds
        ))
    },
    better: |_| "maxconn 20000".into(),
    weight: 0.2,
};
fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    MOST.check(&RULE, snapshot, found);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn haproxy(lines: &[(&str, &str)]) -> Case {
        Case::healthy().with(|all| {
            let mut service = Service::new(ServiceKind::Haproxy, 9);
            for (name, value) in lines {
                service.settings.set(
                    name,
                    value,
                    SettingSource::file("/etc/haproxy/haproxy.cfg", 3),
                );
            }
            all.services.push(service);
        })
    }

    #[test]
    fn sick_and_healthy() {
        verify(
            &RULE,
            &[(
                haproxy(&[("global maxconn", "500")]),
                Severity::Risk,
                "50 new visitors",
            )],
        );
    }
}
