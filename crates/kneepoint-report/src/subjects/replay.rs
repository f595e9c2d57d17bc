//! A replayed field report in words and tables that every format prints: what it tells beside what was measured here.

pub(crate) mod html;
pub(crate) mod markdown;
pub(crate) mod terminal;

use crate::tables::{self, Table, unknown};
use crate::words;
use kneepoint_model::contest::Carried;
use kneepoint_model::replay::{Claim, Diagnosed, Measure, Named, Replay, Stage};
use kneepoint_model::units::RateUnit;
use kneepoint_model::{Interval, Layer};
use std::collections::BTreeSet;

/// Whether the cause was named, and what became of the claims.
pub(crate) fn sentence(replay: &Replay) -> String {
    let mut parts = Vec::new();
    let diagnosed = replay
        .stages
        .iter()
        .filter_map(|stage| stage.diagnosed.as_ref());
    let named: Vec<bool> = diagnosed.filter_map(Diagnosed::is_named_first).collect();
    if !named.is_empty() {
        let right = named.iter().filter(|named| **named).count();
        parts.push(format!("{right} of {} causes named first", named.len()));
    }
    if !replay.claims.is_empty() {
        let met = replay
            .claims
            .iter()
            .filter(|claim| claim.is_met == Some(true));
        parts.push(format!(
            "{} of {} claims met here",
            met.count(),
            replay.claims.len()
        ));
    }
    if parts.is_empty() {
        return format!("{}, replayed.", replay.title);
    }
    format!("{}: {}.", replay.title, words::listed(&parts))
}

/// What was found of the stages that were diagnosed, without being told what the report found.
pub(crate) fn causes(replay: &Replay) -> Vec<(String, String)> {
    let mut told = Vec::new();
    for stage in &replay.stages {
        let Some(it) = &stage.diagnosed else { continue };
        told.push((stage.name.clone(), cause(it)));
        let others = it.found.iter().skip(1);
        told.extend(others.map(|other| (String::new(), format!("then {}", named(other)))));
        let missed = it
            .missed()
            .map(|code| format!("{code}, which the stage added, was not found"));
        told.extend(missed.map(|text| (String::new(), text)));
    }
    told
}

fn named(it: &Named) -> String {
    let title = it.title.trim_end_matches('.');
    format!("{} {title}: {}", it.code, it.seen)
}

fn cause(diagnosed: &Diagnosed) -> String {
    let first = diagnosed.found.first();
    let first = first.map_or_else(|| "nothing was found".to_owned(), named);
    let verdict = match diagnosed.is_named_first() {
        Some(true) => " (the report's cause)".to_owned(),
        Some(false) => format!(" (the report's cause is {})", diagnosed.cause.join(" or ")),
        None => String::new(),
    };
    let limit = words::rate_interval(&diagnosed.limit);
    format!("{first}{verdict}. R* {limit}")
}

/// All tables: claims, stages by what was reported of them, loads, where CPU went, sockets.
pub(crate) fn tables(replay: &Replay) -> Vec<Table> {
    let mut all = Vec::new();
    all.extend(claims(replay));
    let mut told: BTreeSet<Measure> = replay
        .stages
        .iter()
        .flat_map(|stage| stage.reported.keys().copied())
        .collect();
    told.extend(replay.claims.iter().map(|claim| claim.measure));
    all.extend(told.into_iter().map(|measure| stages(replay, measure)));
    for (nth, load) in replay.loads.iter().enumerate() {
        let title = format!(
            "{}: {}, {}; response times in ms",
            words::sentence(&load.name),
            load.text,
            words::counted(load.rounds.into(), "round", "rounds in turns")
        );
        let empty = Carried::default();
        let rows = replay.stages.iter();
        let rows = rows.map(|stage| {
            (
                stage.name.as_str(),
                stage.carried.get(nth).unwrap_or(&empty),
            )
        });
        let mut table = tables::percentiles(title, RateUnit::Requests, rows);
        borne(replay, nth, &mut table);
        all.push(table);
    }
    all.extend(cores(replay));
    all.extend(sockets(replay));
    all
}

/// Adds until which rate a rising load was borne.
fn borne(replay: &Replay, load: usize, table: &mut Table) {
    let of = |stage: &Stage| stage.borne_hz.get(load).copied().flatten();
    if replay.stages.iter().all(|stage| of(stage).is_none()) {
        return;
    }
    // The last column is what failed, in as many words as it takes: a terminal wraps it, and no other.
    let at = table.columns.len() - 1;
    table.columns.insert(at, "held up to".to_owned());
    for (row, stage) in table.rows.iter_mut().zip(&replay.stages) {
        row.insert(at, of(stage).map_or_else(unknown, words::rate));
    }
}

/// What is not in a table, a sentence each.
pub(crate) fn notes(replay: &Replay) -> Vec<String> {
    let mut notes: Vec<String> = replay
        .gaps
        .iter()
        .map(|gap| match &gap.share {
            None => format!("{}: not measured", gap.what),
            Some(share) => format!(
                "{}: {} of the difference in {} between {} and {} (95 %: {} to {})",
                gap.what,
                words::share(share.estimate),
                gap.measure.title().split(',').next().unwrap_or_default(),
                gap.stages[0],
                gap.stages[2],
                words::share(share.low),
                words::share(share.high)
            ),
        })
        .collect();
    if let Some(hosts) = &replay.hosts {
        notes.push(format!(
            "{} hosts of the first stage serve as much as {} of the last, by what was predicted for one of each from low load \
             ({} and {}); the report went to {}",
            hosts.before,
            hosts.needed(),
            words::rate_interval(&hosts.before_hz),
            words::rate_interval(&hosts.after_hz),
            hosts.after
        ));
    }
    for stage in &replay.stages {
        if let Some(words) = &stage.last_words {
            // What never stood has no tiers.
            let how = match stage.tiers.is_empty() {
                true => "did not take part",
                false => "did not last",
            };
            notes.push(format!("{} {how}: {words}", stage.name));
        }
    }
    notes.extend(replay.differs.iter().cloned());
    notes
}

/// What was done from stage to stage, and what each consisted of.
pub(crate) fn steps(replay: &Replay) -> Vec<(String, String)> {
    let steps = replay.stages.iter();
    let text = |stage: &Stage| match stage.tiers.is_empty() {
        true => stage.did.clone(),
        false => format!("{} ({})", stage.did, stage.tiers.join(", ")),
    };
    steps
        .map(|stage| (stage.name.clone(), text(stage)))
        .collect()
}

fn claims(replay: &Replay) -> Option<Table> {
    let columns = ["Claim", "", "reported", "here", "needs"];
    let rows = replay.claims.iter().map(|claim| {
        let reported = claim.reported_ratio;
        let verdict = match claim.is_met {
            Some(true) => "met",
            Some(false) => "not met",
            None => "not measured",
        };
        vec![
            claim.what.clone(),
            verdict.to_owned(),
            reported.map_or_else(unknown, times),
            here(claim),
            needs(claim),
        ]
    });
    (!replay.claims.is_empty()).then(|| Table {
        title: "What is claimed, and what was measured (95 % intervals in parentheses)".to_owned(),
        columns: columns.map(str::to_owned).into(),
        rows: rows.collect(),
    })
}

/// The ratio; the values where it says nothing, as of a share that is zero afterwards.
fn here(claim: &Claim) -> String {
    let asks_for_ratio = claim.needs.ratio_at_least.or(claim.needs.ratio_at_most);
    match (&claim.measured_ratio, claim.measured) {
        (Some(it), _) if asks_for_ratio.is_some() => ratio(it),
        (_, (Some(from), Some(to))) => {
            let shown = |value| number(claim.measure, value);
            format!("{} to {}", shown(from), shown(to))
        }
        _ => unknown(),
    }
}

/// With its interval where there is one.
fn ratio(ratio: &Interval) -> String {
    if ratio.low < ratio.high {
        return words::times(ratio);
    }
    times(ratio.estimate)
}

fn times(ratio: f64) -> String {
    match ratio {
        0.0 => "0".to_owned(),
        ratio if !ratio.is_finite() => "not known".to_owned(),
        ratio if ratio > 1e6 => "over a million times".to_owned(),
        ratio => format!("x{}", words::ratio(ratio)),
    }
}

fn needs(claim: &Claim) -> String {
    let needs = &claim.needs;
    let bound = |what: &str, sign: &str, value: Option<f64>, text: &dyn Fn(f64) -> String| {
        value.map(|value| format!("{what}{sign} {}", text(value)))
    };
    let shown = |value: f64| number(claim.measure, value);
    let all = [
        bound("", "at least", needs.ratio_at_least, &times),
        bound("", "at most", needs.ratio_at_most, &times),
        bound("from ", "at least", needs.from_at_least, &shown),
        bound("to ", "at least", needs.to_at_least, &shown),
        bound("to ", "at most", needs.to_at_most, &shown),
    ];
    all.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// Every stage by one measure: reported and measured, and both over the first stage.
fn stages(replay: &Replay, measure: Measure) -> Table {
    let columns = [
        "",
        "reported",
        "here",
        "reported, of the first",
        "here, of the first",
    ];
    let first = replay.stages.first();
    let base = |of: &dyn Fn(&Stage) -> Option<f64>| first.and_then(of).filter(|value| *value > 0.0);
    let reported = |stage: &Stage| stage.reported.get(&measure).copied();
    let measured = |stage: &Stage| stage.measured.get(&measure).copied();
    let of_first = |value: Option<f64>, base: Option<f64>| {
        let ratio = value.zip(base).map(|(value, base)| value / base);
        let ratio = ratio.filter(|ratio| *ratio != 1.0);
        ratio.map_or_else(unknown, times)
    };
    let shown = |value: Option<f64>| value.map_or_else(unknown, |it| number(measure, it));
    let rows = replay.stages.iter().map(|stage| {
        vec![
            stage.name.clone(),
            shown(reported(stage)),
            shown(measured(stage)),
            of_first(reported(stage), base(&reported)),
            of_first(measured(stage), base(&measured)),
        ]
    });
    Table {
        title: words::sentence(measure.title()),
        columns: columns.map(str::to_owned).into(),
        rows: rows.collect(),
    }
}

fn number(measure: Measure, value: f64) -> String {
    match measure {
        Measure::FailedShare => words::share(value),
        _ if value >= 100.0 => words::count(value.round() as u64),
        _ => format!("{value:.1}"),
    }
}

fn cores(replay: &Replay) -> Option<Table> {
    let layers: BTreeSet<Layer> = replay
        .stages
        .iter()
        .flat_map(|stage| stage.cores.keys().copied())
        .collect();
    let columns = [String::new()]
        .into_iter()
        .chain(layers.iter().map(ToString::to_string));
    let rows = replay.stages.iter().map(|stage| {
        let used = layers.iter().map(|layer| {
            let cores = stage.cores.get(layer);
            cores.map_or_else(unknown, |cores| format!("{cores:.2}"))
        });
        std::iter::once(stage.name.clone()).chain(used).collect()
    });
    (!layers.is_empty()).then(|| Table {
        title: "Where CPU went in the first round: cores".to_owned(),
        columns: columns.collect(),
        rows: rows.collect(),
    })
}

fn sockets(replay: &Replay) -> Option<Table> {
    let columns = ["", "held by", "most ports taken", "of", "most in TIME_WAIT"];
    let rows: Vec<Vec<String>> = replay
        .stages
        .iter()
        .filter_map(|stage| {
            let it = stage.sockets.as_ref()?;
            let waiting = it
                .time_wait
                .iter()
                .map(|(_, count)| *count)
                .fold(0.0, f64::max);
            Some(vec![
                stage.name.clone(),
                format!("{} towards {}", it.layer, it.peer),
                words::count(it.most() as u64),
                it.port_range
                    .map_or_else(unknown, |range| words::count(range as u64)),
                words::count(waiting as u64),
            ])
        })
        .collect();
    (!rows.is_empty()).then(|| Table {
        title: "Sockets in the first round".to_owned(),
        columns: columns.map(str::to_owned).into(),
        rows,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;
    use kneepoint_model::replay::{Gap, Hosts, Needs, PlayedLoad, Sockets};
    use kneepoint_model::{LoadPoint, Outcome};

    fn interval(low: f64, estimate: f64, high: f64) -> Interval {
        Interval {
            low,
            estimate,
            high,
        }
    }

    fn carried(ok: u64, ms: u64) -> Carried {
        let mut point = LoadPoint {
            window_s: 10.0,
            arrivals: ok,
            good: ok,
            ..LoadPoint::default()
        };
        point.outcomes.by_outcome.insert(Outcome::Ok, ok);
        (0..ok).for_each(|_| point.response.record_us(1000 * ms));
        let mut carried = Carried::default();
        carried.add(&point, None, None);
        carried
    }

    fn stage(name: &str, reported: f64, ok: u64) -> Stage {
        Stage {
            name: name.into(),
            did: format!("{name} was done"),
            reported: [(Measure::ThroughputHz, reported)].into(),
            measured: [(Measure::ThroughputHz, ok as f64 / 10.0)].into(),
            tiers: vec!["php fpm 8.2.35".into()],
            carried: vec![carried(ok, 10)],
            cores: [(Layer::Web, 0.1), (Layer::Php, 1.8)].into(),
            ..Stage::default()
        }
    }

    fn replayed() -> Replay {
        let mut first = stage("as shipped", 33.0, 200);
        first.diagnosed = Some(Diagnosed {
            cause: vec!["OPC-01".into()],
            also: Vec::new(),
            found: ["OPC-01", "PG-02"]
                .map(|code| Named {
                    code: code.into(),
                    title: "OPcache is off.".into(),
                    seen: "every request compiles".into(),
                })
                .into(),
            limit: interval(18.0, 20.0, 22.0),
        });
        first.sockets = Some(Sockets {
            layer: Layer::Php,
            peer: "cache".into(),
            time_wait: vec![(1.0, 1500.0)],
            established: vec![(1.0, 20.0)],
            port_range: Some(2000.0),
        });
        Replay {
            report: "S2".into(),
            title: "A pool of ten".into(),
            told: "It was slow.".into(),
            differs: vec!["Two cores and not four.".into()],
            loads: vec![PlayedLoad {
                name: "users".into(),
                text: "ab -n 1000 -c 10".into(),
                rounds: 6,
            }],
            stages: vec![first, stage("OPcache on", 119.0, 1500)],
            claims: vec![Claim {
                what: "served".into(),
                measure: Measure::ThroughputHz,
                load: 0,
                from: "as shipped".into(),
                to: "OPcache on".into(),
                needs: Needs {
                    ratio_at_least: Some(9.0),
                    ..Needs::default()
                },
                reported_ratio: Some(3.6),
                measured_ratio: Some(interval(7.0, 7.5, 8.0)),
                measured: (Some(20.0), Some(150.0)),
                is_met: Some(false),
            }],
            gaps: vec![Gap {
                what: "OPcache".into(),
                measure: Measure::P50Ms,
                stages: ["a", "b", "c"].map(str::to_owned),
                share: Some(interval(0.8, 0.9, 0.95)),
            }],
            hosts: Some(Hosts {
                before: 5.0,
                after: 2.0,
                before_hz: interval(18.0, 20.0, 22.0),
                after_hz: interval(140.0, 150.0, 160.0),
            }),
        }
    }

    #[test]
    fn a_stage_that_took_no_part_is_told_from_one_that_died() {
        let mut replay = replayed();
        replay.stages[0].last_words = Some("exited on signal 11".into());
        replay.stages[1].last_words = Some("unitd is not installed".into());
        replay.stages[1].tiers.clear();
        let names = [0, 1].map(|nth| replay.stages[nth].name.clone());
        let notes = notes(&replay);
        let expected = [
            format!("{} did not last: exited on signal 11", names[0]),
            format!("{} did not take part: unitd is not installed", names[1]),
        ];
        assert!(
            expected.iter().all(|note| notes.contains(note)),
            "{notes:?}"
        );
        assert_eq!(steps(&replay)[1].1, replay.stages[1].did);
    }

    #[test]
    fn until_where_a_rising_load_was_borne_stands_with_the_load() {
        let mut replay = replayed();
        let of_load = |replay: &Replay| {
            let all = tables(replay);
            all.into_iter()
                .find(|table| table.title.starts_with("Users"))
        };
        let columns = of_load(&replay).expect("a table").columns;
        assert!(!columns.contains(&"held up to".to_owned()), "{columns:?}");
        replay.stages[1].borne_hz = vec![Some(4875.0)];
        let table = of_load(&replay).expect("a table");
        let at = table.columns.iter().position(|name| name == "held up to");
        let at = at.expect("the column");
        let borne: Vec<_> = table.rows.iter().map(|row| &row[at]).collect();
        assert_eq!(borne, ["-", "4875/s"]);
    }

    #[test]
    fn a_ratio_that_is_no_number_is_not_printed_as_one() {
        assert_eq!(times(0.0), "0");
        assert_eq!(times(3.6), "x3.60");
        assert_eq!(times(4e8), "over a million times");
        assert_eq!(times(f64::NAN), "not known");
        assert_eq!(times(f64::INFINITY), "not known");
    }

    #[test]
    fn what_is_reported_stands_beside_what_was_measured() {
        let replay = replayed();
        let mut text = format!("{}\n", sentence(&replay));
        for (name, cause) in causes(&replay) {
            text.push_str(&format!("{name}: {cause}\n"));
        }
        for table in tables(&replay) {
            text.push_str(&format!(
                "{}\n  {}\n",
                table.title,
                table.columns.join(" | ")
            ));
            for row in table.rows {
                text.push_str(&format!("  {}\n", row.join(" | ")));
            }
        }
        for note in notes(&replay) {
            text.push_str(&format!("{note}\n"));
        }
        for (name, step) in steps(&replay) {
            text.push_str(&format!("{name}: {step}\n"));
        }
        expect![[r#"
            A pool of ten: 1 of 1 causes named first and 0 of 1 claims met here.
            as shipped: OPC-01 OPcache is off: every request compiles (the report's cause). R* 20.0/s (18.0 to 22.0)
            : then PG-02 OPcache is off: every request compiles
            What is claimed, and what was measured (95 % intervals in parentheses)
              Claim |  | reported | here | needs
              served | not met | x3.60 | x7.50 (7.00 to 8.00) | at least x9.00
            Requests/s
               | reported | here | reported, of the first | here, of the first
              as shipped | 33.0 | 20.0 | - | -
              OPcache on | 119 | 150 | x3.61 | x7.50
            Users: ab -n 1000 -c 10, 6 rounds in turns; response times in ms
               | 50 % | 75 % | 80 % | 85 % | 90 % | 95 % | 98 % | 99 % | max | within SLO | failed
              as shipped | 10 | 10 | 10 | 10 | 10 | 10 | 10 | 10 | 10 | 20.0/s | 0
              OPcache on | 10 | 10 | 10 | 10 | 10 | 10 | 10 | 10 | 10 | 150/s | 0
            Where CPU went in the first round: cores
               | web | php
              as shipped | 0.10 | 1.80
              OPcache on | 0.10 | 1.80
            Sockets in the first round
               | held by | most ports taken | of | most in TIME_WAIT
              as shipped | php towards cache | 1520 | 2000 | 1500
            OPcache: 90 % of the difference in median between a and c (95 %: 80 % to 95 %)
            5 hosts of the first stage serve as much as 1 of the last, by what was predicted for one of each from low load (20.0/s (18.0 to 22.0) and 150/s (140 to 160)); the report went to 2
            Two cores and not four.
            as shipped: as shipped was done (php fpm 8.2.35)
            OPcache on: OPcache on was done (php fpm 8.2.35)
        "#]].assert_eq(&text);
    }
}
