//! Whether a sending thread is woken when it must be, and what it does about it.

use std::num::NonZeroU64;

/// Nice value of a sending thread where real-time scheduling is refused.
const NICE: i32 = -15;
/// A thread that is woken later than this was kept waiting by others: on an idle core it takes some 50 us.
const LATE_NS: u64 = 200_000;
/// What a late wake-up adds to the account, of which each punctual one takes 1 off: one in a hundred is borne.
const PRICE: u32 = 100;
/// The account at which a thread asks to be woken first: three late wake-ups in a row, or more than one in a hundred for
/// a while.
const PATIENCE: u32 = 300;

/// Makes the calling thread's timers exact. The default slack of 50 us would delay every start. A kernel that refuses is
/// merely less exact, which the send lag shows.
pub(crate) fn exact_timers() {
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
}

/// Puts the calling thread ahead of every server's: on a machine it shares with a saturated stack it must be woken
/// when an arrival is due, or it would measure the scheduler's queue and not the server's. It sleeps between
/// arrivals and the kernel keeps 5 % of the time for others, so this costs the stack little. It takes a privilege:
/// without, the send-lag gate says when it mattered.
#[expect(
    unsafe_code,
    reason = "neither the standard library nor rustix sets a scheduling policy"
)]
pub(crate) fn wake_first() {
    let parameters = libc::sched_param { sched_priority: 1 };
    // SAFETY: the pointer is to a live, initialised `sched_param`, and 0 names the calling thread.
    let refused = unsafe { libc::sched_setscheduler(0, libc::SCHED_RR, &raw const parameters) };
    if refused != 0 {
        let _ = rustix::process::setpriority_process(Some(rustix::thread::gettid()), NICE);
    }
}

/// Asks to be woken first once it matters. On a machine with a core to spare nobody is in the way, and being woken
/// first costs twice the CPU time of an ordinary wake-up.
#[derive(Debug)]
pub(crate) struct Alertness {
    /// Whether there is anything to ask for, still.
    asks: bool,
    account: u32,
}

impl Alertness {
    /// Of a thread whose requests are due at some time, or not.
    pub(crate) fn new(has_due_times: bool) -> Self {
        Self {
            asks: has_due_times,
            account: 0,
        }
    }

    /// The thread has been woken so much later than it wanted to be. Tells whether it has now asked to be first.
    pub(crate) fn woken(&mut self, late_ns: u64) -> bool {
        if !self.asks {
            return false;
        }
        self.account = if late_ns > LATE_NS {
            self.account + PRICE
        } else {
            self.account.saturating_sub(1)
        };
        if self.account < PATIENCE {
            return false;
        }
        self.asks = false;
        wake_first();
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// After how many wake-ups it asks, if it does.
    fn asks(late_ns: impl Fn(u32) -> u64 + Sync, has_due_times: bool) -> Option<u32> {
        // A thread of its own: it changes the scheduling of the thread it is called on.
        std::thread::scope(|scope| {
            let all = || {
                let mut alertness = Alertness::new(has_due_times);
                (1..=100_000).find(|nth| alertness.woken(late_ns(*nth)))
            };
            scope.spawn(all).join().expect("no panic")
        })
    }

    #[test]
    fn a_thread_that_is_kept_waiting_asks_to_be_first() {
        let late = 2 * LATE_NS;
        assert_eq!(asks(|_| late, true), Some(3), "at once");
        let one_in = |n: u32| move |nth: u32| if nth.is_multiple_of(n) { late } else { 0 };
        assert!(asks(one_in(50), true).is_some(), "one in fifty");
        assert_eq!(asks(one_in(200), true), None, "one in two hundred is borne");
        assert_eq!(asks(|_| LATE_NS, true), None);
    }

    #[test]
    fn where_nothing_is_due_nothing_is_late() {
        assert_eq!(asks(|_| 1 << 40, false), None);
    }
}
