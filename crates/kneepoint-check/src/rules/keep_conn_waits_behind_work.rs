//! FPM-12: a kept connection, and a worker behind it that answers before it is done.

use crate::rule::prelude::*;
use crate::snapshot::{Pass, ServedApp};
use std::collections::{BTreeSet, HashMap};

pub(crate) static RULE: CheckRule = CheckRule {
    code: "FPM-12",
    name: "keep-conn-waits-behind-work",
    title: "A request may wait for work that PHP does after answering another",
    what_it_is: "fastcgi_finish_request() sends the response to the visitor, and the worker goes on: it sends mail, \
        writes logs, does jobs that are due. With fastcgi_keep_conn the connection stays open and looks free from then \
        on, so nginx may send its next request over it. That request waits until the worker is done, though others are \
        idle. Work that asks its own site over HTTP may wait for itself, until a timeout ends it \
        (https://github.com/php/php-src/issues/10335).",
    how_it_shows: "A page that is fast by itself now and then takes as long as the work behind another page, while workers \
        are idle. Work that asks its own site at times ends with a timeout.",
    unless: "Next to nothing is done after the answer.",
    what_to_write: "fastcgi_keep_conn off; or give the work to a queue that other processes serve.",
    check,
};

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    let (askers, served) = (Askers::of(snapshot), served(snapshot));
    let mut told: BTreeSet<(usize, usize, &str)> = BTreeSet::new();
    for (link, web, _, pool) in snapshot.links_to_pools() {
        let Some(apps) = served.get(&(link.to, pool.name.as_str())) else {
            continue;
        };
        let passes = askers.passes(link);
        let Some((keep, keepalive)) = passes.iter().find_map(|pass| kept(web, pass)) else {
            continue;
        };
        // Where a place keeps none, nobody knows for which of several applications that place is.
        if apps.len() > 1 && passes.iter().any(|pass| kept(web, pass).is_none()) {
            continue;
        }
        for app in apps {
            let Some((file, line)) = &app.answers_early else {
                continue;
            };
            if !told.insert((link.from, link.to, app.root.as_str())) {
                continue;
            }
            let (severity, cost, weight) = judged(file);
            RULE.at(snapshot, link.from, severity)
                .value("fastcgi_keep_conn", keep)
                .value("keepalive", &keepalive)
                .seen(
                    format!(
                        "code that pool {} executes calls fastcgi_finish_request()",
                        pool.name
                    ),
                    format!("{}/{file}:{line}", app.root),
                )
                .cost(cost)
                .fix(Fix::line(web, keep, "fastcgi_keep_conn off;"))
                .weight(weight)
                .tell(found);
        }
    }
}

/// The applications of each pool, by its service and its name.
fn served(snapshot: &Snapshot) -> HashMap<(usize, &str), Vec<&ServedApp>> {
    let mut served: HashMap<(usize, &str), Vec<&ServedApp>> = HashMap::new();
    for app in &snapshot.apps {
        for pool in &app.pools {
            let of_pool = served.entry((app.service, pool.as_str())).or_default();
            of_pool.push(app);
        }
    }
    served
}

/// What makes a place of nginx keep connections to PHP, and how many. Without an upstream that keeps them, nginx closes each.
fn kept<'a>(web: &Service, pass: &'a Pass) -> Option<(&'a SettingValue, SettingValue)> {
    let keep = pass.settings.get("fastcgi_keep_conn")?;
    let is_kept = pass.directive == "fastcgi_pass" && keep.is_on() == Some(true);
    let upstream = web.nginx.as_ref()?.upstream_of(pass)?;
    let keepalive = web.keepalive_of(upstream).filter(|_| is_kept)?;
    Some((keep, keepalive))
}

/// How bad a call in this file is, what it costs, and how much it weighs.
fn judged(file: &str) -> (Severity, &'static str, f64) {
    if file.starts_with("vendor/") {
        // Every response is sent so, and often nothing is left to do then.
        let cost = "a request may wait for what is done after the answer to another (kernel.terminate of Symfony, terminable \
            middleware of Laravel); how long that takes is not measured";
        return (Severity::Note, cost, 0.05);
    }
    if file == "wp-cron.php" {
        let cost = "a page may wait until WordPress has done its due jobs, while workers are idle";
        return (Severity::Risk, cost, 0.15);
    }
    let cost = "a request may wait for what follows the answer to another, while workers are idle";
    (Severity::Risk, cost, 0.2)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONF: &str = "http {\n upstream php { server unix:/run/php.sock;\n keepalive 4; }\n server {\n location / {\n \
        fastcgi_keep_conn on;\n fastcgi_pass php; }\n location /b { fastcgi_pass unix:/run/php.sock; } } }";

    fn early(conf: &str, file: &str) -> Case {
        let place = Some((file.to_owned(), 12));
        let case = Case::healthy().nginx(conf);
        case.with(|all| all.apps[0].answers_early = place)
    }

    #[test]
    fn sick_and_healthy() {
        let of = |file: &str| early(CONF, file);
        let response = "vendor/symfony/http-foundation/Response.php";
        verify(
            &RULE,
            &[
                (
                    of("src/Mail.php"),
                    Severity::Risk,
                    "/srv/app/src/Mail.php:12",
                ),
                (of("src/Mail.php"), Severity::Risk, "fastcgi_keep_conn off;"),
                (of("wp-cron.php"), Severity::Risk, "its due jobs"),
                (of(response), Severity::Note, "kernel.terminate"),
            ],
        );
    }

    #[test]
    fn it_takes_a_kept_connection_to_the_pool_that_makes_the_call() {
        let silent = |case: &Case| super::super::tests_of(&RULE, case).is_empty();
        assert!(!silent(&early(CONF, "a.php")));
        assert!(silent(&Case::healthy().nginx(CONF)));
        for (written, instead) in [("keepalive 4;", ""), ("conn on", "conn off")] {
            let conf = CONF.replace(written, instead);
            assert!(silent(&early(&conf, "a.php")), "{conf}");
        }
        let elsewhere = early(CONF, "a.php").with(|all| all.apps[0].pools = vec!["jobs".into()]);
        assert!(silent(&elsewhere));
        // One of two applications is behind the place that keeps connections, and nobody knows which.
        let two = |conf: &str| {
            early(conf, "a.php").with(|all| {
                let other = ServedApp {
                    root: "/srv/b".into(),
                    answers_early: None,
                    ..all.apps[0].clone()
                };
                all.apps.push(other);
            })
        };
        assert!(silent(&two(CONF)));
        let both_keep = CONF.replace("/b { fastcgi_pass unix:/run/php.sock;", "/b {");
        assert!(!silent(&two(&both_keep)));
        // Two containers have each an application in a directory of this name.
        let apart = early(CONF, "a.php").with(|all| {
            let php = all.services[1].clone();
            all.services.push(php);
            let mut link = all.links[0].clone();
            link.to = 5;
            all.links.push(link);
            let other = ServedApp {
                service: 5,
                ..all.apps[0].clone()
            };
            all.apps.push(other);
        });
        assert_eq!(super::super::tests_of(&RULE, &apart).len(), 2);
    }
}
