//! Tables of several configurations, which every format draws in its own way.

pub(crate) mod generators;
pub(crate) mod html;
pub(crate) mod terminal;

use crate::words;
use kneepoint_model::Outcome;
use kneepoint_model::contest::Carried;
use kneepoint_model::units::RateUnit;

/// Quantiles of response times: those of field report S5.
const QUANTILES: [f64; 9] = [0.5, 0.75, 0.8, 0.85, 0.9, 0.95, 0.98, 0.99, 1.0];

/// A table: its title, its columns, and its rows, the first cell of which is a name.
pub(crate) struct Table {
    pub(crate) title: String,
    pub(crate) columns: Vec<String>,
    pub(crate) rows: Vec<Vec<String>>,
}

/// How each bore a load that counts this unit: response times in ms, requests that met the SLO, what failed.
pub(crate) fn percentiles<'c>(
    title: String,
    unit: RateUnit,
    rows: impl Iterator<Item = (&'c str, &'c Carried)>,
) -> Table {
    let quantiles = QUANTILES.iter().map(|quantile| match quantile {
        1.0 => "max".to_owned(),
        quantile => format!("{:.0} %", quantile * 100.0),
    });
    let columns = [String::new()].into_iter().chain(quantiles);
    let columns = columns.chain(["within SLO".to_owned(), "failed".to_owned()]);
    let rows = rows.map(|(name, carried)| {
        let times = QUANTILES.iter().map(|quantile| {
            let ms = carried.response.quantile_ms(*quantile);
            // A kept application answers within a millisecond or two.
            let decimals = usize::from(ms.is_some_and(|ms| ms < 9.95));
            ms.map_or_else(unknown, |ms| format!("{ms:.decimals$}"))
        });
        let mut row = vec![name.to_owned()];
        row.extend(times);
        row.push(words::requests_in(unit, carried.goodput_hz()));
        row.push(failed(carried));
        row
    });
    Table {
        title,
        columns: columns.collect(),
        rows: rows.collect(),
    }
}

/// Errors by class; the steps that do not count beside them.
fn failed(carried: &Carried) -> String {
    let classes = carried.outcomes.by_outcome.iter();
    let classes = classes.filter(|(outcome, count)| **outcome != Outcome::Ok && **count > 0);
    let mut parts: Vec<String> = classes
        .map(|(outcome, count)| format!("{} {}", words::count(*count), outcome.name()))
        .collect();
    if parts.is_empty() {
        parts.push("0".to_owned());
    }
    if carried.invalid_steps > 0 {
        parts.push(format!("{} steps void", carried.invalid_steps));
    }
    parts.join(", ")
}

/// A cell of what is not known.
pub(crate) fn unknown() -> String {
    "-".to_owned()
}
