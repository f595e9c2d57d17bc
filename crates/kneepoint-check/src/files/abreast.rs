//! Work on directories that belong to others, side by side and until a deadline. A directory of a file system that no
//! longer answers keeps nobody waiting: its thread stays behind, and another takes its place.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Most that are worked on at once.
pub(crate) const AT_ONCE: usize = 16;
/// Most threads, those that stay behind included.
pub(crate) const THREADS: usize = 128;
/// The part of a budget after which somebody no longer counts as one who works.
const PATIENCE: u32 = 20;

/// What threads of earlier looks still wait for: it is not begun again, or a watch would gather threads without end.
static BEHIND: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// Until when there is time, and after how much of it somebody no longer counts as one who works.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Until {
    pub(crate) deadline: Instant,
    pub(crate) patience: Duration,
}

/// The time of a whole look.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Time {
    pub(crate) budget: Duration,
    end: Instant,
    patience: Duration,
}

impl Time {
    pub(crate) fn from_now(budget: Duration) -> Self {
        Self {
            budget,
            end: Instant::now() + budget,
            patience: budget / PATIENCE,
        }
    }

    /// A part of what is left: what hangs in one kind of work leaves time for the next.
    pub(crate) fn part(&self, part: f64) -> Until {
        let now = Instant::now();
        let left = self.end.saturating_duration_since(now);
        Until {
            deadline: now + left.mul_f64(part),
            patience: self.patience,
        }
    }
}

/// What the threads share.
struct Shared<T, R> {
    waiting: VecDeque<(usize, String, T)>,
    /// What is worked on, by its number: its name, and since when.
    running: HashMap<usize, (String, Instant)>,
    threads: usize,
    done: Vec<Option<R>>,
    /// Nobody waits for what is not done by now.
    is_over: bool,
}

struct Work<T, R> {
    shared: Mutex<Shared<T, R>>,
    ended: Condvar,
    work: Box<dyn Fn(T) -> R + Send + Sync>,
}

/// What comes of each item, in their order; `None` for one that was not done in time. Its name tells what may not answer.
pub(crate) fn abreast<T: Send + 'static, R: Send + 'static>(
    items: Vec<(String, T)>,
    until: Until,
    work: impl Fn(T) -> R + Send + Sync + 'static,
) -> Vec<Option<R>> {
    let count = items.len();
    let behind = locked(&BEHIND).clone();
    let numbered = items.into_iter().enumerate();
    let waiting = numbered.filter(|(_, (name, _))| !behind.contains(name));
    let all = Arc::new(Work {
        shared: Mutex::new(Shared {
            waiting: waiting.map(|(at, (name, item))| (at, name, item)).collect(),
            running: HashMap::new(),
            threads: 0,
            done: (0..count).map(|_| None).collect(),
            is_over: false,
        }),
        ended: Condvar::new(),
        work: Box::new(work),
    });
    let mut shared = locked(&all.shared);
    loop {
        let left = until.deadline.saturating_duration_since(Instant::now());
        let is_done = shared.waiting.is_empty() && shared.running.is_empty();
        if left.is_zero() || is_done {
            break;
        }
        let late = shared.running.values();
        let late = late.filter(|(_, since)| since.elapsed() >= until.patience);
        let quick = shared.threads - late.count();
        let more = shared.waiting.len().min(AT_ONCE.saturating_sub(quick));
        for _ in 0..more.min(THREADS.saturating_sub(shared.threads)) {
            shared.threads += 1;
            let all = Arc::clone(&all);
            std::thread::spawn(move || all.go_on());
        }
        let wait = left.min(until.patience.max(Duration::from_millis(1)));
        let woken = all.ended.wait_timeout(shared, wait);
        (shared, _) = woken.unwrap_or_else(PoisonError::into_inner);
    }
    shared.is_over = true;
    shared.waiting.clear();
    let names = shared.running.values().map(|(name, _)| name.clone());
    locked(&BEHIND).extend(names);
    std::mem::take(&mut shared.done)
}

impl<T, R> Work<T, R> {
    /// Works on one after another, while there are any and somebody waits.
    fn go_on(&self) {
        let mut shared = locked(&self.shared);
        while let Some((at, name, item)) = shared.waiting.pop_front() {
            shared.running.insert(at, (name.clone(), Instant::now()));
            drop(shared);
            let result = (self.work)(item);
            shared = locked(&self.shared);
            shared.running.remove(&at);
            if shared.is_over {
                locked(&BEHIND).remove(&name);
            } else {
                shared.done[at] = Some(result);
            }
        }
        shared.threads -= 1;
        self.ended.notify_one();
    }
}

fn locked<T>(what: &Mutex<T>) -> MutexGuard<'_, T> {
    what.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Receiver, channel};

    fn until(deadline: Duration) -> Until {
        Until {
            deadline: Instant::now() + deadline,
            patience: Duration::from_millis(20),
        }
    }

    type Item = (usize, Arc<Mutex<Receiver<()>>>);

    #[test]
    fn each_is_done_and_keeps_its_place() {
        let items = (0..1000).map(|at| (format!("each {at}"), at)).collect();
        let done = abreast(items, until(Duration::from_secs(60)), |at: usize| at * 2);
        let expected: Vec<Option<usize>> = (0..1000).map(|at| Some(at * 2)).collect();
        assert_eq!(done, expected);
    }

    #[test]
    fn what_never_answers_hides_nothing_else_and_is_not_begun_again() {
        // A channel to which nobody sends stands for a file system that does not answer.
        let (send, receive) = channel::<()>();
        let receive = Arc::new(Mutex::new(receive));
        let items = |name: &str| -> Vec<(String, Item)> {
            let all = (0..60).map(|at| (format!("{name} {at}"), (at, Arc::clone(&receive))));
            all.collect()
        };
        let work = |(at, receive): Item| {
            if at < 30 {
                let _ = locked(&receive).recv();
            }
            at
        };
        let done = abreast(items("stuck"), until(Duration::from_secs(2)), work);
        let expected: Vec<Option<usize>> = (0..60).map(|at| (at >= 30).then_some(at)).collect();
        assert_eq!(done, expected);
        let again = abreast(items("stuck"), until(Duration::from_secs(60)), |(at, _)| at);
        assert_eq!(again, expected, "not begun again while it waits");
        drop(send);
        while locked(&BEHIND).iter().any(|name| name.starts_with("stuck")) {
            std::thread::yield_now();
        }
        let answers = abreast(items("stuck"), until(Duration::from_secs(60)), work);
        assert!(answers.iter().all(Option::is_some), "it answers again");
    }
}
