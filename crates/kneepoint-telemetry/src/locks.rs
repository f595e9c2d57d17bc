//! Who waits for whose lock: for a file or a semaphore by the kernel, for rows and locks with a name by the database, each joined
//! to the PHP worker behind it.
//!
//! A session of a database is joined to a worker by the port that its connection comes from. Over a Unix socket there is no
//! port, and the session stands for itself.

mod files;
mod mariadb;
mod postgresql;
mod semaphores;
mod sessions;

use crate::waiting_on::{Doing, Peers};
use kneepoint_linux::process;
use kneepoint_model::{Layer, LockKind, LockParty, LockWait, RunningTier};
use semaphores::Semaphores;
use sessions::{Session, SessionWait, Sessions};
use std::collections::{BTreeMap, HashMap};

/// Looks that are left out after the database did not answer.
const PAUSE: u32 = 20;

/// Looks at who waits for whose lock, again and again.
pub struct LockWatch {
    master: u32,
    peers: Peers,
    semaphores: Semaphores,
    sessions: Sessions,
    database: Option<Box<dyn Database>>,
    quiet: u32,
    /// Whether the database answered at the last look, where there is one.
    answered: bool,
    trouble: Option<String>,
}

impl std::fmt::Debug for LockWatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LockWatch")
            .field("master", &self.master)
            .finish_non_exhaustive()
    }
}

/// A worker waits for what another process has.
#[derive(Debug, Clone, PartialEq, Eq)]
struct WorkerWait {
    waiter: u32,
    holder: u32,
    object: String,
}

/// A database that tells who waits for whom.
trait Database: Send {
    /// Who waits for whom now.
    ///
    /// # Errors
    /// It did not answer: in words.
    fn look(&mut self) -> Result<Vec<SessionWait>, String>;
}

impl LockWatch {
    /// For the workers of PHP among the tiers, and the database; `None` where there are no workers that are processes.
    #[must_use]
    pub fn of(tiers: &[RunningTier]) -> Option<Self> {
        let php = tiers.iter().find(|tier| tier.layer == Layer::Php)?;
        php.workers.as_ref()?;
        let database = tiers.iter().find(|tier| tier.layer == Layer::Db);
        Some(Self {
            master: php.pid,
            peers: Peers::of(php),
            semaphores: Semaphores::of(php.pid),
            sessions: Sessions::of(php),
            database: database.and_then(|tier| mariadb::of(tier).or_else(|| postgresql::of(tier))),
            quiet: 0,
            answered: true,
            trouble: None,
        })
    }

    /// Who waits for whom now.
    pub fn look(&mut self) -> Vec<LockWait> {
        let Ok(workers) = process::children(self.master) else {
            return Vec::new();
        };
        let files = files::waits(&workers);
        let mut waits = self.held(files, LockKind::File, &workers);
        let semaphores = self.semaphores.waits(&workers);
        waits.extend(self.held(semaphores, LockKind::Semaphore, &workers));
        let asked = self.ask();
        if !asked.is_empty() {
            let ports = self.sessions.workers_by_port(&workers);
            waits.extend(asked.into_iter().map(|wait| joined(wait, &ports)));
        }
        waits
    }

    /// Whether the database told of its part at the last look; true where there is none to ask.
    #[must_use]
    pub fn answered(&self) -> bool {
        self.answered
    }

    /// Why the database could not be asked, where it could not.
    #[must_use]
    pub fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }

    /// Each with what its holder does.
    fn held(&mut self, found: Vec<WorkerWait>, kind: LockKind, workers: &[u32]) -> Vec<LockWait> {
        let mut doing: BTreeMap<u32, String> = BTreeMap::new();
        found
            .into_iter()
            .map(|wait| {
                let holder = doing
                    .entry(wait.holder)
                    .or_insert_with(|| doing_of(&mut self.peers, wait.holder, workers))
                    .clone();
                LockWait {
                    waiter: worker(wait.waiter, String::new()),
                    holder: worker(wait.holder, holder),
                    kind,
                    object: wait.object,
                }
            })
            .collect()
    }

    fn ask(&mut self) -> Vec<SessionWait> {
        let Some(database) = &mut self.database else {
            return Vec::new();
        };
        self.answered = self.quiet == 0;
        if self.quiet > 0 {
            self.quiet -= 1;
            return Vec::new();
        }
        database.look().unwrap_or_else(|why| {
            self.quiet = PAUSE;
            self.answered = false;
            self.trouble = Some(why);
            Vec::new()
        })
    }
}

/// What a process does: one that is no worker is called by its title.
fn doing_of(peers: &mut Peers, pid: u32, workers: &[u32]) -> String {
    if !workers.contains(&pid) {
        return process::title_of(pid).unwrap_or_default();
    }
    match peers.look(pid) {
        Doing::Running => "computing".to_owned(),
        Doing::Waiting(label) => format!("in {label}"),
        Doing::Gone => String::new(),
    }
}

fn worker(pid: u32, doing: String) -> LockParty {
    LockParty {
        id: format!("worker {pid}"),
        worker: Some(pid),
        doing,
        ..LockParty::default()
    }
}

/// A wait of sessions as one of the workers behind them, where they are known.
fn joined(wait: SessionWait, ports: &HashMap<u16, u32>) -> LockWait {
    let party = |session: Session| {
        let pid = session.port.and_then(|port| ports.get(&port)).copied();
        match pid {
            Some(pid) => worker(pid, session.doing),
            None => LockParty {
                id: format!("session {}", session.id),
                doing: session.doing,
                ..LockParty::default()
            },
        }
    };
    LockWait {
        waiter: party(wait.waiter),
        holder: party(wait.holder),
        kind: wait.kind,
        object: wait.object,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_the_worker_whose_port_it_has() {
        let session = |id, port| Session {
            id,
            port,
            doing: format!("statement of {id}"),
        };
        let wait = joined(
            SessionWait {
                waiter: session(7, Some(50_000)),
                holder: session(8, Some(50_001)),
                kind: LockKind::Row,
                object: "hits".to_owned(),
            },
            &HashMap::from([(50_001, 4711)]),
        );
        assert_eq!(
            (wait.waiter.id.as_str(), wait.waiter.worker),
            ("session 7", None)
        );
        assert_eq!(
            (wait.holder.id.as_str(), wait.holder.worker),
            ("worker 4711", Some(4711))
        );
        assert_eq!(wait.holder.doing, "statement of 8");
    }

    #[test]
    fn without_php_nobody_looks() {
        let mut tier = crate::source::tests::tier_without_doors(std::process::id());
        assert!(LockWatch::of(&[]).is_none());
        assert!(LockWatch::of(&[tier.clone()]).is_none(), "no workers");
        tier.workers = Some(kneepoint_model::Workers::FpmPool);
        let mut watch = LockWatch::of(&[tier]).expect("workers");
        assert!(watch.look().is_empty() && watch.trouble().is_none());
    }
}
