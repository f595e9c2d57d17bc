//! Killed at any moment, the program leaves no process, namespace, mount, control group or directory.

use crate::support::company::alone;
use crate::support::{apps, assert_nothing_left, kneepoint, needs_root, start, traces};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Moments from the very start to well into the first measurements, different in every run.
fn moments() -> impl Iterator<Item = Duration> {
    let mut state = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(1, |since| since.as_nanos() as u64)
        | 1;
    std::iter::repeat_with(move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        // Half of the moments fall into the first two seconds, where everything is being made.
        let share = (state >> 11) as f64 / (1u64 << 53) as f64;
        Duration::from_secs_f64(10.0 * share * share + 0.01)
    })
}

#[test]
fn tune_killed_at_twenty_random_moments_leaves_nothing() {
    if !needs_root("tune_killed_at_twenty_random_moments_leaves_nothing") {
        return;
    }
    let _place = alone();
    let directory = tempfile::tempdir().expect("temp dir");
    let before = traces();
    let mut moments = moments();
    for _ in 0..5 {
        // Four at a time: what one leaves must not be swept away by another, nor one take another's for its own.
        let killed: Vec<Duration> = moments.by_ref().take(4).collect();
        std::thread::scope(|scope| {
            for moment in &killed {
                scope.spawn(|| tune_until(*moment, directory.path()));
            }
        });
        assert_nothing_left(&before, &format!("SIGKILL after {killed:?}"));
    }
}

/// Starts a run on the demo's stack and kills it.
fn tune_until(moment: Duration, runs: &Path) {
    let scenario = apps().join("laravel/demo.toml");
    let mut child = start(
        kneepoint()
            .arg("tune")
            .arg(scenario)
            .arg("--runs")
            .arg(runs),
    );
    std::thread::sleep(moment);
    child.kill().expect("SIGKILL");
    child.wait().expect("reaped");
}
