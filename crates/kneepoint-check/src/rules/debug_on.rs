//! APP-02: the application runs as its developers have it.

use crate::rule::prelude::*;
use kneepoint_model::SwitchKind;
use kneepoint_stack::application::laravel;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "APP-02",
    name: "debug-on",
    title: "Debugging is switched on in the application",
    what_it_is: "In its debug mode an application collects what it does, checks its caches for changes and builds long error \
        pages: up to four times memory and time. Other switches write down what a page does, or cost little time and show the \
        inside of the application to visitors.",
    how_it_shows: "Pages are slow at any load, or an error shows the code, the queries and the environment.",
    unless: "It is a developer's machine.",
    what_to_write: "The application's own switch: APP_DEBUG=false (Laravel), APP_ENV=prod (Symfony), define('WP_DEBUG', false); \
        (WordPress); then renew its cache of settings where it has one.",
    check,
};

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    super::switched(&RULE, SwitchKind::DebugOn, (costs, what), snapshot, found);
}

/// What a switch costs. A mode of the whole application, a toolbar and a log of each page are dear; others show errors, or
/// keep and write down queries.
fn costs(name: &str) -> super::Judged {
    match name {
        "APP_DEBUG" | "app.debug" | "APP_ENV" | "$wgDebugToolbar" | "$debug" => {
            let cost = "time of every request: pages did four times the work in a public report";
            (Severity::Problem, cost, 0.4)
        }
        "$wgDebugLogFile" => {
            let cost = "time of every request, which writes what it does to a log that grows";
            (Severity::Problem, cost, 0.3)
        }
        "WP_DEBUG"
        | "$wgDevelopmentWarnings"
        | "$wgDebugComments"
        | "$conf['allowdebug']"
        | "$config['devel_mode']" => {
            let cost = "little time: it shows its inside to visitors, and its log grows";
            (Severity::Risk, cost, 0.05)
        }
        _ => {
            let cost = "time and memory of every request, which keeps or writes down what it does";
            (Severity::Risk, cost, 0.2)
        }
    }
}

/// What to do, in the words of the application whose file it is.
fn what(file: &str, name: &str) -> String {
    match (file, name) {
        (laravel::CACHE, _) => {
            "write nothing by hand: set APP_DEBUG=false in .env and renew that file (php artisan config:cache)".into()
        }
        ("wp-config.php", name) => format!("write define('{name}', false)"),
        (_, "APP_DEBUG") => {
            "write APP_DEBUG=false, and renew Laravel's cache of settings where there is one (php artisan optimize)".into()
        }
        (_, "APP_ENV") => "write APP_ENV=prod, and clear Symfony's cache (php bin/console cache:clear)".into(),
        (_, name) => format!("remove {name}, or switch it off"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn sick_and_healthy() {
        let on = |name, file| Case::switched(SwitchKind::DebugOn, name, file);
        verify(
            &RULE,
            &[
                (
                    on("APP_DEBUG", ".env"),
                    Severity::Problem,
                    "/srv/app/.env:4, write APP_DEBUG=false",
                ),
                (
                    on("APP_DEBUG", ".env"),
                    Severity::Problem,
                    "place: \"/srv/app, served by pool www",
                ),
                (
                    on("app.debug", laravel::CACHE),
                    Severity::Problem,
                    "set APP_DEBUG=false in .env and renew that file",
                ),
                (
                    on("WP_DEBUG", "wp-config.php"),
                    Severity::Risk,
                    "define('WP_DEBUG', false)",
                ),
                (
                    on("$conf['allowdebug']", "conf/local.php"),
                    Severity::Risk,
                    "cost: \"little time: it shows its inside to visitors",
                ),
                (
                    on("SAVEQUERIES", "wp-config.php"),
                    Severity::Risk,
                    "keeps or writes down what it does",
                ),
                (
                    on("$wgDebugToolbar", "LocalSettings.php"),
                    Severity::Problem,
                    "remove $wgDebugToolbar",
                ),
            ],
        );
        let cache = Case::switched(SwitchKind::CacheOff, "CACHE_STORE", ".env");
        assert!(super::super::tests_of(&RULE, &cache).is_empty());
    }
}
