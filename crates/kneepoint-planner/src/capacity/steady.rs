//! Which steps at low load say what the stack takes: those that nothing else on the machine disturbed, and during which its
//! host kept little of it.

use super::low_load::LowLoadStep;
use kneepoint_model::units::format_share;

/// The mean response time of a step over the median of those at its rate from which on it is left out. Below about half
/// of R* requests hardly wait for each other, so that a step as long as ours scatters by a tenth or so.
const DISTURBED: f64 = 1.5;
/// Share of the machine's CPU time that its host keeps from which on a step is left out (method.md, `ab_test`). A core
/// that was idle has to ask for its time again with nearly every request, one that is busy has it: what a host keeps
/// makes requests at low load longer by more than those close to the limit.
pub(crate) const STOLEN: f64 = 0.02;

/// The steps that count on a machine with this many cores, and sentences about the others where there are any.
#[must_use]
pub fn steady(seen: &[LowLoadStep], cores: f64) -> (Vec<LowLoadStep>, Vec<String>) {
    let all = seen.len();
    let of = |step: &LowLoadStep| step.stolen_cores / cores;
    let (calm, kept) = undisturbed(seen, |step| step, of);
    let stolen = (calm.len() < all).then(|| {
        format!(
            "the host kept more than 2 % of the machine's CPU time from it during {} of {all} steps at low load, and those \
             are left out",
            all - calm.len()
        )
    });
    let still = calm.iter().map(of).fold(0.0, f64::max);
    let still = (still > STOLEN).then(|| {
        format!(
            "the host keeps CPU time from the machine: up to {} during the steps at low load that the prediction is made \
             of, and a response time is predicted too long then",
            format_share(still)
        )
    });
    let left_out = (kept.len() < calm.len()).then(|| {
        format!(
            "{} of {all} steps at low load took half as long again as the others at their rate, or longer: something else \
             used the machine, and they are left out",
            calm.len() - kept.len()
        )
    });
    (
        kept,
        [stolen, still, left_out].into_iter().flatten().collect(),
    )
}

/// Of what was driven, each with a step at low load: that during which the host kept no more than [`STOLEN`] of the machine,
/// and in any case the half at each rate during which it kept least; and of this, that whose step nothing else disturbed.
pub(crate) fn undisturbed<T: Clone>(
    all: &[T],
    low: impl Fn(&T) -> &LowLoadStep,
    stolen_share: impl Fn(&T) -> f64,
) -> (Vec<T>, Vec<T>) {
    let most = |level: usize| {
        let alike = all.iter().filter(|it| low(it).level == level);
        lower_median(alike.map(&stolen_share)).map_or(STOLEN, |usual| usual.max(STOLEN))
    };
    let calm = all
        .iter()
        .filter(|it| stolen_share(it) <= most(low(it).level));
    let calm: Vec<T> = calm.cloned().collect();
    let usual_ms = |level: usize| {
        let alike = calm.iter().map(&low).filter(|step| step.level == level);
        lower_median(alike.filter_map(|step| step.response.mean_ms()))
    };
    let steady = |step: &LowLoadStep| {
        let mean_ms = step.response.mean_ms().zip(usual_ms(step.level));
        mean_ms.is_none_or(|(mean_ms, usual_ms)| mean_ms < DISTURBED * usual_ms)
    };
    let kept = calm.iter().filter(|it| steady(low(it))).cloned().collect();
    (calm, kept)
}

/// The median; of two in the middle the lower one, as what disturbs only makes it more.
fn lower_median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut sorted: Vec<f64> = values.collect();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len().saturating_sub(1) / 2).copied()
}
