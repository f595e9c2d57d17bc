//! Which steps at low load say what the stack takes: those that nothing else on the machine disturbed.

use super::fit::Seen;

/// The mean response time of a step over the median of those at its rate from which on it is left out. Below about half
/// of R* requests hardly wait for each other, so that a step as long as ours scatters by a tenth or so.
const DISTURBED: f64 = 1.5;

/// The steps that count, and a sentence about the others where there are any.
pub(super) fn steady(seen: &[Seen]) -> (Vec<Seen>, Option<String>) {
    let all = seen.len();
    let kept: Vec<Seen> = seen
        .iter()
        .filter(|step| is_steady(step, seen))
        .cloned()
        .collect();
    let left_out = (kept.len() < all).then(|| {
        format!(
            "{} of {all} steps at low load took half as long again as the others at their rate, or longer: something else \
             used the machine, and they are left out",
            all - kept.len()
        )
    });
    (kept, left_out)
}

/// Whether a step was not disturbed, by the others at its rate among all.
pub(super) fn is_steady(step: &Seen, all: &[Seen]) -> bool {
    let usual_ms = usual_ms(all, step.level);
    let mean_ms = step.response.mean_ms().zip(usual_ms);
    mean_ms.is_none_or(|(mean_ms, usual_ms)| mean_ms < DISTURBED * usual_ms)
}

/// The median of the mean response times of the steps at a rate, in ms; of two in the middle the lower one, as what
/// disturbs only makes it longer.
fn usual_ms(seen: &[Seen], level: usize) -> Option<f64> {
    let alike = seen.iter().filter(|step| step.level == level);
    let mut means_ms: Vec<f64> = alike.filter_map(|step| step.response.mean_ms()).collect();
    means_ms.sort_by(f64::total_cmp);
    means_ms.get(means_ms.len().saturating_sub(1) / 2).copied()
}
