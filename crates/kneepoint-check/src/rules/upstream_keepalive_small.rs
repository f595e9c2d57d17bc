//! NGX-05: few connections to the next tier are kept.

use crate::rule::prelude::*;
use std::collections::BTreeSet;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "NGX-05",
    name: "upstream-keepalive-small",
    title: "nginx keeps few connections to the next tier",
    what_it_is: "`keepalive` is how many idle connections each process keeps. When more requests are under way than that, \
        the rest are closed and opened again: in a field report a stack with keepalive 2 broke down at 11 000 requests a \
        second, and with 1024 it did not.",
    how_it_shows: "New connections to the next tier at the peak, although keepalive is set.",
    unless: "Few requests are under way at once.",
    what_to_write: "keepalive = the requests under way at the peak, divided by the processes of nginx.",
    check,
};

/// Fewer than this are too few for any load.
const FEW: f64 = 8.0;

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    for (at, service) in snapshot.of(ServiceKind::Nginx) {
        let Some(nginx) = &service.nginx else {
            continue;
        };
        let passes = nginx.passes.iter();
        let proxied = passes.filter(|pass| pass.directive == "proxy_pass");
        let proxied: BTreeSet<usize> = proxied.filter_map(|pass| pass.upstream).collect();
        for upstream in proxied.iter().filter_map(|at| nginx.upstreams.get(*at)) {
            let Some(value) = upstream.settings.get("keepalive") else {
                continue;
            };
            let count = value
                .text
                .split(' ')
                .next()
                .and_then(|text| text.parse::<f64>().ok());
            if count.is_some_and(|count| count < FEW) {
                RULE.at(snapshot, at, Severity::Risk)
                    .value("keepalive", value)
                    .cost("at the peak most requests open a connection of their own after all")
                    .fix(Fix::line(service, value, "keepalive 64;"))
                    .weight(0.2)
                    .tell(found);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sick_and_healthy() {
        verify(
            &RULE,
            &[(
                Case::healthy().nginx_with("keepalive 64;", "keepalive 2;"),
                Severity::Risk,
                "nginx.conf:15",
            )],
        );
    }
}
