//! FPM-22: the sum of all pools is capped.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "FPM-22",
    name: "process-max-too-small",
    title: "process.max stops pools from reaching their size",
    what_it_is: "process.max is the most workers of all pools together. Where the sizes of the pools add up to more, a pool \
        below its size cannot grow while the others have the rest.",
    how_it_shows: "`the maximum number of processes has been reached` in PHP-FPM's log while a pool is below its size.",
    unless: "The pools are never full at the same time.",
    what_to_write: "process.max = 0: then the sizes of the pools are the limit.",
    check,
};

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    for (at, service) in snapshot.of(ServiceKind::Fpm) {
        let Some(value) = service.settings.get("process.max") else {
            continue;
        };
        let Some(most) = value.number().filter(|most| *most > 0.0) else {
            continue;
        };
        let sum: u64 = service.pools.iter().filter_map(FpmPool::max_children).sum();
        if sum as f64 <= most {
            continue;
        }
        RULE.at(snapshot, at, Severity::Risk)
            .value("process.max", value)
            .seen(
                format!(
                    "{} may have {} in all",
                    counted(service.pools.len() as u64, "pool"),
                    counted(sum, "worker")
                ),
                "",
            )
            .cost("requests wait although their pool is not full")
            // The sum would be wrong again as soon as a pool is made larger.
            .fix(Fix::global(service, &[("process.max", "0".into())]))
            .weight(0.2)
            .tell(found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sick_and_healthy() {
        let case = Case::healthy().pool_with(
            "[b]\npm = static\npm.max_children = 50\n[global]\nprocess.max = 60",
            "",
        );
        verify(&RULE, &[(case, Severity::Risk, "70 workers")]);
    }
}
