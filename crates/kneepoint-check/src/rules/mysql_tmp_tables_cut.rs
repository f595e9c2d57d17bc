//! MYS-13: the smaller of two limits holds.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "MYS-13",
    name: "mysql-tmp-tables-cut",
    title: "Temporary tables go to disk earlier than tmp_table_size says",
    what_it_is: "A query that sorts or groups much makes a temporary table, in memory up to tmp_table_size, then on disk. \
        max_heap_table_size, 16 MB as it comes, limits the same. The smaller of the two counts, so raising one of them alone \
        does nothing.",
    how_it_shows: "Created_tmp_disk_tables grows although tmp_table_size was raised.",
    unless: "Queries that need such tables are rare: Created_tmp_disk_tables stands still.",
    what_to_write: "tmp_table_size and max_heap_table_size with the same value, such as 64M.",
    check,
};

const SIZE: Directive = Directive {
    home: Home::Program(ServiceKind::Mysql),
    name: "tmp_table_size",
    usual: "16M",
    beside: &[("max_heap_table_size", "16M")],
    severity: Severity::Note,
    costs: |value, around| {
        // MySQL 8 makes them with another engine, which max_heap_table_size does not limit
        // (<https://dev.mysql.com/doc/refman/8.0/en/internal-temporary-tables.html>).
        let engine = around.settings.text("internal_tmp_mem_storage_engine");
        let is_memory = engine.is_some_and(|engine| engine.eq_ignore_ascii_case("memory"));
        if around.service.is_mysql_since(&[8]) && !is_memory {
            return None;
        }
        let heap = around.settings.or("max_heap_table_size", "16M");
        let (asked, most) = (value.size()?, heap.size()?);
        (asked > most).then(|| {
            format!(
                "temporary tables above {} go to disk, not above {}",
                format_bytes(most as u64),
                format_bytes(asked as u64)
            )
        })
    },
    better: |around| {
        format!(
            "max_heap_table_size = {}",
            around.settings.or("tmp_table_size", "16M").text
        )
    },
    weight: 0.03,
};

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    SIZE.check(&RULE, snapshot, found);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sick_and_healthy() {
        verify(
            &RULE,
            &[(
                Case::healthy().set(3, "tmp_table_size", "256M"),
                Severity::Note,
                "above 16.0 MiB",
            )],
        );
        let newer = |engine: &str| {
            let case = Case::healthy()
                .set(3, "tmp_table_size", "256M")
                .set(3, "internal_tmp_mem_storage_engine", engine)
                .with(|all| all.services[3].version = "8.0.36".into());
            super::super::tests_of(&RULE, &case).len()
        };
        assert_eq!((newer("TempTable"), newer("MEMORY")), (0, 1));
    }
}
