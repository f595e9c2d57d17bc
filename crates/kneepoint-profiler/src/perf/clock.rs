//! The kernel's sampler: a clock on each core, and the ring of memory it writes to.

use super::Hit;
use perf_event::events::Software;
use perf_event::{Builder, SampleFlag, Sampler};
use std::io;

/// Memory of each core's ring, in bytes: some 250 samples with all the calls of the kernel there can be. Ten come between
/// two looks. More than half a megabyte needs a right of its own (perf_event_mlock_kb).
const RING_BYTES: usize = 1 << 18;
/// Kinds of records (perf_event_open(2): PERF_RECORD_LOST, PERF_RECORD_SAMPLE).
const LOST: u32 = 2;
const SAMPLE: u32 = 9;
/// Addresses from here on mark a part of a chain (PERF_CONTEXT_KERNEL and the like): they are no addresses.
const MARKS: u64 = u64::MAX - 4095;

/// Samples every core.
pub(super) struct Clock {
    rings: Vec<Sampler>,
    lost: u64,
}

impl Clock {
    /// Begins to sample every core, so many times a second of work.
    ///
    /// # Errors
    /// The kernel does not let this process.
    pub(super) fn start(rate_hz: u64) -> io::Result<Self> {
        let mut rings = Vec::new();
        for core in cores()? {
            let mut event = Builder::new(Software::CPU_CLOCK);
            event
                .any_pid()
                .one_cpu(core)
                // This clock counts nanoseconds.
                .sample_period(1_000_000_000 / rate_hz.max(1))
                .exclude_kernel(false)
                .exclude_idle(true)
                .sample(SampleFlag::IP | SampleFlag::TID | SampleFlag::CALLCHAIN)
                .exclude_callchain_user(true);
            rings.push(event.build()?.sampled(RING_BYTES)?);
        }
        for ring in &mut rings {
            ring.as_counter_mut().enable()?;
        }
        Ok(Self { rings, lost: 0 })
    }

    /// Takes what was noted since it was last asked.
    pub(super) fn take(&mut self, each: &mut dyn FnMut(Hit<'_>)) {
        for ring in &mut self.rings {
            while let Some(record) = ring.next_record() {
                let (kind, flags) = (record.ty(), record.misc());
                let bytes = record.to_contiguous();
                match kind {
                    SAMPLE => {
                        if let Some(noted) = Noted::parse(&bytes) {
                            each(noted.hit(is_in_kernel(flags)));
                        }
                    }
                    LOST => self.lost += words(&bytes).nth(1).unwrap_or(0),
                    // Nothing else was asked for.
                    _ => {}
                }
            }
        }
    }

    /// Samples for which the ring had no room.
    pub(super) fn lost(&self) -> u64 {
        self.lost
    }
}

/// What a record of a sample holds.
#[derive(Debug, PartialEq, Eq)]
struct Noted {
    pid: u32,
    at: u64,
    through: Vec<u64>,
}

impl Noted {
    /// Reads a record: where, process and thread, how many functions, and these (perf_event_open(2): PERF_RECORD_SAMPLE with
    /// PERF_SAMPLE_IP, _TID and _CALLCHAIN). Of a sample outside the kernel there are none.
    fn parse(bytes: &[u8]) -> Option<Self> {
        let mut words = words(bytes);
        let at = words.next()?;
        let process = words.next()?.to_ne_bytes();
        let [a, b, c, d, ..] = process;
        let functions = usize::try_from(words.next()?).unwrap_or(usize::MAX);
        Some(Self {
            pid: u32::from_ne_bytes([a, b, c, d]),
            at,
            through: words.take(functions).filter(|at| *at < MARKS).collect(),
        })
    }

    fn hit(&self, in_kernel: bool) -> Hit<'_> {
        Hit {
            pid: self.pid,
            at: self.at,
            in_kernel,
            through: &self.through,
        }
    }
}

/// The 64-bit words of a record.
fn words(bytes: &[u8]) -> impl Iterator<Item = u64> + '_ {
    let whole = bytes.chunks_exact(8);
    whole.filter_map(|word| Some(u64::from_ne_bytes(word.try_into().ok()?)))
}

/// Whether a sample is of the kernel, by the flags of its record (perf_event_open(2): PERF_RECORD_MISC_CPUMODE_MASK,
/// PERF_RECORD_MISC_KERNEL).
fn is_in_kernel(flags: u16) -> bool {
    flags & 0b111 == 1
}

/// The numbers of the cores that are online.
fn cores() -> io::Result<Vec<usize>> {
    let file = "/sys/devices/system/cpu/online";
    let text = std::fs::read_to_string(file)?;
    let said = || io::Error::other(format!("`{file}` says `{}`", text.trim()));
    parse_cores(text.trim()).ok_or_else(said)
}

/// `0-3,8` as the kernel lists cores.
fn parse_cores(text: &str) -> Option<Vec<usize>> {
    /// More than any machine has: a damaged list must not take all memory.
    const MOST: usize = 1 << 16;
    let mut cores = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        if last >= MOST {
            return None;
        }
        cores.extend(first..=last);
    }
    Some(cores)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn record(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    #[test]
    fn a_record_holds_where_who_and_through_which_functions() {
        let ids = u64::from_ne_bytes([7, 0, 0, 0, 9, 0, 0, 0]);
        let kernel = Noted::parse(&record(&[
            0xffff_0035,
            ids,
            3,
            MARKS + 3968,
            0xffff_0035,
            0xffff_0011,
        ]));
        let expected = Noted {
            pid: 7,
            at: 0xffff_0035,
            through: vec![0xffff_0035, 0xffff_0011],
        };
        assert_eq!(kernel, Some(expected));
        // A sample of a program has no functions of the kernel.
        let program = Noted::parse(&record(&[0x5500, ids, 0]));
        assert_eq!(
            program.map(|noted| (noted.at, noted.through.len())),
            Some((0x5500, 0))
        );
        assert_eq!(Noted::parse(&record(&[0x5500, ids])), None);
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            Noted::parse(&bytes);
        }
    }

    #[test]
    fn cores_are_listed_as_the_kernel_lists_them() {
        assert_eq!(parse_cores("0-3,8"), Some(vec![0, 1, 2, 3, 8]));
        assert_eq!(parse_cores("0"), Some(vec![0]));
        assert_eq!(parse_cores(""), None);
        assert_eq!(parse_cores("0-99999999"), None);
    }
}
