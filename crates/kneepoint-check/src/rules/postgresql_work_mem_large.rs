//! PG-07: work_mem times connections exceeds the memory.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "PG-07",
    name: "postgresql-work-mem-large",
    title: "Queries of PostgreSQL may take more memory than there is",
    what_it_is: "work_mem is how much each sort and each hash of a query may take before it goes to disk; one query \
        may have several. It is not for the server but for each of them: as many times as workers of PHP ask at \
        once.",
    how_it_shows: "The kernel kills a process of PostgreSQL at the peak, and with it all connections are ended.",
    unless: "Few queries sort or join much at the same time.",
    what_to_write: "work_mem = 16MB, and more by SET LOCAL for the one report that needs it.",
    check,
};

const WORK: Directive = Directive {
    home: Home::Program(ServiceKind::Postgresql),
    name: "work_mem",
    usual: "4MB",
    beside: &[("max_connections", "100")],
    severity: Severity::Risk,
    costs: |value, around| {
        /// A bare number counts kilobytes.
        const UNIT: f64 = 1024.0;
        let bare = value
            .text
            .trim()
            .parse::<f64>()
            .ok()
            .map(|count| count * UNIT);
        let bytes = bare
            .or_else(|| value.bytes())
            .filter(|bytes| *bytes > USUAL)?;
        let at_once = at_once(around)?;
        let (sum, all) = (bytes * at_once, around.memory_bytes());
        (all > 0.0 && sum > all / 2.0).then(|| {
            format!(
                "{} for one sort each of {at_once:.0} connections, of {} ({})",
                format_bytes(sum as u64),
                format_bytes(all as u64),
                around.memory_source()
            )
        })
    },
    better: |around| {
        let right = around.memory_bytes() / 4.0 / at_once(around).unwrap_or(1.0).max(1.0);
        let megabytes = (right.clamp(USUAL, MOST) / 1_048_576.0).floor();
        format!("work_mem = {megabytes:.0}MB")
    },
    weight: 0.15,
};

/// What PostgreSQL comes with, in bytes: nobody is told to have less.
const USUAL: f64 = 4.0 * 1_048_576.0;
/// Enough for the sorts of pages, in bytes \[ours\].
const MOST: f64 = 16.0 * 1_048_576.0;

/// Connections that may sort at once.
fn at_once(around: &Around<'_>) -> Option<f64> {
    let most = around.settings.or("max_connections", "100").number()?;
    Some(most.min(around.workers() as f64))
}

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    WORK.check(&RULE, snapshot, found);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sick_and_healthy() {
        verify(
            &RULE,
            &[(
                Case::healthy().set(4, "work_mem", "1GB"),
                Severity::Risk,
                "20.0 GiB",
            )],
        );
        let small = |value: &str| {
            let case = Case::healthy()
                .set(4, "work_mem", value)
                .with(|all| all.machine.memory_bytes = 1e8);
            super::super::tests_of(&RULE, &case)
        };
        assert!(small("4MB").is_empty(), "what it comes with");
        let found = small("8MB");
        let fix = found[0].fix.in_one_line();
        assert!(fix.contains("work_mem = 4MB"), "{fix}");
    }
}
