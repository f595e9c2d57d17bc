//! A comparison of several configurations, in words and tables that every format prints.

pub(crate) mod html;
pub(crate) mod markdown;
pub(crate) mod terminal;

use crate::tables::{self, Table, unknown};
use crate::words;
use kneepoint_model::Verdict;
use kneepoint_model::contest::{Carried, Contest, Contestant, Profile};
use kneepoint_model::units::{RateUnit, format_bytes};

/// Who serves how much, against the first.
pub(crate) fn sentence(contest: &Contest) -> String {
    let Some(first) = contest.contestants.first() else {
        return "Nothing has been compared.".to_owned();
    };
    let told: Vec<String> = contest
        .contestants
        .iter()
        .filter_map(|it| {
            let effect = it.against_first.as_ref()?;
            let ratio = words::ratio_interval(effect.ratio.as_ref()?)?;
            Some((it, effect, ratio))
        })
        .map(|(it, effect, ratio)| match effect.verdict {
            Verdict::Better | Verdict::Worse => {
                format!("{} serves {ratio} times what {} does", it.name, first.name)
            }
            Verdict::Equivalent => format!("{} serves as much as {}", it.name, first.name),
            _ => format!(
                "{} served {ratio} times what {} did, which shows no difference",
                it.name, first.name
            ),
        })
        .collect();
    if told.is_empty() {
        return "What was measured does not tell the contestants apart.".to_owned();
    }
    format!("{}.", told.join("; "))
}

/// All tables: what each can take and costs, then how it bore each profile. Loads and limits count the unit.
pub(crate) fn tables(contest: &Contest, unit: RateUnit) -> Vec<Table> {
    let mut tables = vec![overview(contest, unit)];
    for (nth, profile) in contest.profiles.iter().enumerate() {
        tables.push(of_profile(contest, unit, nth, profile));
    }
    tables
}

/// What is not in a table: tiers, what tuning changed, how a contestant ended.
pub(crate) fn notes(contest: &Contest) -> Vec<(String, String)> {
    let mut notes = Vec::new();
    for it in &contest.contestants {
        let mut parts = vec![it.tiers.join(", ")];
        if !it.tuned.is_empty() {
            let tuned: Vec<String> = it.tuned.iter().map(ToString::to_string).collect();
            parts.push(format!("tuned: {}", tuned.join(", ")));
        }
        if let Some(words) = &it.last_words {
            parts.push(format!("it did not last: {words}"));
        }
        parts.retain(|part| !part.is_empty());
        notes.push((it.name.clone(), parts.join("; ")));
    }
    notes
}

fn overview(contest: &Contest, unit: RateUnit) -> Table {
    let first = contest
        .contestants
        .first()
        .map_or("", |it| it.name.as_str());
    let columns = [
        String::new(),
        "R*".into(),
        format!("served, against {first}"),
        "CPU a request".into(),
        "PHP memory".into(),
        "start".into(),
        "first response".into(),
    ];
    let rows = contest.contestants.iter().map(|it| {
        let carried = it.carried.first();
        let limit = it.limit.as_ref();
        vec![
            it.name.clone(),
            limit.map_or_else(unknown, |limit| words::interval_in(unit, limit)),
            against(it, first),
            ms(carried.and_then(Carried::cpu_ms_per_request)),
            carried
                .and_then(|carried| carried.memory_bytes)
                .map_or_else(unknown, |bytes| format_bytes(bytes as u64)),
            ms(it.start_ms),
            ms(it.first_response_ms),
        ]
    });
    Table {
        title: "What each can take and costs (95 % intervals in parentheses)".to_owned(),
        columns: columns.into(),
        rows: rows.collect(),
    }
}

fn against(it: &Contestant, first: &str) -> String {
    match &it.against_first {
        Some(effect) => words::factor(effect),
        None if it.name == first => "1".to_owned(),
        None => unknown(),
    }
}

fn of_profile(contest: &Contest, unit: RateUnit, nth: usize, profile: &Profile) -> Table {
    let title = format!(
        "{}: {} offered, {} steps of {:.0} s in turns; response times in ms",
        words::sentence(&profile.name),
        words::rate_in(unit, profile.rate_hz),
        profile.rounds,
        profile.step_s
    );
    let empty = Carried::default();
    let rows = contest.contestants.iter();
    let rows = rows.map(|it| (it.name.as_str(), it.carried.get(nth).unwrap_or(&empty)));
    tables::percentiles(title, unit, rows)
}

fn ms(time_ms: Option<f64>) -> String {
    time_ms.map_or_else(unknown, |ms| words::ms(Some(ms)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};
    use kneepoint_model::{Effect, Interval, LoadPoint, Outcome, Setting};

    fn interval(low: f64, estimate: f64, high: f64) -> Interval {
        Interval {
            low,
            estimate,
            high,
        }
    }

    fn effect(verdict: Verdict, ratio: Interval) -> Effect {
        Effect {
            change: "apache against fpm".into(),
            settings: Vec::new(),
            quantity: "throughput at saturation".into(),
            ratio: Some(ratio),
            pairs: 12,
            e_value: 400.0,
            verdict,
            smallest_visible: Some(0.03),
            conditions: String::new(),
            permutation_p: None,
            bootstrap: None,
            void_pairs: 0,
            measures: Vec::new(),
            cpu_binds: None,
        }
    }

    fn carried(ms: u64, timeouts: u64) -> Carried {
        let mut point = LoadPoint {
            window_s: 30.0,
            arrivals: 300,
            good: 300 - timeouts,
            ..LoadPoint::default()
        };
        (0..300 - timeouts).for_each(|at| point.response.record_us(1000 * ms + 10 * at));
        point
            .outcomes
            .by_outcome
            .insert(Outcome::Ok, 300 - timeouts);
        point.outcomes.by_outcome.insert(Outcome::Timeout, timeouts);
        let mut carried = Carried::default();
        carried.add(&point, Some(1.5), Some(9e7));
        carried
    }

    fn contest(second: Contestant) -> Contest {
        Contest {
            profiles: vec![Profile {
                name: "standard".into(),
                rate_hz: 10.0,
                rounds: 10,
                step_s: 3.0,
            }],
            contestants: vec![
                Contestant {
                    name: "fpm".into(),
                    tiers: vec!["web nginx 1.22.1".into(), "php fpm 8.2.35".into()],
                    tuned: vec![Setting::new(
                        kneepoint_model::Layer::Php,
                        "opcache.enable",
                        1,
                    )],
                    limit: Some(interval(150.0, 157.0, 164.0)),
                    start_ms: Some(48.0),
                    first_response_ms: Some(310.0),
                    carried: vec![carried(20, 0)],
                    ..Contestant::default()
                },
                second,
            ],
        }
    }

    fn check(second: Contestant, expected: &Expect) {
        let contest = contest(second);
        let mut text = format!("{}\n", sentence(&contest));
        for table in tables(&contest, RateUnit::Requests) {
            text.push_str(&format!(
                "{}\n  {}\n",
                table.title,
                table.columns.join(" | ")
            ));
            for row in table.rows {
                text.push_str(&format!("  {}\n", row.join(" | ")));
            }
        }
        for (name, note) in notes(&contest) {
            text.push_str(&format!("{name}: {note}\n"));
        }
        expected.assert_eq(&text);
    }

    #[test]
    fn a_difference_is_told_with_its_interval() {
        let apache = Contestant {
            name: "apache".into(),
            limit: Some(interval(120.0, 125.0, 130.0)),
            carried: vec![carried(31, 3)],
            against_first: Some(effect(Verdict::Worse, interval(0.76, 0.8, 0.84))),
            ..Contestant::default()
        };
        check(
            apache,
            &expect![[r#"
            apache serves 0.80 (0.76 to 0.84) times what fpm does.
            What each can take and costs (95 % intervals in parentheses)
               | R* | served, against fpm | CPU a request | PHP memory | start | first response
              fpm | 157/s (150 to 164) | 1 | 5.00 ms | 85.8 MiB | 48.0 ms | 310 ms
              apache | 125/s (120 to 130) | x0.80 (0.76 to 0.84) | 5.05 ms | 85.8 MiB | - | -
            Standard: 10.0/s offered, 10 steps of 3 s in turns; response times in ms
               | 50 % | 75 % | 80 % | 85 % | 90 % | 95 % | 98 % | 99 % | max | within SLO | failed
              fpm | 22 | 22 | 22 | 23 | 23 | 23 | 23 | 23 | 23 | 10.0/s | 0
              apache | 32 | 33 | 33 | 34 | 34 | 34 | 34 | 34 | 34 | 9.9/s | 3 timeout
            fpm: web nginx 1.22.1, php fpm 8.2.35; tuned: php.opcache.enable = 1
            apache: 
        "#]],
        );
    }

    #[test]
    fn rates_of_visits_are_not_told_as_those_of_requests() {
        let told = tables(&contest(Contestant::default()), RateUnit::Visits);
        let cell = |table: usize, column: usize| words::plain(&told[table].rows[0][column]);
        assert_eq!(cell(0, 1), "157 visits/s (150 to 164)");
        assert_eq!(cell(1, 10), "10.0 requests/s");
        let title = words::plain(&told[1].title);
        let expected = "Standard: 10.0 visits/s offered";
        assert!(title.starts_with(expected), "{title}");
    }

    #[test]
    fn one_that_died_says_its_last_words() {
        let gone = Contestant {
            name: "apache".into(),
            carried: vec![Carried::default()],
            last_words: Some(
                "php apache on host apache-php died during the run: it was killed".into(),
            ),
            ..Contestant::default()
        };
        check(
            gone,
            &expect![[r#"
            What was measured does not tell the contestants apart.
            What each can take and costs (95 % intervals in parentheses)
               | R* | served, against fpm | CPU a request | PHP memory | start | first response
              fpm | 157/s (150 to 164) | 1 | 5.00 ms | 85.8 MiB | 48.0 ms | 310 ms
              apache | - | - | - | - | - | -
            Standard: 10.0/s offered, 10 steps of 3 s in turns; response times in ms
               | 50 % | 75 % | 80 % | 85 % | 90 % | 95 % | 98 % | 99 % | max | within SLO | failed
              fpm | 22 | 22 | 22 | 23 | 23 | 23 | 23 | 23 | 23 | 10.0/s | 0
              apache | - | - | - | - | - | - | - | - | - | 0.0/s | 0
            fpm: web nginx 1.22.1, php fpm 8.2.35; tuned: php.opcache.enable = 1
            apache: it did not last: php apache on host apache-php died during the run: it was killed
        "#]],
        );
    }
}
