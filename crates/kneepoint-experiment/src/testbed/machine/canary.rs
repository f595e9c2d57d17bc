//! The canary: a fixed piece of CPU work, timed in CPU seconds of its own thread. How long it takes says how fast the
//! machine is now, whoever else wants the CPU (method.md section 2).

use kneepoint_linux::clock::thread_cpu;

/// Pieces of a reading.
const PIECES: usize = 10;
/// Rounds of a piece: about 6 ms of CPU on a machine of 3 GHz.
const ROUNDS: u32 = 1_000_000;
/// Entries of the table that the work walks: 256 KiB, beyond the first-level cache as an interpreter is.
const TABLE: usize = 1 << 15;

/// CPU time of a piece in milliseconds: the median of ten, so that a piece in which the thread was moved or the cache
/// was cold does not count. `None` where the clock cannot be read.
#[must_use]
pub(in crate::testbed) fn cpu_ms() -> Option<f64> {
    let mut table = vec![0u64; TABLE];
    let mut times: Vec<f64> = (0..PIECES)
        .map(|piece| {
            let began = thread_cpu();
            std::hint::black_box(work(&mut table, piece as u64, ROUNDS));
            thread_cpu().saturating_sub(began).as_secs_f64() * 1e3
        })
        .collect();
    times.sort_by(f64::total_cmp);
    let median = f64::midpoint(times[PIECES / 2 - 1], times[PIECES / 2]);
    (median > 0.0).then_some(median)
}

/// The work: arithmetic that depends on loads from a table, and stores to it, each step on the one before.
fn work(table: &mut [u64], seed: u64, rounds: u32) -> u64 {
    let mut state = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    for _ in 0..rounds {
        let index = (state >> 40) as usize % table.len();
        let mixed = (state ^ table[index]).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        state = mixed ^ (mixed >> 29);
        table[index] = state;
    }
    state
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_work_is_the_same_every_time_and_depends_on_all_of_it() {
        let run = |seed, rounds| work(&mut vec![0; TABLE], seed, rounds);
        assert_eq!(run(1, 10_000), run(1, 10_000));
        assert_ne!(run(1, 10_000), run(2, 10_000));
        assert_ne!(run(1, 10_000), run(1, 10_001));
    }

    #[test]
    fn twice_the_work_takes_about_twice_the_time() {
        let mut table = vec![0; TABLE];
        let mut took = |rounds| {
            let began = thread_cpu();
            std::hint::black_box(work(&mut table, 1, rounds));
            (thread_cpu() - began).as_secs_f64() * 1e3
        };
        // In turns, so that what the machine does, it does to both; the median, so that a moment does not count.
        let mut ratios: Vec<f64> = (0..101).map(|_| took(400_000) / took(200_000)).collect();
        ratios.sort_by(f64::total_cmp);
        let ratio = ratios[ratios.len() / 2];
        assert!((1.4..2.8).contains(&ratio), "{ratio}");
        assert!(cpu_ms().is_some_and(|ms| ms > 0.0));
    }
}
