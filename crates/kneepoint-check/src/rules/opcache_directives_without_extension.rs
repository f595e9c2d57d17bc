//! OPC-02: directives of OPcache that nobody reads.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "OPC-02",
    name: "opcache-directives-without-extension",
    title: "opcache.* is set, and the extension is not loaded: nothing of it has an effect",
    what_it_is: "A directive in php.ini does nothing while the extension that knows it is not loaded, and PHP says \
        nothing. Container images come without OPcache, or with it and not loaded; a php.ini copied into them looks right \
        (docker-library/php#168 and #276; since June 2025 the official images load it, and PHP 8.5 has it built in).",
    how_it_shows: "`php -m` lists OPcache on the command line, and phpinfo() of the site does not.",
    unless: "PHP runs one or two small files a request, or nobody asks for it.",
    what_to_write: "zend_extension = opcache in the php.ini of PHP-FPM (docker-php-ext-enable opcache in the official image).",
    check,
};

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    for (at, service) in snapshot.of(ServiceKind::Fpm) {
        let Some(php) = &service.php else { continue };
        let built_in = service.is_older_than(&[8, 5]) == Some(false);
        let mut directives = php
            .ini
            .iter()
            .filter(|(name, _)| name.starts_with("opcache."));
        if built_in || !php.maps_seen || php.has_opcache() {
            continue;
        }
        let Some((name, value)) = directives.next() else {
            continue;
        };
        RULE.at(snapshot, at, Severity::Problem)
            .value(name, value)
            .seen("the extension opcache is not mapped into memory", format!("/proc/{}/maps", service.pid))
            .cost("about two thirds of PHP's CPU time where a framework runs: it compiles every file for every request")
            .fix(Fix::ini(service, &[("zend_extension", "opcache".into()), ("opcache.enable", "1".into())]))
            .weight(0.66)
            .tell(found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sick_and_healthy() {
        let unloaded = |snapshot: &mut Snapshot| {
            snapshot.services[1]
                .php
                .as_mut()
                .expect("PHP")
                .loaded
                .clear()
        };
        verify(
            &RULE,
            &[(
                Case::healthy().with(unloaded),
                Severity::Problem,
                "/etc/php/conf.d/a.ini:",
            )],
        );
        // Its library lies where nobody expects it, and its numbers or its directives are in memory.
        let silent = |case: Case| assert!(super::super::tests_of(&RULE, &case).is_empty());
        silent(Case::healthy().opcache(|_| {}).with(unloaded));
        silent(Case::healthy().with(unloaded).with(|all| {
            let php = all.services[1].php.as_mut().expect("PHP");
            let source = SettingSource::Memory { pid: 13 };
            php.ini.set("opcache.huge_code_pages", "0", source);
        }));
    }
}
