//! How long things may take, and the clock by which that is told (docs/agents.md, section 4).

use rustix::time::{ClockId, clock_gettime};
use std::time::{Duration, Instant};

/// How long answers to `who` are collected.
pub(crate) const GATHERING: Duration = Duration::from_secs(1);
/// How long an agent may take to be ready: it opens its files and reads the target's consent.
pub(crate) const GETTING_READY: Duration = Duration::from_secs(30);
/// Rounds of `ping`, and how far apart they are.
pub(crate) const ROUNDS: u32 = 16;
pub(crate) const BETWEEN_ROUNDS: Duration = Duration::from_millis(20);
/// The least of it for each agent: a round costs the broker half as much, so that answers do not queue (docs/scale.md).
pub(crate) const BETWEEN_ROUNDS_PER_AGENT: Duration = Duration::from_micros(100);
/// How far ahead a start lies, and what is added for each agent: a start is a message to each.
pub(crate) const AHEAD: Duration = Duration::from_millis(500);
pub(crate) const AHEAD_PER_AGENT: Duration = Duration::from_millis(1);
/// What answers to a `ping` are spread over for each agent: the coordinator takes one message in less.
pub(crate) const SPREAD_PER_AGENT: Duration = Duration::from_micros(50);
/// How often the coordinator says that it lives.
pub(crate) const HEARTBEAT: Duration = Duration::from_millis(250);
/// Six heartbeats: an agent whose coordinator's last one is older stops, so that load ends within 2 s of its death.
pub(crate) const DEAD_MAN: Duration = Duration::from_millis(1500);
/// How often an agent says that it lives.
pub(crate) const SIGN_OF_LIFE: Duration = Duration::from_millis(500);
/// Without a message for so long, an agent is late; it is only told.
pub(crate) const LATE: Duration = Duration::from_millis(1500);
/// Without a message for so long, an agent is not waited for.
pub(crate) const GONE: Duration = Duration::from_secs(5);
/// How long after the last request may end an agent's account is waited for.
pub(crate) const HANDING_OVER: Duration = Duration::from_secs(10);
/// How long an agent keeps its account for a coordinator that is silent.
pub(crate) const KEPT: Duration = Duration::from_secs(30);
/// How long an agent that is told to stop may take to hand over its account.
pub(crate) const ENDING: Duration = Duration::from_secs(10);
/// How long answers to `who` are collected once there are enough: so that those who fit best are chosen, and two of one name
/// are found.
pub(crate) const SETTLING: Duration = Duration::from_millis(150);
/// How often loops look at what else there is to do.
pub(crate) const LOOK: Duration = Duration::from_millis(20);

/// Nanoseconds of this machine's monotonic clock.
pub(crate) fn now_ns() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The instant at which that clock says so; one that has passed is no further back than the clock of `Instant` goes.
pub(crate) fn instant_at(ns: u64) -> Instant {
    let (now, there) = (now_ns(), Instant::now());
    match ns.checked_sub(now) {
        Some(ahead) => there + Duration::from_nanos(ahead),
        None => there
            .checked_sub(Duration::from_nanos(now - ns))
            .unwrap_or(there),
    }
}
