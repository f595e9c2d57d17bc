//! MariaDB (and MySQL) by its status variables.

use crate::source::{Failure, Lane, Open, Probe, Sink, Source};
use kneepoint_model::metric::{
    DB_ACTIVE, DB_BYTES_SENT, DB_CONNECTIONS, DB_IDLE_IN_TRANSACTION, DB_MAX_CONNECTIONS,
    DB_ROW_LOCK_S, DB_ROW_LOCK_WAITS, DB_ROWS_SCANNED, DB_SCANS, DB_SESSIONS, DB_TRANSACTIONS,
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
     'Select_scan', 'Bytes_sent')";

/// The most connections there can be, and those that keep a transaction open and do nothing.
const STATE: &str = "\
    SELECT @@global.max_connections, ( \
      SELECT COUNT(*) FROM information_schema.innodb_trx t \
      JOIN information_schema.processlist p ON p.id = t.trx_mysql_thread_id \
      WHERE p.command = 'Sleep')";

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
        let state: Option<(f64, f64)> = connection.query_first(STATE)?;
        push(sink, &status, state);
        Ok(())
    }
}

/// Our own session is not counted as a connection.
fn push(sink: &mut Sink, status: &BTreeMap<String, f64>, state: Option<(f64, f64)>) {
    let of = |name: &str| status.get(name).copied();
    for (metric, value) in [
        (DB_SESSIONS, of("Connections")),
        (DB_CONNECTIONS, of("Threads_connected").map(|n| n - 1.0)),
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
        (DB_SCANS, of("Select_scan")),
        (DB_BYTES_SENT, of("Bytes_sent")),
        (DB_MAX_CONNECTIONS, state.map(|(most, _)| most)),
        (DB_IDLE_IN_TRANSACTION, state.map(|(_, idle)| idle)),
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
}
