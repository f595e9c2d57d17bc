//! Which tests may run at the same time: those that disturb each other run apart, the others side by side.

use crate::support::{assert_nothing_left, traces};
use std::collections::BTreeSet;
use std::io::Write as _;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// What a test bears beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Company {
    /// Nothing: it looks at the whole machine, or what it finds depends on how much of it there is.
    None,
    /// Tests whose pages wait and do not compute, and that compare them: there is time enough for several.
    Waiting,
    /// Tests that ask what is answered, and not how fast.
    Any,
}

impl Company {
    /// How many such tests run at a time. Two cores bear a few labs.
    fn most(self) -> usize {
        match self {
            Self::None => 1,
            Self::Waiting => 4,
            Self::Any => 3,
        }
    }
}

/// The tests that run now; they are all of one kind.
struct Group {
    kind: Company,
    running: usize,
    /// Who has been in it since it was last empty.
    names: Vec<String>,
    /// What was on the machine when it was last empty.
    before: BTreeSet<String>,
}

static GROUP: Mutex<Group> = Mutex::new(Group {
    kind: Company::None,
    running: 0,
    names: Vec::new(),
    before: BTreeSet::new(),
});
static LEFT: Condvar = Condvar::new();

fn group() -> MutexGuard<'static, Group> {
    GROUP.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A test's place among those that run now. The last of a group that goes looks whether any of them left something on the
/// machine: while others run, nobody can tell whose a process is.
pub(crate) struct Place {
    since: Instant,
}

impl Place {
    fn take(kind: Company) -> Self {
        let mut group = LEFT
            .wait_while(group(), |group| {
                group.running > 0 && (group.kind != kind || group.running >= kind.most())
            })
            .unwrap_or_else(PoisonError::into_inner);
        if group.running == 0 {
            group.kind = kind;
            group.names.clear();
            group.before = traces();
        }
        group.running += 1;
        group.names.push(own_name());
        Self {
            since: Instant::now(),
        }
    }
}

fn own_name() -> String {
    std::thread::current().name().unwrap_or("a test").to_owned()
}

/// Adds how long a test ran, without the time it waited for its place, to the file that `KNEEPOINT_DURATIONS` names. A
/// file that cannot be written fails no test.
fn note_duration(since: Instant) {
    let Some(path) = std::env::var_os("KNEEPOINT_DURATIONS") else {
        return;
    };
    let line = format!("{:6.1} s  {}\n", since.elapsed().as_secs_f64(), own_name());
    if let Ok(mut file) = std::fs::File::options().append(true).open(path) {
        let _ = file.write_all(line.as_bytes());
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        note_duration(self.since);
        let mut group = group();
        if group.running == 1 && !std::thread::panicking() {
            let (before, names) = (group.before.clone(), group.names.join(", "));
            let checked = std::panic::catch_unwind(|| assert_nothing_left(&before, &names));
            group.running = 0;
            LEFT.notify_all();
            drop(group);
            if let Err(why) = checked {
                std::panic::resume_unwind(why);
            }
            return;
        }
        group.running -= 1;
        LEFT.notify_all();
    }
}

/// Nothing else runs until the value is dropped.
pub(crate) fn alone() -> Place {
    Place::take(Company::None)
}

/// Only tests whose pages wait run until the value is dropped.
pub(crate) fn among_waiting() -> Place {
    Place::take(Company::Waiting)
}

/// Only tests run until the value is dropped that do not ask how fast something is.
pub(crate) fn among_others() -> Place {
    Place::take(Company::Any)
}
