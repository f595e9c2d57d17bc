//! MYS-02: every request opens a session at MariaDB.

use crate::causes::database::connects_each_time;
use crate::rule::prelude::*;

/// CPU of a new session in seconds, at both ends: a thread, the handshake with its scrambled password, the choice of the
/// database and the character set \[ours\]. A tenth of what PostgreSQL's process costs.
const SESSION_COST_S: f64 = 0.0003;

pub(crate) static RULE: Rule = Rule {
    code: "MYS-02",
    name: "mysql-connect-per-request",
    since: "0.1.0",
    layers: &[Layer::Db],
    stage: RuleStage::Waits,
    signal: UseSignal::Utilisation,
    applies_to: AppliesTo::Server("mariadb"),
    requires: &[metric::DB_SESSIONS],
    yields_to: &["MYS-01"],
    title: "every request opens a session at MariaDB",
    doc: RuleDoc {
        what_it_is: "PHP closes its database connection at the end of each request and opens a new one for the next. \
            For MariaDB and MySQL a connection is a thread: cheap beside PostgreSQL's process, but the handshake takes \
            two more round trips, and across a network each connection leaves a port in TIME_WAIT for a minute.",
        how_it_shows: "The status variable Connections grows as fast as the requests; where thread_cache_size is too \
            small, Threads_created grows with it.",
        how_it_is_confirmed: "Switch persistent connections on and compare at the same rate.",
        what_to_write: "PDO, in the application:\n\n    new PDO($dsn, $user, $password, [PDO::ATTR_PERSISTENT => true]);\n\n\
            Laravel, config/database.php:\n\n    'options' => [PDO::ATTR_PERSISTENT => true],\n\nA transaction left open, \
            a temporary table or a SET outlives the request then.",
        references: &[
            "https://www.php.net/manual/en/features.persistent-connections.php",
            "field report S1",
        ],
    },
    check,
};

const TEXT: &str = "Keep connections to the database between requests (PDO::ATTR_PERSISTENT). The database must accept \
    one connection for each PHP worker.";

fn check(evidence: &Evidence) -> Option<Finding> {
    connects_each_time(&RULE, evidence, SESSION_COST_S, TEXT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_that_requests_connect() {
        let case = Case::healthy()
            .on_mariadb()
            .set(Layer::App, "db.persistent", "false")
            .counter(PhaseKind::Knee, Layer::Db, metric::DB_SESSIONS, 100.0);
        verify(
            &RULE,
            case,
            expect![[r#"
                named: CAP-02
                noted db (1.7 %): every request opens a session at MariaDB
                  saw 100/s sessions opened, 0.53 for each request PHP served, at 190/s offered for 10 s
                  saw the database uses 0.23 cores, at 190/s offered for 10 s
                  set app.db.persistent = true
            "#]],
        );
    }

    #[test]
    fn stays_silent_when_connections_are_kept() {
        stays_silent(&RULE, Case::healthy().on_mariadb());
        let few = Case::healthy().on_mariadb().counter(
            PhaseKind::Knee,
            Layer::Db,
            metric::DB_SESSIONS,
            1.0,
        );
        stays_silent(&RULE, few);
    }
}
