//! MariaDB (and MySQL) by its status variables.

use crate::source::{Failure, Lane, Open, Probe, Sink, Source};
use kneepoint_model::metric::{
    DB_ACTIVE, DB_BYTES_SENT, DB_CONNECTIONS, DB_IDLE_IN_TRANSACTION, DB_MAX_CONNECTIONS,
    DB_ROW_LOCK_S, DB_ROW_LOCK_WAITS, DB_ROWS_OF_TABLES, DB_ROWS_SCANNED, DB_SCANS, DB_SESSIONS,
    DB_TRANSACTIONS,
};
use kneepoint_model::{Address, Endpoint};
use mysql::prelude::Queryable;
use mysql::{Conn, Opts, OptsBuilder};
use std::collections::BTreeMap;
use std::time::Duration;

/// Metadata.
pub(super) static SOURCE: Source = Source {
    name: "mysql",
    about: "sessions, connections by state, transactions, waits for rows, rows scanned and bytes sent, from SHOW GLOBAL \
            STATUS and InnoDB's transactions",
    requirements: "a login without password that may read the list of processes",
    overhead: "two queries a second on a connection that is kept: one slot of max_connections, about 1 ms",
    cadence: Duration::from_secs(1),
    metrics: &[
        DB_SESSIONS,
        DB_CONNECTIONS,
        DB_MAX_CONNECTIONS,
        DB_ACTIVE,
        DB_TRANSACTIONS,
        DB_IDLE_IN_TRANSACTION,
        DB_ROW_LOCK_WAITS,
        DB_ROW_LOCK_S,
        DB_ROWS_SCANNED,
        DB_ROWS_OF_TABLES,
        DB_SCANS,
        DB_BYTES_SENT,
    ],
    lane: Lane::Own,
    open: Open::Tier(|tier| {
        tier.endpoints.iter().find_map(|endpoint| match endpoint {
            Endpoint::Mysql {
                address,
                user,
                password,
            } => Some(Box::new(Mysql {
                address: address.clone(),
                options: options(address, user, password),
                connection: None,
            }) as Box<dyn Probe>),
            _ => None,
        })
    }),
};

const TIMEOUT: Duration = Duration::from_secs(1);

/// Every statement outside of a transaction is one of its own to the storage engine, so its commits are what
/// PostgreSQL calls transactions.
const STATUS: &str = "\
    SHOW GLOBAL STATUS WHERE Variable_name IN \
    ('Connections', 'Threads_connected', 'Threads_running', 'Handler_commit', 'Handler_rollback', \
     'Innodb_row_lock_waits', 'Innodb_row_lock_time', 'Handler_read_rnd_next', 'Handler_read_next', \
     'Select_scan', 'Select_full_join', 'Bytes_sent')";

/// The most connections there can be, those that keep a transaction open and do nothing, and those of our own user, whom the
/// application does not log in as.
const STATE: &str = "\
    SELECT @@global.max_connections, ( \
      SELECT COUNT(*) FROM information_schema.innodb_trx t \
      JOIN information_schema.processlist p ON p.id = t.trx_mysql_thread_id \
      WHERE p.command = 'Sleep'), ( \
      SELECT COUNT(*) FROM information_schema.processlist \
      WHERE user = SUBSTRING_INDEX(USER(), '@', 1))";

/// What [`STATE`] answers.
type State = (f64, f64, f64);

struct Mysql {
    address: Address,
    options: Opts,
    connection: Option<Conn>,
}

/// How to log in, and how long to wait for an answer.
pub(crate) fn options(address: &Address, user: &str, password: &str) -> Opts {
    let options = OptsBuilder::new()
        .user(Some(user))
        .pass(Some(password))
        // A database that is busy must not hold the telemetry longer than a sample is worth.
        .tcp_connect_timeout(Some(TIMEOUT))
        .read_timeout(Some(TIMEOUT))
        .write_timeout(Some(TIMEOUT))
        .prefer_socket(false);
    match address {
        Address::Unix(path) => options.socket(Some(path.to_string_lossy())),
        Address::Tcp(address) => options
            .ip_or_hostname(Some(address.ip().to_string()))
            .tcp_port(address.port()),
    }
    .into()
}

impl Mysql {
    fn query(&mut self, sink: &mut Sink) -> Result<(), mysql::Error> {
        let connection = match &mut self.connection {
            Some(connection) => connection,
            closed => closed.insert(Conn::new(self.options.clone())?),
        };
        let status: BTreeMap<String, f64> = connection
            .query_map(STATUS, |(name, value): (String, String)| {
                (name, value.parse().unwrap_or(0.0))
            })?
            .into_iter()
            .collect();
        let state: Option<State> = connection.query_first(STATE)?;
        push(sink, &status, state);
        Ok(())
    }
}

/// Our own sessions are not counted as connections: this one, and that of whoever looks for locks meanwhile. Of those that run a
/// statement it is this one.
fn push(sink: &mut Sink, status: &BTreeMap<String, f64>, state: Option<State>) {
    let of = |name: &str| status.get(name).copied();
    let own = state.map_or(1.0, |(_, _, own)| own);
    for (metric, value) in [
        (DB_SESSIONS, of("Connections")),
        (DB_CONNECTIONS, of("Threads_connected").map(|n| n - own)),
        (DB_ACTIVE, of("Threads_running").map(|n| n - 1.0)),
        (
            DB_TRANSACTIONS,
            of("Handler_commit")
                .zip(of("Handler_rollback"))
                .map(|(done, undone)| done + undone),
        ),
        (DB_ROW_LOCK_WAITS, of("Innodb_row_lock_waits")),
        (DB_ROW_LOCK_S, of("Innodb_row_lock_time").map(|ms| ms / 1e3)),
        (
            DB_ROWS_SCANNED,
            // A whole table can be read by an index, too, as COUNT(*) does.
            of("Handler_read_rnd_next")
                .zip(of("Handler_read_next"))
                .map(|(by_table, by_index)| by_table + by_index),
        ),
        (DB_ROWS_OF_TABLES, of("Handler_read_rnd_next")),
        (
            DB_SCANS,
            of("Select_scan").map(|first| first + of("Select_full_join").unwrap_or(0.0)),
        ),
        (DB_BYTES_SENT, of("Bytes_sent")),
        (DB_MAX_CONNECTIONS, state.map(|(most, ..)| most)),
        (DB_IDLE_IN_TRANSACTION, state.map(|(_, idle, _)| idle)),
    ] {
        if let Some(value) = value {
            sink.push(metric, value.max(0.0));
        }
    }
}

impl Probe for Mysql {
    fn sample(&mut self, sink: &mut Sink) -> Result<(), Failure> {
        self.query(sink).map_err(|why| {
            self.connection = None;
            Failure::on("statistics of MariaDB at", &self.address, why.to_string())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_is_not_there_is_named() {
        let address = Address::Unix("/nonexistent/mysqld.sock".into());
        let mut probe = Mysql {
            options: options(&address, "root", ""),
            address,
            connection: None,
        };
        let why = probe
            .sample(&mut Sink::default())
            .expect_err("nobody is there")
            .to_string();
        assert!(
            why.contains("unix:/nonexistent/mysqld.sock") && why.contains("No such file"),
            "{why}"
        );
    }

    #[test]
    fn our_own_sessions_are_no_connections() {
        let status = [("Threads_connected", 12.0), ("Threads_running", 4.0)];
        let status: BTreeMap<String, f64> =
            status.map(|(name, value)| (name.to_owned(), value)).into();
        let counted = |state| {
            let mut sink = Sink::default();
            push(&mut sink, &status, state);
            (sink.value(DB_CONNECTIONS, ""), sink.value(DB_ACTIVE, ""))
        };
        // This one, and one that looks for locks.
        let with_watch = counted(Some((151.0, 0.0, 2.0)));
        assert_eq!(with_watch, (Some(10.0), Some(3.0)));
        assert_eq!(counted(None), (Some(11.0), Some(3.0)));
    }
}
