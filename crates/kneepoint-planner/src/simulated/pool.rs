//! A pool of workers on shared cores, as a discrete-event simulation.
//!
//! A request takes a worker, or waits in the backlog in the order of arrival, or is refused when that is full. It
//! then goes through its pieces: CPU, which the cores share out equally among all that want it (processor
//! sharing), and a wait that holds the worker but no core (a database, a cache).
//!
//! Sharing is simulated in virtual time: `attained` is what every request on a core has had since the beginning, so a
//! piece that begins now ends when `attained` has grown by its length, whoever comes and goes in between. An event
//! costs the depth of a heap and not a walk over all requests.
//!
//! A real scheduler ([`Pool::scheduled`]) has two levels: the cores go to what requests need within their slice, and what is
//! left of them to what they need beyond it. There they are not shared out either: as many run as there are cores, each for
//! its quantum, and the others wait in line.
//!
//! There is no noise in here. Who wants a machine that drifts sets the speed over time.

use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, VecDeque};

/// A stretch of CPU, and the wait after it.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Piece {
    /// CPU in seconds at speed 1.
    pub cpu_s: f64,
    /// Wait in seconds, whatever the speed.
    pub wait_s: f64,
}

/// How the cores are given to those that want them. The default is processor sharing.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Scheduling {
    /// CPU seconds of each request that come before whatever others need beyond theirs: a scheduler lets a task which has
    /// slept run before one that has used up its slice.
    pub slice_s: f64,
    /// CPU seconds beyond its slice after which a request makes room for the next in line and goes to its end; `None` where
    /// all share the cores.
    pub quantum_s: Option<f64>,
}

/// The size of a pool.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PoolSize {
    /// Requests that are served at the same time.
    pub workers: u32,
    /// Cores they share.
    pub cores: f64,
    /// Requests that may wait for a worker.
    pub backlog: u32,
}

/// A request that left the pool.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ended {
    /// What [`Pool::offer`] was given.
    pub id: u64,
    /// When, in seconds.
    pub at_s: f64,
}

/// A moment that can be ordered.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Moment(f64);

impl Eq for Moment {}

impl PartialOrd for Moment {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Moment {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

/// A request on a worker.
#[derive(Debug, Clone)]
struct Running {
    id: u64,
    pieces: Vec<Piece>,
    next: usize,
    /// CPU seconds of its slice that are given out.
    sliced_s: f64,
    /// CPU seconds that the present piece needs after what it is on a core for now.
    left_s: f64,
}

/// Requests on the cores that share what their level has.
#[derive(Debug, Clone, Default)]
struct Level {
    /// CPU seconds that each of them has had since the beginning.
    attained_s: f64,
    /// Ends of CPU pieces, in attained seconds.
    ends: Agenda,
}

/// The two levels: within the slice, and beyond it.
const WITHIN: usize = 0;
const BEYOND: usize = 1;
/// What is left of a last turn by rounding alone is not worth another.
const ROUNDING_S: f64 = 1e-12;

type Agenda = BinaryHeap<Reverse<(Moment, usize)>>;

/// The pool and what is in it. Time goes forward only.
#[derive(Debug, Clone)]
pub struct Pool {
    size: PoolSize,
    speed: f64,
    now_s: f64,
    scheduling: Scheduling,
    /// Those within their slice, and those beyond it.
    levels: [Level; 2],
    /// Those beyond their slice that wait for a core.
    line: VecDeque<usize>,
    /// Core seconds that were in use since the beginning.
    busy_s: f64,
    /// Ends of waits, in seconds.
    waiting: Agenda,
    slots: Vec<Option<Running>>,
    free: Vec<usize>,
    busy: u32,
    queue: VecDeque<(u64, Vec<Piece>)>,
}

impl Pool {
    /// An empty pool at second 0 and speed 1.
    #[must_use]
    pub fn new(size: PoolSize) -> Self {
        Self {
            size,
            speed: 1.0,
            now_s: 0.0,
            scheduling: Scheduling::default(),
            levels: Default::default(),
            line: VecDeque::new(),
            busy_s: 0.0,
            waiting: Agenda::new(),
            slots: Vec::new(),
            free: Vec::new(),
            busy: 0,
            queue: VecDeque::new(),
        }
    }

    /// The same with cores that are given out in another way.
    #[must_use]
    pub fn scheduled(self, scheduling: Scheduling) -> Self {
        Self { scheduling, ..self }
    }

    /// The present, in seconds.
    #[must_use]
    pub fn now_s(&self) -> f64 {
        self.now_s
    }

    /// Whether nothing runs and nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.busy == 0
    }

    /// Core seconds in use since the beginning: a slow core is in use for longer.
    #[must_use]
    pub fn busy_s(&self) -> f64 {
        self.busy_s
    }

    /// Requests that wait for a worker.
    #[must_use]
    pub fn queued(&self) -> usize {
        self.queue.len()
    }

    /// From now on a core does this many CPU seconds a second; 0 is a stall.
    pub fn set_speed(&mut self, speed: f64) {
        self.speed = speed;
    }

    /// From now on the pool has this many cores.
    pub fn set_cores(&mut self, cores: f64) {
        self.size.cores = cores;
    }

    /// A request arrives now. False when it was refused: every worker is busy and the backlog is full.
    pub fn offer(&mut self, id: u64, pieces: Vec<Piece>) -> bool {
        if self.busy < self.size.workers {
            self.start(id, pieces);
        } else if self.queue.len() < self.size.backlog as usize {
            self.queue.push_back((id, pieces));
        } else {
            return false;
        }
        true
    }

    /// Lets time pass until the next request leaves, or until `until_s` when none does before.
    pub fn advance(&mut self, until_s: f64) -> Option<Ended> {
        loop {
            let ((cpu_s, level), wait_s) = (self.cpu_ends_s(), wait_ends_s(&self.waiting));
            let next_s = cpu_s.min(wait_s);
            if next_s > until_s {
                self.pass(until_s);
                return None;
            }
            self.pass(next_s);
            let slot = if cpu_s <= wait_s {
                let Reverse((_, slot)) = self.levels[level].ends.pop()?;
                if level == BEYOND
                    && let Some(next) = self.line.pop_front()
                {
                    self.take_turn(next);
                }
                if self.goes_on(slot) {
                    continue;
                }
                match self.piece_just_run(slot).wait_s {
                    wait if wait > 0.0 => {
                        let end = Moment(self.now_s + wait);
                        self.waiting.push(Reverse((end, slot)));
                        continue;
                    }
                    _ => slot,
                }
            } else {
                self.waiting.pop()?.0.1
            };
            if let Some(ended) = self.next_piece(slot) {
                return Some(ended);
            }
        }
    }

    /// Cores that a level has.
    fn cores(&self, level: usize) -> f64 {
        let wanted = |level: usize| self.levels[level].ends.len() as f64;
        let first = wanted(WITHIN).min(self.size.cores);
        match level {
            WITHIN => first,
            _ => wanted(level).min(self.size.cores - first),
        }
    }

    /// CPU seconds a second that each request of a level gets now.
    fn rate(&self, level: usize) -> f64 {
        self.speed * self.cores(level) / self.levels[level].ends.len().max(1) as f64
    }

    /// When the next piece on a core ends, and on which level.
    fn cpu_ends_s(&self) -> (f64, usize) {
        let ends = |level: usize| match self.levels[level].ends.peek() {
            Some(Reverse((Moment(end), _))) => {
                let left_s = (end - self.levels[level].attained_s).max(0.0);
                // What needs no more ends now, even where its level has no core.
                if left_s > 0.0 {
                    self.now_s + left_s / self.rate(level)
                } else {
                    self.now_s
                }
            }
            None => f64::INFINITY,
        };
        let (within, beyond) = (ends(WITHIN), ends(BEYOND));
        if within <= beyond {
            (within, WITHIN)
        } else {
            (beyond, BEYOND)
        }
    }

    fn pass(&mut self, until_s: f64) {
        let passed = (until_s - self.now_s).max(0.0);
        for level in 0..self.levels.len() {
            if !self.levels[level].ends.is_empty() {
                self.busy_s += passed * self.cores(level);
                self.levels[level].attained_s += passed * self.rate(level);
            }
        }
        self.now_s = self.now_s.max(until_s);
    }

    /// Puts a piece of this many CPU seconds on the cores, or what of it is within the slice, or at the end of the line.
    fn run(&mut self, slot: usize, cpu_s: f64) {
        let Some(running) = self.slots[slot].as_mut() else {
            return;
        };
        let within_s = cpu_s.min(self.scheduling.slice_s - running.sliced_s);
        // What needs no CPU waits for nobody.
        if within_s > 0.0 || cpu_s <= 0.0 {
            let within_s = within_s.max(0.0);
            running.sliced_s += within_s;
            running.left_s = cpu_s - within_s;
            self.put_on(WITHIN, slot, within_s);
            return;
        }
        running.left_s = cpu_s;
        let places = self.size.cores.ceil() as usize;
        if self.scheduling.quantum_s.is_none() || self.levels[BEYOND].ends.len() < places {
            self.take_turn(slot);
        } else {
            self.line.push_back(slot);
        }
    }

    /// Puts on a core what a request needs beyond its slice, for a quantum at most.
    fn take_turn(&mut self, slot: usize) {
        let quantum_s = self.scheduling.quantum_s.unwrap_or(f64::INFINITY);
        let Some(running) = self.slots[slot].as_mut() else {
            return;
        };
        let turn_s = if running.left_s > quantum_s + ROUNDING_S {
            quantum_s
        } else {
            running.left_s
        };
        running.left_s -= turn_s;
        self.put_on(BEYOND, slot, turn_s);
    }

    fn put_on(&mut self, level: usize, slot: usize, cpu_s: f64) {
        let level = &mut self.levels[level];
        let end = Moment(level.attained_s + cpu_s);
        level.ends.push(Reverse((end, slot)));
    }

    /// Whether a piece that was on a core needs more, for which it waits its turn then.
    fn goes_on(&mut self, slot: usize) -> bool {
        let left_s = self.slots[slot].as_ref().map_or(0.0, |it| it.left_s);
        if left_s > 0.0 {
            self.run(slot, left_s);
        }
        left_s > 0.0
    }

    fn start(&mut self, id: u64, pieces: Vec<Piece>) {
        self.busy += 1;
        let running = Some(Running {
            id,
            pieces,
            next: 0,
            sliced_s: 0.0,
            left_s: 0.0,
        });
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slots[slot] = running;
                slot
            }
            None => {
                self.slots.push(running);
                self.slots.len() - 1
            }
        };
        // A request without a piece would have no end: it takes one of no length.
        if self.slots[slot]
            .as_ref()
            .is_some_and(|it| it.pieces.is_empty())
        {
            self.run(slot, 0.0);
        } else {
            self.next_piece(slot);
        }
    }

    fn piece_just_run(&self, slot: usize) -> Piece {
        self.slots[slot]
            .as_ref()
            .and_then(|it| it.pieces.get(it.next.checked_sub(1)?))
            .copied()
            .unwrap_or_default()
    }

    /// Begins the next piece of a request, or ends the request and begins the one that waited longest.
    fn next_piece(&mut self, slot: usize) -> Option<Ended> {
        let running = self.slots[slot].as_mut()?;
        if let Some(piece) = running.pieces.get(running.next) {
            running.next += 1;
            let cpu_s = piece.cpu_s;
            self.run(slot, cpu_s);
            return None;
        }
        let ended = Ended {
            id: running.id,
            at_s: self.now_s,
        };
        self.slots[slot] = None;
        self.free.push(slot);
        self.busy -= 1;
        if let Some((id, pieces)) = self.queue.pop_front() {
            self.start(id, pieces);
        }
        Some(ended)
    }
}

fn wait_ends_s(waiting: &Agenda) -> f64 {
    waiting
        .peek()
        .map_or(f64::INFINITY, |Reverse((Moment(end), _))| *end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    const ONE: PoolSize = PoolSize {
        workers: 4,
        cores: 1.0,
        backlog: 2,
    };

    fn cpu(cpu_s: f64) -> Vec<Piece> {
        vec![Piece { cpu_s, wait_s: 0.0 }]
    }

    fn ends(pool: &mut Pool) -> Vec<(u64, f64)> {
        let mut ends = Vec::new();
        while let Some(ended) = pool.advance(1e6) {
            ends.push((ended.id, (ended.at_s * 1e9).round() / 1e9));
        }
        ends
    }

    #[test]
    fn requests_share_a_core_equally() {
        let mut pool = Pool::new(ONE);
        assert!(pool.offer(1, cpu(1.0)));
        assert!(pool.offer(2, cpu(2.0)));
        // Both run at half speed until the first has had its second, then the other alone.
        assert_eq!(ends(&mut pool), [(1, 2.0), (2, 3.0)]);
    }

    /// The second comes when the first has used up its slice, and is served before it.
    #[test]
    fn what_is_within_a_slice_runs_before_what_is_beyond() {
        let sliced = Scheduling {
            slice_s: 1.0,
            quantum_s: None,
        };
        let mut pool = Pool::new(ONE).scheduled(sliced);
        assert!(pool.offer(1, cpu(3.0)));
        assert_eq!(pool.advance(1.5), None);
        assert!(pool.offer(2, cpu(0.75)));
        assert_eq!(ends(&mut pool), [(2, 2.25), (1, 3.75)]);

        // Two that came together share what they need beyond it as well, and a slice is for all pieces of a request.
        let mut pool = Pool::new(ONE).scheduled(sliced);
        let half = Piece {
            cpu_s: 0.75,
            wait_s: 0.0,
        };
        assert!(pool.offer(1, vec![half, half]));
        assert!(pool.offer(2, cpu(2.0)));
        assert_eq!(ends(&mut pool), [(1, 3.0), (2, 3.5)]);
        assert!((pool.busy_s() - 3.5).abs() < 1e-9);
    }

    /// A core is kept for a quantum at most, and then goes to the one that has waited longest.
    #[test]
    fn who_needs_more_than_a_quantum_takes_turns() {
        let in_turns = Scheduling {
            slice_s: 0.0,
            quantum_s: Some(1.0),
        };
        let mut pool = Pool::new(ONE).scheduled(in_turns);
        assert!(pool.offer(1, cpu(3.0)));
        assert!(pool.offer(2, cpu(1.5)));
        assert_eq!(ends(&mut pool), [(2, 3.5), (1, 4.5)]);

        let mut pool = Pool::new(PoolSize { cores: 2.0, ..ONE }).scheduled(in_turns);
        assert!((1..=3).all(|id| pool.offer(id, cpu(2.0))));
        assert_eq!(ends(&mut pool), [(1, 2.0), (2, 3.0), (3, 3.0)]);

        // Who comes takes the core for its slice, and what needs no CPU waits for nobody.
        let mut pool = Pool::new(ONE).scheduled(Scheduling {
            slice_s: 0.25,
            ..in_turns
        });
        assert!(pool.offer(1, cpu(2.0)));
        assert_eq!(pool.advance(0.5), None);
        assert!(pool.offer(2, cpu(0.5)));
        assert!(pool.offer(3, cpu(0.0)));
        assert_eq!(ends(&mut pool), [(3, 0.5), (2, 1.75), (1, 2.5)]);
    }

    #[test]
    fn a_wait_holds_the_worker_and_not_the_core() {
        let mut pool = Pool::new(PoolSize { workers: 1, ..ONE });
        let piece = Piece {
            cpu_s: 1.0,
            wait_s: 3.0,
        };
        assert!(pool.offer(1, vec![piece, piece]));
        assert!(pool.offer(2, cpu(1.0)));
        assert_eq!(ends(&mut pool), [(1, 8.0), (2, 9.0)]);
    }

    #[test]
    fn a_full_backlog_refuses() {
        let mut pool = Pool::new(ONE);
        let taken: Vec<bool> = (0..8).map(|id| pool.offer(id, cpu(1.0))).collect();
        assert_eq!(taken.iter().filter(|taken| **taken).count(), 6);
        assert_eq!(pool.queued(), 2);
        assert_eq!(ends(&mut pool).len(), 6);
        assert!(pool.is_empty());
    }

    #[test]
    fn a_stall_stops_the_cpu_and_no_wait() {
        let mut pool = Pool::new(ONE);
        assert!(pool.offer(1, cpu(1.0)));
        assert!(pool.offer(
            2,
            vec![Piece {
                cpu_s: 0.0,
                wait_s: 1.0
            }]
        ));
        assert_eq!(pool.advance(0.5), None);
        pool.set_speed(0.0);
        assert_eq!(pool.advance(3.0).map(|ended| ended.id), Some(2));
        assert_eq!(pool.advance(3.0), None);
        pool.set_speed(2.0);
        assert_eq!(ends(&mut pool), [(1, 3.25)]);
    }

    /// The mean response time on one core that is in use for 0.7 of the time.
    fn mean_s(scheduling: Scheduling, pieces: impl Fn(&mut Random) -> Vec<Piece>) -> f64 {
        let size = PoolSize {
            workers: 10_000,
            cores: 1.0,
            backlog: 0,
        };
        let (mut pool, mut random) = (Pool::new(size).scheduled(scheduling), Random::new(7, 0));
        let (mut at, mut sum, mut count) = (0.0, 0.0, 0.0f64);
        let mut arrived = Vec::new();
        for id in 0..200_000u64 {
            at += random.exponential(1.0);
            while let Some(ended) = pool.advance(at) {
                sum += ended.at_s - arrived[ended.id as usize];
                count += 1.0;
            }
            arrived.push(at);
            assert!(pool.offer(id, pieces(&mut random)));
        }
        sum / count
    }

    fn check_mean(mean_s: f64, known_s: f64) {
        assert!(
            (mean_s / known_s - 1.0).abs() < 0.04,
            "{mean_s} instead of {known_s}"
        );
    }

    /// M/G/1 with processor sharing: the mean response time is E[S]/(1 - rho), whatever the distribution of S.
    #[test]
    fn processor_sharing_has_its_known_mean() {
        for pieces in [1, 4] {
            let piece = |random: &mut Random| Piece {
                cpu_s: random.exponential(0.7 / f64::from(pieces)),
                wait_s: 0.0,
            };
            let of = |random: &mut Random| (0..pieces).map(|_| piece(random)).collect();
            check_mean(mean_s(Scheduling::default(), of), 0.7 / (1.0 - 0.7));
        }
    }

    /// A long quantum is first come, first served: Pollaczek and Khinchine say E[S] + lambda E[S^2]/(2 (1 - rho)). A short
    /// one comes to processor sharing.
    #[test]
    fn a_quantum_lies_between_first_come_and_sharing() {
        let in_turns = |quantum_s| Scheduling {
            slice_s: 0.0,
            quantum_s: Some(quantum_s),
        };
        let known_s = 0.7 + 0.7 * 0.7 / (2.0 * (1.0 - 0.7));
        check_mean(mean_s(in_turns(f64::INFINITY), |_| cpu(0.7)), known_s);
        check_mean(mean_s(in_turns(0.005), |_| cpu(0.7)), 0.7 / (1.0 - 0.7));
    }
}
