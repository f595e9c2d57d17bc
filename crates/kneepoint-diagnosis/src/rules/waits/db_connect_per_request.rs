//! PG-02: every request opens a session at PostgreSQL.

use crate::causes::database::connects_each_time;
use crate::rule::prelude::*;

/// CPU of a new PostgreSQL session in seconds: fork, authentication, catalogue caches \[ours\].
const SESSION_COST_S: f64 = 0.003;

pub(crate) static RULE: Rule = Rule {
    code: "PG-02",
    name: "db-connect-per-request",
    since: "0.1.0",
    layers: &[Layer::Db],
    stage: RuleStage::Waits,
    signal: UseSignal::Utilisation,
    applies_to: AppliesTo::Server("postgresql"),
    requires: &[metric::DB_SESSIONS],
    yields_to: &["PG-01"],
    title: "every request opens a session at PostgreSQL",
    doc: RuleDoc {
        what_it_is: "PHP closes its database connection at the end of each request and opens a new one for the next. \
            For PostgreSQL a connection is a process: it is forked, the user is authenticated, and the first query \
            loads the catalogue anew. That is some milliseconds of CPU for a page whose own query may take a tenth \
            of that.",
        how_it_shows: "`sessions` in pg_stat_database grows as fast as the requests; the postmaster forks all the time; \
            the database uses more CPU than its queries explain.",
        how_it_is_confirmed: "Switch persistent connections on, or put PgBouncer in front, and compare at the same rate.",
        what_to_write: "PDO, in the application:\n\n    new PDO($dsn, $user, $password, [PDO::ATTR_PERSISTENT => true]);\n\n\
            Laravel, config/database.php:\n\n    'options' => [PDO::ATTR_PERSISTENT => true],\n\nA transaction left open \
            or a SET outlives the request then. PgBouncer (pool_mode = transaction) avoids that. Set \
            PDO::ATTR_EMULATE_PREPARES => true then, since prepared statements, session settings, LISTEN and advisory locks \
            do not outlive a transaction.",
        references: &[
            "https://www.php.net/manual/en/features.persistent-connections.php",
            "https://www.pgbouncer.org/config.html",
        ],
    },
    check,
};

const TEXT: &str = "Keep connections to the database between requests (PDO::ATTR_PERSISTENT), or put PgBouncer in \
    front (with pool_mode = transaction, PDO needs ATTR_EMULATE_PREPARES). The database must accept one connection for \
    each PHP worker.";

fn check(evidence: &Evidence) -> Option<Finding> {
    connects_each_time(&RULE, evidence, SESSION_COST_S, TEXT)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(case: Case, expected: expect_test::Expect) {
        verify(&RULE, case, expected);
    }

    fn connecting() -> Case {
        Case::healthy()
            .set(Layer::App, "db.persistent", "false")
            .counter(PhaseKind::Knee, Layer::Db, metric::DB_SESSIONS, 100.0)
    }

    #[test]
    fn fires_when_requests_connect() {
        check(
            connecting(),
            expect![[r#"
                named: PG-02
                suspected db (17 %): every request opens a session at PostgreSQL
                  saw 100/s sessions opened, 0.53 for each request PHP served, at 190/s offered for 10 s
                  saw the database uses 0.23 cores, at 190/s offered for 10 s
                  set app.db.persistent = true
            "#]],
        );
    }

    #[test]
    fn asks_for_connection_slots_along_with_persistence() {
        check(
            connecting().set(Layer::Db, "max_connections", "10"),
            expect![[r#"
                named: PG-02
                suspected db (17 %): every request opens a session at PostgreSQL
                  saw 100/s sessions opened, 0.53 for each request PHP served, at 190/s offered for 10 s
                  saw the database uses 0.23 cores, at 190/s offered for 10 s
                  set app.db.persistent = true
                  set db.max_connections = 20
            "#]],
        );
    }

    #[test]
    fn gives_words_where_the_application_declares_no_switch() {
        let case = connecting().with(|evidence| evidence.stack.app_settings.clear());
        check(
            case,
            expect![[r#"
                named: PG-02
                suspected db (17 %): every request opens a session at PostgreSQL
                  saw 100/s sessions opened, 0.53 for each request PHP served, at 190/s offered for 10 s
                  saw the database uses 0.23 cores, at 190/s offered for 10 s
                  do: Keep connections to the database between requests (PDO::ATTR_PERSISTENT), or put PgBouncer in front (with pool_mode = transaction, PDO needs ATTR_EMULATE_PREPARES). The database must accept one connection for each PHP worker.
            "#]],
        );
    }

    #[test]
    fn stays_silent_when_connections_are_kept() {
        stays_silent(&RULE, Case::healthy());
    }
}
