use super::*;
use crate::statistics::chance::normals;
use crate::statistics::sequential::{MIN_PAIRS, confidence_sequence};
use proptest::prelude::*;

/// Two-sided 95 % of the normal distribution.
const Z: f64 = 1.959_964;

/// An estimate of a rate whose ln is normal with this sd, with its 95 % interval.
fn estimate(truth: f64, sd: f64, noise: f64) -> Interval {
    let ln = truth.ln() + sd * noise;
    Interval {
        low: (ln - Z * sd).exp(),
        estimate: ln.exp(),
        high: (ln + Z * sd).exp(),
    }
}

/// Verdicts over many comparisons of two rates measured apart, as shares (pass, fail, inconclusive).
fn shares(true_loss: f64, max_loss: f64, sd: f64) -> (f64, f64, f64) {
    const RUNS: usize = 4000;
    let mut noise = normals(1 + (true_loss * 1e4) as u64);
    let mut counts = [0.0; 3];
    for _ in 0..RUNS {
        let mut rate = |truth| estimate(truth, sd, noise.next().expect("endless"));
        let (before, now) = (rate(200.0), rate(200.0 * (1.0 - true_loss)));
        let lost = loss(&before, &now).expect("both are rates");
        counts[judge(&lost, max_loss) as usize] += 1.0 / RUNS as f64;
    }
    (counts[0], counts[1], counts[2])
}

#[test]
fn a_loss_of_exactly_the_share_fails_and_passes_at_most_one_in_forty_times() {
    for sd in [0.005, 0.015, 0.04] {
        let (pass, fail, _) = shares(0.05, 0.05, sd);
        // 2.5 % and three standard errors of 4000 runs.
        assert!(pass < 0.0325 && fail < 0.0325, "sd {sd}: {pass} {fail}");
    }
}

#[test]
fn no_loss_hardly_ever_fails_and_a_large_one_always_does() {
    let (pass, fail, _) = shares(0.0, 0.1, 0.015);
    assert!(fail < 0.001 && pass > 0.99, "{pass} {fail}");
    let (pass, fail, _) = shares(0.25, 0.1, 0.015);
    assert!(fail > 0.99 && pass < 0.001, "{pass} {fail}");
}

#[test]
fn what_is_too_noisy_to_say_is_inconclusive() {
    let (pass, fail, inconclusive) = shares(0.0, 0.05, 0.04);
    assert!(inconclusive > 0.8, "{pass} {fail} {inconclusive}");
}

/// As the gate's pairs are judged: after each one, until it is clear.
#[test]
fn looking_after_every_pair_keeps_both_errors_at_the_boundary() {
    const RUNS: u64 = 2000;
    let ended = |seed: u64| {
        let differences: Vec<f64> = normals(seed)
            .take(40)
            .map(|noise| (1.0f64 - 0.05).ln() + 0.04 * noise)
            .collect();
        (MIN_PAIRS..=differences.len())
            .filter_map(|pairs| confidence_sequence(&differences[..pairs]))
            .map(|ln| judge(&loss_of_ln(&ln), 0.05))
            .find(|verdict| *verdict != GateVerdict::Inconclusive)
    };
    let verdicts: Vec<_> = (0..RUNS).filter_map(ended).collect();
    for verdict in [GateVerdict::Pass, GateVerdict::Fail] {
        let wrong = verdicts.iter().filter(|it| **it == verdict).count();
        assert!(wrong <= 50, "{} {wrong} of {RUNS}", verdict.name());
    }
}

/// Pass before inconclusive before fail.
fn severity(verdict: GateVerdict) -> u8 {
    match verdict {
        GateVerdict::Pass => 0,
        GateVerdict::Inconclusive => 1,
        GateVerdict::Fail => 2,
    }
}

fn rates() -> impl Strategy<Value = Interval> {
    (1.0..1e4f64, 0.0..0.5f64, 0.0..0.5f64).prop_map(|(estimate, down, up)| Interval {
        low: estimate * (-down).exp(),
        estimate,
        high: estimate * up.exp(),
    })
}

fn scaled(rate: &Interval, factor: f64) -> Interval {
    Interval {
        low: rate.low * factor,
        estimate: rate.estimate * factor,
        high: rate.high * factor,
    }
}

proptest! {
    #[test]
    fn a_loss_is_in_its_interval(before in rates(), now in rates()) {
        let lost = loss(&before, &now).expect("both are rates");
        prop_assert!(lost.low <= lost.estimate && lost.estimate <= lost.high, "{lost:?}");
        prop_assert!(lost.high < 1.0);
    }

    #[test]
    fn losing_more_is_never_judged_better(
        before in rates(), now in rates(), less in 0.2..1.0f64, max_loss in 0.0..0.5f64,
    ) {
        let verdict = |now: &Interval| judge(&loss(&before, now).expect("rates"), max_loss);
        prop_assert!(severity(verdict(&scaled(&now, less))) >= severity(verdict(&now)));
    }

    #[test]
    fn allowing_more_is_never_judged_worse(
        before in rates(), now in rates(), max_loss in 0.0..0.4f64, more in 0.0..0.4f64,
    ) {
        let lost = loss(&before, &now).expect("rates");
        prop_assert!(severity(judge(&lost, max_loss + more)) <= severity(judge(&lost, max_loss)));
    }

    #[test]
    fn the_unit_of_the_rates_does_not_matter(before in rates(), now in rates(), unit in 0.01..100.0f64) {
        let lost = loss(&before, &now).expect("rates");
        let other = loss(&scaled(&before, unit), &scaled(&now, unit)).expect("rates");
        prop_assert!((lost.low - other.low).abs() < 1e-9 && (lost.high - other.high).abs() < 1e-9);
    }
}

#[test]
fn a_stack_that_serves_nothing_has_lost_everything() {
    let before = estimate(100.0, 0.02, 0.0);
    let lost = loss(&before, &Interval::default()).expect("the baseline is a rate");
    assert_eq!((lost.low, lost.high), (1.0, 1.0));
    assert_eq!(judge(&lost, 0.99), GateVerdict::Fail);
    assert_eq!(loss(&Interval::default(), &before), None);
}

fn claim(verdict: GateVerdict) -> GateClaim {
    GateClaim {
        quantity: "R*".into(),
        before_hz: None,
        now_hz: None,
        loss: Interval::default(),
        verdict,
        conditions: String::new(),
    }
}

fn decided(claims: &[GateVerdict], doubts: Vec<Doubt>) -> GateVerdict {
    let claims = claims.iter().copied().map(claim).collect();
    GateResult::new(
        String::new(),
        0.05,
        GateVerdict::Inconclusive,
        claims,
        doubts,
    )
    .verdict
}

#[test]
fn the_first_claim_decides_and_any_can_fail() {
    use GateVerdict::{Fail, Inconclusive, Pass};
    assert_eq!(decided(&[Pass, Inconclusive], Vec::new()), Pass);
    assert_eq!(decided(&[Inconclusive, Pass], Vec::new()), Inconclusive);
    assert_eq!(decided(&[Pass, Fail], Vec::new()), Fail);
    assert_eq!(decided(&[], Vec::new()), Inconclusive);
    let note = vec![Doubt::Note("the kernel differs".into())];
    assert_eq!(decided(&[Fail], note), Fail);
    let obstacle = vec![Doubt::Obstacle("another machine".into())];
    assert_eq!(decided(&[Fail], obstacle), Inconclusive);
}

#[test]
fn a_loss_that_is_shown_and_may_be_too_large_keeps_a_gate_from_passing() {
    use GateVerdict::{Inconclusive, Pass};
    let gate = |low: f64, high: f64| {
        let loss = Interval {
            low,
            estimate: f64::midpoint(low, high),
            high,
        };
        let limits = GateClaim {
            loss,
            verdict: judge(&loss, 0.05),
            ..claim(Inconclusive)
        };
        let pairs = GateClaim {
            quantity: "capacity".into(),
            ..claim(Pass)
        };
        let claims = vec![pairs, limits];
        GateResult::new(String::new(), 0.05, Inconclusive, claims, Vec::new())
    };
    let rests = |gate: &GateResult| gate.deciding().map(|claim| claim.quantity.clone());
    let open = gate(0.01, 0.12);
    assert_eq!(open.verdict, Inconclusive);
    assert_eq!(rests(&open).as_deref(), Some("R*"));
    // One that is only vague, and one that shows a loss which may be.
    for (low, high) in [(-0.04, 0.12), (0.01, 0.04)] {
        let passes = gate(low, high);
        assert_eq!(passes.verdict, Pass);
        assert_eq!(rests(&passes).as_deref(), Some("capacity"));
    }
}

#[test]
fn inconclusive_counts_as_whoever_asked_wants() {
    use GateVerdict::{Fail, Inconclusive, Pass};
    let counts = |verdict, inconclusive_as| {
        GateResult::new(
            String::new(),
            0.05,
            inconclusive_as,
            vec![claim(verdict)],
            Vec::new(),
        )
        .counts_as()
    };
    assert_eq!(counts(Inconclusive, Pass), Pass);
    assert_eq!(counts(Inconclusive, Fail), Fail);
    assert_eq!(counts(Inconclusive, Inconclusive), Inconclusive);
    assert_eq!(counts(Fail, Pass), Fail);
}
