//! Measures, on this machine, what the simulation must know.

mod broker;

use super::constants::Measured;
use super::dice::Dice;
use anyhow::Context as _;
use broker::{Broker, Connection};
use kneepoint_model::LatencyHistogram;
use rustix::time::{ClockId, clock_gettime};
use std::io::Write;
use std::time::{Duration, Instant};

/// Requests of an agent, and the spread of their response times around 20 ms (standard deviation of the logarithm).
type Load = (u32, f64);
/// What the simulation takes for one second, and what is measured beside it.
const USUAL: Load = (1000, 0.6);
const SECONDS: [Load; 5] = [
    (100, 0.3),
    (100, 1.0),
    (1000, 0.3),
    (10_000, 0.6),
    (10_000, 1.0),
];
/// What it takes for all of a load of a minute.
const WHOLE: Load = (60_000, 0.6);
const MEDIAN_US: f64 = 20_000.0;
/// Histograms of a `second` and of a `done`, and the bytes of what stands beside them (docs/agents.md, section 3).
const SECOND: (usize, u64) = (1, 400);
const DONE: (usize, u64) = (3, 4000);
/// How often a merge is timed; the middle one counts.
const MERGES: usize = 2001;
const ROUND_TRIPS: usize = 3000;
/// Clients whose messages come at once.
const CLIENTS: usize = 1000;
/// How often they do.
const ROUNDS: usize = 20;
const RESTARTS: usize = 5;

/// Takes all measurements and prints them as they come.
///
/// # Errors
/// There is no `nats-server`, or it does not do what it should.
pub(super) fn run(out: &mut impl Write) -> anyhow::Result<Measured> {
    writeln!(
        out,
        "requests, spread of ln, bytes of the message, us to read and merge it"
    )?;
    let mut show = |load: Load, message| -> anyhow::Result<(u64, f64)> {
        let (bytes, merge_us) = merging(load, message)?;
        writeln!(
            out,
            "{:>8} {:>6.1} {bytes:>8} {merge_us:>8.1}",
            load.0, load.1
        )?;
        Ok((bytes, merge_us))
    };
    for load in SECONDS {
        show(load, SECOND)?;
    }
    let (usual, done) = (show(USUAL, SECOND)?, show(WHOLE, DONE)?);
    let mut broker = Broker::start()?;
    let (round_trip_us, round_trip_p99_us) = round_trips(&broker)?;
    writeln!(
        out,
        "round trip over the broker: median {round_trip_us:.0} us, p99 {round_trip_p99_us:.0} us"
    )?;
    let crowd = crowd(&broker, usual.0 as usize)?;
    writeln!(
        out,
        "CPU time with {CLIENTS} clients: {:.0} us of the broker to connect one, {:.1} us for a message of one, {:.1} us for \
         one to each, {:.1} us of the coordinator to take one up",
        crowd.connect_us, crowd.broker_us, crowd.fan_out_us, crowd.message_us
    )?;
    let restart_ms = restarts(&mut broker)?;
    writeln!(out, "killed and started again: {restart_ms:.0} ms")?;
    Ok(Measured {
        date: jiff::Timestamp::now().strftime("%Y-%m-%d").to_string(),
        machine: machine(),
        build: build().to_owned(),
        second_bytes: usual.0,
        merge_us: rounded(usual.1),
        done_bytes: done.0,
        done_us: rounded(done.1),
        message_us: rounded(crowd.message_us),
        round_trip_us: rounded(round_trip_us),
        round_trip_p99_us: rounded(round_trip_p99_us),
        broker_us: rounded(crowd.broker_us),
        fan_out_us: rounded(crowd.fan_out_us),
        connect_us: rounded(crowd.connect_us),
        restart_ms: rounded(restart_ms),
    })
}

/// One digit after the point: more is noise.
fn rounded(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = cpuinfo
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split(':').nth(1));
    format!("{}, {cores} cores", name.unwrap_or("unknown CPU").trim())
}

fn build() -> &'static str {
    if cfg!(debug_assertions) {
        "not optimised: a merge takes longer than in the program"
    } else {
        "optimised"
    }
}

fn middle(mut values: Vec<f64>, quantile: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let last = values.len().saturating_sub(1);
    values
        .get((last as f64 * quantile).round() as usize)
        .copied()
        .unwrap_or(f64::NAN)
}

/// The histograms of a message, as they travel.
fn message((requests, spread): Load, histograms: usize) -> anyhow::Result<Vec<u8>> {
    let mut dice = Dice::new(u64::from(requests));
    let mut second = || {
        let mut histogram = LatencyHistogram::default();
        for _ in 0..requests {
            histogram.record_us((MEDIAN_US * dice.normal(spread).exp()) as u64);
        }
        histogram
    };
    let all: Vec<LatencyHistogram> = (0..histograms).map(|_| second()).collect();
    Ok(serde_json::to_vec(&all)?)
}

/// Bytes of a message with histograms, and the median CPU time in microseconds to read it and add them to the sum.
fn merging(load: Load, (histograms, beside): (usize, u64)) -> anyhow::Result<(u64, f64)> {
    let text = message(load, histograms)?;
    let mut sum = vec![LatencyHistogram::default(); histograms];
    let mut times = Vec::with_capacity(MERGES);
    for _ in 0..MERGES {
        let before = cpu_time();
        let read: Vec<LatencyHistogram> = serde_json::from_slice(&text)?;
        for (sum, part) in sum.iter_mut().zip(&read) {
            sum.merge(part);
        }
        times.push((cpu_time() - before).as_secs_f64() * 1e6);
    }
    Ok((text.len() as u64 + beside, middle(times, 0.5)))
}

/// Median and 99th percentile in microseconds of a question and its answer.
fn round_trips(broker: &Broker) -> anyhow::Result<(f64, f64)> {
    let (mut asking, mut answering) = (broker.connect()?, broker.connect()?);
    answering.subscribe("question")?;
    asking.subscribe("answer")?;
    std::thread::scope(|scope| {
        let answers = scope.spawn(move || -> anyhow::Result<()> {
            for _ in 0..ROUND_TRIPS {
                let reply = answering
                    .receive()?
                    .reply
                    .context("a question without a place for its answer")?;
                answering.publish(&reply, "", b"here")?;
            }
            Ok(())
        });
        let mut times = Vec::with_capacity(ROUND_TRIPS);
        for _ in 0..ROUND_TRIPS {
            let began = Instant::now();
            asking.publish("question", "answer", b"are you there?")?;
            asking.receive()?;
            times.push(began.elapsed().as_secs_f64() * 1e6);
        }
        match answers.join() {
            Ok(done) => done?,
            Err(panic) => std::panic::resume_unwind(panic),
        }
        Ok((middle(times.clone(), 0.5), middle(times, 0.99)))
    })
}

/// CPU time that a thousand clients cost, in microseconds each.
struct Crowd {
    /// The broker: a connection, a message of each of them, one of the coordinator to each.
    connect_us: f64,
    broker_us: f64,
    fan_out_us: f64,
    /// The coordinator: taking a message up.
    message_us: f64,
}

/// Connects many clients, has each send a second of results at the same moment, and sends all of them a beat.
fn crowd(broker: &Broker, bytes: usize) -> anyhow::Result<Crowd> {
    let each_us =
        |time: Duration, times: usize| time.as_secs_f64() * 1e6 / (CLIENTS * times) as f64;
    let idle = broker.cpu_time()?;
    let mut clients: Vec<Connection> = (0..CLIENTS)
        .map(|_| broker.connect())
        .collect::<anyhow::Result<_>>()?;
    let connected = broker.cpu_time()?;
    let mut coordinator = broker.connect()?;
    coordinator.subscribe("second")?;
    let before = broker.cpu_time()?;
    let taken_up = bursts(&mut coordinator, &mut clients, &vec![b'x'; bytes])?;
    let served = broker.cpu_time()?;
    for client in &mut clients {
        client.subscribe("beat")?;
    }
    let listening = broker.cpu_time()?;
    for _ in 0..ROUNDS {
        coordinator.publish("beat", "", b"I live")?;
        for client in &mut clients {
            client.receive()?;
        }
    }
    Ok(Crowd {
        connect_us: each_us(connected - idle, 1),
        broker_us: each_us(served - before, ROUNDS),
        fan_out_us: each_us(broker.cpu_time()? - listening, ROUNDS),
        message_us: each_us(taken_up, ROUNDS),
    })
}

/// All clients send at once, some times. The CPU time it takes to take all of it up.
fn bursts(
    coordinator: &mut Connection,
    clients: &mut [Connection],
    payload: &[u8],
) -> anyhow::Result<Duration> {
    let mut taken_up = Duration::ZERO;
    for _ in 0..ROUNDS {
        for client in clients.iter_mut() {
            client.publish("second", "", payload)?;
        }
        let before = cpu_time();
        for _ in 0..clients.len() {
            coordinator.receive()?;
        }
        taken_up += cpu_time() - before;
    }
    Ok(taken_up)
}

/// Median time in milliseconds for which the broker is away when it is killed and started again.
fn restarts(broker: &mut Broker) -> anyhow::Result<f64> {
    let mut times = Vec::new();
    for _ in 0..RESTARTS {
        times.push(broker.restart()?.as_secs_f64() * 1e3);
    }
    Ok(middle(times, 0.5))
}

/// CPU time of this thread.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.max(0) as u64, time.tv_nsec.max(0) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_is_the_middle() {
        assert_eq!(middle(vec![3.0, 1.0, 2.0], 0.5), 2.0);
        assert_eq!(middle((0..=100).map(f64::from).collect(), 0.99), 99.0);
    }

    /// HDR keeps three digits, so a message grows with the spread and hardly with the number of requests.
    #[test]
    fn a_second_weighs_more_the_more_its_times_are_spread() {
        let bytes = |requests, spread| message((requests, spread), 1).expect("plain data").len();
        assert!(bytes(1000, 1.0) > bytes(1000, 0.3));
        assert!(bytes(10_000, 0.6) < 10 * bytes(1000, 0.6));
    }
}
