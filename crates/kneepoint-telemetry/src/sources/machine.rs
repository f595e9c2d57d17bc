//! The machine that everything shares: CPU time, steal, pressure.

use crate::proc::{cpu_ticks, number, read, words};
use crate::source::{Failure, Lane, Open, Probe, Sink, Source};
use kneepoint_model::metric::{
    MACHINE_BUSY_S, MACHINE_STEAL_S, PSI_CPU_SOME_S, PSI_IO_SOME_S, PSI_MEMORY_FULL_S,
};
use rustix::param::clock_ticks_per_second;
use std::time::Duration;

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
    open: Open::Machine(|| Box::new(Machine)),
};

struct Machine;

impl Probe for Machine {
    fn sample(&mut self, sink: &mut Sink) -> Result<(), Failure> {
        let stat = read("/proc/stat").map_err(|why| Failure(why.to_string()))?;
        let (busy, steal) =
            parse_cpu(&stat).ok_or_else(|| Failure("`/proc/stat` has no `cpu` line".into()))?;
        let per_second = clock_ticks_per_second().max(1) as f64;
        sink.push(MACHINE_BUSY_S, busy as f64 / per_second);
        sink.push(MACHINE_STEAL_S, steal as f64 / per_second);
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

/// Busy and stolen ticks of all CPUs. Time of guests is contained in user and nice already (proc(5)).
fn parse_cpu(stat: &[u8]) -> Option<(u64, u64)> {
    let fields = cpu_ticks(stat)?;
    let [user, nice, system, _idle, _iowait, irq, softirq, steal, ..] = fields[..] else {
        return None;
    };
    let busy = [user, nice, system, irq, softirq]
        .into_iter()
        .fold(0, u64::saturating_add);
    Some((busy, steal))
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
        assert_eq!(parse_cpu(stat), Some((35496 + 2 + 5462 + 1 + 140, 14)));
        let pressure = b"some avg10=0.11 avg60=2.01 avg300=2.66 total=35546240\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=7\n";
        assert_eq!(parse_pressure(pressure, "some"), Some(35_546_240));
        assert_eq!(parse_pressure(pressure, "full"), Some(7));
    }

    #[test]
    fn this_machine_answers() {
        let mut sink = Sink::default();
        Machine.sample(&mut sink).expect("/proc/stat");
        assert!(
            sink.value(MACHINE_BUSY_S, "")
                .is_some_and(|busy| busy > 0.0)
        );
    }

    proptest! {
        #[test]
        fn no_bytes_panic(text in "(cpu |some |total=|[0-9 .=\n]){0,40}") {
            parse_cpu(text.as_bytes());
            parse_pressure(text.as_bytes(), "some");
        }
    }
}
