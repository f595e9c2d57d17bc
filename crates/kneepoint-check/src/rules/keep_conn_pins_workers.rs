//! FPM-10: connections that are kept open hold the workers of a pool.

use crate::rule::prelude::*;
use std::collections::BTreeSet;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "FPM-10",
    name: "keep-conn-pins-workers",
    title: "Connections that nginx keeps open may hold every worker of the pool",
    what_it_is: "A worker of PHP-FPM belongs to its connection as long as that is open. With fastcgi_keep_conn each process \
        of nginx keeps up to `keepalive` connections, and the workers behind them serve nobody else: in the lab 4 workers \
        were all held, at no CPU, while requests waited for seconds and 52 of them failed.",
    how_it_shows: "Every worker is busy in state `Reading headers`, the CPU is idle, requests wait, and it stays so after the load has gone.",
    unless: "The pool has at least twice as many workers as connections can be kept.",
    what_to_write: "fastcgi_keep_conn off; or `keepalive` times the processes of nginx below half of pm.max_children.",
    check,
};

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    let askers = Askers::of(snapshot);
    let mut told: BTreeSet<usize> = BTreeSet::new();
    for (link, web, _, pool) in snapshot.links_to_pools() {
        let (Some(nginx), Some(most)) = (&web.nginx, pool.max_children()) else {
            continue;
        };
        let passes = askers.passes(link).iter();
        for pass in passes.filter(|pass| pass.directive == "fastcgi_pass") {
            let Some(keep) = pass
                .settings
                .get("fastcgi_keep_conn")
                .filter(|value| value.is_on() == Some(true))
            else {
                continue;
            };
            let upstream = nginx.upstream_of(pass);
            let Some(keepalive) = upstream.and_then(|one| web.keepalive_of(one)) else {
                continue;
            };
            let each = first_number(&keepalive);
            let processes = super::nginx_workers(snapshot, web);
            let kept = each * processes;
            if kept < most as f64 / 2.0 || !told.insert(link.from) {
                continue;
            }
            RULE.at(snapshot, link.from, Severity::Problem)
                .value("keepalive", &keepalive)
                .value("fastcgi_keep_conn", keep)
                .seen(
                    format!(
                        "{} of nginx may keep {}; pool {} has {}",
                        counted(processes as u64, "process"),
                        counted(kept as u64, "connection"),
                        pool.name,
                        counted(most, "worker")
                    ),
                    "",
                )
                .cost("kept connections hold workers that serve nobody: requests wait and fail while the CPU is idle")
                .fix(Fix::line(web, keep, "fastcgi_keep_conn off;"))
                .weight(0.5)
                .tell(found);
        }
    }
}

/// Connections that one process keeps: `keepalive 32` or `keepalive 32 local`.
fn first_number(keepalive: &SettingValue) -> f64 {
    let first = keepalive.text.split(' ').next();
    first.and_then(|text| text.parse().ok()).unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sick_and_healthy() {
        let conf = "worker_processes 2;\nhttp { upstream php { server unix:/run/php.sock;\n keepalive 30; }\n server {\n location / {\n fastcgi_keep_conn on;\n fastcgi_pass php; } } }";
        let newer = conf.replace("keepalive 30;", "");
        let newer = Case::healthy().nginx(&newer);
        let newer = newer.with(|all| all.services[0].version = "1.29.7".into());
        verify(
            &RULE,
            &[
                (
                    Case::healthy().nginx(conf),
                    Severity::Problem,
                    "may keep 60 connections",
                ),
                // It keeps 32 where nothing is written.
                (newer, Severity::Problem, "may keep 64 connections"),
            ],
        );
    }
}
