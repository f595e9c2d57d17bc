//! PG-08: random_page_cost is that of a spinning disk.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "PG-08",
    name: "postgresql-random-reads-dear",
    title: "PostgreSQL plans for a spinning disk",
    what_it_is: "random_page_cost tells the planner how much dearer a page at a random place is than the next page of the \
        file: 4 as it comes, which is right for a spinning disk. On an SSD, or where the data fits memory, it is nearly 1. \
        With 4 the planner reads whole tables where an index would do.",
    how_it_shows: "EXPLAIN shows Seq Scan on a table with a fitting index; with SET random_page_cost = 1.1 it takes \
        the index and is faster.",
    unless: "The data lies on spinning disks and is much larger than memory.",
    what_to_write: "random_page_cost = 1.1",
    check,
};

const RANDOM: Directive = Directive {
    home: Home::Program(ServiceKind::Postgresql),
    name: "random_page_cost",
    usual: "4",
    beside: &[],
    severity: Severity::Note,
    costs: |value, around| {
        /// A smaller database has no plan worth changing, in bytes \[ours\].
        const LEAST: f64 = 256.0 * 1_048_576.0;
        let dear = value.number().filter(|cost| *cost >= 4.0)?;
        let data = around.service.data_bytes.filter(|bytes| *bytes >= LEAST)?;
        (data < around.memory_bytes() * 0.5).then(|| {
            format!(
                "whole tables read where an index would do, at {dear} for data that fits memory ({} of {})",
                format_bytes(data as u64),
                format_bytes(around.memory_bytes() as u64)
            )
        })
    },
    better: |_| "random_page_cost = 1.1".into(),
    weight: 0.03,
};

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    RANDOM.check(&RULE, snapshot, found);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sick_and_healthy() {
        verify(
            &RULE,
            &[(
                Case::healthy().with(|all| all.services[4].data_bytes = Some(1e9)),
                Severity::Note,
                "fits memory",
            )],
        );
    }
}
