//! The gate of a pipeline in words.

pub(crate) mod html;
pub(crate) mod markdown;
pub(crate) mod terminal;

use crate::words;
use kneepoint_model::gate::{GateClaim, judge};
use kneepoint_model::units::RateUnit;
use kneepoint_model::{GateResult, GateVerdict};

/// The verdict in one sentence, with the numbers it rests on.
pub(crate) fn sentence(gate: &GateResult) -> String {
    let Some(claim) = gate.deciding() else {
        return "Inconclusive: nothing was compared.".into();
    };
    let changed = format!("{} changed by {}", claim.quantity, change(claim));
    let most = words::share(gate.max_loss);
    match (gate.verdict, gate.obstacles.first()) {
        (GateVerdict::Fail, _) => format!("Fail: {changed}, and at most {most} may be lost."),
        (GateVerdict::Pass, _) => {
            format!("Pass: {changed}; a loss of more than {most} is excluded.")
        }
        (GateVerdict::Inconclusive, Some(obstacle)) => {
            format!("Inconclusive: {obstacle}; {changed}, which may be due to that.")
        }
        // What it serves does not speak for an application that refuses more than before.
        (GateVerdict::Inconclusive, None)
            if judge(&claim.loss, gate.max_loss) == GateVerdict::Pass =>
        {
            format!(
                "Inconclusive: {changed}, which excludes a loss of more than {most}, but more requests failed than before."
            )
        }
        (GateVerdict::Inconclusive, None) => {
            format!(
                "Inconclusive: {changed}, so that a loss of more than {most} is neither shown nor excluded."
            )
        }
    }
}

/// `-4.2 % (-9.3 to +1.1)`: what became of a quantity, with its 95 % interval.
pub(crate) fn change(claim: &GateClaim) -> String {
    let change = claim.change();
    let end = |value: f64| {
        let text = signed(value);
        text.trim_end_matches(['%', '\u{a0}']).to_owned()
    };
    format!(
        "{} ({}\u{a0}to\u{a0}{})",
        signed(change.estimate),
        end(change.low),
        end(change.high)
    )
}

fn signed(share: f64) -> String {
    let sign = if share > 0.0 { "+" } else { "" };
    format!("{sign}{}", words::share(share))
}

/// `45.1/s (43.6 to 46.2)` before and now, where they were measured as rates, which count this.
pub(crate) fn rates(claim: &GateClaim, unit: RateUnit) -> Option<(String, String)> {
    let (before, now) = (claim.before_hz.as_ref()?, claim.now_hz.as_ref()?);
    let told = |rate| words::interval_in(unit, rate);
    Some((told(before), told(now)))
}

/// What it was compared with and what may be lost.
pub(crate) fn question(gate: &GateResult) -> String {
    format!(
        "at most {} may be lost against {}",
        words::share(gate.max_loss),
        gate.baseline
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::plain;
    use kneepoint_model::Interval;
    use kneepoint_model::gate::Doubt;

    fn gate(low: f64, estimate: f64, high: f64, doubts: Vec<Doubt>) -> GateResult {
        let loss = Interval {
            low,
            estimate,
            high,
        };
        let claim = GateClaim {
            quantity: "R*".into(),
            before_hz: None,
            now_hz: None,
            loss,
            verdict: judge(&loss, 0.05),
            conditions: String::new(),
        };
        GateResult::new(
            "run 1".into(),
            0.05,
            GateVerdict::Inconclusive,
            vec![claim],
            doubts,
        )
    }

    #[test]
    fn rates_say_what_they_count() {
        let mut claim = gate(0.0, 0.01, 0.02, Vec::new()).claims.remove(0);
        let rate = Interval {
            low: 25.0,
            estimate: 26.0,
            high: 27.0,
        };
        (claim.before_hz, claim.now_hz) = (Some(rate), Some(rate));
        for (unit, expected) in [
            (RateUnit::Requests, "26.0/s (25.0 to 27.0)"),
            (RateUnit::Visits, "26.0 visits/s (25.0 to 27.0)"),
        ] {
            let (before, now) = rates(&claim, unit).expect("rates");
            assert_eq!(plain(&before), expected);
            assert_eq!(plain(&now), expected);
        }
    }

    #[test]
    fn each_verdict_says_what_it_rests_on() {
        let check =
            |gate: &GateResult, expected: &str| assert_eq!(plain(&sentence(gate)), expected);
        check(
            &gate(0.274, 0.312, 0.35, Vec::new()),
            "Fail: R* changed by -31 % (-35 to -27), and at most 5.0 % may be lost.",
        );
        check(
            &gate(-0.024, -0.004, 0.016, Vec::new()),
            "Pass: R* changed by +0.4 % (-1.6 to +2.4); a loss of more than 5.0 % is excluded.",
        );
        check(
            &gate(-0.02, 0.03, 0.08, Vec::new()),
            "Inconclusive: R* changed by -3.0 % (-8.0 to +2.0), so that a loss of more than 5.0 % is neither shown nor \
             excluded.",
        );
        let mut refuses = gate(-0.024, -0.004, 0.016, Vec::new());
        refuses.verdict = GateVerdict::Inconclusive;
        check(
            &refuses,
            "Inconclusive: R* changed by +0.4 % (-1.6 to +2.4), which excludes a loss of more than 5.0 %, but more requests \
             failed than before.",
        );
        check(
            &gate(
                0.2,
                0.3,
                0.4,
                vec![Doubt::Obstacle("another machine".into())],
            ),
            "Inconclusive: another machine; R* changed by -30 % (-40 to -20), which may be due to that.",
        );
    }
}
