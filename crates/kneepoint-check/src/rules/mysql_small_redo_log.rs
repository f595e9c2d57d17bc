//! MYS-18: the redo log is small.

use super::mysql_buffer_pool_small::is_chosen;
use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "MYS-18",
    name: "mysql-small-redo-log",
    title: "MariaDB's log of changes is small for its cache",
    what_it_is: "InnoDB writes each change into a log of fixed size (innodb_log_file_size, in MySQL 8 \
        innodb_redo_log_capacity) and writes the changed pages themselves later. When the log is full, it must write \
        pages at once, and all writes wait. A small log before a large cache makes that happen all the time.",
    how_it_shows: "Writes pause in waves; Innodb_buffer_pool_wait_free or the age of the checkpoint near the size of \
        the log.",
    unless: "The site hardly writes.",
    what_to_write: "innodb_log_file_size = 512M; a crash then takes longer to recover from, some minutes at most.",
    check,
};

/// A log smaller than this part of the cache is full before the cache is \[ours\].
const PART: f64 = 1.0 / 64.0;

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    for (at, service) in snapshot.of(ServiceKind::Mysql) {
        let pool = service.settings.or("innodb_buffer_pool_size", "128M");
        let Some((log, cache)) = log_of(service).zip(pool.size()) else {
            continue;
        };
        if is_chosen(service, &pool) || is_chosen(service, &log.value) {
            continue;
        }
        if log.bytes >= cache * PART {
            continue;
        }
        // Of a large cache the usual sizes may be less than what there is.
        let gib = cache * PART / log.files / 1_073_741_824.0;
        let right = match log.name {
            FILE if gib <= 0.5 => format!("{FILE} = 512M"),
            name => format!("{name} = {:.0}G", gib.ceil().max(1.0)),
        };
        RULE.at(snapshot, at, Severity::Risk)
            .value(log.name, &log.value)
            .value("innodb_buffer_pool_size", &pool)
            .cost(format!(
                "all writes wait each time {} of changes have come, before a cache of {}",
                format_bytes(log.bytes as u64),
                format_bytes(cache as u64)
            ))
            .fix(Fix::line(service, &log.value, &right))
            .weight(0.1)
            .tell(found);
    }
}

/// The log of changes, and the setting that decides how large it is.
struct RedoLog {
    name: &'static str,
    value: SettingValue,
    bytes: f64,
    /// Files of the size that is set.
    files: f64,
}

const CAPACITY: &str = "innodb_redo_log_capacity";
const FILE: &str = "innodb_log_file_size";

/// The log as it is set. From 8.0.30 on MySQL has one for all of it, which the older ones give
/// way to (<https://dev.mysql.com/doc/refman/8.0/en/innodb-redo-log.html>). The default of the older ones differs by version: where
/// they are not set, nothing is said.
fn log_of(service: &Service) -> Option<RedoLog> {
    let settings = &service.settings;
    let file = settings.get(FILE);
    if service.is_mysql_since(&[8, 0, 30])
        && !settings.is_empty()
        && (file.is_none() || settings.get(CAPACITY).is_some())
    {
        let value = settings.or(CAPACITY, "100M");
        return Some(RedoLog {
            name: CAPACITY,
            bytes: value.size()?,
            value,
            files: 1.0,
        });
    }
    let file = file?;
    // MySQL comes with two files, MariaDB with one since 10.5.
    let usual = match service.is_mysql_since(&[5]) {
        true => "2",
        false => "1",
    };
    let files = settings.or("innodb_log_files_in_group", usual).number()?;
    let files = files.max(1.0);
    Some(RedoLog {
        name: FILE,
        bytes: file.size()? * files,
        value: file.clone(),
        files,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sick_and_healthy() {
        verify(
            &RULE,
            &[(
                Case::healthy().set(3, "innodb_log_file_size", "5M"),
                Severity::Risk,
                "5.0 MiB",
            )],
        );
        let newer = |lines: &[(&str, &str)]| {
            let large = Case::healthy().set(3, "innodb_buffer_pool_size", "16G");
            let case = lines
                .iter()
                .fold(large, |case, (name, value)| case.set(3, name, value))
                .with(|all| all.services[3].version = "8.0.36".into());
            super::super::tests_of(&RULE, &case)
        };
        let old = (FILE, "48M");
        assert!(newer(&[old, (CAPACITY, "8G")]).is_empty());
        assert!(newer(&[(FILE, "1G")]).is_empty());
        let dedicated = ("innodb_dedicated_server", "ON");
        assert!(newer(&[dedicated]).is_empty());
        assert_eq!(newer(&[dedicated, (CAPACITY, "100M")]).len(), 1);
        let found = newer(&[]);
        let fix = found[0].fix.in_one_line();
        assert!(fix.contains("innodb_redo_log_capacity = 1G"), "{fix}");
    }

    #[test]
    fn a_large_log_is_never_made_smaller() {
        let fix = |version: &str, name: &str, value: &str| {
            let case = Case::healthy()
                .set(3, "innodb_buffer_pool_size", "180G")
                .set(3, name, value)
                .with(|all| all.services[3].version = version.into());
            super::super::tests_of(&RULE, &case)[0].fix.in_one_line()
        };
        // A 64th of the cache is 2.8 GiB.
        for (version, name, value, right) in [
            ("10.11.6", FILE, "2G", "innodb_log_file_size = 3G"),
            ("8.0.20", FILE, "1G", "innodb_log_file_size = 2G"),
            ("8.0.36", CAPACITY, "2G", "innodb_redo_log_capacity = 3G"),
        ] {
            let fix = fix(version, name, value);
            assert!(fix.contains(right), "{fix}");
        }
    }
}
