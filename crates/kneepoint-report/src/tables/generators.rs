//! The health of each of several generators, over the steps of a run or of one load.

use super::Table;
use crate::words;
use kneepoint_model::{GeneratorPart, LoadPoint, Run};
use std::collections::{BTreeMap, BTreeSet};

/// Most sentences about generators that are told.
const MOST_SAID: usize = 8;

/// A row for each generator; `None` where there was only one. Of what differs from step to step, the worst.
pub(crate) fn table<'p>(points: impl Iterator<Item = &'p LoadPoint>) -> Option<Table> {
    let mut by_name: BTreeMap<&str, Vec<&GeneratorPart>> = BTreeMap::new();
    for part in points.flat_map(|point| &point.generators) {
        by_name.entry(&part.name).or_default().push(part);
    }
    let columns = [
        "",
        "share",
        "requests",
        "send lag p99",
        "of a core",
        "starts within",
        "not as asked",
    ];
    let rows = by_name.into_iter().map(|(name, parts)| row(name, &parts));
    let rows: Vec<_> = rows.collect();
    (!rows.is_empty()).then(|| Table {
        title: "Generators".to_owned(),
        columns: columns.map(str::to_owned).to_vec(),
        rows,
    })
}

/// The table of a run, and what became of those whose part is not what was asked for; `None` where there was one generator.
pub(crate) fn of_run(run: &Run) -> Option<(Table, Vec<String>)> {
    let points = || run.trials.iter().map(|trial| &trial.load);
    Some((table(points())?, said(points())))
}

/// Whether anything is known of a generator's own health. Of one that was lost nothing is, and it did not do all it was to; one
/// that sent for seconds needs some of a core.
pub(crate) fn is_known(part: &GeneratorPart) -> bool {
    part.said.is_none() || part.health.cpu_share > 0.0
}

fn row(name: &str, parts: &[&GeneratorPart]) -> Vec<String> {
    let most =
        |of: fn(&GeneratorPart) -> f64| parts.iter().map(|part| of(part)).fold(0.0, f64::max);
    let least = parts.iter().map(|part| part.share).fold(1.0, f64::min);
    let (low, high) = (words::share(least), words::share(most(|part| part.share)));
    let measured = parts.iter().any(|part| is_known(part));
    let wrong = parts.iter().filter(|part| part.said.is_some()).count();
    vec![
        name.to_owned(),
        if low == high {
            low
        } else {
            format!("{low} to {high}")
        },
        words::count(parts.iter().map(|part| part.arrivals).sum()),
        match measured {
            true => words::ms(Some(most(|part| part.health.send_lag_p99_ms))),
            false => "-".to_owned(),
        },
        match measured {
            true => words::share(most(|part| part.health.cpu_share)),
            false => "-".to_owned(),
        },
        words::ms(Some(most(|part| part.start_within_ms))),
        match wrong {
            0 => "0".to_owned(),
            wrong => format!(
                "{wrong} of {}",
                words::counted(parts.len() as u64, "step", "steps")
            ),
        },
    ]
}

/// What became of those whose part is not what was asked for, each sentence once.
fn said<'p>(points: impl Iterator<Item = &'p LoadPoint>) -> Vec<String> {
    let parts = points.flat_map(|point| &point.generators);
    let said: BTreeSet<&String> = parts.filter_map(|part| part.said.as_ref()).collect();
    let more = said.len().saturating_sub(MOST_SAID);
    let mut told: Vec<String> = said.into_iter().take(MOST_SAID).cloned().collect();
    if more > 0 {
        told.push(format!("and {more} more"));
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;
    use kneepoint_model::Health;

    fn part(name: &str, share: f64, lag_ms: f64, said: Option<&str>) -> GeneratorPart {
        GeneratorPart {
            name: name.into(),
            share,
            arrivals: 100,
            start_within_ms: 0.5,
            health: Health {
                send_lag_p99_ms: lag_ms,
                cpu_share: 0.25,
                ..Health::default()
            },
            said: said.map(str::to_owned),
        }
    }

    #[test]
    fn each_generator_has_a_row_with_its_worst_step() {
        let points = [
            vec![part("b", 0.5, 0.1, None), part("a", 0.5, 0.2, None)],
            vec![part("a", 1.0, 0.9, None)],
            vec![
                part("a", 0.5, 0.3, None),
                part("b", 0.5, 0.0, Some("b was lost")),
            ],
        ];
        let points = points.map(|generators| LoadPoint {
            generators,
            ..LoadPoint::default()
        });
        let table = table(points.iter()).expect("two generators");
        let plain = |cell: &String| cell.replace('\u{a0}', " ");
        let rows: Vec<Vec<String>> = table
            .rows
            .iter()
            .map(|row| row.iter().map(plain).collect())
            .collect();
        assert_eq!(rows[0][..4], ["a", "50 % to 100 %", "300", "0.90 ms"]);
        assert_eq!(rows[1][6], "1 of 2 steps");
        assert_eq!(said(points.iter()), ["b was lost"]);
        let mut lost = part("c", 0.5, 0.0, Some("c was lost"));
        lost.health = Health::default();
        let cells = row("c", &[&lost]);
        assert_eq!(cells[3..5], ["-", "-"], "{cells:?}");
        let alone = LoadPoint::default();
        assert!(super::table([&alone].into_iter()).is_none());
    }
}
