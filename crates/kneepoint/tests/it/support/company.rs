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
    /// The same, of a test that takes little of the machine itself: it sends next to nothing, or is refused.
    Brief,
}

/// How many tests run at a time, whatever they are. Two cores bear a few labs.
const MOST: usize = 4;

impl Company {
    /// Whether a test of this kind runs beside one of that kind.
    fn bears(self, other: Self) -> bool {
        let asks_no_time = |kind: Self| matches!(kind, Self::Any | Self::Brief);
        self == other || (asks_no_time(self) && asks_no_time(other))
    }

    /// How many such tests run at a time.
    fn most(self) -> usize {
        match self {
            Self::None => 1,
            Self::Any => 3,
            Self::Waiting | Self::Brief => MOST,
        }
    }
}

/// Who goes first of those that wait for places beside each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Turn {
    /// Where nobody else can have the place.
    Last,
    Usual,
    /// What takes long: were it to begin last, it would run on when all others have ended.
    First,
}

/// The tests that run now, each of which bears the others, and those that wait.
struct Group {
    running: Vec<Company>,
    waiting: Vec<(Company, Turn)>,
    /// Who has been in it since it was last empty.
    names: Vec<String>,
    /// What was on the machine when it was last empty.
    before: BTreeSet<String>,
}

static GROUP: Mutex<Group> = Mutex::new(Group {
    running: Vec::new(),
    waiting: Vec::new(),
    names: Vec::new(),
    before: BTreeSet::new(),
});
/// Somebody has come into the group, or has left it.
static CHANGED: Condvar = Condvar::new();

fn group() -> MutexGuard<'static, Group> {
    GROUP.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Group {
    /// Whether there is a place for a test of this kind.
    fn has_place_for(&self, kind: Company) -> bool {
        let alike = self.running.iter().filter(|other| **other == kind).count();
        self.running.iter().all(|other| kind.bears(*other))
            && self.running.len() < MOST
            && alike < kind.most()
    }

    /// Whether a test that waits begins now.
    fn lets_in(&self, (kind, turn): (Company, Turn)) -> bool {
        let goes_before = |(other, others_turn): &(Company, Turn)| {
            *others_turn > turn && kind.bears(*other) && self.has_place_for(*other)
        };
        self.has_place_for(kind) && !self.waiting.iter().any(goes_before)
    }
}

/// Takes one such value out of a list.
fn take_out<T: PartialEq>(list: &mut Vec<T>, value: &T) {
    if let Some(at) = list.iter().position(|it| it == value) {
        list.swap_remove(at);
    }
}

/// A test's place among those that run now. The last of a group that goes looks whether any of them left something on the
/// machine: while others run, nobody can tell whose a process is.
pub(crate) struct Place {
    kind: Company,
    since: Instant,
}

impl Place {
    fn take(kind: Company, turn: Turn) -> Self {
        let own = (kind, turn);
        let mut group = group();
        group.waiting.push(own);
        let mut group = CHANGED
            .wait_while(group, |group| !group.lets_in(own))
            .unwrap_or_else(PoisonError::into_inner);
        take_out(&mut group.waiting, &own);
        if group.running.is_empty() {
            group.names.clear();
            group.before = traces();
        }
        group.running.push(kind);
        group.names.push(own_name());
        CHANGED.notify_all();
        Self {
            kind,
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
        if group.running.len() == 1 && !std::thread::panicking() {
            let (before, names) = (group.before.clone(), group.names.join(", "));
            let checked = std::panic::catch_unwind(|| assert_nothing_left(&before, &names));
            group.running.clear();
            CHANGED.notify_all();
            drop(group);
            if let Err(why) = checked {
                std::panic::resume_unwind(why);
            }
            return;
        }
        take_out(&mut group.running, &self.kind);
        CHANGED.notify_all();
    }
}

/// Nothing else runs until the value is dropped.
pub(crate) fn alone() -> Place {
    Place::take(Company::None, Turn::Usual)
}

/// Only tests whose pages wait run until the value is dropped.
pub(crate) fn among_waiting() -> Place {
    Place::take(Company::Waiting, Turn::Usual)
}

/// The same for a test that takes a minute or more.
pub(crate) fn long_among_waiting() -> Place {
    Place::take(Company::Waiting, Turn::First)
}

/// Only tests run until the value is dropped that do not ask how fast something is.
pub(crate) fn among_others() -> Place {
    Place::take(Company::Any, Turn::Usual)
}

/// The same for a test that takes a minute or more.
pub(crate) fn long_among_others() -> Place {
    Place::take(Company::Any, Turn::First)
}

/// The same for a test that sends next to nothing, or is refused.
pub(crate) fn briefly_among_others() -> Place {
    Place::take(Company::Brief, Turn::Last)
}
