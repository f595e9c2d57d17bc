//! yandex.tank's schedules of instances (`load_type: instances`): `ramp(10,30s) wait(5m)`, `start(10) wait(5m)`, and
//! `line`, `const` of instances when the text begins with `instances:`.
//!
//! `ramp(n,d)` starts the first of its *n* instances at once and the last after *d*. The number of instances never
//! falls. A closed loop here has one ramp, so what starts workers at several times is refused.

use crate::values::{count, positive, workers};
use crate::{Imported, ImportedLoad, Refusal, Syntax};
use kneepoint_model::pieces::{TextPiece, pieces};
use kneepoint_model::schedule::text::parse_length;
use kneepoint_model::{ClosedLoop, ThinkTime};
use std::time::Duration;

pub(crate) static SYNTAX: Syntax = Syntax {
    name: "yandex.tank instances",
    example: "instances: ramp(10,30s) wait(5m)",
    recognises: |text| {
        let begins = |name: &str| {
            let rest = text.strip_prefix(name).map(str::trim_start);
            rest.is_some_and(|rest| rest.starts_with('('))
        };
        prefixed(text).is_some() || ["ramp", "wait", "start"].into_iter().any(begins)
    },
    read,
};

/// The text after `instances:` or `load_type: instances`, and after `schedule:`.
fn prefixed(text: &str) -> Option<&str> {
    let rest = text
        .strip_prefix("load_type:")
        .map_or(text, str::trim_start)
        .strip_prefix("instances")?
        .trim_start_matches([':', ' ', ',', '\n', '\t']);
    let rest = rest.strip_prefix("schedule:").unwrap_or(rest);
    Some(rest.trim_start())
}

/// Instances as they are started.
#[derive(Default)]
struct Plan {
    /// Started so far.
    instances: u64,
    /// From the first to the last of a ramp at the beginning.
    ramp: Option<Duration>,
    elapsed: Duration,
}

impl Plan {
    /// Starts some more at this moment.
    fn start(&mut self, more: u64, piece: &TextPiece<'_>) -> Result<(), Refusal> {
        if more == 0 {
            return Ok(());
        }
        if !self.elapsed.is_zero() || self.ramp.is_some() {
            return Err(several_starts(piece));
        }
        self.instances += more;
        Ok(())
    }

    /// Starts some more, the first now and the last after `length`.
    fn ramp(&mut self, more: u64, length: Duration, piece: &TextPiece<'_>) -> Result<(), Refusal> {
        if more <= 1 || length.is_zero() {
            self.start(more, piece)?;
        } else if !self.elapsed.is_zero() || self.instances > 0 {
            return Err(several_starts(piece));
        } else {
            self.ramp = Some(length);
            self.instances = more;
        }
        self.wait(length);
        Ok(())
    }

    fn wait(&mut self, length: Duration) {
        self.elapsed = self.elapsed.saturating_add(length);
    }

    /// Brings the number of instances to `target`.
    fn reach(&mut self, target: u64, piece: &TextPiece<'_>) -> Result<(), Refusal> {
        let more = target.checked_sub(self.instances).ok_or_else(|| {
            Refusal::new(
                piece.whole,
                "instances cannot be stopped; write a number that is not below the one before",
            )
        })?;
        self.start(more, piece)
    }

    fn add(&mut self, piece: &TextPiece<'_>) -> Result<(), Refusal> {
        let number = |text: &str| count(text, &[]).map(|n| n as u64);
        match (piece.name, piece.values().as_slice()) {
            ("ramp", [n, length]) => self.ramp(number(n)?, span(length)?, piece),
            ("start", [n]) => self.start(number(n)?, piece),
            ("wait", [length]) => {
                self.wait(span(length)?);
                Ok(())
            }
            ("const", [n, length]) => {
                self.reach(number(n)?, piece)?;
                self.wait(span(length)?);
                Ok(())
            }
            ("line", [from, to, length]) => {
                let (from, to, length) = (number(from)?, number(to)?, span(length)?);
                self.reach(from - 1, piece)?;
                let more = (to + 1).checked_sub(from).ok_or_else(|| {
                    Refusal::new(
                        piece.whole,
                        "instances cannot be stopped; write a line that rises",
                    )
                })?;
                self.ramp(more, length, piece)
            }
            _ => Err(Refusal::new(
                piece.whole,
                "this starts no instances; write ramp(COUNT,DURATION), start(COUNT), wait(DURATION), \
                 const(COUNT,DURATION) or line(1,COUNT,DURATION)",
            )),
        }
    }
}

fn several_starts(piece: &TextPiece<'_>) -> Refusal {
    Refusal::new(
        piece.whole,
        "workers of a closed loop start all at once or over one ramp at the beginning; write one of ramp(COUNT,DURATION) \
         and start(COUNT), and then wait(DURATION)",
    )
}

fn span(text: &str) -> Result<Duration, Refusal> {
    parse_length(text).map_err(|problem| Refusal::new(text, problem))
}

fn read(text: &str) -> Result<Imported, Refusal> {
    let text = prefixed(text).unwrap_or(text);
    let pieces = pieces(text).map_err(|piece| {
        Refusal::new(
            &piece,
            "this is not a piece of a schedule; write for example ramp(10,30s)",
        )
    })?;
    let mut plan = Plan::default();
    pieces.iter().try_for_each(|piece| plan.add(piece))?;
    if plan.instances == 0 {
        return Err(Refusal::new(
            text,
            "no instance is started; write for example start(10) wait(5m)",
        ));
    }
    // The last of n workers starts at (n-1)/n of a closed loop's ramp.
    let n = workers(count(&plan.instances.to_string(), &[])?);
    let ramp = plan.ramp.map_or(Duration::ZERO, |length| {
        let nanos = length.as_nanos() * u128::from(n) / u128::from(n - 1).max(1);
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    });
    let mut read = Imported::new(ImportedLoad::Closed(ClosedLoop {
        workers: n,
        ramp,
        think_time: ThinkTime::None,
        duration: positive(text, plan.elapsed)?,
        requests: None,
        loops: None,
    }));
    read.connections = Some(n as usize);
    read.note(
        "yandex.tank goes on until its ammunition or loops are used up; here the load ends with the schedule.",
    );
    Ok(read)
}
