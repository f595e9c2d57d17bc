//! What programs print: collected from pipes with a bound, or the end of a file for a message.

use kneepoint_linux::file::open_untrusted;
use std::io::{Read, Seek as _, SeekFrom, Write as _};
use std::path::Path;
use std::process::Child;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// The most that is kept of one stream; the rest is read and dropped so that the program does not block.
const MOST_BYTES: usize = 16 << 20;
/// The most of a file's end that a message quotes.
const TAIL_BYTES: u64 = 8 << 10;
const TAIL_LINES: usize = 15;
/// How long output may go on after the program ended (a daemon it left keeps the pipe open).
const LINGER: Duration = Duration::from_millis(500);

struct Stream {
    bytes: Arc<Mutex<Vec<u8>>>,
    closed: Receiver<()>,
}

impl Stream {
    fn read(mut from: impl Read + Send + 'static) -> Self {
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let (close, closed) = channel::<()>();
        let kept = Arc::clone(&bytes);
        thread::spawn(move || {
            // Dropped with the thread, which is the news that the stream has ended.
            let _close = close;
            let mut buffer = [0; 16 << 10];
            while let Ok(count @ 1..) = from.read(&mut buffer) {
                let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                let room = MOST_BYTES.saturating_sub(kept.len()).min(count);
                kept.extend_from_slice(&buffer[..room]);
            }
        });
        Self { bytes, closed }
    }

    fn text(&self, until: Instant) -> String {
        let left = until.saturating_duration_since(Instant::now());
        match self.closed.recv_timeout(left) {
            Ok(()) | Err(RecvTimeoutError::Disconnected | RecvTimeoutError::Timeout) => {}
        }
        let bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

/// The pipes of a running command.
pub(crate) struct Capture {
    streams: Vec<Stream>,
}

impl Capture {
    /// Feeds the child's standard input and begins to read what it prints.
    pub(crate) fn start(child: &mut Child, input: Option<String>) -> Self {
        if let (Some(mut pipe), Some(text)) = (child.stdin.take(), input) {
            // A command that does not read its input to the end is not at fault.
            thread::spawn(move || pipe.write_all(text.as_bytes()));
        }
        let mut streams = Vec::new();
        streams.extend(child.stdout.take().map(Stream::read));
        streams.extend(child.stderr.take().map(Stream::read));
        Self { streams }
    }

    /// Standard output and standard error, once the command has ended.
    pub(crate) fn finish(self) -> (String, String) {
        let until = Instant::now() + LINGER;
        let mut texts = self.streams.iter().map(|stream| stream.text(until));
        (
            texts.next().unwrap_or_default(),
            texts.next().unwrap_or_default(),
        )
    }
}

/// The last lines of a text, for a message.
pub(crate) fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| !line.trim().is_empty())
        .collect();
    lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n")
}

/// The last lines a file got after its first `from` bytes; empty when it cannot be read.
pub(crate) fn tail(path: &Path, from: u64) -> String {
    let read = || -> std::io::Result<Vec<u8>> {
        let mut file = open_untrusted(path)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(from.max(length.saturating_sub(TAIL_BYTES))))?;
        let mut bytes = Vec::new();
        file.take(TAIL_BYTES).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    last_lines(&String::from_utf8_lossy(&read().unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_quotes_the_end_and_only_what_is_new() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("out");
        std::fs::write(&file, "old words\nnew words\n\n").expect("written");
        assert_eq!(tail(&file, 10), "new words");
        assert_eq!(tail(&file, 0), "old words\nnew words");
        assert_eq!(tail(&dir.path().join("none"), 0), "");
        let many: Vec<String> = (0..40).map(|n| n.to_string()).collect();
        assert!(last_lines(&many.join("\n")).starts_with("25\n"));
    }
}
