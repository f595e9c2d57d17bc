//! PostgreSQL by its statistics views.

use crate::source::{Failure, Lane, Open, Probe, Sink, Source};
use kneepoint_model::metric::{
    DB_ACTIVE, DB_CONNECTIONS, DB_IDLE_IN_TRANSACTION, DB_MAX_CONNECTIONS, DB_ROWS_SCANNED,
    DB_SCANS, DB_SESSIONS, DB_TABLE_ROWS_SCANNED, DB_TRANSACTIONS,
};
use kneepoint_model::{Address, Endpoint, Metric};
use postgres::{Client, Config, NoTls, SimpleQueryMessage};
use std::time::Duration;

/// Metadata.
pub(super) static SOURCE: Source = Source {
    name: "postgresql",
    about: "sessions, connections by state, transactions and rows of tables read whole, from pg_stat_database, \
            pg_stat_activity and pg_stat_user_tables",
    requirements: "a login without password; sessions are counted by PostgreSQL 14 and later",
    overhead: "two queries a second on a connection that is kept: one slot of max_connections, about 1 ms",
    cadence: Duration::from_secs(1),
    metrics: &[
        DB_SESSIONS,
        DB_CONNECTIONS,
        DB_MAX_CONNECTIONS,
        DB_ACTIVE,
        DB_TRANSACTIONS,
        DB_IDLE_IN_TRANSACTION,
        DB_ROWS_SCANNED,
        DB_TABLE_ROWS_SCANNED,
        DB_SCANS,
    ],
    lane: Lane::Own,
    open: Open::Tier(|tier| {
        tier.endpoints.iter().find_map(|endpoint| match endpoint {
            Endpoint::Postgresql {
                address,
                port,
                user,
                database,
            } => Some(Box::new(Postgresql {
                address: address.clone(),
                config: config(address, *port, user, database),
                client: None,
            }) as Box<dyn Probe>),
            _ => None,
        })
    }),
};

const TIMEOUT: Duration = Duration::from_secs(1);

/// What our own sessions are called: this one, and that of whoever looks for locks meanwhile.
const OWN: &str = "kneepoint";

/// One row; the columns are named as the metrics they fill. Our own sessions ([`OWN`]) are not counted as connections.
const QUERY: &str = "\
    SELECT a.connections, a.active, a.idle_in_transaction, \
      current_setting('max_connections') AS max_connections, \
      d.xact_commit + d.xact_rollback AS transactions, \
      to_jsonb(d) ->> 'sessions' AS sessions \
    FROM pg_stat_database d, ( \
      SELECT count(*) AS connections, \
        count(*) FILTER (WHERE state = 'active') AS active, \
        count(*) FILTER (WHERE state LIKE 'idle in transaction%') AS idle_in_transaction \
      FROM pg_stat_activity \
      WHERE backend_type = 'client backend' AND application_name IS DISTINCT FROM 'kneepoint') a \
    WHERE d.datname = current_database()";

const COLUMNS: [(&str, Metric); 6] = [
    ("connections", DB_CONNECTIONS),
    ("active", DB_ACTIVE),
    ("idle_in_transaction", DB_IDLE_IN_TRANSACTION),
    ("max_connections", DB_MAX_CONNECTIONS),
    ("transactions", DB_TRANSACTIONS),
    ("sessions", DB_SESSIONS),
];

/// The tables that are read whole most, those of the system left out (pg_stat_user_tables counts rows and scans).
const TABLES: &str = "\
    SELECT relname, seq_tup_read, seq_scan FROM pg_stat_user_tables \
    WHERE seq_scan > 0 ORDER BY seq_tup_read DESC LIMIT 200";
/// Tables that are told apart.
const NAMED_TABLES: usize = 8;

struct Postgresql {
    address: Address,
    config: Config,
    client: Option<Client>,
}

/// How to log in, and how long to wait for an answer.
pub(crate) fn config(address: &Address, port: u16, user: &str, database: &str) -> Config {
    let mut config = Config::new();
    match address {
        Address::Unix(dir) => config.host_path(dir).port(port),
        Address::Tcp(address) => config.host(&address.ip().to_string()).port(address.port()),
    };
    config.user(user).dbname(database).application_name(OWN);
    // A database that is busy must not hold the telemetry longer than a sample is worth.
    config
        .connect_timeout(TIMEOUT)
        .options("-c statement_timeout=1000");
    config
}

impl Postgresql {
    fn query(&mut self, sink: &mut Sink) -> Result<(), postgres::Error> {
        let client = match &mut self.client {
            Some(client) => client,
            closed => closed.insert(self.config.connect(NoTls)?),
        };
        for message in client.simple_query(QUERY)? {
            let SimpleQueryMessage::Row(row) = message else {
                continue;
            };
            for (column, metric) in COLUMNS {
                let value = row
                    .try_get(column)?
                    .and_then(|text| text.parse::<f64>().ok());
                if let Some(value) = value {
                    sink.push(metric, value);
                }
            }
        }
        scanned(&client.simple_query(TABLES)?, sink)
    }
}

/// Rows of tables that were read whole: of all together, and of those with the most.
fn scanned(messages: &[SimpleQueryMessage], sink: &mut Sink) -> Result<(), postgres::Error> {
    let (mut rows, mut scans, mut named) = (0.0, 0.0, 0);
    for message in messages {
        let SimpleQueryMessage::Row(row) = message else {
            continue;
        };
        let number = |column| {
            let text = row.try_get(column)?;
            Ok::<f64, postgres::Error>(text.and_then(|text| text.parse().ok()).unwrap_or(0.0))
        };
        let of_table = number("seq_tup_read")?;
        rows += of_table;
        scans += number("seq_scan")?;
        if named < NAMED_TABLES {
            named += 1;
            sink.labelled(
                DB_TABLE_ROWS_SCANNED,
                row.try_get("relname")?.unwrap_or_default(),
                of_table,
            );
        }
    }
    sink.push(DB_ROWS_SCANNED, rows);
    sink.push(DB_SCANS, scans);
    Ok(())
}

impl Probe for Postgresql {
    fn sample(&mut self, sink: &mut Sink) -> Result<(), Failure> {
        self.query(sink).map_err(|why| {
            self.client = None;
            Failure::on(
                "statistics of PostgreSQL at",
                &self.address,
                described(&why),
            )
        })
    }
}

/// The server's own words where it said something: "sorry, too many clients already" is evidence by itself.
fn described(why: &postgres::Error) -> String {
    if let Some(server) = why.as_db_error() {
        return format!("{} ({})", server.message(), server.code().code());
    }
    let cause = std::error::Error::source(why).map(|cause| format!(": {cause}"));
    format!("{why}{}", cause.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_is_not_there_is_named() {
        let address = Address::Unix("/nonexistent".into());
        let mut probe = Postgresql {
            config: config(&address, 5432, "u", "d"),
            address,
            client: None,
        };
        let why = probe
            .sample(&mut Sink::default())
            .expect_err("nobody is there")
            .to_string();
        assert!(
            why.contains("unix:/nonexistent") && why.contains("No such file"),
            "{why}"
        );
    }

    #[test]
    fn our_own_sessions_are_no_connections() {
        let config = config(&Address::Unix("/run".into()), 5432, "u", "d");
        assert_eq!(config.get_application_name(), Some(OWN));
        assert!(QUERY.contains(&format!("application_name IS DISTINCT FROM '{OWN}'")));
    }

    #[test]
    fn every_column_asked_for_is_one_of_the_query() {
        for (column, metric) in COLUMNS {
            assert!(
                QUERY.contains(&format!("AS {column}")) || QUERY.contains(&format!("a.{column}")),
                "{column}"
            );
            assert!(SOURCE.metrics.contains(&metric), "{}", metric.name);
        }
    }
}
