//! What the simulation says, as tables of docs/scale.md.

use super::constants::{Measured, Timings};
use super::fleet::{Outcome, Plan, simulate};
use super::world::World;

/// Numbers of agents.
const SIZES: [usize; 7] = [10, 100, 500, 1000, 3000, 5000, 10_000];
/// Agents simulated for each size, at least, over several loads.
const LEAST_AGENTS: usize = 1000;
const LOAD_S: u32 = 20;
/// Share of agents that are killed, where some are.
const KILLED: f64 = 0.1;
/// Numbers of agents and seconds of the broker's absence beside what was measured.
const OUTAGE_SIZES: [usize; 3] = [10, 100, 1000];
const OUTAGES_S: [f64; 3] = [0.5, 1.0, 5.0];
/// Share of a core from which on the coordinator's queue grows faster than it can be trusted to drain.
const FULL: f64 = 0.8;

/// All tables.
pub(super) fn render(measured: &Measured, seed: u64) -> String {
    let plan = |agents, killed, outage_s, timings| Plan {
        world: World::usual(),
        timings,
        costs: measured.costs(),
        agents,
        load_s: LOAD_S,
        killed,
        outage_s,
    };
    let (ours, changed) = (Timings::ours(), Timings::changed());
    let of_size = SIZES.map(|agents| (agents, pooled(&plan(agents, KILLED, None, ours), seed)));
    let mut text = String::new();
    for table in [TOGETHER, SILENT, BUSY] {
        text += table.head;
        for (agents, of) in &of_size {
            text += &format!("| {agents} | {} |\n", (table.row)(of).join(" | "));
        }
        text += "\n";
    }
    text += &format!(
        "The coordinator's core is {:.0} % full at {:.0} agents.\n\n",
        FULL * 100.0,
        agents_at(&plan(1, 0.0, None, ours), FULL)
    );
    text += OUTAGES;
    let shortest_s = (measured.restart_ms / 1e3).max(0.001);
    for outage_s in [shortest_s].into_iter().chain(OUTAGES_S) {
        for agents in OUTAGE_SIZES {
            let pooled = |timings| pooled(&plan(agents, 0.0, Some(outage_s), timings), seed);
            text += &outage_row(outage_s, agents, &pooled(ours), &pooled(changed));
        }
    }
    text += BEFORE;
    for agents in SIZES {
        let it = pooled(&plan(agents, KILLED, None, Timings::before()), seed).outcome;
        let skew = |q| span(quantile(&it.skew_s, q));
        let (middle, most, waiting) = (skew(0.5), skew(0.99), it.waiting_bytes / 1e6);
        text += &format!("| {agents} | {middle} | {most} | {waiting:.1} MB |\n");
    }
    text
}

/// Heads of the tables of outages and of what was before.
const OUTAGES: &str = "| the broker is away for | agents | that stopped by themselves | with pauses of at most 100 ms | \
                       seconds asked for again | seconds of results lost |\n|---|---|---|---|---|---|\n";
const BEFORE: &str = "\n| agents, rounds of pings 20 ms apart for all, last words at once | start skew p50 | p99 | most that waits \
                      |\n|---|---|---|---|\n";

/// A table with a row for each number of agents.
#[derive(Clone, Copy)]
struct Table {
    head: &'static str,
    row: fn(&Pooled) -> Vec<String>,
}

/// How well agents begin and stop together.
const TOGETHER: Table = Table {
    head: "| agents | start skew p50 | p99 | largest | bound that is told | stop reaches all but 1 % after |\n|---|---|---|---|---|---|\n",
    row: |of| {
        let it = &of.outcome;
        vec![
            span(quantile(&it.skew_s, 0.5)),
            span(quantile(&it.skew_s, 0.99)),
            span(quantile(&it.skew_s, 1.0)),
            span(it.bound_s),
            span(quantile(&it.stop_s, 0.99)),
        ]
    },
};

/// What becomes of those who are silent.
const SILENT: Table = Table {
    head: "| agents | the dead are late after (worst) | gone after (worst) | the living are called late | gone |\n|---|---|---|---|---|\n",
    row: |of| {
        let it = &of.outcome;
        let both =
            |of: &[f64]| format!("{} ({})", span(quantile(of, 0.5)), span(quantile(of, 1.0)));
        let hours = of.agents as f64 * (1.0 - KILLED) * f64::from(LOAD_S) / 3600.0;
        let hourly = |times: usize| format!("{:.1} times an agent's hour", times as f64 / hours);
        vec![
            both(&it.late_s),
            both(&it.gone_s),
            hourly(it.false_late),
            hourly(it.false_gone),
        ]
    },
};

/// What it takes.
const BUSY: Table = Table {
    head: "| agents | coordinator's CPU, of a core | broker's | to the coordinator | a second is merged within p50, p99 | all of it after the end within | most that waits |\n|---|---|---|---|---|---|---|\n",
    row: |of| {
        let it = &of.outcome;
        vec![
            percent(it.cpu_share),
            percent(it.broker_share),
            format!("{:.2} MB/s", it.bytes_hz / 1e6),
            format!(
                "{}, {}",
                span(quantile(&it.merged_s, 0.5)),
                span(quantile(&it.merged_s, 0.99))
            ),
            span(quantile(&it.done_s, 1.0)),
            format!("{:.1} MB", it.waiting_bytes / 1e6),
        ]
    },
};

/// How many agents use this share of the coordinator's core: each second of each agent is a message that is merged, and
/// its beats are messages.
fn agents_at(plan: &Plan, share: f64) -> f64 {
    let beats_hz = 1.0 / plan.timings.beat_every_s;
    share / (plan.costs.merge_s + plan.costs.message_s * (1.0 + beats_hz))
}

/// Several loads with other chances, as one outcome.
struct Pooled {
    outcome: Outcome,
    /// Agents of all loads.
    agents: usize,
}

fn pooled(plan: &Plan, seed: u64) -> Pooled {
    let loads = (LEAST_AGENTS / plan.agents).max(1);
    let mut all = Outcome::default();
    for nth in 0..loads as u64 {
        let one = simulate(plan, seed.wrapping_mul(1_000_003).wrapping_add(nth));
        all.skew_s.extend(one.skew_s);
        all.late_s.extend(one.late_s);
        all.gone_s.extend(one.gone_s);
        all.merged_s.extend(one.merged_s);
        all.stop_s.extend(one.stop_s);
        all.done_s.extend(one.done_s);
        all.false_late += one.false_late;
        all.false_gone += one.false_gone;
        all.stopped += one.stopped;
        all.sent += one.sent;
        all.merged += one.merged;
        all.again += one.again;
        all.bound_s = all.bound_s.max(one.bound_s);
        all.waiting_bytes = all.waiting_bytes.max(one.waiting_bytes);
        all.cpu_share += one.cpu_share / loads as f64;
        all.broker_share += one.broker_share / loads as f64;
        all.bytes_hz += one.bytes_hz / loads as f64;
    }
    Pooled {
        outcome: all,
        agents: plan.agents * loads,
    }
}

fn outage_row(outage_s: f64, agents: usize, of: &Pooled, changed: &Pooled) -> String {
    let it = &of.outcome;
    let stopped = |of: &Pooled| percent(of.outcome.stopped as f64 / of.agents as f64);
    format!(
        "| {} | {agents} | {} | {} | {} in {} | {} |\n",
        span(outage_s),
        stopped(of),
        stopped(changed),
        it.again,
        it.sent,
        it.sent - it.merged,
    )
}

/// The value that a share of all does not exceed; not a number when there are none.
fn quantile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().saturating_sub(1);
    sorted
        .get((last as f64 * share).round() as usize)
        .copied()
        .unwrap_or(f64::NAN)
}

/// Two digits that mean something.
fn span(seconds: f64) -> String {
    match seconds {
        s if s.is_nan() => "-".into(),
        s if s < 0.01 => format!("{:.1} ms", s * 1e3),
        s if s < 1.0 => format!("{:.0} ms", s * 1e3),
        s => format!("{s:.1} s"),
    }
}

fn percent(share: f64) -> String {
    match share * 100.0 {
        0.0 => "0 %".into(),
        p if p < 10.0 => format!("{p:.1} %"),
        p => format!("{p:.0} %"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_people_read_them() {
        let spans = [0.000_12, 0.0213, 1.26, f64::NAN].map(span);
        assert_eq!(spans, ["0.1 ms", "21 ms", "1.3 s", "-"]);
        assert_eq!([0.0, 0.0123, 0.456].map(percent), ["0 %", "1.2 %", "46 %"]);
    }

    #[test]
    fn quantiles_are_those_of_the_sorted_values() {
        assert_eq!(quantile(&[3.0, 1.0, 2.0], 0.5), 2.0);
        assert_eq!(quantile(&[3.0, 1.0, 2.0], 1.0), 3.0);
        assert!(quantile(&[], 0.5).is_nan());
    }
}
