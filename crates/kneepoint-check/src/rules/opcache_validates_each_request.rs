//! OPC-06: every file is looked at again for every request.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "OPC-06",
    name: "opcache-validates-each-request",
    title: "OPcache looks at every file again for every request",
    what_it_is: "With opcache.validate_timestamps PHP asks the kernel for the time of each file it includes, at most every \
        opcache.revalidate_freq seconds; 0 is every request. In the lab a page with 401 files took 0.99 instead of 0.22 ms.",
    how_it_shows: "One stat call for each included file in each request.",
    unless: "Files change on the running host and must show at once, as on a developer's machine.",
    what_to_write: "opcache.validate_timestamps = 0 and a reload at each deployment; else opcache.revalidate_freq = 60.",
    check,
};

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    for (at, service) in snapshot.with_opcache() {
        // What a pool has is what runs; php.ini tells where no pool is seen.
        let ini = service.php.iter().map(|php| (None, &php.ini));
        let ini = ini.filter(|_| service.pools.is_empty());
        let pools = service.pools.iter().map(|pool| (Some(pool), &pool.php));
        let found_in = ini.chain(pools).find_map(|(pool, settings)| {
            let validates = settings.or("opcache.validate_timestamps", "1");
            let every = settings.or("opcache.revalidate_freq", "2");
            let each = validates.is_on() != Some(false) && every.number() == Some(0.0);
            (each && !settings.switches_opcache_off()).then_some((pool, validates, every))
        });
        let Some((pool, validates, every)) = found_in else {
            continue;
        };
        let directives = [("opcache.validate_timestamps", "0".into())];
        let mut fix = match pool {
            Some(pool) => Fix::php(service, pool, &directives),
            None => Fix::ini(service, &directives),
        };
        fix.text = format!(
            "Only where each deployment reloads PHP-FPM: until then PHP serves the old code. (Where none does, write \
             opcache.revalidate_freq = 60 instead.) {}",
            fix.text
        );
        RULE.at(snapshot, at, Severity::Risk)
            .value("opcache.revalidate_freq", &every)
            .value("opcache.validate_timestamps", &validates)
            .cost("a system call a file and request: up to three quarters of the time of a page that does little else")
            .fix(fix)
            .weight(0.3)
            .tell(found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sick_and_healthy() {
        let ini = "opcache.validate_timestamps=1\nopcache.revalidate_freq=0";
        let case = || Case::healthy().pool_with("", ini);
        verify(
            &RULE,
            &[
                (case(), Severity::Risk, "a.ini:10"),
                (case(), Severity::Risk, "each deployment reloads PHP-FPM"),
            ],
        );
        // A cache that is off looks at nothing.
        let none = |pool: &str, more: &str| {
            let case = Case::healthy().pool_with(pool, &format!("{ini}\n{more}"));
            super::super::tests_of(&RULE, &case).is_empty()
        };
        assert!(none("", "opcache.enable=0"));
        assert!(none("php_admin_flag[opcache.enable] = off", ""));
        assert!(!none("[b]\nphp_admin_flag[opcache.enable] = off", ""));
    }
}
