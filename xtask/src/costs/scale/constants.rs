//! What the simulation knows of Kneepoint and of this machine: the agents' timings, and what was measured.

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

/// How agents and coordinator deal with one another: docs/agents.md, section 4.
#[derive(Debug, Clone, Copy)]
pub(super) struct Timings {
    /// How often clocks are looked at, how long between two looks at least, and for each agent, and the moment for each
    /// agent over which their answers are spread, in seconds.
    pub(super) pings: u32,
    pub(super) ping_least_s: f64,
    pub(super) ping_each_s: f64,
    pub(super) spread_s: f64,
    /// The same for their last words.
    pub(super) done_spread_s: f64,
    /// From the order to start until the common moment, what each agent adds, and how many of the longest ways there and
    /// back.
    pub(super) lead_s: f64,
    pub(super) lead_each_s: f64,
    pub(super) lead_trips: f64,
    /// How often an agent says that it lives, and the coordinator.
    pub(super) beat_every_s: f64,
    pub(super) pulse_every_s: f64,
    /// How often the coordinator looks whether an agent is silent (assumed), and after which silence it is late and gone.
    pub(super) look_every_s: f64,
    pub(super) late_s: f64,
    pub(super) gone_s: f64,
    /// How often missing seconds are asked for.
    pub(super) again_every_s: f64,
    /// After which silence of the coordinator an agent stops.
    pub(super) dead_man_s: f64,
    /// From the order to stop at the agent until its threads have stopped.
    pub(super) stop_s: f64,
    /// Largest pause between two attempts to connect again.
    pub(super) largest_pause_s: f64,
}

impl Timings {
    /// Those of the program.
    pub(super) fn ours() -> Self {
        Self {
            pings: 16,
            ping_least_s: 0.02,
            ping_each_s: 100e-6,
            spread_s: 50e-6,
            done_spread_s: 400e-6,
            lead_s: 0.5,
            lead_each_s: 0.001,
            lead_trips: 4.0,
            beat_every_s: 0.5,
            pulse_every_s: 0.25,
            look_every_s: 0.1,
            late_s: 1.5,
            gone_s: 5.0,
            again_every_s: 1.0,
            dead_man_s: 1.5,
            stop_s: 0.05,
            // That of async-nats.
            largest_pause_s: 4.0,
        }
    }

    /// What could be changed: nobody waits long before it asks the broker again.
    pub(super) fn changed() -> Self {
        Self {
            largest_pause_s: 0.1,
            ..Self::ours()
        }
    }

    /// As they were before a simulation showed what bends first: rounds of pings as close for many agents as for few, and all
    /// last words at once.
    pub(super) fn before() -> Self {
        Self {
            ping_each_s: 0.0,
            done_spread_s: 0.0,
            ..Self::ours()
        }
    }

    /// Between two rounds of pings to so many agents, in seconds.
    pub(super) fn ping_every_s(&self, agents: usize) -> f64 {
        self.ping_least_s.max(self.ping_each_s * agents as f64)
    }

    /// Pause in seconds before the next attempt to connect, after so many that failed: 1 ms, doubled each time
    /// (async-nats).
    pub(super) fn pause_s(&self, attempts: u32) -> f64 {
        let doubled = 0.001 * 2f64.powi(attempts.saturating_sub(1).min(30) as i32);
        doubled.min(self.largest_pause_s)
    }
}

/// What a step of the way costs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Costs {
    /// The broker's time for a message of an agent, for each agent that one of the coordinator goes to, and for a new
    /// connection, in seconds.
    pub(super) broker_s: f64,
    pub(super) fan_out_s: f64,
    pub(super) connect_s: f64,
    /// The coordinator's time for any message, and for the histograms of one agent's second and of its last word, in
    /// seconds.
    pub(super) message_s: f64,
    pub(super) merge_s: f64,
    pub(super) done_s: f64,
    /// Bytes of a second of results, of the last word, and of any other message.
    pub(super) second_bytes: f64,
    pub(super) done_bytes: f64,
    pub(super) beat_bytes: f64,
}

/// What `--measure` found, as docs/scale.md keeps it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Measured {
    /// When, and on what.
    pub(super) date: String,
    pub(super) machine: String,
    pub(super) build: String,
    /// Bytes of the message with one agent's second, and the CPU time that reading and merging it takes.
    pub(super) second_bytes: u64,
    pub(super) merge_us: f64,
    /// The same of its last word, `done`.
    pub(super) done_bytes: u64,
    pub(super) done_us: f64,
    /// CPU time that taking up one small message takes.
    pub(super) message_us: f64,
    /// From one client over the broker to another and back, median and 99th percentile.
    pub(super) round_trip_us: f64,
    pub(super) round_trip_p99_us: f64,
    /// CPU time of the broker for one of a thousand messages that come at once, for each of a thousand clients that one
    /// message goes to, and for a new connection.
    pub(super) broker_us: f64,
    pub(super) fan_out_us: f64,
    pub(super) connect_us: f64,
    /// From the end of the broker until a new one takes connections.
    pub(super) restart_ms: f64,
}

/// Bytes of a message that says little, with its subject and the protocol's line.
const BEAT_BYTES: f64 = 150.0;

impl Measured {
    /// What a step costs, by these measurements.
    pub(super) fn costs(&self) -> Costs {
        Costs {
            broker_s: self.broker_us / 1e6,
            fan_out_s: self.fan_out_us / 1e6,
            connect_s: self.connect_us / 1e6,
            message_s: self.message_us / 1e6,
            merge_s: self.merge_us / 1e6,
            done_s: self.done_us / 1e6,
            second_bytes: self.second_bytes as f64,
            done_bytes: self.done_bytes as f64,
            beat_bytes: BEAT_BYTES,
        }
    }

    /// Reads them from the document.
    ///
    /// # Errors
    /// They are not there.
    pub(super) fn from_document(document: &str) -> anyhow::Result<Self> {
        let block = block(document, MEASURED)?;
        let text = block
            .trim()
            .trim_start_matches("```toml")
            .trim_end_matches("```");
        toml::from_str(text)
            .context("the measured constants cannot be read: take them anew with --measure")
    }

    /// As they stand in the document.
    ///
    /// # Errors
    /// Never: it is plain data.
    pub(super) fn to_block(&self) -> anyhow::Result<String> {
        Ok(format!("```toml\n{}```", toml::to_string(self)?))
    }
}

/// Names of the parts of the document that the command writes.
pub(super) const MEASURED: &str = "measured";
pub(super) const TABLES: &str = "tables";

fn marks(name: &str) -> (String, String) {
    (
        format!("<!-- {name}: written by cargo xtask scale -->\n"),
        format!("<!-- end of {name} -->"),
    )
}

/// A part of the document.
fn block<'d>(document: &'d str, name: &str) -> anyhow::Result<&'d str> {
    let (begin, end) = marks(name);
    let after = document.split_once(begin.as_str());
    let within = after.and_then(|(_, after)| after.split_once(end.as_str()));
    within.map(|(within, _)| within).with_context(|| {
        format!(
            "docs/scale.md has no part between `{}` and `{end}`",
            begin.trim()
        )
    })
}

/// The document with another text in one of its parts.
///
/// # Errors
/// It has no such part.
pub(super) fn with_block(document: &str, name: &str, text: &str) -> anyhow::Result<String> {
    let old = block(document, name)?;
    let (begin, end) = marks(name);
    let whole = |text: &str| format!("{begin}{text}{end}");
    Ok(document.replacen(&whole(old), &whole(&format!("{}\n", text.trim_end())), 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_into_the_document_is_read_from_it() {
        let measured = Measured {
            date: "2001-02-03".into(),
            machine: "two cores".into(),
            build: "dev".into(),
            second_bytes: 5000,
            merge_us: 100.0,
            done_bytes: 20_000,
            done_us: 300.0,
            message_us: 5.0,
            round_trip_us: 80.0,
            round_trip_p99_us: 300.0,
            broker_us: 4.0,
            fan_out_us: 3.0,
            connect_us: 90.0,
            restart_ms: 20.5,
        };
        let (begin, end) = marks(MEASURED);
        let document = format!("# Scale\n\n{begin}old\n{end}\n\nMore.\n");
        let block = measured.to_block().expect("plain data");
        let written = with_block(&document, MEASURED, &block).expect("it has the part");
        assert!(
            written.starts_with("# Scale") && written.ends_with("More.\n"),
            "{written}"
        );
        assert_eq!(
            Measured::from_document(&written).expect("reads back"),
            measured
        );
        assert!(with_block(&document, TABLES, "x").is_err());
        assert!(Measured::from_document(&document).is_err());
    }

    #[test]
    fn pauses_double_up_to_four_seconds() {
        let timings = Timings::ours();
        let pauses: Vec<f64> = [1, 2, 3, 12, 13, 40]
            .map(|attempts| timings.pause_s(attempts))
            .into();
        assert_eq!(pauses, [0.001, 0.002, 0.004, 2.048, 4.0, 4.0]);
    }
}
