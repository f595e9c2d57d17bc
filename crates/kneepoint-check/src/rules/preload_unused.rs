//! OPC-11: opcache.preload is not used.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "OPC-11",
    name: "preload-unused",
    title: "The framework is put together anew for every request",
    what_it_is: "Even from OPcache, each request links the classes it uses: it looks for parents and interfaces and \
        joins them. opcache.preload does that once when PHP starts, for a list of files. Frameworks come with such a \
        list (Symfony: config/preload.php). It takes memory and a restart at each deployment.",
    how_it_shows: "Much of a page's CPU time is spent before the application's own code, in the framework's start.",
    unless: "Pages spend their time in queries, or each release is deployed without a restart.",
    what_to_write: "opcache.preload = /srv/app/config/preload.php and opcache.preload_user = www-data; then measure: \
        `kneepoint tune` compares.",
    check,
};

/// Files of an application that is a framework with its libraries \[ours\].
const MANY: u64 = 4000;

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    for app in snapshot.apps.iter().filter(|app| app.php_files >= MANY) {
        let Some(service) = snapshot.services.get(app.service) else {
            continue;
        };
        let Some(php) = service.php.as_ref() else {
            continue;
        };
        let preload = php.ini.or("opcache.preload", "");
        let validates = php.ini.or("opcache.validate_timestamps", "1");
        let knows = service.is_older_than(&[7, 4]) == Some(false);
        // Whoever lets files change without a restart cannot have it; an unordered autoloader is to be mended first.
        let ready = validates.is_on() == Some(false) && app.composer_optimized == Some(true);
        let one = snapshot
            .apps
            .iter()
            .filter(|other| other.service == app.service)
            .count()
            == 1;
        if !preload.text.trim().is_empty() || !knows || !ready || !one {
            continue;
        }
        // A file that is not there, or a user that is not, and PHP does not start: so nothing is written ready to be copied.
        let user = service
            .pools
            .first()
            .and_then(|pool| pool.settings.text("user"));
        let fix = Fix::words(format!(
            "Symfony writes {}/config/preload.php; for another framework such a list is to be written. Name it in opcache.preload, \
             with opcache.preload_user = {}, and compare: `kneepoint tune`.",
            app.root,
            user.unwrap_or("the user of the pool"),
        ));
        RULE.at(snapshot, app.service, Severity::Note)
            .app(app)
            .value("opcache.preload", &preload)
            .seen(format!("the application has {} files of PHP", app.php_files), app.root.clone())
            .cost("the joining of classes in each request: some per cent of PHP's CPU time with a large framework, not measured here")
            .fix(fix)
            .weight(0.03)
            .tell(found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sick_and_healthy() {
        let large = Case::healthy().with(|all| all.apps[0].php_files = 9000);
        verify(
            &RULE,
            &[
                (large.clone(), Severity::Note, "9000 files"),
                (large, Severity::Note, "/srv/app/config/preload.php"),
            ],
        );
        let older = Case::healthy().with(|all| {
            all.apps[0].php_files = 9000;
            all.services[1].version = "7.3.1".into();
        });
        assert!(super::super::tests_of(&RULE, &older).is_empty());
    }
}
