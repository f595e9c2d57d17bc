//! R* of each configuration as a table.

use crate::markdown::{section, table};
use crate::subjects::arm_name;
use crate::words;
use kneepoint_model::Run;

/// A row for each R*; nothing where none was measured.
pub(crate) fn limits(out: &mut String, run: &Run) {
    let measured: Vec<_> = ["base", "best"]
        .iter()
        .filter_map(|arm| run.limit(arm))
        .collect();
    if measured.is_empty() {
        return;
    }
    section(out, "R*");
    let rows = measured.into_iter().map(|limit| {
        let rate = |hz| words::rate_in(limit.unit(), hz);
        let known = limit.met_hz();
        vec![
            arm_name(run, &limit.arm).to_owned(),
            match limit.besides_visits() {
                _ if known.is_none() => "none".to_owned(),
                Some(besides) => format!("{} ({besides})", rate(limit.rate_hz.estimate)),
                None => rate(limit.rate_hz.estimate),
            },
            known.map_or_else(
                || words::limit_is(limit),
                |known| words::range_in(limit.unit(), &known),
            ),
            limit.bound_by.to_string(),
            rate(limit.saturation_hz),
            match limit.soak_arrivals {
                0 => "not driven".to_owned(),
                driven => format!(
                    "{} of {} at {}{}",
                    words::count(limit.soak_failed),
                    words::count(driven),
                    rate(limit.soak_hz),
                    match limit.soak_held {
                        true => "",
                        false => " (not confirmed)",
                    }
                ),
            },
            words::limit_basis(&run.limit_basis(limit)),
        ]
    });
    let columns = [
        "configuration",
        "R*",
        "95 % interval",
        "limited by",
        "served in a closed loop",
        "failed in a longer stretch",
        "measured",
    ];
    table(out, &columns, rows);
}
