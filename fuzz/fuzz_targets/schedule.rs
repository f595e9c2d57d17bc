//! Schedules: what is read prints back to the same schedule, and its arrivals come in order, within its length.

#![no_main]

use kneepoint_model::Schedule;
use kneepoint_schedules::Imported;

/// Arrivals that are looked at.
const MOST_ARRIVALS: u64 = 2000;
/// Areas are exact to a ten-trillionth: beyond so many arrivals, the last ones are one and the same.
const COUNTABLE: u64 = 1_000_000_000;
/// Times are used in whole nanoseconds.
const NANOSECOND: f64 = 1e-9;

libfuzzer_sys::fuzz_target!(|text: &str| {
    if let Ok(imported) = text.parse::<Imported>() {
        let printed = imported.to_string();
        assert_eq!(
            printed.parse::<Imported>().as_ref(),
            Ok(&imported),
            "{printed}"
        );
    }
    let Ok(schedule) = text.parse::<Schedule>() else {
        return;
    };
    let printed = schedule.to_string();
    assert_eq!(
        printed.parse::<Schedule>().as_ref(),
        Ok(&schedule),
        "{printed}"
    );
    let (total, length_s) = (schedule.total_arrivals(), schedule.duration().as_secs_f64());
    if total > COUNTABLE {
        return;
    }
    let mut cursor = schedule.cursor();
    let mut before = 0.0;
    // The first ones one by one, then leaps to the last.
    let first = 0..total.min(MOST_ARRIVALS / 2);
    let leap = (total / MOST_ARRIVALS).max(1);
    let rest = (first.end..total).step_by(leap as usize);
    for number in first.chain(rest).chain(total.checked_sub(1)) {
        let at = cursor.time_of(number as f64);
        let at = at.unwrap_or_else(|| panic!("{printed}: arrival {number} of {total} never comes"));
        assert!(at.is_finite(), "{printed}: arrival {number} comes at {at}");
        assert!(
            at >= before - NANOSECOND,
            "{printed}: arrival {number} at {at} after {before}"
        );
        assert!(
            at <= length_s * (1.0 + 1e-12) + NANOSECOND,
            "{printed}: arrival {number} at {at}"
        );
        before = at;
    }
});
