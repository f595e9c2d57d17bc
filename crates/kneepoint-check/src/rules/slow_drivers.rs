//! APP-08: sessions and caches in files or in the database.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "APP-08",
    name: "slow-drivers",
    title: "The application uses a slow driver for its sessions, its cache or its jobs",
    what_it_is: "A driver that comes with the framework works everywhere, and is slow: files lock and pile up, and a table \
        of the database is asked in every request. Redis or Memcached is made for it.",
    how_it_shows: "A query or a file for each request that is about a session or a cache entry; jobs that make pages slow.",
    unless: "Few visitors come, and there is one host.",
    what_to_write: "SESSION_DRIVER=redis, CACHE_STORE=redis, QUEUE_CONNECTION=redis with a worker of its own.",
    check,
};

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    for app in &snapshot.apps {
        for (name, value, line) in &app.drivers {
            let Some((title, cost, fix)) = words(name, value) else {
                continue;
            };
            RULE.at(snapshot, app.service, Severity::Note)
                .app(app)
                .title(title)
                .seen(format!("{name} = {value}"), app.place_of_driver(*line))
                .cost(cost)
                .fix(Fix::words(fix))
                .tell(found);
        }
    }
}

/// What a driver of Laravel's does, what it costs and what to do; `None` where it is well.
fn words(name: &str, value: &str) -> Option<(String, &'static str, String)> {
    let renew = "and renew the cache of settings where there is one (php artisan optimize)";
    let (place, cost) = match value {
        "file" => (
            "in files",
            "files to read, lock and write for every request, and nothing that a second host sees",
        ),
        "database" => ("in the database", "a query or two more for every request"),
        _ => ("", ""),
    };
    match (name, value) {
        ("QUEUE_CONNECTION", "sync") => Some((
            "The application does its jobs within the request".into(),
            "whatever a job takes (mails, exports, calls to others), the visitor waits for it",
            format!(
                "Write QUEUE_CONNECTION=redis, run a worker beside PHP-FPM (php artisan queue:work, as a service), {renew}."
            ),
        )),
        ("SESSION_DRIVER", "file" | "database") => Some((
            format!("The application keeps its sessions {place}"),
            cost,
            format!("Write SESSION_DRIVER=redis, {renew}. Visitors have to log in once more."),
        )),
        ("CACHE_STORE" | "CACHE_DRIVER", "file" | "database") => Some((
            format!("The application keeps its cache {place}"),
            cost,
            format!("Write {name}=redis, {renew}."),
        )),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sick_and_healthy() {
        let driver = |name: &str, value: &str| {
            let driver = (name.to_owned(), value.to_owned(), 7);
            Case::healthy().with(|snapshot| snapshot.apps[0].drivers.push(driver))
        };
        let sessions = || driver("SESSION_DRIVER", "file");
        verify(
            &RULE,
            &[
                (
                    sessions(),
                    Severity::Note,
                    "/srv/app/bootstrap/cache/config.php:7",
                ),
                (
                    sessions(),
                    Severity::Note,
                    "place: \"/srv/app, served by pool www",
                ),
                (
                    driver("CACHE_STORE", "database"),
                    Severity::Note,
                    "keeps its cache in the database",
                ),
                (
                    driver("QUEUE_CONNECTION", "sync"),
                    Severity::Note,
                    "queue:work",
                ),
            ],
        );
        let said = format!("{:?}", super::super::tests_of(&RULE, &sessions()));
        assert!(!said.contains("job") && !said.contains("queue"), "{said}");
        for (name, value) in [
            ("QUEUE_CONNECTION", "database"),
            ("SESSION_DRIVER", "redis"),
        ] {
            assert!(super::super::tests_of(&RULE, &driver(name, value)).is_empty());
        }
    }
}
