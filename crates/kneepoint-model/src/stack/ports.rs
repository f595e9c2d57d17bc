//! Local ports: how many there are, how long a closed connection keeps one, and from when on they are too few.

use std::time::Duration;

/// Share of the ports towards one peer that may be taken: beyond, connecting collapses, since Linux tries one parity
/// of port numbers first and finds the rest only by long searches (catalogue section 0, fact 5).
pub const CLIFF: f64 = 0.5;

/// How long the kernel keeps the port of a connection that was closed on this end (its `TCP_TIMEWAIT_LEN`).
pub const TIME_WAIT: Duration = Duration::from_secs(60);

/// How many ports a kernel hands out by itself, from its setting `net.ipv4.ip_local_port_range` (`32768 60999`). Those
/// of Linux' default, 28 232, where the text says nothing of the kind.
#[must_use]
pub fn count_of_range(setting: &str) -> f64 {
    let mut ends = setting
        .split_whitespace()
        .map_while(|end| end.parse::<f64>().ok());
    match (ends.next(), ends.next()) {
        (Some(low), Some(high)) if high >= low => 1.0 + high - low,
        _ => 28_232.0,
    }
}

/// Requests per second from which on closed connections hold the [`CLIFF`] of so many ports, where each request makes this
/// many towards one peer and this end closes them; infinite where none are.
#[must_use]
pub fn lasting_hz(ports: f64, closed_per_request: f64) -> f64 {
    CLIFF * ports / (TIME_WAIT.as_secs_f64() * closed_per_request.max(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_last_for_what_a_minute_closes() {
        let usual = count_of_range("");
        assert!((lasting_hz(usual, 1.0) - 235.27).abs() < 0.01);
        assert!((lasting_hz(usual, 0.3) - 784.22).abs() < 0.01);
        assert_eq!(lasting_hz(usual, 0.0), f64::INFINITY);
    }

    #[test]
    fn a_range_is_counted_with_both_its_ends() {
        assert_eq!(count_of_range("32768\t60999\n"), 28_232.0);
        assert_eq!(count_of_range("1024 65535"), 64_512.0);
        assert_eq!(count_of_range("5 5"), 1.0);
        for nothing in ["", "7", "9 8", "a b"] {
            assert_eq!(count_of_range(nothing), 28_232.0, "{nothing:?}");
        }
    }
}
