//! APP-04: PHP looks for each class in the directories.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "APP-04",
    name: "autoloader-not-optimized",
    title: "Composer looks for each class in the directories",
    what_it_is: "As it is installed without options, Composer asks the file system for each class, in several directories. \
        With -o it has a map of all classes. With --classmap-authoritative it never looks elsewhere, and does not find a class \
        that is made at run time.",
    how_it_shows: "Many failed stat and open calls for each request, for files in several directories of vendor/.",
    unless: "It is a developer's machine.",
    what_to_write: "composer install --no-dev --optimize-autoloader, at each deployment.",
    check,
};

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    for app in snapshot
        .apps
        .iter()
        .filter(|app| app.composer_optimized == Some(false))
    {
        RULE.at(snapshot, app.service, Severity::Risk)
            .app(app)
            .seen(
                "the map of classes does not hold the application's own",
                format!("{}/vendor/composer/autoload_classmap.php", app.root),
            )
            .cost("system calls for each class of each request")
            .fix(Fix::words(
                "In each deployment: composer install --no-dev --optimize-autoloader. Where no class is made at run time, \
                 --classmap-authoritative instead spares the search for classes that do not exist, too.",
            ))
            .weight(0.06)
            .tell(found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sick_and_healthy() {
        let plain = |snapshot: &mut Snapshot| snapshot.apps[0].composer_optimized = Some(false);
        verify(
            &RULE,
            &[
                (
                    Case::healthy().with(plain),
                    Severity::Risk,
                    "autoload_classmap.php",
                ),
                (
                    Case::healthy().with(plain),
                    Severity::Risk,
                    "composer install --no-dev --optimize-autoloader.",
                ),
            ],
        );
    }
}
