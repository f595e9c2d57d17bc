//! yandex.tank's schedules of requests per second: `line(1,50,2m) const(50,10m) step(10,50,10,30s)`.
//!
//! The first request is at the start, and there are as many as the whole part of the integral. `step` goes down when
//! its second value is below the first, and ends at the second value even when the increment does not lead there.

use crate::{Imported, Refusal, Syntax};
use kneepoint_model::schedule::ScheduleError;
use kneepoint_model::{FirstArrival, Schedule};

pub(crate) static SYNTAX: Syntax = Syntax {
    name: "yandex.tank schedule",
    example: "line(1,50,2m) const(50,10m)",
    // Whatever is called like a piece is taken for one, so that a misspelled name is told the right ones.
    recognises: |text| {
        let text = text.strip_prefix("rps:").unwrap_or(text);
        let name = text.split_once('(').map(|(name, _)| name.trim());
        name.is_some_and(|name| name.bytes().all(|b| b.is_ascii_alphabetic() || b == b'_'))
    },
    read,
};

fn read(text: &str) -> Result<Imported, Refusal> {
    let text = text.strip_prefix("rps:").unwrap_or(text);
    let schedule: Schedule = text
        .parse()
        .map_err(|error: ScheduleError| Refusal::new(&error.piece, error.problem))?;
    let mut read = Imported::even(schedule, FirstArrival::AtStart);
    read.note(
        "yandex.tank cuts each time to a whole millisecond and each piece to whole requests; here the integral of \
         the rate runs on from piece to piece.",
    );
    read.note(
        "yandex.tank sends every request of the schedule however late, so an overload makes the run longer; here \
         the schedule ends when it says.",
    );
    Ok(read)
}
