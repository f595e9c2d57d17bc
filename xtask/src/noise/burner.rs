//! Another program on the machine: a thread that wants between nothing and a whole core, in bursts.

use rustix::time::{ClockId, clock_gettime};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Shortest and longest burst in seconds.
const BURST_S: (f64, f64) = (1.0, 8.0);
/// Power that a uniform draw is raised to for what a burst wants of a core: 40 % in the mean.
const POWER: f64 = 1.5;
/// How often it works and rests within a burst.
const PERIOD: Duration = Duration::from_millis(20);

/// Burns until it is dropped. Equal seeds want the same.
pub(super) struct Burner {
    enough: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Burner {
    pub(super) fn start(seed: u64) -> Self {
        let enough = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&enough);
        let thread = thread::spawn(move || burn(seed, &told));
        Self {
            enough,
            thread: Some(thread),
        }
    }
}

impl Drop for Burner {
    fn drop(&mut self) {
        self.enough.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // It only counts: there is nothing in it that panics.
            let _ = thread.join();
        }
    }
}

fn burn(seed: u64, enough: &AtomicBool) {
    let mut draws = Draws(seed);
    while !enough.load(Ordering::Relaxed) {
        let (length, share) = draws.burst();
        let until = Instant::now() + length;
        while Instant::now() < until && !enough.load(Ordering::Relaxed) {
            period(share);
        }
    }
}

/// Uses this share of a core for one period, as far as the scheduler lets it, and rests for the remainder.
fn period(share: f64) {
    let (began, used) = (Instant::now(), cpu_time());
    let wanted = PERIOD.mul_f64(share);
    while cpu_time() - used < wanted && began.elapsed() < PERIOD {
        std::hint::spin_loop();
    }
    thread::sleep(PERIOD.saturating_sub(began.elapsed()));
}

/// CPU time of this thread.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(
        time.tv_sec.unsigned_abs(),
        time.tv_nsec.unsigned_abs() as u32,
    )
}

/// SplitMix64.
struct Draws(u64);

impl Draws {
    fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// How long the next burst is, and what it wants of a core.
    fn burst(&mut self) -> (Duration, f64) {
        let (shortest, longest) = BURST_S;
        let length_s = shortest + (longest - shortest) * self.uniform();
        (
            Duration::from_secs_f64(length_s),
            self.uniform().powf(POWER),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bursts_want_two_fifths_of_a_core_in_the_mean() {
        let mut draws = Draws(1);
        let bursts: Vec<_> = (0..5000).map(|_| draws.burst()).collect();
        let whole: f64 = bursts.iter().map(|(length, _)| length.as_secs_f64()).sum();
        let wanted: f64 = bursts
            .iter()
            .map(|(length, share)| length.as_secs_f64() * share)
            .sum();
        assert!((wanted / whole - 0.4).abs() < 0.02, "{}", wanted / whole);
        assert!(bursts.iter().all(|(length, share)| {
            (1.0..=8.0).contains(&length.as_secs_f64()) && (0.0..=1.0).contains(share)
        }));
        assert_eq!(Draws(7).burst(), Draws(7).burst());
    }
}
