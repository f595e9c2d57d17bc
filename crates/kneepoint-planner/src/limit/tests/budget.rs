//! A search that has a bounded time keeps it and uses it, by the clock of the simulated stack.

use super::*;

/// Searches within a time; returns the result, and what it took.
fn search_by(wall: Duration, stack: &mut SimulatedStack) -> (LimitResult, Duration) {
    let mut search = LimitSearch::of(stack, LimitOptions::by(wall, 32));
    let took = go_on(&mut search, stack);
    (search.result("base"), took)
}

/// Goes on with a search until it is done; returns what that took.
pub(super) fn go_on(search: &mut LimitSearch, stack: &mut SimulatedStack) -> Duration {
    let began = stack.now();
    while let LimitMove::Measure(step) = search.next_move() {
        let (point, canary) = stack
            .measure_with_canary("base", &step)
            .expect("a simulated stack does not fail");
        search.at(stack.now() - began);
        search.record(&point, canary);
    }
    stack.now() - began
}

#[test]
fn a_bounded_search_ends_in_time_and_uses_it_unless_it_has_the_answer() {
    for seconds in [18, 25, 40, 60, 100, 180, 400] {
        for (nth, noise) in [Noise::quiet(), Noise::high(), Noise::busy()]
            .into_iter()
            .enumerate()
        {
            let wall = Duration::from_secs(seconds);
            let (found, took) = search_by(wall, &mut stack(noise, seconds + nth as u64));
            let share = took.div_duration_f64(wall);
            let width = found.rate_hz.relative_half_width();
            assert!(share <= 1.05, "{took:?} of {wall:?}, {noise:?}: {found:?}");
            assert!(
                share >= 0.9 || width <= 0.1,
                "{took:?} of {wall:?} with +-{width}, {noise:?}: {found:?}"
            );
            assert!(found.soak_arrivals > 0, "{wall:?}: {:?}", found.warnings);
        }
    }
}

#[test]
fn the_interval_gets_narrower_with_the_time_there_is() {
    let width = |seconds| {
        let widths = (0..6).map(|seed| {
            let wall = Duration::from_secs(seconds);
            let (found, _) = search_by(wall, &mut stack(Noise::high(), seed));
            // As the machine was, the interval also holds how far its speed drifted.
            let at_one_speed = found.reference_hz.expect("there is a canary");
            at_one_speed.relative_half_width()
        });
        widths.sum::<f64>() / 6.0
    };
    let (short, long) = (width(25), width(200));
    assert!(long < 0.7 * short, "{short} {long}");
}

/// At 20 s a width of 97 % was blamed on the machine.
#[test]
fn few_steps_are_not_blamed_on_noise() {
    let said = |seconds: u64, noise| {
        let mut all = Vec::new();
        for seed in 0..8 {
            let wall = Duration::from_secs(seconds);
            let (found, _) = search_by(wall, &mut stack(noise, seed));
            let noise = found.noise.expect("it says how noisy it was");
            let blamed = found.warnings.iter().any(|text| text.contains("too noisy"));
            assert_eq!(blamed, noise.too_noisy, "{found:?}");
            all.push((blamed, found));
        }
        all
    };
    let short = said(18, Noise::high());
    assert!(short.iter().all(|(blamed, _)| !blamed));
    let wide = |found: &LimitResult| found.rate_hz.relative_half_width() > 0.1;
    for (_, found) in short.iter().filter(|(_, found)| wide(found)) {
        let tells =
            |text: &String| text.contains("the budget was too small for a narrower interval");
        assert!(found.warnings.iter().any(tells), "{:?}", found.warnings);
    }
    assert!(short.iter().any(|(_, found)| wide(found)));
}

/// What tuning does with the time it has left.
#[test]
fn a_search_goes_on_where_it_stopped() {
    let mut stack = stack(Noise::high(), 4);
    let mut search = LimitSearch::of(&stack, LimitOptions::by(Duration::from_secs(40), 32));
    go_on(&mut search, &mut stack);
    let first = search.result("base");
    let more = Duration::from_secs(120);
    search.go_on_for(more);
    let took = go_on(&mut search, &mut stack);
    let then = search.result("base");
    assert!(took <= more.mul_f64(1.05), "{took:?}");
    assert_eq!(&then.steps[..first.steps.len()], &first.steps[..]);
    assert!(then.steps.len() > first.steps.len(), "{then:?}");
    let width = |found: &LimitResult| {
        let at_one_speed = found.reference_hz.expect("there is a canary");
        at_one_speed.relative_half_width()
    };
    assert!(width(&then) < width(&first), "{first:?} {then:?}");
    let told = then
        .warnings
        .iter()
        .filter(|text| text.contains("interval"));
    assert!(told.count() <= 1, "only of the end: {:?}", then.warnings);
    assert!((then.saturation_hz - first.saturation_hz).abs() < 1e-9);
}
