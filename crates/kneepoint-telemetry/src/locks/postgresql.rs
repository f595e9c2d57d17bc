//! Who waits for whom in PostgreSQL: rows, tables and advisory locks (pg_blocking_pids over pg_stat_activity).

use super::Database;
use super::sessions::{Session, SessionWait};
use crate::sources::postgresql_config;
use kneepoint_linux::namespace;
use kneepoint_model::folding::{Sql, fold_query};
use kneepoint_model::{Endpoint, LockKind, RunningTier};
use postgres::{Client, Config, NoTls, SimpleQueryMessage, SimpleQueryRow};
use std::io;
use std::path::PathBuf;

/// Who waits for a row waits for the transaction that changed it; which table that is, the lock on the row itself tells
/// that the first to wait holds meanwhile.
const QUERY: &str = "\
    SELECT w.pid AS waiter, h.pid AS holder, l.locktype, \
      coalesce(l.relation, t.relation)::regclass::text AS relation, l.objid, \
      w.client_port AS waiter_port, h.client_port AS holder_port, h.state, \
      left(w.query, 300) AS waiter_query, left(h.query, 300) AS holder_query \
    FROM pg_stat_activity w \
    CROSS JOIN LATERAL unnest(pg_blocking_pids(w.pid)) AS b(pid) \
    JOIN pg_stat_activity h ON h.pid = b.pid \
    LEFT JOIN pg_locks l ON l.pid = w.pid AND NOT l.granted \
    LEFT JOIN pg_locks t ON t.pid = w.pid AND t.locktype = 'tuple' AND t.granted \
    WHERE w.wait_event_type = 'Lock' AND w.datname = current_database() LIMIT 300";

struct Postgresql {
    config: Config,
    netns: Option<PathBuf>,
    client: Option<Client>,
}

/// The database of a tier, where it is one of these.
pub(super) fn of(tier: &RunningTier) -> Option<Box<dyn Database>> {
    tier.endpoints.iter().find_map(|endpoint| match endpoint {
        Endpoint::Postgresql {
            address,
            port,
            user,
            database,
        } => Some(Box::new(Postgresql {
            config: postgresql_config(address, *port, user, database),
            netns: tier.netns.clone(),
            client: None,
        }) as Box<dyn Database>),
        _ => None,
    })
}

impl Database for Postgresql {
    fn look(&mut self) -> Result<Vec<SessionWait>, String> {
        self.ask().map_err(|why| {
            self.client = None;
            format!("asking PostgreSQL who waits for whom: {why}")
        })
    }
}

impl Postgresql {
    fn ask(&mut self) -> Result<Vec<SessionWait>, String> {
        let client = match &mut self.client {
            Some(client) => client,
            closed => {
                let config = self.config.clone();
                let made = namespace::inside_path(self.netns.as_deref(), || {
                    config.connect(NoTls).map_err(io::Error::other)
                });
                closed.insert(made.map_err(|why| why.to_string())?)
            }
        };
        let messages = client.simple_query(QUERY).map_err(|why| why.to_string())?;
        let waits = messages.iter().filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some(of_row(&Columns::of(row)?)),
            _ => None,
        });
        Ok(waits.collect())
    }
}

/// A row of the answer.
#[derive(Debug, Clone, Copy)]
struct Columns<'a> {
    waiter: (u64, Option<u16>, &'a str),
    holder: (u64, Option<u16>, &'a str),
    state: &'a str,
    locktype: &'a str,
    relation: &'a str,
    number: &'a str,
}

impl<'a> Columns<'a> {
    fn of(row: &'a SimpleQueryRow) -> Option<Self> {
        let text = |column: &str| row.try_get(column).ok().flatten().unwrap_or_default();
        Some(Self {
            waiter: (
                text("waiter").parse().ok()?,
                text("waiter_port").parse().ok(),
                text("waiter_query"),
            ),
            holder: (
                text("holder").parse().ok()?,
                text("holder_port").parse().ok(),
                text("holder_query"),
            ),
            state: text("state"),
            locktype: text("locktype"),
            relation: text("relation"),
            number: text("objid"),
        })
    }
}

fn of_row(row: &Columns<'_>) -> SessionWait {
    let session = |(id, port, query): (u64, Option<u16>, &str), idle: bool| {
        let statement = fold_query(Sql::Postgresql, query);
        Session {
            id,
            port,
            doing: if idle {
                format!("idle in a transaction after {statement}")
            } else {
                statement
            },
        }
    };
    let named = row.locktype == "advisory";
    SessionWait {
        waiter: session(row.waiter, false),
        holder: session(row.holder, row.state.starts_with("idle in transaction")),
        kind: if named {
            LockKind::Named
        } else {
            LockKind::Row
        },
        object: if named {
            format!("advisory lock {}", row.number)
        } else {
            row.relation.trim_matches('"').to_owned()
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row<'a>() -> Columns<'a> {
        Columns {
            waiter: (7, Some(50_000), "UPDATE stock SET n = n - 1 WHERE id = 7"),
            holder: (8, None, "UPDATE stock SET n = n - 1 WHERE id = 7"),
            state: "idle in transaction",
            locktype: "transactionid",
            relation: "stock",
            number: "",
        }
    }

    #[test]
    fn one_that_forgot_its_transaction_is_told_with_its_last_statement() {
        let wait = of_row(&row());
        assert_eq!(
            wait.holder.doing,
            "idle in a transaction after UPDATE stock SET n = n - ? WHERE id = ?"
        );
        assert_eq!((wait.kind, wait.object.as_str()), (LockKind::Row, "stock"));
        let active = of_row(&Columns {
            state: "active",
            ..row()
        });
        assert_eq!(
            active.holder.doing,
            "UPDATE stock SET n = n - ? WHERE id = ?"
        );
    }

    #[test]
    fn an_advisory_lock_is_told_by_its_number() {
        let wait = of_row(&Columns {
            locktype: "advisory",
            relation: "",
            number: "42",
            ..row()
        });
        assert_eq!(
            (wait.kind, wait.object.as_str()),
            (LockKind::Named, "advisory lock 42")
        );
    }

    #[test]
    fn a_server_that_is_not_there_is_named() {
        let mut tier = crate::source::tests::tier_without_doors(1);
        tier.endpoints = vec![Endpoint::Postgresql {
            address: kneepoint_model::Address::Unix("/nonexistent".into()),
            port: 5432,
            user: "u".into(),
            database: "d".into(),
        }];
        let why = of(&tier)
            .expect("PostgreSQL")
            .look()
            .expect_err("nobody is there");
        assert!(why.contains("asking PostgreSQL"), "{why}");
    }
}
