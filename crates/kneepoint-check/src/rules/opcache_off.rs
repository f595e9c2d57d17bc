//! OPC-01: PHP compiles every file for every request.

use crate::rule::Draft;
use crate::rule::prelude::*;
use crate::snapshot::PhpService;

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

/// The switch.
const ENABLE: &str = "opcache.enable";
/// The part of PHP's CPU that compiling takes: 33 against 119 requests a second is 72 %.
const SHARE: f64 = 0.65;

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    for (at, service) in snapshot.of(ServiceKind::Fpm) {
        let Some(php) = &service.php else { continue };
        let built_in = service.is_older_than(&[8, 5]) == Some(false);
        let loaded = built_in || php.has_opcache();
        let directives = php
            .ini
            .iter()
            .filter(|(name, _)| name.starts_with("opcache."))
            .count();
        if php.maps_seen && !loaded && directives > 0 {
            // OPC-02 tells more.
            continue;
        }
        let off = Off::of(service, php);
        let file_cache_only = php
            .ini
            .get("opcache.file_cache_only")
            .and_then(SettingValue::is_on)
            == Some(true);
        let mut draft = RULE.at(snapshot, at, Severity::Problem).weight(SHARE);
        let mut lines = vec![(ENABLE, "1".to_owned())];
        let mut fix = None;
        match off {
            Some(off) => {
                draft = off.told(draft, &service.name());
                fix = Some(off.fix(service));
            }
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
            .fix(fix.unwrap_or_else(|| Fix::ini(service, &lines)))
            .tell(found);
    }
}

/// Where OPcache is switched off.
struct Off<'a> {
    /// The pools without it, and the line of each that switches it off.
    pools: Vec<(&'a FpmPool, Option<SettingValue>)>,
    /// Those that switch it on, in vain.
    vain: Vec<(&'a FpmPool, SettingValue)>,
    /// The setting for all of them, where that is off: it is decided when PHP-FPM starts.
    of_all: Option<&'a SettingValue>,
}

impl<'a> Off<'a> {
    fn of(service: &'a Service, php: &'a PhpService) -> Option<Self> {
        let is_off = |value: &SettingValue| value.is_on() == Some(false);
        let of_all = php.ini.get(ENABLE).filter(|value| is_off(value));
        let all = service.pools.iter();
        let all = all.map(|pool| (pool, pool.own_line(ENABLE)));
        let is_on = |value: &SettingValue| value.is_on() == Some(true);
        let vain = all
            .clone()
            .filter_map(|(pool, line)| Some((pool, line.filter(is_on)?)));
        let pools = all
            .clone()
            .map(|(pool, line)| (pool, line.filter(is_off)))
            .filter(|(pool, line)| {
                of_all.is_some() || line.is_some() || pool.php.get(ENABLE).is_some_and(is_off)
            });
        let off = Self {
            pools: pools.collect(),
            vain: of_all.map_or_else(Vec::new, |_| vain.collect()),
            of_all,
        };
        (!off.pools.is_empty()).then_some(off)
    }

    /// The first of them, and all others with it.
    fn told(&self, draft: Draft, name: &str) -> Draft {
        let (first, line) = &self.pools[0];
        let value = line
            .as_ref()
            .or(self.of_all)
            .or_else(|| first.php.get(ENABLE));
        let others = self.pools.iter().skip(1).map(|(pool, line)| {
            let line = line.as_ref().map(|line| format!(" ({})", line.source));
            format!("pool {} of {name}{}", pool.name, line.unwrap_or_default())
        });
        let mut draft = draft.pool(first).also(others);
        if let Some(value) = value {
            draft = draft.value(ENABLE, value);
        }
        if let Some((pool, value)) = self.vain.first() {
            draft = draft.seen(
                format!(
                    "pool {} switches it on in vain: only php.ini can, when PHP-FPM starts",
                    pool.name
                ),
                value.source.to_string(),
            );
        }
        draft
    }

    fn fix(&self, service: &Service) -> Fix {
        let lines = self.pools.iter().filter_map(|(_, line)| line.as_ref());
        let mut places: Vec<String> = lines.clone().map(|line| line.source.to_string()).collect();
        places.dedup();
        let removed = format!(
            "Remove the line {}: a pool can switch OPcache off, and never on.",
            places.join(" and ")
        );
        match (self.of_all, lines.clone().next()) {
            (None, Some(_)) => Fix::reload(service, removed),
            (Some(_), Some(_)) => self.of_ini(service).after(&removed),
            (_, None) => self.of_ini(service),
        }
    }

    fn of_ini(&self, service: &Service) -> Fix {
        let lines = [(ENABLE, "1".to_owned())];
        match self.of_all {
            Some(_) => Fix::ini(service, &lines),
            None => Fix::php(service, self.pools[0].0, &lines),
        }
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

    #[test]
    fn what_has_numbers_is_loaded() {
        let case = Case::healthy().opcache(|_| {}).with(|all| {
            let php = all.services[1].php.as_mut().expect("PHP");
            php.loaded.clear();
            php.ini = Settings::default();
        });
        assert!(super::super::tests_of(&RULE, &case).is_empty());
    }

    #[test]
    fn every_pool_without_it_is_told() {
        let told = |pools: &str, ini: &str| {
            let case = Case::healthy().pool_with(pools, ini);
            super::super::tests_of(&RULE, &case).remove(0)
        };
        // Each by a line of its own.
        let one = told(
            "php_admin_flag[opcache.enable] = off\n[b]\n[c]\nphp_flag[opcache.enable] = 0",
            "",
        );
        assert_eq!(
            one.also,
            ["pool c of php-fpm (process 13) (/etc/php/php-fpm.conf:19)"]
        );
        assert_eq!(
            one.fix.in_one_line(),
            "Remove the line /etc/php/php-fpm.conf:16 and /etc/php/php-fpm.conf:19: a pool can switch OPcache off, and never on."
        );
        // All of them by php.ini, whatever a pool says.
        let all = told(
            "[b]\nphp_admin_value[opcache.enable] = 1",
            "opcache.enable=0",
        );
        assert_eq!(all.also, ["pool b of php-fpm (process 13)"]);
        let said = format!("{:?}", all.seen);
        assert!(said.contains("pool b switches it on in vain"), "{said}");
        assert!(all.fix.file.is_some(), "{:?}", all.fix);
    }
}
