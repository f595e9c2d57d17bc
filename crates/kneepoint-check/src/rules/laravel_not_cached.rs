//! APP-01: Laravel reads its configuration and routes anew for every request.

use crate::rule::prelude::*;
use crate::snapshot::ServedApp;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "APP-01",
    name: "laravel-not-cached",
    title: "Laravel reads its configuration and routes anew for every request",
    what_it_is: "`php artisan optimize` writes configuration and routes into one file each, below bootstrap/cache. Without, \
        every request reads .env, a dozen files of configuration and all routes.",
    how_it_shows: "Some hundred more files are read in each request; bootstrap/cache has no config.php and no routes-v7.php.",
    unless: "It is a developer's machine.",
    what_to_write: "php artisan optimize, at each deployment; first see that env() is called in config/ only.",
    check,
};

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    for app in &snapshot.apps {
        if app.env_is_newer {
            stale(snapshot, app, found);
        }
        let Some((config, routes)) = app
            .laravel_cached
            .filter(|(config, routes)| !config || !routes)
        else {
            continue;
        };
        let missing = match (config, routes) {
            (false, false) => "neither configuration nor routes are",
            (false, true) => "the configuration is not",
            _ => "routes are not",
        };
        RULE.at(snapshot, app.service, Severity::Risk)
            .app(app)
            .seen(
                format!("{missing} in bootstrap/cache"),
                format!("{}/bootstrap/cache", app.root),
            )
            .cost("some milliseconds of CPU for every request")
            .fix(Fix::words(
                "First see that env() is called in config/ only: elsewhere it answers null once settings are cached. Then, in \
                 each deployment: php artisan optimize",
            ))
            .weight(0.1)
            .tell(found);
    }
}

/// What `.env` says since is not in force.
fn stale(snapshot: &Snapshot, app: &ServedApp, found: &mut Vec<CheckFinding>) {
    RULE.at(snapshot, app.service, Severity::Note)
        .app(app)
        .title("Laravel's cache of its configuration is older than .env")
        .seen(
            ".env was changed after the cache was written",
            format!("{}/bootstrap/cache/config.php", app.root),
        )
        .cost("nothing; but what was changed in .env is not in force")
        .fix(Fix::words(
            "Renew the cache of settings: php artisan config:cache",
        ))
        .weight(0.1)
        .tell(found);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sick_and_healthy() {
        let fresh =
            |snapshot: &mut Snapshot| snapshot.apps[0].laravel_cached = Some((false, false));
        let stale = Case::healthy().with(|snapshot| snapshot.apps[0].env_is_newer = true);
        verify(
            &RULE,
            &[
                (stale, Severity::Note, "php artisan config:cache"),
                (
                    Case::healthy().with(fresh),
                    Severity::Risk,
                    "/srv/app/bootstrap/cache",
                ),
                (
                    Case::healthy().with(fresh),
                    Severity::Risk,
                    "place: \"/srv/app, served by pool www of php-fpm",
                ),
                (
                    Case::healthy().with(fresh),
                    Severity::Risk,
                    "env() is called in config/ only",
                ),
            ],
        );
    }
}
