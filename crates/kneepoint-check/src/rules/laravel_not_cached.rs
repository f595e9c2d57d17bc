//! APP-01: Laravel reads its configuration and routes anew for every request.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "APP-01",
    name: "laravel-not-cached",
    title: "Laravel reads its configuration and routes anew for every request",
    what_it_is: "`php artisan optimize` writes configuration and routes into one file each, below bootstrap/cache. Without, \
        every request reads .env, a dozen files of configuration and all routes.",
    how_it_shows: "Some hundred more files are read in each request; bootstrap/cache has no config.php and no routes-v7.php.",
    unless: "It is a developer's machine.",
    what_to_write: "php artisan optimize, at each deployment.",
    check,
};

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    for app in &snapshot.apps {
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
            .fix(Fix::words("In each deployment: php artisan optimize"))
            .weight(0.1)
            .tell(found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sick_and_healthy() {
        let fresh =
            |snapshot: &mut Snapshot| snapshot.apps[0].laravel_cached = Some((false, false));
        verify(
            &RULE,
            &[
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
            ],
        );
    }
}
