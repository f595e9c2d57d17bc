//! Work on what belongs to others, side by side and until a deadline. A file system that no longer answers keeps nobody
//! waiting: its thread stays behind, and another takes its place.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Most that are worked on at once.
const AT_ONCE: usize = 16;
/// Most threads, those that stay behind included.
const THREADS: usize = 128;
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

impl Until {
    fn left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }
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
    running: BTreeMap<usize, (String, Instant)>,
    threads: usize,
    done: VecDeque<(usize, R)>,
    /// Nobody waits for what is not done by now.
    is_over: bool,
}

struct Work<T, R> {
    shared: Mutex<Shared<T, R>>,
    ended: Condvar,
    work: Box<dyn Fn(T) -> R + Send + Sync>,
}

/// Items that are worked on side by side. More may be added while they are.
pub(crate) struct Abreast<T, R> {
    until: Until,
    all: Arc<Work<T, R>>,
    /// For what an earlier look still waits.
    behind: BTreeSet<String>,
    /// The number of the next item.
    next: usize,
}

impl<T: Send + 'static, R: Send + 'static> Abreast<T, R> {
    pub(crate) fn new(until: Until, work: impl Fn(T) -> R + Send + Sync + 'static) -> Self {
        let shared = Shared {
            waiting: VecDeque::new(),
            running: BTreeMap::new(),
            threads: 0,
            done: VecDeque::new(),
            is_over: false,
        };
        Self {
            until,
            all: Arc::new(Work {
                shared: Mutex::new(shared),
                ended: Condvar::new(),
                work: Box::new(work),
            }),
            behind: locked(&BEHIND).clone(),
            next: 0,
        }
    }

    /// Adds an item, which gets the next number: the first is 0. Its name tells what may not answer: while an earlier look
    /// waits for that, it is never done.
    pub(crate) fn add(&mut self, name: String, item: T) {
        if !self.behind.contains(&name) {
            let mut shared = locked(&self.all.shared);
            shared.waiting.push_back((self.next, name, item));
        }
        self.next += 1;
    }

    /// The next that is done, with its number; `None` when there is none, or no time.
    pub(crate) fn next(&mut self) -> Option<(usize, R)> {
        let mut shared = locked(&self.all.shared);
        loop {
            if let Some(done) = shared.done.pop_front() {
                return Some(done);
            }
            let left = self.until.left();
            let is_done = shared.waiting.is_empty() && shared.running.is_empty();
            if left.is_zero() || is_done {
                return None;
            }
            for _ in 0..shared.wanted(self.until.patience) {
                let all = Arc::clone(&self.all);
                if thread::Builder::new().spawn(move || all.go_on()).is_err() {
                    // The system has no more: those that work go on.
                    break;
                }
                shared.threads += 1;
            }
            let wait = left.min(self.until.patience.max(Duration::from_millis(1)));
            let woken = self.all.ended.wait_timeout(shared, wait);
            (shared, _) = woken.unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl<T, R> Drop for Abreast<T, R> {
    fn drop(&mut self) {
        let mut shared = locked(&self.all.shared);
        shared.is_over = true;
        shared.waiting.clear();
        let names = shared.running.values().map(|(name, _)| name.clone());
        locked(&BEHIND).extend(names);
    }
}

impl<T, R> Shared<T, R> {
    /// How many threads are to be begun: those that have worked for longer than this no longer count.
    fn wanted(&self, patience: Duration) -> usize {
        let late = self.running.values();
        let late = late.filter(|(_, since)| since.elapsed() >= patience);
        let quick = self.threads - late.count();
        let more = self.waiting.len().min(AT_ONCE.saturating_sub(quick));
        more.min(THREADS.saturating_sub(self.threads))
    }
}

/// What comes of each item, in their order; `None` for one that was not done in time. Its name tells what may not answer.
pub(crate) fn abreast<T: Send + 'static, R: Send + 'static>(
    items: Vec<(String, T)>,
    until: Until,
    work: impl Fn(T) -> R + Send + Sync + 'static,
) -> Vec<Option<R>> {
    let mut results: Vec<Option<R>> = items.iter().map(|_| None).collect();
    let mut all = Abreast::new(until, work);
    items
        .into_iter()
        .for_each(|(name, item)| all.add(name, item));
    while let Some((at, result)) = all.next() {
        results[at] = Some(result);
    }
    results
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
                shared.done.push_back((at, result));
                self.ended.notify_one();
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
    fn what_comes_of_one_may_ask_for_more() {
        let mut all = Abreast::new(until(Duration::from_secs(60)), |left: usize| left);
        all.add("the first".into(), 3);
        let mut seen = Vec::new();
        while let Some((at, left)) = all.next() {
            seen.push((at, left));
            if left > 0 {
                all.add(format!("one with {left} left"), left - 1);
            }
        }
        assert_eq!(seen, [(0, 3), (1, 2), (2, 1), (3, 0)]);
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
            thread::yield_now();
        }
        let answers = abreast(items("stuck"), until(Duration::from_secs(60)), work);
        assert!(answers.iter().all(Option::is_some), "it answers again");
    }
}
