//! The machine that everything shares, or in a container its part of one: CPU time, steal, pressure.

use crate::foreign::ALLOWED;
use crate::source::{Failure, Lane, Open, Probe, Sink, Source};
use kneepoint_linux::CpuUse;
use kneepoint_linux::file::{number, read, words};
use kneepoint_model::metric::{
    MACHINE_BUSY_S, MACHINE_STEAL_S, PSI_CPU_SOME_S, PSI_IO_SOME_S, PSI_MEMORY_FULL_S,
};
use std::time::Duration;

/// Metadata.
pub(super) static SOURCE: Source = Source {
    name: "machine",
    about: "CPU time, steal and pressure (PSI) of the machine, or of a container's part of it",
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

/// Adds up how long the CPUs were busy, and how long they were kept from it, since the first sample.
#[derive(Debug, Default)]
struct Machine {
    busy_s: f64,
    stolen_s: f64,
    last: Option<CpuUse>,
}

impl Machine {
    /// Takes in what was used until a moment.
    fn note(&mut self, used: CpuUse) {
        if let Some(before) = self.last.replace(used) {
            self.busy_s += used.busy_s_since(&before);
            self.stolen_s += used.stolen_s_since(&before);
        }
    }
}

impl Probe for Machine {
    fn sample(&mut self, sink: &mut Sink) -> Result<(), Failure> {
        let used = ALLOWED.used();
        let used = used.ok_or_else(|| Failure("`/proc/stat` cannot be read".into()))?;
        self.note(used);
        sink.push(MACHINE_BUSY_S, self.busy_s);
        sink.push(MACHINE_STEAL_S, self.stolen_s);
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
    use rustix::param::clock_ticks_per_second;
    use std::time::Instant;

    #[test]
    fn pressure_is_read() {
        let pressure = b"some avg10=0.11 avg60=2.01 avg300=2.66 total=35546240\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=7\n";
        assert_eq!(parse_pressure(pressure, "some"), Some(35_546_240));
        assert_eq!(parse_pressure(pressure, "full"), Some(7));
    }

    #[test]
    fn the_cpus_are_busy_for_the_time_that_they_are_not_quiet() {
        let began = Instant::now();
        let after = |seconds, idle_s: f64| {
            let ticks = (idle_s * clock_ticks_per_second() as f64) as u64;
            let stat = format!("cpu  0 0 0 {ticks} 0 0 0 0 0 0\ncpu0 0\ncpu1 0\n");
            CpuUse::of_machine(stat.as_bytes(), began + Duration::from_secs(seconds))
                .expect("complete")
        };
        let mut machine = Machine::default();
        machine.note(after(0, 10.0));
        assert_eq!(machine.busy_s, 0.0);
        machine.note(after(1, 11.5));
        assert!((machine.busy_s - 0.5).abs() < 1e-9, "{}", machine.busy_s);
        // Ticks are counted a little late: nothing is ever busy for less than no time.
        machine.note(after(1, 11.51));
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
