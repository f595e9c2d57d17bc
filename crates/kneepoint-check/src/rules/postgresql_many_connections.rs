//! PG-12: many connections for few cores.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "PG-12",
    name: "postgresql-many-connections",
    title: "PostgreSQL may have far more processes than cores",
    what_it_is: "Each connection to PostgreSQL is a process. Those that are idle cost memory and a place in the list \
        that every snapshot reads; when hundreds run a query at once, they take turns on the cores and hold locks \
        meanwhile. A pooler lets a few connections serve all workers of PHP.",
    how_it_shows: "Queries get slower the more connections there are, at the same rate; many context switches.",
    unless: "Nearly all connections are idle, and never many at once are busy.",
    what_to_write: "PgBouncer with pool_mode = transaction and default_pool_size of two to four times the cores; \
        max_connections = 100.",
    check,
};

/// Processes a core, and in all, from which on a pooler is worth it \[ours\].
const EACH_CORE: f64 = 50.0;
const LEAST: f64 = 300.0;

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    for (at, service) in snapshot.of(ServiceKind::Postgresql) {
        let value = service.settings.or("max_connections", "100");
        let cores = service.cores(&snapshot.machine);
        let Some(most) = value
            .number()
            .filter(|most| *most >= LEAST && *most > cores * EACH_CORE)
        else {
            continue;
        };
        let place = Around::service(snapshot, at, service);
        RULE.at(snapshot, at, Severity::Note)
            .value("max_connections", &value)
            .cost(format!("{most:.0} processes for {cores:.0} cores, asked by {}", place.who()))
            .fix(Fix::line(service, &value, "max_connections = 100").after(&format!(
                "First put PgBouncer between (pool_mode = transaction, default_pool_size = {:.0}).",
                cores * 4.0
            )))
            .weight(0.04)
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
                Case::healthy().set(4, "max_connections", "2000"),
                Severity::Note,
                "for 4 cores",
            )],
        );
    }
}
