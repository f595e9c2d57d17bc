//! APP-08: a cache of the application's own is switched off.

use crate::rule::prelude::*;
use kneepoint_model::SwitchKind;
use kneepoint_stack::application::laravel;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "APP-08",
    name: "cache-off",
    title: "A cache of the application is switched off",
    what_it_is: "Applications keep what is dear to compute: parsed pages, results of queries, templates. Where such a cache is \
        switched off, every request computes all of it again. It is off after a developer looked for something, or because \
        nobody chose a cache when the application was installed.",
    how_it_shows: "Pages are slow at any load, and the same page asks the database the same questions every time.",
    unless: "It is a developer's machine, or every page is different for everybody.",
    what_to_write: "The application's own switch: $wgMainCacheType (MediaWiki), $conf['cachetime'] (DokuWiki), the bins of \
        settings.php (Drupal), CACHE_STORE (Laravel).",
    check,
};

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    super::switched(&RULE, SwitchKind::CacheOff, (costs, what), snapshot, found);
}

/// What each of them costs.
fn costs(_name: &str) -> super::Judged {
    const COST: &str = "what it would keep is computed anew in every request: pages did four times the work in a public report";
    (Severity::Problem, COST, 0.4)
}

/// What to do, in the words of the application whose file it is.
fn what(file: &str, name: &str) -> String {
    match (file, name) {
        (laravel::CACHE, _) => {
            "write nothing by hand: set CACHE_STORE=redis (or file) in .env and renew that file (php artisan config:cache)".into()
        }
        ("LocalSettings.php", name) => {
            format!("write {name} = CACHE_ACCEL; with the extension APCu, or name a Redis of $wgObjectCaches")
        }
        ("conf/local.php" | "conf/local.protected.php", name) => {
            format!("write {name} = 86400; (a day), or remove the line")
        }
        (_, "VIEW_CACHE") => {
            "remove VIEW_CACHE, and have templates compiled at each deployment (php artisan view:cache)".into()
        }
        (".env" | ".env.local", name) => {
            format!("write {name}=redis (or file), and renew the cache of settings where there is one (php artisan optimize)")
        }
        (file, _) if file.starts_with("sites/") => "remove the line: Drupal then keeps it in its database".into(),
        (_, name) => format!("remove {name}, or switch it on"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn sick_and_healthy() {
        let off = |name, file| Case::switched(SwitchKind::CacheOff, name, file);
        let wiki = || off("$wgMainCacheType", "LocalSettings.php");
        verify(
            &RULE,
            &[
                (wiki(), Severity::Problem, "/srv/app/LocalSettings.php:4"),
                (wiki(), Severity::Problem, "CACHE_ACCEL"),
                (
                    wiki(),
                    Severity::Problem,
                    "place: \"/srv/app, served by pool www",
                ),
                (
                    off("CACHE_STORE", ".env"),
                    Severity::Problem,
                    "CACHE_STORE=redis",
                ),
                (
                    off("$conf['cachetime']", "conf/local.php"),
                    Severity::Problem,
                    "= 86400;",
                ),
            ],
        );
        let said = format!("{:?}", super::super::tests_of(&RULE, &wiki()));
        assert!(
            !said.contains("artisan") && !said.contains("queue"),
            "{said}"
        );
        let debug = Case::switched(SwitchKind::DebugOn, "APP_DEBUG", ".env");
        assert!(super::super::tests_of(&RULE, &debug).is_empty());
    }
}
