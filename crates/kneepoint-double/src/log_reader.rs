//! The reader of a log that is a pipe, as a container's runtime is one: it takes so much a second and no more.

use kneepoint_linux::privilege::give_up_root;
use serde::{Deserialize, Serialize};
use std::fs::OpenOptions;
use std::io::{self, Read};
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

/// Reads in a second, where what they take is neither less than [`LEAST_BYTES`] nor more than [`MOST_BYTES`].
const READS_HZ: f64 = 50.0;
/// Least and most that one read takes, in bytes: a pipe of Linux holds 64 KiB (pipe(7)).
const LEAST_BYTES: f64 = 64.0;
const MOST_BYTES: f64 = 65_536.0;

/// What the reader is told.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct LogReader {
    /// The pipe; it is there already.
    pub(crate) pipe: PathBuf,
    /// What is read in a second, in bytes.
    pub(crate) bytes_s: f64,
}

impl LogReader {
    /// Opens the pipe, gives up root, and reads for as long as it lives.
    ///
    /// # Errors
    /// The pipe cannot be read, or root cannot be given up; in words.
    pub(crate) fn serve(&self) -> Result<(), String> {
        let cannot = |error| format!("cannot read {}: {error}", self.pipe.display());
        // Opened for writing as well, it has no end, whoever comes and goes.
        let pipe = OpenOptions::new().read(true).write(true).open(&self.pipe);
        let pipe = pipe.map_err(cannot)?;
        give_up_root().map_err(|error| format!("cannot give up root: {error}"))?;
        self.read(pipe).map_err(cannot)
    }

    /// Reads to the end, at its pace. A sleep that was too long is made up for, and time without anything to read is not.
    fn read(&self, mut pipe: impl Read) -> io::Result<()> {
        let most = (self.bytes_s / READS_HZ).clamp(LEAST_BYTES, MOST_BYTES);
        let mut buffer = vec![0; most as usize];
        let mut due = Instant::now();
        loop {
            thread::sleep(due.saturating_duration_since(Instant::now()));
            let bytes = match pipe.read(&mut buffer) {
                Ok(0) => return Ok(()),
                Ok(bytes) => bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            let takes = Duration::from_secs_f64(bytes as f64 / self.bytes_s);
            let now = Instant::now();
            let from = if now.saturating_duration_since(due) > takes {
                now
            } else {
                due
            };
            due = from + takes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_takes_no_more_in_a_second_than_it_is_told() {
        let reader = |bytes_s: f64| LogReader {
            pipe: PathBuf::new(),
            bytes_s,
        };
        let began = Instant::now();
        reader(100_000.0)
            .read(io::repeat(b'x').take(20_000))
            .expect("a reader of memory");
        // The first read is free.
        assert!(began.elapsed() >= Duration::from_millis(170));
    }
}
