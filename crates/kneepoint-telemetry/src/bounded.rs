//! An answer as a whole takes a bounded time: a server that sends a byte now and then would hold the sampling for hours.

use std::io::{self, ErrorKind, Read};
use std::time::{Duration, Instant};

/// Longest time that one answer may take, however its pieces come.
const ANSWER: Duration = Duration::from_secs(3);

/// A stream that ends in an error when its answer takes too long. Each read must be bounded by itself.
pub(crate) struct Bounded<R> {
    inner: R,
    until: Instant,
}

impl<R: Read> Bounded<R> {
    /// From now on.
    pub(crate) fn of(inner: R) -> Self {
        Self {
            inner,
            until: Instant::now() + ANSWER,
        }
    }
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if Instant::now() >= self.until {
            let what = format!("its answer takes longer than {} s", ANSWER.as_secs());
            return Err(io::Error::new(ErrorKind::TimedOut, what));
        }
        self.inner.read(buffer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One byte in a while, without end.
    struct Slow;

    impl Read for Slow {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            std::thread::sleep(Duration::from_millis(300));
            buffer[0] = b'x';
            Ok(1)
        }
    }

    #[test]
    fn an_answer_that_never_ends_is_given_up() {
        let began = Instant::now();
        let mut answer = Vec::new();
        let error = Bounded::of(Slow)
            .read_to_end(&mut answer)
            .expect_err("too slow");
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        assert!(began.elapsed() < ANSWER * 3, "{:?}", began.elapsed());
    }
}
