//! PG-05: workers of PHP wait in the queue of a pooler.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "PG-05",
    name: "pgbouncer-pool-queue",
    title: "PHP has more workers than PgBouncer has connections for them",
    what_it_is: "PgBouncer has at most default_pool_size connections (20) to PostgreSQL for each user of a database. \
        With pool_mode = session, the default, a worker of PHP holds one from its first query until it disconnects: to \
        the end of the page, also while PHP computes, and for ever where connections are persistent. A worker that gets \
        none waits in PgBouncer's queue, and after query_wait_timeout (120 s) its page ends with an error.",
    how_it_shows: "cl_waiting and maxwait are above 0 in `SHOW POOLS`; `query_wait_timeout` in PgBouncer's log; pages are slow \
        while PostgreSQL has little to do.",
    unless: "Few pages ask the database, or the workers use several users or databases: each has a pool of its own.",
    what_to_write: "pool_mode = transaction, where the application keeps nothing in its session; or default_pool_size = all \
        workers of PHP, and max_connections of PostgreSQL above that.",
    check,
};

/// A pool with fewer connections than there are workers, each of which holds one for whole pages.
struct Short {
    mode: SettingValue,
    /// How the setting of its size is called, and what it is.
    size: (&'static str, SettingValue),
    /// Connections, those in reserve included.
    most: f64,
    workers: u64,
}

impl Short {
    /// Of a PgBouncer whose workers surely share one pool: one database, whose users are all alike, for one application.
    fn of(snapshot: &Snapshot, at: usize, service: &Service) -> Option<Self> {
        let settings = &service.settings;
        let own = |name: &str| settings.get(&format!("database {name}"));
        let shares_port = settings.get("so_reuseport").and_then(SettingValue::is_on);
        let is_one = settings.text("databases") == Some("1") && knows_askers(snapshot, at);
        if !is_one || settings.get("users").is_some() || shares_port == Some(true) {
            return None;
        }
        let mode = own("pool_mode").cloned();
        let mode = mode.unwrap_or_else(|| settings.or("pool_mode", "session"));
        let size = match own("pool_size") {
            Some(own) => ("pool_size", own.clone()),
            None => ("default_pool_size", settings.or("default_pool_size", "20")),
        };
        let reserve = own("reserve_pool_size").or_else(|| own("reserve_pool"));
        let reserve = reserve.or_else(|| settings.get("reserve_pool_size"));
        let most = size.1.number()? + reserve.and_then(SettingValue::number).unwrap_or(0.0);
        let workers = snapshot.workers_behind(at)?;
        let is_short = mode.text == "session" && most > 0.0 && workers as f64 > most;
        (is_short && applications(snapshot, at) == 1).then_some(Self {
            mode,
            size,
            most,
            workers,
        })
    }

    fn asked(&self) -> String {
        format!("pools of PHP with {} workers in all ask it", self.workers)
    }

    fn cost(&self) -> String {
        format!(
            "once {:.0} workers are at a page the next one waits until one of these is done, however idle PostgreSQL is",
            self.most
        )
    }

    fn remedy(&self, service: &Service) -> Fix {
        let file = service.files.first();
        let file = file.map_or("its file", |file| file.path.as_str());
        let (name, workers) = (self.size.0, self.workers);
        Fix::words(format!(
            "Write pool_mode = transaction in {file}, where the application keeps nothing in its session (SET, advisory \
             locks, temporary tables), and set PDO::PGSQL_ATTR_DISABLE_PREPARES to true (no prepared statement then outlives \
             its query). Else write {name} = {workers}, and max_connections of PostgreSQL above that. Then have PgBouncer \
             read its file again."
        ))
    }
}

/// Whether it is known which pools ask a service.
fn knows_askers(snapshot: &Snapshot, at: usize) -> bool {
    let mut links = snapshot.links.iter().filter(|link| link.to == at);
    links.all(|link| !link.from_pools.is_empty() || snapshot.services[link.from].pools.len() < 2)
}

/// How many applications are known to ask a service.
fn applications(snapshot: &Snapshot, at: usize) -> usize {
    let links = snapshot.links.iter().filter(|link| link.to == at);
    let links: Vec<_> = links.collect();
    let asks = snapshot.apps.iter().filter(|app| {
        links.iter().any(|link| {
            let is_any = link.from_pools.is_empty() || app.pools.is_empty();
            let mut pools = link.from_pools.iter();
            link.from == app.service && (is_any || pools.any(|pool| app.pools.contains(pool)))
        })
    });
    asks.count()
}

const IN_VAIN: &str = "See what held the connections then: slow queries, transactions that stay open while PHP does \
    something else, a PostgreSQL that did not answer. Then, where default_pool_size is less than two to four times the \
    cores of PostgreSQL, raise it to that.";

fn in_vain(count: u64) -> String {
    let clients = counted(count, "client");
    format!("{clients} that waited for query_wait_timeout, and then had an error")
}

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    for (at, service) in snapshot.of(ServiceKind::Pgbouncer) {
        let hits = service.logged(LogKind::PoolerTimeout);
        let hits = hits.filter(|hits| is_recent(hits));
        let short = Short::of(snapshot, at, service);
        let logged = hits.map(|hits| graded(Severity::Problem, service, hits));
        let by_settings = short.as_ref().map(|_| Severity::Risk);
        let Some(severity) = logged.into_iter().chain(by_settings).min() else {
            continue;
        };
        let mut draft = RULE.at(snapshot, at, severity).weight(0.25);
        if let Some(hits) = hits {
            draft = draft
                .title("Clients of PgBouncer waited in vain for a connection")
                .seen(often(hits), &hits.path);
        }
        if let Some(short) = &short {
            draft = draft
                .value("pool_mode", &short.mode)
                .value(short.size.0, &short.size.1)
                .seen(short.asked(), "");
        }
        let fix = match &short {
            Some(short) => short.remedy(service),
            None => Fix::words(IN_VAIN),
        };
        let cost = match (hits, &short) {
            (None, Some(short)) => short.cost(),
            (hits, _) => in_vain(hits.map_or(0, |hits| hits.count)),
        };
        draft.cost(cost).fix(fix).tell(found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::case::{logged, pgbouncer};

    /// One database, and these settings.
    fn with(lines: &[(&str, &str)]) -> Case {
        pgbouncer(&[&[("databases", "1")][..], lines].concat())
    }

    fn is_silent(case: &Case) -> bool {
        super::super::tests_of(&RULE, case).is_empty()
    }

    #[test]
    fn sick_and_healthy() {
        let small = ("default_pool_size", "10");
        let own = ("database pool_size", "5");
        verify(
            &RULE,
            &[
                (with(&[small]), Severity::Risk, "once 10 workers"),
                (with(&[small]), Severity::Risk, "default_pool_size = 20,"),
                (with(&[small]), Severity::Risk, "PGSQL_ATTR_DISABLE"),
                (with(&[own]), Severity::Risk, "pool_size = 5"),
                (
                    with(&[own, ("reserve_pool_size", "2")]),
                    Severity::Risk,
                    "once 7 workers",
                ),
            ],
        );
        for healthy in [
            // 20 workers, and as many connections by default.
            with(&[]),
            with(&[small, ("pool_mode", "transaction")]),
            with(&[small, ("database pool_mode", "transaction")]),
            with(&[small, ("users", "own pools")]),
            with(&[small, ("so_reuseport", "1")]),
            pgbouncer(&[small, ("databases", "2")]),
            pgbouncer(&[small]),
            with(&[small]).with(|all| all.links.truncate(4)),
            with(&[small]).with(|all| all.apps.push(all.apps[0].clone())),
            with(&[small]).with(|all| all.apps.clear()),
            // A connection is all that is known, and there are two pools.
            with(&[small]).with(|all| {
                let pool = all.services[1].pools[0].clone();
                all.services[1].pools.push(pool);
                all.links[4].from_pools.clear();
            }),
        ] {
            assert!(is_silent(&healthy), "{:?}", healthy.0.services[5].settings);
        }
    }

    #[test]
    fn lines_of_the_log_tell_in_any_mode() {
        let of = |count: u64, lines: &[(&str, &str)]| {
            let case = logged(4, LogKind::PoolerTimeout, 60.0);
            let logs = case.0.services[4].logs.clone();
            with(lines).with(|all| {
                all.services[5].logs = logs;
                all.services[5].logs[0].count = count;
            })
        };
        let mode = ("pool_mode", "transaction");
        let short = ("default_pool_size", "10");
        verify(
            &RULE,
            &[
                (of(12, &[mode]), Severity::Problem, "12 clients"),
                (of(12, &[mode]), Severity::Problem, "two to four times"),
                (of(2, &[mode]), Severity::Note, "waited in vain"),
                (of(12, &[short]), Severity::Problem, "in its file"),
                (of(2, &[short]), Severity::Risk, "20 workers in all"),
            ],
        );
    }
}
