//! OPC-01: PHP compiles every file for every request.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "OPC-01",
    name: "opcache-off",
    title: "OPcache is off: PHP compiles every file for every request",
    what_it_is: "PHP reads a script, compiles it and runs it. OPcache keeps what was compiled in memory that all workers \
        share. Without it every request compiles every file it includes, hundreds for a framework: two to five times the \
        CPU (field reports: 33 against 119 requests a second, 880 against 70 files opened a request).",
    how_it_shows: "PHP uses most of the CPU at a low rate, and opens hundreds of files in each request.",
    unless: "PHP runs one or two small files a request, or nobody asks for it.",
    what_to_write: "opcache.enable = 1, and zend_extension = opcache before PHP 8.5.",
    check,
};

/// The part of PHP's CPU that compiling takes: 33 against 119 requests a second is 72 %.
const SHARE: f64 = 0.65;

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    for (at, service) in snapshot.of(ServiceKind::Fpm) {
        let Some(php) = &service.php else { continue };
        let built_in = service.is_older_than(&[8, 5]) == Some(false);
        let loaded = built_in || php.loaded.contains_key("opcache");
        let directives = php
            .ini
            .iter()
            .filter(|(name, _)| name.starts_with("opcache."))
            .count();
        if php.maps_seen && !loaded && directives > 0 {
            // OPC-02 tells more.
            continue;
        }
        let off = service.pools.iter().find_map(|pool| {
            let value = pool
                .php
                .get("opcache.enable")
                .or_else(|| php.ini.get("opcache.enable"))?;
            (value.is_on() == Some(false)).then_some((pool, value))
        });
        let file_cache_only = php
            .ini
            .get("opcache.file_cache_only")
            .and_then(SettingValue::is_on)
            == Some(true);
        let mut draft = RULE.at(snapshot, at, Severity::Problem).weight(SHARE);
        let mut lines = vec![("opcache.enable", "1".to_owned())];
        match off {
            Some((pool, value)) => draft = draft.pool(pool).value("opcache.enable", value),
            None if php.maps_seen && !loaded => {
                let source = format!("/proc/{}/maps", service.pid);
                draft = draft.seen("the extension opcache is not mapped into memory", source);
                lines.insert(0, ("zend_extension", "opcache".to_owned()));
            }
            // Switched off when PHP was started, it cannot be switched on by a pool.
            None if php.maps_seen && php.opcache_bytes.is_none() && !file_cache_only => {
                let source = format!("/proc/{}/maps", service.pid);
                draft = draft.seen(
                    "no memory of 8 MB or more is shared among the workers",
                    source,
                );
            }
            None => continue,
        }
        let used = service
            .cpu_words()
            .map_or_else(String::new, |words| format!("; {words}"));
        draft
            .cost(format!("about two thirds of PHP's CPU time where a framework runs (33 against 119 requests a second){used}"))
            .fix(Fix::ini(service, &lines))
            .tell(found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sick_and_healthy() {
        let unshared = |snapshot: &mut Snapshot| {
            snapshot.services[1]
                .php
                .as_mut()
                .expect("PHP")
                .opcache_bytes = None;
        };
        let unloaded = |snapshot: &mut Snapshot| {
            let php = snapshot.services[1].php.as_mut().expect("PHP");
            php.loaded.clear();
            php.ini = Settings::default();
        };
        verify(
            &RULE,
            &[
                (
                    Case::healthy().pool_with("", "opcache.enable=0"),
                    Severity::Problem,
                    "/etc/php/conf.d/a.ini:9",
                ),
                (
                    Case::healthy().pool_with("php_admin_value[opcache.enable] = 0", ""),
                    Severity::Problem,
                    "php-fpm.conf:16",
                ),
                (
                    Case::healthy().with(unshared),
                    Severity::Problem,
                    "is shared among",
                ),
                (
                    Case::healthy().with(unloaded),
                    Severity::Problem,
                    "zend_extension",
                ),
            ],
        );
    }
}
