//! Processes as `/proc` lists them: who is whose child, and with which environment it was started.

use procfs::process::Process;
use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};

/// A process in the list of all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessEntry {
    /// Its number.
    pub pid: u32,
    /// The name of its program, cut to 15 bytes.
    pub name: String,
    /// State letter, as in proc(5).
    pub state: char,
    /// Its parent.
    pub parent: u32,
    /// Its process group; 0 when the group comes from outside of the namespace of process ids, as proc(5) of a container has it.
    pub group: u32,
    /// Its session; 0 like the group.
    pub session: u32,
    /// When it started, in clock ticks since boot: with its number it names a process for ever.
    pub start_ticks: u64,
}

impl ProcessEntry {
    /// One process; `None` when there is none with this number.
    #[must_use]
    pub fn of(pid: u32) -> Option<Self> {
        Self::read(&Process::new(i32::try_from(pid).ok()?).ok()?)
    }

    /// Every process this one may see.
    #[must_use]
    pub fn all() -> Vec<Self> {
        let processes = procfs::process::all_processes().into_iter().flatten();
        processes
            .filter_map(|process| Self::read(&process.ok()?))
            .collect()
    }

    /// The processes below `root` in the tree of parents, `root` itself not among them.
    #[must_use]
    pub fn descendants(root: u32, all: &[Self]) -> Vec<Self> {
        let mut family = HashSet::from([root]);
        loop {
            let before = family.len();
            family.extend(
                all.iter()
                    .filter(|entry| family.contains(&entry.parent))
                    .map(|entry| entry.pid)
                    .collect::<Vec<_>>(),
            );
            if family.len() == before {
                break;
            }
        }
        family.remove(&root);
        all.iter()
            .filter(|entry| family.contains(&entry.pid))
            .cloned()
            .collect()
    }

    /// Whether it waits only for its parent to collect it.
    #[must_use]
    pub fn is_dead(&self) -> bool {
        matches!(self.state, 'Z' | 'X' | 'x')
    }

    fn read(process: &Process) -> Option<Self> {
        let stat = process.stat().ok()?;
        Some(Self {
            pid: u32::try_from(stat.pid).ok()?,
            name: stat.comm,
            state: stat.state,
            parent: u32::try_from(stat.ppid).ok()?,
            group: u32::try_from(stat.pgrp).ok()?,
            session: u32::try_from(stat.session).ok()?,
            start_ticks: stat.starttime,
        })
    }
}

/// What the environment of a process says about a variable.
#[derive(Debug, PartialEq, Eq)]
pub enum Environment {
    /// The variable has this value.
    Has(String),
    /// The environment is readable and has no such variable.
    Lacks,
    /// Nothing can be said: it may not be read, or the program overwrote it with its title, as nginx,
    /// PHP-FPM and PostgreSQL do.
    Unknown,
}

impl Environment {
    /// Looks a variable up in the environment a process was started with.
    #[must_use]
    pub fn of(pid: u32, variable: &str) -> Self {
        let environment = i32::try_from(pid)
            .ok()
            .and_then(|pid| Process::new(pid).ok()?.environ().ok());
        match environment {
            Some(variables) => Self::among(&variables, variable),
            None => Self::Unknown,
        }
    }

    fn among(variables: &HashMap<OsString, OsString>, variable: &str) -> Self {
        let value = |name: &str| variables.get(OsStr::new(name));
        if let Some(value) = value(variable).and_then(|value| value.to_str()) {
            return Self::Has(value.to_owned());
        }
        match value("PATH").or(value("HOME")) {
            Some(_) => Self::Lacks,
            None => Self::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use procfs::FromRead;

    fn process(pid: u32, parent: u32) -> ProcessEntry {
        ProcessEntry {
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
        let text = "42 (php-fpm: pool) x) S 7 8 9 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 98765 1 2 3 4 5 6 7 8 9 \
            10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30";
        let stat = procfs::process::Stat::from_read(text.as_bytes()).expect("parses");
        assert_eq!(stat.comm, "php-fpm: pool) x");
        assert_eq!((stat.ppid, stat.pgrp, stat.session), (7, 8, 9));
        assert_eq!(stat.starttime, 98765);
        for broken in ["", "42", "42 (x", "42 (x) S", "x (y) S 1 2 3"] {
            let read = procfs::process::Stat::from_read(broken.as_bytes());
            assert!(read.is_err(), "{broken}");
        }
    }

    #[test]
    fn this_process_is_in_the_list_below_its_parent() {
        let all = ProcessEntry::all();
        let own = all.iter().find(|one| one.pid == std::process::id());
        let own = own.expect("this process");
        assert_eq!(own.parent, std::os::unix::process::parent_id());
        assert!(!own.is_dead());
        assert!(ProcessEntry::descendants(own.parent, &all).contains(own));
        assert_eq!(ProcessEntry::of(u32::MAX), None);
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
        let mut found: Vec<u32> = ProcessEntry::descendants(10, &all)
            .iter()
            .map(|entry| entry.pid)
            .collect();
        found.sort_unstable();
        assert_eq!(found, [20, 30, 50]);
    }

    #[test]
    fn an_overwritten_environment_is_not_taken_for_a_strangers() {
        let check = |variables: &[(&str, &str)], expected: Environment| {
            let variables = variables.iter();
            let variables = variables.map(|(name, value)| (name.into(), value.into()));
            assert_eq!(Environment::among(&variables.collect(), "LAB"), expected);
        };
        check(
            &[("PATH", "/bin"), ("LAB", "7-a")],
            Environment::Has("7-a".into()),
        );
        check(&[("PATH", "/bin"), ("HOME", "/")], Environment::Lacks);
        check(&[("", "")], Environment::Unknown);
        check(&[], Environment::Unknown);
    }

    #[test]
    fn the_environment_of_this_process_is_read() {
        let own = std::process::id();
        if let Ok(path) = std::env::var("PATH") {
            assert_eq!(Environment::of(own, "PATH"), Environment::Has(path));
            assert_eq!(Environment::of(own, "NO_SUCH_VARIABLE"), Environment::Lacks);
        }
        assert_eq!(Environment::of(u32::MAX, "PATH"), Environment::Unknown);
    }
}
