//! Processes as `/proc` shows them: who is whose child, and whether a number still means the same process.

use rustix::process::{PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::fs;

/// A process that cannot be mistaken for a later one with the same number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Identity {
    pub(crate) pid: u32,
    /// Start time in clock ticks since boot, field 22 of `/proc/PID/stat`.
    pub(crate) start_ticks: u64,
}

impl Identity {
    /// The identity of a running process.
    pub(crate) fn of(pid: u32) -> Option<Self> {
        stat(pid).map(|stat| stat.identity())
    }

    /// The identity of this process.
    pub(crate) fn own() -> Option<Self> {
        Self::of(std::process::id())
    }

    /// True while the process runs; one that only waits for its parent to collect it does not.
    pub(crate) fn is_alive(self) -> bool {
        stat(self.pid).is_some_and(|stat| stat.start_ticks == self.start_ticks && !stat.is_dead())
    }

    /// Kills the process if it is still the same one. True when the signal was sent.
    pub(crate) fn kill(self) -> bool {
        let Some(pid) = i32::try_from(self.pid)
            .ok()
            .and_then(rustix::process::Pid::from_raw)
        else {
            return false;
        };
        // The descriptor pins the process, so the identity that is checked next is the one that is killed.
        pidfd_open(pid, PidfdFlags::empty()).is_ok_and(|descriptor| {
            self.is_alive() && pidfd_send_signal(descriptor, Signal::KILL).is_ok()
        })
    }
}

/// The part of `/proc/PID/stat` the lab needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) pid: u32,
    pub(crate) name: String,
    pub(crate) state: char,
    pub(crate) parent: u32,
    pub(crate) group: u32,
    pub(crate) session: u32,
    pub(crate) start_ticks: u64,
}

impl Stat {
    pub(crate) fn identity(&self) -> Identity {
        Identity {
            pid: self.pid,
            start_ticks: self.start_ticks,
        }
    }

    pub(crate) fn is_dead(&self) -> bool {
        matches!(self.state, 'Z' | 'X' | 'x')
    }
}

fn parse(text: &str) -> Option<Stat> {
    // The name may hold spaces and brackets, so the fields after it are counted from the last bracket.
    let (head, tail) = text.rsplit_once(')')?;
    let (pid, name) = head.split_once('(')?;
    let fields: Vec<&str> = tail.split_whitespace().collect();
    Some(Stat {
        pid: pid.trim().parse().ok()?,
        name: name.to_owned(),
        state: fields.first()?.chars().next()?,
        parent: fields.get(1)?.parse().ok()?,
        group: fields.get(2)?.parse().ok()?,
        session: fields.get(3)?.parse().ok()?,
        start_ticks: fields.get(19)?.parse().ok()?,
    })
}

/// One process; `None` when there is none with this number.
pub(crate) fn stat(pid: u32) -> Option<Stat> {
    parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// Every process this one may see.
pub(crate) fn all() -> Vec<Stat> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter_map(stat)
        .collect()
}

/// The processes below `root` in the tree of parents, `root` itself not among them.
pub(crate) fn descendants(root: u32, all: &[Stat]) -> Vec<Stat> {
    let mut family = HashSet::from([root]);
    loop {
        let before = family.len();
        family.extend(
            all.iter()
                .filter(|stat| family.contains(&stat.parent))
                .map(|stat| stat.pid)
                .collect::<Vec<_>>(),
        );
        if family.len() == before {
            break;
        }
    }
    family.remove(&root);
    all.iter()
        .filter(|stat| family.contains(&stat.pid))
        .cloned()
        .collect()
}

/// What the environment of a process says about a variable.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Environment {
    /// The variable has this value.
    Has(String),
    /// The environment is readable and has no such variable.
    Lacks,
    /// Nothing can be said: it may not be read, or the program overwrote it with its title, as nginx,
    /// PHP-FPM and PostgreSQL do.
    Unknown,
}

/// Looks a variable up in the environment a process was started with.
pub(crate) fn environment(pid: u32, variable: &str) -> Environment {
    fs::read(format!("/proc/{pid}/environ"))
        .map_or(Environment::Unknown, |bytes| variable_in(&bytes, variable))
}

fn variable_in(environ: &[u8], variable: &str) -> Environment {
    let mut intact = false;
    for entry in environ.split(|byte| *byte == 0) {
        let Some((name, value)) = std::str::from_utf8(entry)
            .ok()
            .and_then(|entry| entry.split_once('='))
        else {
            continue;
        };
        if name == variable {
            return Environment::Has(value.to_owned());
        }
        intact |= name == "PATH" || name == "HOME";
    }
    if intact {
        Environment::Lacks
    } else {
        Environment::Unknown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: u32, parent: u32) -> Stat {
        Stat {
            pid,
            name: "x".into(),
            state: 'S',
            parent,
            group: pid,
            session: 1,
            start_ticks: u64::from(pid),
        }
    }

    #[test]
    fn a_name_with_brackets_and_spaces_does_not_shift_the_fields() {
        let text = "42 (php-fpm: pool) x) S 7 8 9 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 98765 1 2";
        let stat = parse(text).expect("parses");
        assert_eq!(stat.name, "php-fpm: pool) x");
        assert_eq!((stat.parent, stat.group, stat.session), (7, 8, 9));
        assert_eq!(stat.start_ticks, 98765);
        for broken in ["", "42", "42 (x", "42 (x) S", "x (y) S 1 2 3"] {
            assert_eq!(parse(broken), None, "{broken}");
        }
    }

    #[test]
    fn descendants_are_found_through_any_number_of_generations() {
        let all = [
            process(10, 1),
            process(30, 20),
            process(20, 10),
            process(40, 1),
            process(50, 30),
        ];
        let mut found: Vec<u32> = descendants(10, &all).iter().map(|s| s.pid).collect();
        found.sort_unstable();
        assert_eq!(found, [20, 30, 50]);
    }

    #[test]
    fn an_overwritten_environment_is_not_taken_for_a_strangers() {
        let check = |environ: &str, expected: Environment| {
            assert_eq!(variable_in(environ.as_bytes(), "LAB"), expected);
        };
        check("PATH=/bin\0LAB=7-a\0", Environment::Has("7-a".into()));
        check("PATH=/bin\0HOME=/\0", Environment::Lacks);
        check("\0\0\0", Environment::Unknown);
        check("", Environment::Unknown);
    }

    #[test]
    fn an_identity_dies_with_its_process() {
        let own = Identity::own().expect("this process exists");
        assert!(own.is_alive());
        let later = Identity {
            start_ticks: own.start_ticks + 1,
            ..own
        };
        assert!(!later.is_alive(), "same number, other process");
        assert!(!later.kill(), "a stranger is never hit");
    }
}
