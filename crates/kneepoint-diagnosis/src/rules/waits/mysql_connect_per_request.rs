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
            a temporary table or a SET outlives the request then.\n\nmysqli, by the prefix of its host name:\n\n    new \
            mysqli('p:' . $host, $user, $password, $database);\n\nmysqli resets a session before it takes it up again. \
            With either, each PHP worker keeps a connection: max_connections must cover them all.",
        references: &[
            "https://www.php.net/manual/en/features.persistent-connections.php",
            "https://www.php.net/manual/en/mysqli.persistconns.php",
            "field report S1",
        ],
    },
    check,
};

fn check(evidence: &Evidence) -> Option<Finding> {
    connects_each_time(&RULE, evidence, SESSION_COST_S, &text(evidence))
}

/// How connections are kept by whom the application connects through; by both where nobody saw it.
fn text(evidence: &Evidence) -> String {
    let connects = |begin: &str| {
        let mut calls = evidence.traced(CallKind::Connect);
        calls.any(|call| {
            let through = call.through.to_ascii_lowercase();
            call.peer == Layer::Db.name() && through.starts_with(begin)
        })
    };
    let how = match (connects("pdo"), connects("mysqli")) {
        (true, false) => "PDO::ATTR_PERSISTENT",
        (false, true) => {
            "mysqli: the prefix p: before the host name, as in p:localhost; it resets a session before it takes it up again"
        }
        _ => "PDO: PDO::ATTR_PERSISTENT; mysqli: the prefix p: before the host name",
    };
    format!(
        "Keep connections to the database between requests ({how}). The database must accept one connection for each PHP \
         worker: max_connections."
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::{place, traced};
    use kneepoint_model::TracedCall;

    fn check(case: Case, expected: expect_test::Expect) {
        verify(&RULE, case, expected);
    }

    fn connecting() -> Case {
        Case::healthy()
            .on_mariadb()
            .set(Layer::App, "db.persistent", "false")
            .counter(PhaseKind::Knee, Layer::Db, metric::DB_SESSIONS, 100.0)
    }

    /// The same where the application declares no switch, and connects through these functions of PHP.
    fn connecting_through(functions: &[&str]) -> Case {
        let call = |through: &&str| TracedCall {
            peer: Layer::Db.name().to_owned(),
            through: (*through).to_owned(),
            ..traced(
                "GET /",
                CallKind::Connect,
                "connect db",
                place("Db::open", "db.php", 7),
                1,
            )
        };
        connecting()
            .with(|evidence| evidence.stack.app_settings.clear())
            .traced("GET /", 10, functions.iter().map(call).collect())
    }

    #[test]
    fn notes_that_requests_connect() {
        check(
            connecting(),
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
    fn says_how_the_one_keeps_connections_that_the_application_connects_through() {
        check(
            connecting_through(&["PDO::__construct"]),
            expect![[r#"
            named: CAP-02
            noted db (1.7 %): every request opens a session at MariaDB
              saw 100/s sessions opened, 0.53 for each request PHP served, at 190/s offered for 10 s
              saw the database uses 0.23 cores, at 190/s offered for 10 s
              saw connect db through PDO::__construct, once in each GET /, in Db::open at db.php:7, in 10 requests that were traced, one after the other
              do: Keep connections to the database between requests (PDO::ATTR_PERSISTENT). The database must accept one connection for each PHP worker: max_connections.
        "#]],
        );
        check(
            connecting_through(&["mysqli::real_connect", "mysqli_connect"]),
            expect![[r#"
                named: CAP-02
                noted db (1.7 %): every request opens a session at MariaDB
                  saw 100/s sessions opened, 0.53 for each request PHP served, at 190/s offered for 10 s
                  saw the database uses 0.23 cores, at 190/s offered for 10 s
                  saw connect db through mysqli::real_connect, once in each GET /, in Db::open at db.php:7, in 10 requests that were traced, one after the other
                  saw connect db through mysqli_connect, once in each GET /, in Db::open at db.php:7, in 10 requests that were traced, one after the other
                  do: Keep connections to the database between requests (mysqli: the prefix p: before the host name, as in p:localhost; it resets a session before it takes it up again). The database must accept one connection for each PHP worker: max_connections.
            "#]],
        );
    }

    #[test]
    fn names_both_ways_where_nobody_saw_which_is_used() {
        check(
            connecting_through(&[]),
            expect![[r#"
            named: CAP-02
            noted db (1.7 %): every request opens a session at MariaDB
              saw 100/s sessions opened, 0.53 for each request PHP served, at 190/s offered for 10 s
              saw the database uses 0.23 cores, at 190/s offered for 10 s
              do: Keep connections to the database between requests (PDO: PDO::ATTR_PERSISTENT; mysqli: the prefix p: before the host name). The database must accept one connection for each PHP worker: max_connections.
        "#]],
        );
        check(
            connecting_through(&["PDO::__construct", "mysqli_real_connect"]),
            expect![[r#"
                named: CAP-02
                noted db (1.7 %): every request opens a session at MariaDB
                  saw 100/s sessions opened, 0.53 for each request PHP served, at 190/s offered for 10 s
                  saw the database uses 0.23 cores, at 190/s offered for 10 s
                  saw connect db through PDO::__construct, once in each GET /, in Db::open at db.php:7, in 10 requests that were traced, one after the other
                  saw connect db through mysqli_real_connect, once in each GET /, in Db::open at db.php:7, in 10 requests that were traced, one after the other
                  do: Keep connections to the database between requests (PDO: PDO::ATTR_PERSISTENT; mysqli: the prefix p: before the host name). The database must accept one connection for each PHP worker: max_connections.
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
