//! Each syntax: what is read, as it is printed back, and what is refused.

use super::*;
use expect_test::Expect;
use kneepoint_model::ThinkTime;
use proptest::prelude::*;

mod commands;
mod schedules;

/// Prints what was understood, and checks that it reads back to the same; or prints the error.
#[track_caller]
fn check(text: &str, expected: Expect) {
    let shown = match parse(text) {
        Ok(profile) => {
            let printed = profile.to_string();
            assert_eq!(parse(&printed), Ok(profile), "{printed}");
            printed
        }
        Err(error) => error.to_string(),
    };
    expected.assert_eq(&shown);
}

/// The same without the notes.
#[track_caller]
fn check_load(text: &str, expected: Expect) {
    let mut profile = parse(text).unwrap_or_else(|error| panic!("{error}"));
    profile.notes.clear();
    check(&profile.to_string(), expected);
}

#[test]
fn every_example_is_in_its_syntax() {
    for syntax in SYNTAXES {
        let detected = detect(syntax.example).map(|found| found.name);
        assert_eq!(detected, Some(syntax.name), "{}", syntax.example);
        check_read(syntax.example);
    }
}

#[track_caller]
fn check_read(text: &str) {
    let profile = parse(text).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(parse(&profile.to_string()), Ok(profile));
}

fn words_of_a_shell() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z/:.?&=]{1,20}",
        "[ -~]{0,12}",
        any::<String>().prop_map(|text| text.chars().take(12).collect()),
    ]
}

fn durations() -> impl Strategy<Value = Duration> {
    prop_oneof![
        (1u64..100_000).prop_map(Duration::from_secs),
        (1u64..10_000_000_000_000).prop_map(Duration::from_nanos),
    ]
}

fn think_times() -> impl Strategy<Value = ThinkTime> {
    prop_oneof![
        Just(ThinkTime::None),
        durations().prop_map(ThinkTime::Fixed),
        durations().prop_map(|mean| ThinkTime::Exponential { mean }),
        prop::collection::vec(durations(), 2..5).prop_map(|mut quantiles| {
            quantiles.sort();
            ThinkTime::Empirical { quantiles }
        }),
    ]
}

fn loads() -> impl Strategy<Value = ImportedLoad> {
    let segment = (0.0..1e6f64, 0.0..1e6f64, durations())
        .prop_map(|(from, to, duration)| values::line(from, to, duration));
    let first = prop_oneof![
        Just(FirstArrival::AtStart),
        Just(FirstArrival::AfterInterval)
    ];
    let arrivals = prop_oneof![
        Just(Arrivals::Even),
        any::<u64>().prop_map(|seed| Arrivals::Poisson { seed })
    ];
    let open = (prop::collection::vec(segment, 1..5), first, arrivals).prop_map(
        |(segments, first, arrivals)| ImportedLoad::Open {
            schedule: Schedule { segments },
            first,
            arrivals,
        },
    );
    let number = || proptest::option::of(1u64..1_000_000);
    let closed = (
        1u32..1_000_000,
        durations(),
        think_times(),
        durations(),
        number(),
        number(),
    )
        .prop_map(|(workers, ramp, think_time, duration, requests, loops)| {
            ImportedLoad::Closed(ClosedLoop {
                workers,
                ramp,
                think_time,
                duration,
                requests,
                loops,
            })
        });
    prop_oneof![open, closed]
}

fn profiles() -> impl Strategy<Value = Imported> {
    let count = || proptest::option::of(1usize..1_000_000);
    let word = || proptest::option::of(words_of_a_shell());
    let header = (
        "[A-Za-z-]{1,9}",
        words_of_a_shell().prop_map(|value| value.trim().to_owned()),
    );
    (
        loads(),
        (
            count(),
            count(),
            any::<Option<bool>>(),
            proptest::option::of(durations()),
        ),
        (word(), word(), word(), any::<bool>()),
        prop::collection::vec(header, 0..3),
        prop::collection::vec(words_of_a_shell(), 0..3),
    )
        .prop_map(|(load, numbers, texts, headers, notes)| Imported {
            threads: numbers.0,
            connections: numbers.1,
            keep_alive: numbers.2,
            timeout: numbers.3,
            method: texts.0.map(Method),
            url: texts.1,
            body: texts.2.map(if texts.3 {
                ImportedBody::Text
            } else {
                ImportedBody::File
            }),
            headers,
            notes,
            ..Imported::new(load)
        })
}

proptest! {
    #[test]
    fn a_printed_profile_is_the_profile(profile in profiles()) {
        prop_assert_eq!(parse(&profile.to_string()), Ok(profile));
    }

    #[test]
    fn no_text_makes_it_panic(text in any::<String>()) {
        let _ = parse(&text);
        for syntax in SYNTAXES {
            let _ = (syntax.read)(text.trim());
        }
    }

    #[test]
    fn no_nearly_right_text_makes_it_panic(
        example in 0..SYNTAXES.len(),
        cut in any::<prop::sample::Index>(),
        middle in "[-0-9.,:;=(){}'\" a-zA-Z/]{0,8}",
        doubled: bool,
    ) {
        let text = SYNTAXES[example].example;
        let at = cut.index(text.len());
        let text = format!("{}{middle}{}", &text[..at], &text[at + usize::from(!doubled)..]);
        if let Ok(profile) = parse(&text) {
            prop_assert_eq!(parse(&profile.to_string()), Ok(profile));
        }
    }
}
