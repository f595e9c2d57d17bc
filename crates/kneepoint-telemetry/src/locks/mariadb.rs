//! Who waits for whom in MariaDB: InnoDB's rows, and locks with a name (GET_LOCK).

use super::Database;
use super::sessions::{Session, SessionWait};
use crate::sources::mysql_options;
use kneepoint_linux::namespace;
use kneepoint_model::folding::{Sql, fold_path, fold_query};
use kneepoint_model::{Endpoint, LockKind, RunningTier};
use mysql::prelude::Queryable;
use mysql::{Conn, Opts};
use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

/// Who waits for whose rows. MariaDB keeps these views; MySQL 8 has them elsewhere, and is not asked.
const ROWS: &str = "\
    SELECT r.trx_mysql_thread_id, b.trx_mysql_thread_id, l.lock_table, COALESCE(l.lock_index, ''), \
      COALESCE(LEFT(r.trx_query, 300), ''), COALESCE(LEFT(b.trx_query, 300), ''), \
      COALESCE(rp.HOST, ''), COALESCE(bp.HOST, '') \
    FROM information_schema.INNODB_LOCK_WAITS w \
    JOIN information_schema.INNODB_TRX r ON r.trx_id = w.requesting_trx_id \
    JOIN information_schema.INNODB_TRX b ON b.trx_id = w.blocking_trx_id \
    JOIN information_schema.INNODB_LOCKS l ON l.lock_id = w.requested_lock_id \
    LEFT JOIN information_schema.PROCESSLIST rp ON rp.ID = r.trx_mysql_thread_id \
    LEFT JOIN information_schema.PROCESSLIST bp ON bp.ID = b.trx_mysql_thread_id LIMIT 300";

/// Who waits for a lock with a name, and in which statement.
const NAMED: &str = "\
    SELECT ID, HOST, COALESCE(LEFT(INFO, 300), '') FROM information_schema.PROCESSLIST \
    WHERE STATE = 'User lock' LIMIT 300";

/// Who has such a lock, and what that session does.
const HOLDER: &str = "\
    SELECT ID, HOST, COALESCE(LEFT(INFO, 300), '') FROM information_schema.PROCESSLIST \
    WHERE ID = IS_USED_LOCK(?)";

/// What a session does that runs no statement and holds locks.
const IDLE: &str = "idle in a transaction";

type RowWait = (u64, u64, String, String, String, String, String, String);
type Listed = (u64, String, String);

struct Mariadb {
    options: Opts,
    netns: Option<PathBuf>,
    connection: Option<Conn>,
}

/// The database of a tier, where it is one of these.
pub(super) fn of(tier: &RunningTier) -> Option<Box<dyn Database>> {
    tier.endpoints.iter().find_map(|endpoint| match endpoint {
        Endpoint::Mysql {
            address,
            user,
            password,
        } => Some(Box::new(Mariadb {
            options: mysql_options(address, user, password),
            netns: tier.netns.clone(),
            connection: None,
        }) as Box<dyn Database>),
        _ => None,
    })
}

impl Database for Mariadb {
    fn look(&mut self) -> Result<Vec<SessionWait>, String> {
        let looked = self.ask();
        looked.map_err(|why| {
            self.connection = None;
            format!("asking MariaDB who waits for whose rows: {why}")
        })
    }
}

impl Mariadb {
    fn ask(&mut self) -> Result<Vec<SessionWait>, mysql::Error> {
        let connection = match &mut self.connection {
            Some(connection) => connection,
            closed => {
                let options = self.options.clone();
                let made = namespace::inside_path(self.netns.as_deref(), || {
                    Conn::new(options).map_err(io::Error::other)
                });
                closed.insert(made.map_err(mysql::Error::from)?)
            }
        };
        let rows: Vec<RowWait> = connection.query(ROWS)?;
        let mut waits: Vec<SessionWait> = rows.into_iter().map(of_rows).collect();
        let named: Vec<Listed> = connection.query(NAMED)?;
        waits.extend(of_names(connection, named)?);
        Ok(waits)
    }
}

fn of_rows(row: RowWait) -> SessionWait {
    let (waiter, holder, table, index, waits, holds, from, held_from) = row;
    SessionWait {
        waiter: session((waiter, from, waits)),
        holder: session((holder, held_from, holds)),
        kind: LockKind::Row,
        object: object(&table, &index),
    }
}

/// `hits (index by_page)` of `` `shop`.`hits` `` and its index; the primary key goes without saying.
fn object(table: &str, index: &str) -> String {
    let name = table.rsplit('.').next().unwrap_or(table).trim_matches('`');
    match index {
        "" | "PRIMARY" => name.to_owned(),
        index => format!("{name} (index {index})"),
    }
}

fn session((id, host, statement): Listed) -> Session {
    let doing = fold_query(Sql::Mysql, &statement);
    Session {
        id,
        port: host
            .rsplit_once(':')
            .and_then(|(_, port)| port.parse().ok()),
        doing: if doing.is_empty() {
            IDLE.to_owned()
        } else {
            doing
        },
    }
}

/// Those who wait for a lock with a name, each with who has it.
fn of_names(connection: &mut Conn, waiting: Vec<Listed>) -> Result<Vec<SessionWait>, mysql::Error> {
    let mut holders: BTreeMap<String, Option<Listed>> = BTreeMap::new();
    let mut waits = Vec::new();
    for waiter in waiting {
        let Some(name) = lock_name(&waiter.2) else {
            continue;
        };
        if !holders.contains_key(&name) {
            let holder = connection.exec_first(HOLDER, (name.as_str(),))?;
            holders.insert(name.clone(), holder);
        }
        if let Some(Some(holder)) = holders.get(&name) {
            waits.push(SessionWait {
                waiter: session(waiter),
                holder: Session {
                    // It need not be in a transaction.
                    doing: fold_query(Sql::Mysql, &holder.2),
                    ..session(holder.clone())
                },
                kind: LockKind::Named,
                object: fold_path(&name),
            });
        }
    }
    Ok(waits)
}

/// The name in `SELECT GET_LOCK('report', 10)`.
fn lock_name(statement: &str) -> Option<String> {
    let lower = statement.to_ascii_lowercase();
    let at = lower.find("get_lock(")? + "get_lock(".len();
    let rest = statement.get(at..)?.trim_start();
    let quote = rest.chars().next().filter(|c| matches!(c, '\'' | '"'))?;
    let rest = &rest[1..];
    let name = &rest[..rest.find(quote)?];
    (!name.is_empty()).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_lock_is_read_from_its_statement() {
        for (statement, name) in [
            ("SELECT GET_LOCK('report', 10)", Some("report")),
            ("select get_lock( \"a b\",1)", Some("a b")),
            ("SELECT GET_LOCK(?, ?)", None),
            ("SELECT GET_LOCK('", None),
            ("SELECT 1", None),
        ] {
            assert_eq!(lock_name(statement).as_deref(), name, "{statement}");
        }
    }

    #[test]
    fn rows_are_told_by_table_and_index() {
        assert_eq!(object("`shop`.`hits`", "PRIMARY"), "hits");
        assert_eq!(object("`shop`.`hits`", "by_page"), "hits (index by_page)");
    }

    #[test]
    fn a_statement_loses_its_values_and_a_session_without_one_is_idle() {
        let waits = of_rows((
            7,
            8,
            "`shop`.`hits`".into(),
            "PRIMARY".into(),
            "update hits set n = n + 1 where page = 'secret'".into(),
            String::new(),
            "10.0.0.2:50000".into(),
            "localhost".into(),
        ));
        assert_eq!(waits.waiter.port, Some(50_000));
        assert_eq!(
            waits.waiter.doing,
            "update hits set n = n + ? where page = ?"
        );
        assert_eq!(
            (waits.holder.port, waits.holder.doing.as_str()),
            (None, IDLE)
        );
    }

    #[test]
    fn a_server_that_is_not_there_is_named() {
        let mut tier = crate::source::tests::tier_without_doors(1);
        tier.endpoints = vec![Endpoint::Mysql {
            address: kneepoint_model::Address::Unix("/nonexistent/mysqld.sock".into()),
            user: "root".into(),
            password: String::new(),
        }];
        let why = of(&tier)
            .expect("MariaDB")
            .look()
            .expect_err("nobody is there");
        assert!(why.contains("asking MariaDB"), "{why}");
    }
}
