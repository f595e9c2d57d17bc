//! The logs of a tier, from where they were when sampling began.

use crate::log_lines::classify;
use crate::source::{Failure, Lane, Open, Probe, Sink, Source};
use kneepoint_linux::file::open_untrusted;
use kneepoint_model::{LogFormat, LogKind, LogSource, RunningTier};
use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::time::Duration;

/// Metadata.
pub(super) static SOURCE: Source = Source {
    name: "logs",
    about: "lines of the servers' logs by meaning: pool exhausted, upstream refused, PHP fatal error and so on",
    requirements: "log files that can be read",
    overhead: "one look at each file a second; at most 512 KiB of new lines are read, the rest is estimated",
    cadence: Duration::from_secs(1),
    metrics: &[],
    lane: Lane::Trend,
    open: Open::Tier(|tier| {
        (!tier.logs.is_empty()).then(|| Box::new(Logs::new(tier)) as Box<dyn Probe>)
    }),
};

/// Most bytes of one file that are read in one sample: a burst of upstream errors writes 10 MB a second.
const AT_ONCE: u64 = 512 * 1024;

struct Logs {
    tails: Vec<Tail>,
}

impl Logs {
    fn new(tier: &RunningTier) -> Self {
        Self {
            tails: tier.logs.iter().map(Tail::new).collect(),
        }
    }
}

impl Probe for Logs {
    fn sample(&mut self, sink: &mut Sink) -> Result<(), Failure> {
        let mut failure = None;
        for tail in &mut self.tails {
            if let Err(why) = tail.read(sink) {
                failure = Some(Failure::on(
                    "reading the log",
                    tail.source.path.display(),
                    why,
                ));
            }
        }
        failure.map_or(Ok(()), Err)
    }
}

/// How far a file has been read.
struct Tail {
    source: LogSource,
    /// Inode and offset of the next byte. The offset is always at the start of a line.
    at: (u64, u64),
}

impl Tail {
    fn new(source: &LogSource) -> Self {
        let now = source
            .path
            .metadata()
            .map_or((0, 0), |file| (file.ino(), file.len()));
        Self {
            source: source.clone(),
            at: now,
        }
    }

    fn read(&mut self, sink: &mut Sink) -> io::Result<()> {
        let file = match open_untrusted(&self.source.path) {
            Ok(file) => file,
            // Some servers make their log with the first line.
            Err(why) if why.kind() == ErrorKind::NotFound => return Ok(()),
            Err(why) => return Err(why),
        };
        let metadata = file.metadata()?;
        if self.at.0 != metadata.ino() || self.at.1 > metadata.len() {
            self.at = (metadata.ino(), 0);
        }
        let new = metadata.len() - self.at.1;
        if new == 0 {
            return Ok(());
        }
        let mut bytes = vec![0; new.min(AT_ONCE) as usize];
        let length = file.read_at(&mut bytes, self.at.1)?;
        bytes.truncate(length);
        let Some(end) = bytes.iter().rposition(|b| *b == b'\n') else {
            // An unfinished line waits for its end, unless it will not fit anyway.
            self.at.1 += if new > AT_ONCE { new } else { 0 };
            return Ok(());
        };
        let whole = end as u64 + 1;
        let skipped = if new > AT_ONCE { new - whole } else { 0 };
        for (kind, (count, example)) in tally(&bytes[..=end], self.source.format) {
            let scale = (whole + skipped) as f64 / whole as f64;
            sink.log(kind, (count as f64 * scale).round() as u64, example);
        }
        if skipped > 0 {
            let path = self.source.path.display();
            sink.note(format!(
                "`{path}` grew faster than it is read: its counts are estimates"
            ));
        }
        self.at.1 += whole + skipped;
        Ok(())
    }
}

/// Lines by meaning, with the first of each.
fn tally(bytes: &[u8], format: LogFormat) -> BTreeMap<LogKind, (u64, String)> {
    let mut found = BTreeMap::new();
    for line in bytes.split(|b| *b == b'\n') {
        let line = String::from_utf8_lossy(line);
        if let Some(kind) = classify(format, &line) {
            found
                .entry(kind)
                .or_insert_with(|| (0, line.trim_end().to_owned()))
                .0 += 1;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Reading;
    use std::fs;
    use std::io::Write;
    use std::path::Path;

    const LINE: &str =
        "[20-Nov-2026 22:00:00 UTC] PHP Fatal error:  Uncaught Exception: boom in /a.php:3\n";

    /// What happens to the file, and how many lines are found then.
    type Step<'a> = (&'a dyn Fn(&Path), u64);

    #[test]
    fn a_log_that_somebody_made_a_link_is_not_read() {
        let dir = tempfile::tempdir().expect("a directory");
        let (own, link) = (dir.path().join("own.log"), dir.path().join("php.log"));
        fs::write(&own, LINE).expect("a file");
        std::os::unix::fs::symlink("/etc/passwd", &link).expect("a link");
        assert!(open_untrusted(&own).is_ok());
        assert!(open_untrusted(&link).is_err());
    }

    /// A log with a tail at its end, and what each later reading finds.
    fn check(before: &str, steps: &[Step<'_>]) {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("php.log");
        if !before.is_empty() {
            fs::write(&path, before).expect("written");
        }
        let mut tail = Tail::new(&LogSource {
            path: path.clone(),
            format: LogFormat::PhpError,
        });
        for (at, (change, expected)) in steps.iter().enumerate() {
            change(&path);
            let mut sink = Sink::default();
            tail.read(&mut sink).expect("readable");
            let count = sink.readings.iter().map(|reading| match reading {
                Reading::Log(LogKind::PhpFatal, count, _) => *count,
                _ => 0,
            });
            assert_eq!(count.sum::<u64>(), *expected, "step {at}");
        }
    }

    fn append(path: &Path, text: &str) {
        let mut file = fs::OpenOptions::new()
            .append(true)
            .create(true)
            .open(path)
            .expect("opened");
        file.write_all(text.as_bytes()).expect("written");
    }

    #[test]
    fn only_new_whole_lines_count() {
        check(
            LINE,
            &[
                (&|_| (), 0),
                (&|path| append(path, LINE), 1),
                (&|path| append(path, &LINE[..40]), 0),
                (&|path| append(path, &LINE[40..]), 1),
            ],
        );
    }

    #[test]
    fn a_log_may_come_late_be_emptied_or_be_replaced() {
        check(
            "",
            &[
                (&|_| (), 0),
                (&|path| append(path, &LINE.repeat(3)), 3),
                (&|path| fs::write(path, LINE).expect("written"), 1),
                (
                    &|path| {
                        fs::rename(path, path.with_extension("old")).expect("renamed");
                        append(path, &LINE.repeat(2));
                    },
                    2,
                ),
            ],
        );
    }

    #[test]
    fn a_flood_is_estimated() {
        let lines = 3 * AT_ONCE as usize / LINE.len();
        check(
            "",
            &[
                (&|path| append(path, &LINE.repeat(lines)), lines as u64),
                (&|_| (), 0),
            ],
        );
    }
}
