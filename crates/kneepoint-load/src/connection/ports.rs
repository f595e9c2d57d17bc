//! Local ports that this generator holds because it closed connections first.
//!
//! Whoever closes first keeps the port for a minute (TIME_WAIT). Past half of the range Linux finds a free port only
//! by ever longer searches inside connect(2), without an error: the generator would be late, and the server would
//! seem slow (catalogue section 0, fact 5). So it stops there and says what it is.

use crate::connection::socket::Endpoint;
use kneepoint_model::ports::{CLIFF, TIME_WAIT, count_of_range};
use std::fs::read_to_string;

/// Seconds for which a closed connection's port is held, and one for rounding.
const HELD_S: usize = TIME_WAIT.as_secs() as usize + 1;
const SECOND_NS: u64 = 1_000_000_000;

/// The ports one thread holds.
#[derive(Debug)]
pub(crate) struct HeldPorts {
    /// Connections closed first in each of the last seconds, the second modulo the length.
    closed: [u32; HELD_S],
    held: u64,
    second: u64,
    most: u64,
}

impl HeldPorts {
    /// For one of so many threads that share the ports, towards an endpoint, from so many source addresses (0 leaves
    /// the choice to the system, which takes one). Reads the settings of the calling thread's network namespace.
    pub(crate) fn new(endpoint: &Endpoint, sources: usize, threads: usize) -> Self {
        let most = match endpoint {
            Endpoint::Tcp(address) if !reused(address.ip().is_loopback()) => {
                let ports = range() * sources.max(1) as f64;
                (CLIFF * ports / threads as f64) as u64
            }
            _ => u64::MAX,
        };
        Self {
            closed: [0; HELD_S],
            held: 0,
            second: 0,
            most,
        }
    }

    /// So many connections were closed first.
    pub(crate) fn add(&mut self, count: u32, now: u64) {
        self.pass(now);
        self.closed[self.second as usize % HELD_S] += count;
        self.held += u64::from(count);
    }

    /// Whether one more connection would be beyond the cliff, beside those that are open.
    pub(crate) fn are_used_up(&mut self, open: usize, now: u64) -> bool {
        self.pass(now);
        self.held + open as u64 >= self.most
    }

    /// How many are held.
    pub(crate) fn held(&self) -> u64 {
        self.held
    }

    /// Frees what was closed long enough ago.
    fn pass(&mut self, now: u64) {
        let second = now / SECOND_NS;
        let seconds = second.saturating_sub(self.second).min(HELD_S as u64);
        for ahead in 0..seconds {
            let place = (second - ahead) as usize % HELD_S;
            self.held -= u64::from(std::mem::take(&mut self.closed[place]));
        }
        self.second = self.second.max(second);
    }
}

/// How many local ports the system hands out by itself; Linux' default where it cannot be read.
fn range() -> f64 {
    let text = read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    count_of_range(&text)
}

/// Whether the kernel gives a port away again after a second: `tcp_tw_reuse` is 1 for yes, 2 (the default) for yes
/// on loopback.
fn reused(loopback: bool) -> bool {
    let setting = read_to_string("/proc/sys/net/ipv4/tcp_tw_reuse").unwrap_or_default();
    match setting.trim() {
        "1" => true,
        "2" => loopback,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ports(most: u64) -> HeldPorts {
        HeldPorts {
            closed: [0; HELD_S],
            held: 0,
            second: 0,
            most,
        }
    }

    #[test]
    fn ports_are_held_for_a_minute() {
        let mut ports = ports(10);
        ports.add(4, 0);
        ports.add(6, 30 * SECOND_NS);
        assert!(ports.are_used_up(0, 59 * SECOND_NS));
        // The first four are free again.
        assert!(!ports.are_used_up(3, 61 * SECOND_NS));
        assert!(ports.are_used_up(4, 61 * SECOND_NS));
        assert_eq!(ports.held(), 6);
        assert!(!ports.are_used_up(0, 500 * SECOND_NS));
        assert_eq!(ports.held(), 0);
    }

    #[test]
    fn the_range_is_that_of_this_machine() {
        let range = range();
        assert!((1.0..=65_536.0).contains(&range), "{range}");
    }

    #[test]
    fn unix_sockets_have_no_ports() {
        let unix = kneepoint_model::Address::Unix("/x.sock".into());
        let endpoint = Endpoint::new(&unix).expect("a short path");
        let mut ports = HeldPorts::new(&endpoint, 0, 1);
        ports.add(u32::MAX, 0);
        assert!(!ports.are_used_up(0, 0));
    }
}
