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
        let bytes = bare.or_else(|| value.bytes())?;
        let most = around.settings.or("max_connections", "100").number()?;
        let at_once = most.min(around.workers() as f64);
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
    better: |_| "work_mem = 16MB".into(),
    weight: 0.15,
};

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
    }
}
