//! How much the violating share of a step says of capacity, learned from the comparison's own steps.
//!
//! The fit of the limit knows the slope for whole steps on a machine that is there. Where other programs take some of it, each
//! step has a capacity of its own, which is known: the share of the machine that there was. How the violating share followed
//! it is the slope that holds here, overload that a short step cuts off included. Without it an effect beside other programs
//! comes out half as large as it is (docs/noise.md).

/// Standard deviation of what the fit of the limit says of the slope here, as a share of it.
const PRIOR_SD: f64 = 0.5;
/// Least standard deviation, in logits, of the violating share of a step around the line: that of the few that violate.
const LEAST_SD: f64 = 1.0;

/// The steps of one arm: ln of the share of the machine that there was, and what the step said, in logits.
pub(super) type Steps = Vec<(f64, f64)>;

/// Logits for each unit of ln capacity: `before` by the fit of the limit, and as the steps of the arms say by a common slope
/// of their own lines (a normal prior with a normal likelihood). At least a tenth of `before`.
pub(super) fn learned(before: f64, arms: [Steps; 2]) -> f64 {
    let (mut spread, mut together, mut count) = (0.0, 0.0, 0.0);
    let mut scatter = 0.0;
    for steps in &arms {
        let n = steps.len().max(1) as f64;
        let centre = |of: fn(&(f64, f64)) -> f64| steps.iter().map(of).sum::<f64>() / n;
        let (x0, y0) = (centre(|step| step.0), centre(|step| step.1));
        for (x, y) in steps {
            spread += (x - x0).powi(2);
            together += (x - x0) * (y - y0);
            scatter += (y - y0).powi(2);
            count += 1.0;
        }
    }
    if spread <= 0.0 {
        return before;
    }
    let around = (scatter - together * together / spread).max(0.0) / count;
    let variance = around.max(LEAST_SD.powi(2));
    let prior = (PRIOR_SD * before).powi(-2);
    let learned = (before * prior + together / variance) / (prior + spread / variance);
    learned.max(before / 10.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Steps of two arms on a line of this slope; the machine that there was varies by `spread` either way.
    fn steps(slope: f64, spread: f64, arm: f64) -> Steps {
        let each = |nth: i32| {
            let x = spread * (f64::from(nth * 7 % 11) / 5.0 - 1.0);
            let scatter = 0.3 * (f64::from(nth * 5 % 7) / 3.0 - 1.0);
            (x, arm + slope * x + scatter)
        };
        (0..44).map(each).collect()
    }

    #[track_caller]
    fn check(before: f64, true_slope: f64, spread: f64, within: std::ops::RangeInclusive<f64>) {
        // The arms differ by what is to be found out, which says nothing of the slope.
        let arms = [
            steps(true_slope, spread, 0.0),
            steps(true_slope, spread, 2.0),
        ];
        let slope = learned(before, arms);
        assert!(within.contains(&slope), "{slope} is not in {within:?}");
    }

    #[test]
    fn where_others_come_and_go_the_steps_say_the_slope() {
        check(25.0, 12.0, 0.3, 11.5..=13.0);
        check(10.0, 20.0, 0.3, 18.5..=20.5);
    }

    #[test]
    fn on_a_machine_of_its_own_the_fit_of_the_limit_does() {
        check(25.0, 12.0, 0.0, 25.0..=25.0);
        check(25.0, 12.0, 0.002, 24.0..=25.0);
    }

    #[test]
    fn no_steps_and_nonsense_leave_a_slope_that_can_be_divided_by() {
        assert!((learned(25.0, [Vec::new(), Vec::new()]) - 25.0).abs() < 1e-12);
        check(25.0, -40.0, 0.3, 2.5..=2.5);
    }
}
