//! The CPU that the machine uses at a rate: what it does without a request, and what each takes.

use super::averages::mean;

/// How much less CPU a request takes at higher rates where nothing was measured, and how far real stacks are apart in it:
/// seven plans of two applications on one machine said 0.04 to 0.13, with a mean of 0.1. It is less here, as a guess: other
/// machines were not asked.
pub(crate) const USUAL_SAVING: f64 = 0.08;
const APART: f64 = 0.05;
/// The most that is believed, either way.
const MOST: f64 = 0.25;

/// Of this power, what is left beyond [`Cost::at_hz`], the highest of the low rates: what is awake cannot wake up more. From a
/// fifth and half of R* to four fifths of it the seven plans saved 0.9 of it on average, three others in another session of
/// the machine 0.25 to 0.8, and two in a third one 1.0 and about 1.3: it is the mean of the three sessions.
pub(crate) const BEYOND: f64 = 0.85;

/// `cores = idle + rate cpu_s (rate / at_hz)^-saving`, and beyond `at_hz` with 0.85 of that power.
///
/// A request takes less CPU the more of them there are: caches are warm, and what it needs is awake. A straight line through
/// rates of a fifth and of half of R* was 2 % too high at four fifths of it in the seven plans (0 to 4 %) and right in the
/// three others (-2 to 2 %); 2 % of the cores are a tenth of the response time there.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Cost {
    /// Cores that are busy without a request.
    pub(crate) idle: f64,
    /// CPU seconds of a request at [`Self::at_hz`].
    pub(crate) cpu_s: f64,
    pub(crate) at_hz: f64,
    pub(crate) saving: f64,
}

impl Cost {
    /// Of (rate, cores) of steps, told for this rate; what is not known already is found from the same steps.
    pub(crate) fn of(
        points: &[(f64, f64)],
        idle: Option<f64>,
        saving: Option<f64>,
        at_hz: f64,
    ) -> Self {
        let idle = idle.unwrap_or_else(|| idle_of(points));
        let saving = saving.unwrap_or_else(|| saving_of(points, idle));
        let used: f64 = points.iter().map(|(_, cores)| cores - idle).sum();
        let weighed = points
            .iter()
            .map(|(rate_hz, _)| rate_hz * times(saving, at_hz, *rate_hz));
        Self {
            idle,
            cpu_s: (used / weighed.sum::<f64>().max(f64::MIN_POSITIVE)).max(0.0),
            at_hz,
            saving,
        }
    }

    /// Cores that are busy at a rate.
    pub(crate) fn cores(&self, rate_hz: f64) -> f64 {
        self.idle + rate_hz * self.cpu_s * times(self.saving, self.at_hz, rate_hz)
    }
}

/// How many times the CPU that a request takes at the highest of the low rates it takes at another.
pub(crate) fn times(saving: f64, at_hz: f64, rate_hz: f64) -> f64 {
    if rate_hz > 0.0 && at_hz > 0.0 {
        let share = rate_hz / at_hz;
        share.powf(-power(saving, share))
    } else {
        1.0
    }
}

/// The power of a saving at this share of the highest of the low rates.
fn power(saving: f64, share: f64) -> f64 {
    if share > 1.0 { BEYOND * saving } else { saving }
}

/// The rate at which requests use so many cores that it would be `steady_hz` if they took at any rate what they take at
/// `at_hz`: [`times`] solved for the rate.
pub(crate) fn rate_using(steady_hz: f64, saving: f64, at_hz: f64) -> f64 {
    if at_hz <= 0.0 {
        return steady_hz;
    }
    let share = steady_hz / at_hz;
    // Less is saved than the rate grows by: both are on the same side of `at_hz`.
    at_hz * share.powf(1.0 / (1.0 - power(saving, share)))
}

/// Logarithms of the rate and of the CPU a request takes, of steps that used any.
fn logs(points: &[(f64, f64)], idle: f64) -> Vec<(f64, f64)> {
    let used = |(rate_hz, cores): &(f64, f64)| {
        let cpu_s = (cores - idle) / rate_hz;
        (*rate_hz > 0.0 && cpu_s > 0.0).then(|| (rate_hz.ln(), cpu_s.ln()))
    };
    points.iter().filter_map(used).collect()
}

/// Cores that are busy whatever the rate: where a straight line through steps at two rates or more comes from.
pub(crate) fn idle_of(points: &[(f64, f64)]) -> f64 {
    let (slope, at) = slope(points);
    (at.1 - slope * at.0).max(0.0)
}

/// By what power of the rate the CPU that a request takes gets less: least squares on logarithms, weighed by how sure they
/// are against what is usual.
pub(crate) fn saving_of(points: &[(f64, f64)], idle: f64) -> f64 {
    let logs = logs(points, idle);
    let (slope, at) = slope(&logs);
    let spread: f64 = logs.iter().map(|it| (it.0 - at.0).powi(2)).sum();
    let left = |it: &(f64, f64)| (it.1 - at.1 - slope * (it.0 - at.0)).powi(2);
    let freedom = logs.len() as f64 - 2.0;
    if freedom < 1.0 || spread <= 0.0 {
        return USUAL_SAVING;
    }
    let variance = logs.iter().map(left).sum::<f64>() / freedom / spread;
    let weight = APART.powi(2) / (APART.powi(2) + variance);
    (weight * -slope + (1.0 - weight) * USUAL_SAVING).clamp(-MOST, MOST)
}

/// The slope of the least-squares line, and the point in the middle that it goes through.
fn slope(points: &[(f64, f64)]) -> (f64, (f64, f64)) {
    let at = (
        mean(points.iter().map(|it| it.0)),
        mean(points.iter().map(|it| it.1)),
    );
    let spread: f64 = points.iter().map(|it| (it.0 - at.0).powi(2)).sum();
    let shared: f64 = points.iter().map(|it| (it.0 - at.0) * (it.1 - at.1)).sum();
    (if spread > 0.0 { shared / spread } else { 0.0 }, at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    /// Steps at a fifth and at half of some rate, whose CPU scatters.
    fn steps(saving: f64, sd: f64, count: u64) -> Vec<(f64, f64)> {
        let mut random = Random::new(5, 0);
        (0..count)
            .map(|nth| {
                let rate_hz: f64 = [100.0, 250.0][nth as usize % 2];
                let cpu_s = 0.003
                    * times(saving, 250.0, rate_hz)
                    * (sd * random.normal() - sd * sd / 2.0).exp();
                (rate_hz, 0.05 + rate_hz * cpu_s)
            })
            .collect()
    }

    fn check(saving: f64, sd: f64, count: u64) {
        let cost = Cost::of(&steps(saving, sd, count), Some(0.05), None, 250.0);
        assert!((cost.saving - saving).abs() < 0.02, "{cost:?}");
        let known = 0.05 + 400.0 * 0.003 * times(saving, 250.0, 400.0);
        assert!((cost.cores(400.0) / known - 1.0).abs() < 0.02, "{cost:?}");
    }

    #[test]
    fn a_request_takes_less_the_more_there_are() {
        check(0.15, 0.0, 4);
        check(0.15, 0.1, 800);
        check(-0.05, 0.0, 4);
    }

    #[test]
    fn a_rate_that_uses_all_cores_is_the_one_at_which_requests_take_them() {
        for steady_hz in [30.0, 100.0, 180.0] {
            let rate_hz = rate_using(steady_hz, 0.2, 100.0);
            let used_hz = rate_hz * times(0.2, 100.0, rate_hz);
            assert!((used_hz - steady_hz).abs() < 1e-9, "{steady_hz} {used_hz}");
        }
        assert_eq!(rate_using(180.0, 0.2, 0.0), 180.0);
        let (below, beyond) = (times(0.2, 100.0, 50.0), times(0.2, 100.0, 200.0));
        assert!(
            below > 1.14 && (0.88..0.92).contains(&beyond),
            "{below} {beyond}"
        );
    }

    #[test]
    fn what_steps_cannot_tell_is_what_is_usual() {
        let found = saving_of(&steps(0.3, 1.0, 4), 0.05);
        assert!((found - USUAL_SAVING).abs() < 0.03, "{found}");
        assert!(
            (Cost::of(&[(100.0, 0.35)], Some(0.05), None, 100.0).saving - USUAL_SAVING).abs()
                < 1e-9
        );
    }

    #[test]
    fn a_machine_is_never_busy_for_less_than_nothing() {
        assert!((idle_of(&[(10.0, 0.3), (20.0, 0.4), (30.0, 0.5)]) - 0.2).abs() < 1e-9);
        assert!(idle_of(&[(10.0, 0.05), (20.0, 0.25), (30.0, 0.3)]).abs() < 1e-9);
        let none = Cost::of(&[(10.0, 0.1)], Some(0.2), None, 10.0);
        assert!((none.cores(10.0) - 0.2).abs() < 1e-9, "{none:?}");
    }
}
