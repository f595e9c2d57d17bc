//! SES-07: sessions that nobody clears away.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "SES-07",
    name: "sessions-never-cleared",
    title: "Nothing ever clears old sessions away",
    what_it_is: "Debian and Ubuntu set session.gc_probability = 0: a timer of theirs clears the directory that php.ini \
        names. Where a pool or an application keeps its sessions in another directory, nobody clears that one: files pile up \
        until opening one takes long, or the disk has no inodes left.",
    how_it_shows: "Hundreds of thousands of files `sess_...` in one directory, the oldest from years ago; `No space \
        left on device` although the disk has space.",
    unless: "A timer of its own clears that directory.",
    what_to_write: "session.gc_probability = 1 and session.gc_divisor = 1000 in that pool, or a timer: find DIR \
        -name 'sess_*' -mmin +1440 -delete",
    check,
};

/// The directory that the timer of Debian and Ubuntu clears.
const CLEARED: &str = "/var/lib/php/sessions";

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    for (at, service, pool) in snapshot.pools() {
        let handler = pool.php.or("session.save_handler", "files");
        let Some(path) = pool
            .php
            .get("session.save_path")
            .filter(|_| handler.text == "files")
        else {
            continue;
        };
        let Some(never) = pool
            .php
            .get("session.gc_probability")
            .filter(|value| value.number() == Some(0.0))
        else {
            continue;
        };
        // What is written in php.ini is where the timer looks; what a pool says it does not know.
        let of_all = service
            .php
            .as_ref()
            .and_then(|php| php.ini.text("session.save_path"));
        if path.text.trim_end_matches('/') == CLEARED
            || of_all == Some(path.text.as_str())
            || path.text.is_empty()
        {
            continue;
        }
        RULE.at(snapshot, at, Severity::Risk)
            .pool(pool)
            .value("session.save_path", path)
            .value("session.gc_probability", never)
            .cost("a file for each visitor, for ever: opening one gets slow, and at last no inode is left")
            .fix(Fix::pool(service, pool, &[("php_value[session.gc_probability]", "1".into()), ("php_value[session.gc_divisor]", "1000".into())]))
            .weight(0.08)
            .tell(found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sick_and_healthy() {
        verify(
            &RULE,
            &[(
                Case::healthy().pool_with(
                    "php_value[session.save_path] = /srv/app/sessions",
                    "session.gc_probability=0",
                ),
                Severity::Risk,
                "/srv/app/sessions",
            )],
        );
    }
}
