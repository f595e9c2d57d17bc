//! OPC-13: files that OPcache is told to leave out.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "OPC-13",
    name: "opcache-leaves-files-out",
    title: "OPcache is told to leave files out",
    what_it_is: "opcache.max_file_size and opcache.blacklist_filename keep files out of OPcache. What is left out is \
        read and compiled anew in every request, for ever; nothing counts it as a miss that could be mended.",
    how_it_shows: "Pages that include such a file are slow at any load; opcache_get_status() counts blacklist misses.",
    unless: "The files left out are run by nobody but a cron job.",
    what_to_write: "opcache.max_file_size = 0, and no opcache.blacklist_filename; leave out single files that break, \
        not directories.",
    check,
};

const LARGE: Directive = Directive {
    home: Home::Ini,
    name: "opcache.max_file_size",
    usual: "0",
    beside: &[],
    severity: Severity::Risk,
    costs: |value, _| {
        let most = value.size().filter(|bytes| *bytes > 0.0)?;
        Some(format!(
            "files above {} are compiled in every request (a page of which half is not cached took 31 times as long in the lab)",
            format_bytes(most as u64)
        ))
    },
    better: |_| "0".into(),
    weight: 0.25,
};

const LISTED: Directive = Directive {
    home: Home::Ini,
    name: "opcache.blacklist_filename",
    usual: "",
    beside: &[],
    severity: Severity::Risk,
    costs: |value, around| {
        let named = !value.text.trim().is_empty();
        named.then(|| {
            format!(
                "what it names is compiled anew in every request, by all {} (a page of which half is not cached took 31 times as long in the lab)",
                around.who()
            )
        })
    },
    better: |_| "\"\"".into(),
    weight: 0.2,
};

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    LARGE.check(&RULE, snapshot, found);
    LISTED.check(&RULE, snapshot, found);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sick_and_healthy() {
        verify(
            &RULE,
            &[
                (
                    Case::healthy().pool_with("", "opcache.max_file_size=100000"),
                    Severity::Risk,
                    "above 97.7 KiB",
                ),
                (
                    Case::healthy().pool_with("", "opcache.blacklist_filename=/etc/php/no.txt"),
                    Severity::Risk,
                    "all 20 workers",
                ),
            ],
        );
    }
}
