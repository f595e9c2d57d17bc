//! The machine that everything shares: CPU time, steal, pressure.

use crate::source::{Failure, Lane, Open, Probe, Sink, Source};
use kneepoint_linux::CpuTicks;
use kneepoint_linux::file::{number, read, words};
use kneepoint_model::metric::{
    MACHINE_BUSY_S, MACHINE_STEAL_S, PSI_CPU_SOME_S, PSI_IO_SOME_S, PSI_MEMORY_FULL_S,
};
use rustix::param::clock_ticks_per_second;
use std::time::{Duration, Instant};

/// Metadata.
pub(super) static SOURCE: Source = Source {
    name: "machine",
    about: "CPU time, steal and pressure (PSI) of the whole machine",
    requirements: "/proc/stat; for pressure a kernel with CONFIG_PSI (not disabled by psi=0)",
    overhead: "four small reads of /proc, about 50 us a sample",
    cadence: Duration::from_secs(1),
    metrics: &[
        MACHINE_BUSY_S,
        MACHINE_STEAL_S,
        PSI_CPU_SOME_S,
        PSI_MEMORY_FULL_S,
        PSI_IO_SOME_S,
    ],
    lane: Lane::Trend,
    open: Open::Machine(|| Box::<Machine>::default()),
};

/// Adds up how long the CPUs were busy since the first sample.
#[derive(Debug, Default)]
struct Machine {
    busy_s: f64,
    last: Option<(Instant, CpuTicks)>,
}

impl Machine {
    /// Takes in what `/proc/stat` said at a moment.
    fn note(&mut self, at: Instant, cpus: CpuTicks, per_second: f64) {
        if let Some((before_at, before)) = self.last.replace((at, cpus)) {
            let elapsed_s = at.duration_since(before_at).as_secs_f64();
            let quiet_s = quiet(cpus).saturating_sub(quiet(before)) as f64 / per_second;
            self.busy_s += (cpus.cpus as f64 * elapsed_s - quiet_s).max(0.0);
        }
    }
}

impl Probe for Machine {
    fn sample(&mut self, sink: &mut Sink) -> Result<(), Failure> {
        let stat = read("/proc/stat").map_err(|why| Failure(why.to_string()))?;
        let now = Instant::now();
        let cpus = CpuTicks::parse(&stat)
            .ok_or_else(|| Failure("`/proc/stat` has no `cpu` line".into()))?;
        let per_second = clock_ticks_per_second().max(1) as f64;
        self.note(now, cpus, per_second);
        sink.push(MACHINE_BUSY_S, self.busy_s);
        sink.push(MACHINE_STEAL_S, cpus.steal as f64 / per_second);
        for (file, line, metric) in [
            ("cpu", "some", PSI_CPU_SOME_S),
            ("memory", "full", PSI_MEMORY_FULL_S),
            ("io", "some", PSI_IO_SOME_S),
        ] {
            // Pressure is a bonus: many kernels are built without it.
            let total_us = read(&format!("/proc/pressure/{file}"))
                .ok()
                .and_then(|text| parse_pressure(&text, line));
            match total_us {
                Some(us) => sink.push(metric, us as f64 / 1e6),
                None => sink.note(
                    "no pressure (PSI) on this kernel: CONFIG_PSI is missing or psi=0 is set"
                        .into(),
                ),
            }
        }
        Ok(())
    }
}

/// What the CPUs did not do, rather than what they did: kernels without exact accounting look at each tick who runs, and
/// so miss much of what runs shorter than that, while idle time is measured from its begin to its end (`NO_HZ`).
fn quiet(ticks: CpuTicks) -> u64 {
    ticks.idling().saturating_add(ticks.steal)
}

/// Microseconds behind `total=` of the line that starts so.
fn parse_pressure(text: &[u8], line: &str) -> Option<u64> {
    let line = text
        .split(|b| *b == b'\n')
        .find(|l| l.starts_with(line.as_bytes()))?;
    words(line).find_map(|word| number(word.strip_prefix(b"total=")?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_machine_is_read() {
        let stat =
            b"cpu  35496 2 5462 254763 737 1 140 14 7 0\ncpu0 1 1 1 1 1 1 1 1 0 0\nctxt 99\n";
        let cpus = CpuTicks::parse(stat).expect("complete");
        assert_eq!(quiet(cpus), 254_763 + 737 + 14);
        let pressure = b"some avg10=0.11 avg60=2.01 avg300=2.66 total=35546240\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=7\n";
        assert_eq!(parse_pressure(pressure, "some"), Some(35_546_240));
        assert_eq!(parse_pressure(pressure, "full"), Some(7));
    }

    #[test]
    fn the_cpus_are_busy_for_the_time_that_they_are_not_quiet() {
        let of = |idle| CpuTicks {
            cpus: 2,
            idle,
            ..CpuTicks::default()
        };
        let mut machine = Machine::default();
        let began = Instant::now();
        machine.note(began, of(1000), 100.0);
        assert_eq!(machine.busy_s, 0.0);
        machine.note(began + Duration::from_secs(1), of(1150), 100.0);
        assert!((machine.busy_s - 0.5).abs() < 1e-9, "{}", machine.busy_s);
        // Ticks are counted a little late: nothing is ever busy for less than no time.
        machine.note(began + Duration::from_secs(1), of(1151), 100.0);
        assert!((machine.busy_s - 0.5).abs() < 1e-9, "{}", machine.busy_s);
    }

    #[test]
    fn this_machine_answers() {
        let mut machine = Machine::default();
        machine
            .sample(&mut Sink::default())
            .expect("a first look at /proc/stat");
        let began = Instant::now();
        while began.elapsed() < Duration::from_millis(200) {
            std::hint::spin_loop();
        }
        let mut sink = Sink::default();
        machine.sample(&mut sink).expect("a second one");
        assert!(
            sink.value(MACHINE_BUSY_S, "")
                .is_some_and(|busy| busy > 0.0)
        );
    }

    proptest! {
        #[test]
        fn no_bytes_panic(text in "(cpu |some |total=|[0-9 .=\n]){0,40}") {
            parse_pressure(text.as_bytes(), "some");
        }
    }
}
