//! MYS-05: the database's cache is smaller than its data.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "MYS-05",
    name: "mysql-buffer-pool-small",
    title: "MariaDB's cache is smaller than its data",
    what_it_is: "InnoDB keeps what it reads in innodb_buffer_pool_size, 128 MB as it comes. What does not fit is read from \
        disk again and again.",
    how_it_shows: "Innodb_buffer_pool_reads counts up while the site runs, and the disk is busy with reads.",
    unless: "Only a small part of the data is ever asked for.",
    what_to_write: "innodb_buffer_pool_size = the size of the data, or 50 to 70 % of the memory of a host of its own.",
    check,
};

/// What MariaDB comes with, in bytes: nobody is told to have less.
const USUAL: f64 = 128.0 * 1_048_576.0;
/// So much larger must data be than the cache.
const TIMES: f64 = 2.0;
/// Part of the memory that is proposed, since others may share the host \[ours\].
const OF_MEMORY: f64 = 0.5;
/// So much larger must what is proposed be than what there is \[ours\].
const MORE: f64 = 1.25;

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    for (at, service) in snapshot.of(ServiceKind::Mysql) {
        let value = service.settings.or("innodb_buffer_pool_size", "128M");
        let (Some(size), Some(data)) = (value.size(), service.data_bytes) else {
            continue;
        };
        if data < size * TIMES || is_chosen(service, &value) {
            continue;
        }
        let room = service.memory_bytes(&snapshot.machine);
        let right = data.max(USUAL).min(room * OF_MEMORY);
        // It has what there is for it.
        if right < size * MORE {
            continue;
        }
        RULE.at(snapshot, at, Severity::Risk)
            .value("innodb_buffer_pool_size", &value)
            .seen(
                format!("its data directory holds {}", format_bytes(data as u64)),
                "",
            )
            .seen(
                format!("{} of memory may be used", format_bytes(room as u64)),
                "",
            )
            .cost("reads from disk for what does not fit")
            .fix(Fix::line(
                service,
                &value,
                &format!(
                    "innodb_buffer_pool_size = {}M",
                    (right / 1_048_576.0).round()
                ),
            ))
            .weight(0.25)
            .tell(found);
    }
}

/// Whether MySQL chooses a size by the memory that it finds, since it has the host for itself: what nobody set then has
/// another default (<https://dev.mysql.com/doc/refman/8.0/en/innodb-dedicated-server.html>).
pub(super) fn is_chosen(service: &Service, size: &SettingValue) -> bool {
    let dedicated = service.settings.get("innodb_dedicated_server");
    size.is_default() && dedicated.and_then(SettingValue::is_on) == Some(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sick_and_healthy() {
        let data = |snapshot: &mut Snapshot| snapshot.services[3].data_bytes = Some(5e9);
        verify(
            &RULE,
            &[(
                Case::healthy()
                    .set(3, "innodb_buffer_pool_size", "128M")
                    .with(data),
                Severity::Risk,
                "4.7",
            )],
        );
        let little = Case::healthy()
            .set(3, "innodb_buffer_pool_size", "8M")
            .with(|snapshot| snapshot.services[3].data_bytes = Some(3e7));
        let found = super::super::tests_of(&RULE, &little);
        assert!(
            found[0]
                .fix
                .text
                .ends_with("innodb_buffer_pool_size = 128M"),
            "{found:?}"
        );
        let silent = |case: Case| assert!(super::super::tests_of(&RULE, &case).is_empty());
        let large = |snapshot: &mut Snapshot| snapshot.services[3].data_bytes = Some(1e11);
        // More than half of the memory, and no more to be had.
        silent(
            Case::healthy()
                .set(3, "innodb_buffer_pool_size", "9G")
                .with(large),
        );
        silent(
            Case::healthy()
                .set(3, "innodb_buffer_pool_size", "7G")
                .with(large),
        );
        let dedicated = Case::healthy()
            .with(|snapshot| snapshot.services[3].settings = Settings::default())
            .set(3, "innodb_dedicated_server", "1")
            .with(large);
        silent(dedicated.clone());
        // What is set all the same holds.
        let set = dedicated.set(3, "innodb_buffer_pool_size", "128M");
        assert_eq!(super::super::tests_of(&RULE, &set).len(), 1);
    }
}
