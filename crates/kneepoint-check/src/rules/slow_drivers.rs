//! APP-08: sessions and caches in files or in the database.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "APP-08",
    name: "slow-drivers",
    title: "The application keeps sessions or its cache in files or in the database",
    what_it_is: "A driver that comes with the framework works everywhere: files, which lock and pile up, or a table of the \
        database, which is asked in every request. Redis or Memcached is there for it.",
    how_it_shows: "A query or a file for each request that is about a session or a cache entry; jobs that make pages slow.",
    unless: "Few visitors come, and there is one host.",
    what_to_write: "SESSION_DRIVER=redis, CACHE_STORE=redis, QUEUE_CONNECTION=redis with a worker of its own.",
    check,
};

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    for app in &snapshot.apps {
        for (name, value, line) in &app.drivers {
            let slow = match name.as_str() {
                "QUEUE_CONNECTION" => value == "sync",
                _ => value == "file" || value == "database",
            };
            if !slow {
                continue;
            }
            RULE.at(snapshot, app.service, Severity::Note)
                .seen(
                    format!("{name} = {value}"),
                    format!("{}/.env:{line}", app.root),
                )
                .cost(
                    "a file or a query for every request; with `sync`, jobs run within the request",
                )
                .fix(Fix::words(format!(
                    "Set {name}=redis, and clear the cache of settings (php artisan optimize)."
                )))
                .tell(found);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sick_and_healthy() {
        let files = |snapshot: &mut Snapshot| {
            snapshot.apps[0]
                .drivers
                .push(("SESSION_DRIVER".into(), "file".into(), 7))
        };
        verify(
            &RULE,
            &[(
                Case::healthy().with(files),
                Severity::Note,
                "/srv/app/.env:7",
            )],
        );
    }
}
