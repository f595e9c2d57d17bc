//! Mean and median of what may be nothing, and the quantile that half of the steps stay below.

use kneepoint_model::LatencyHistogram;
use kneepoint_model::statistics::median;

/// The mean; 0 of none.
pub(crate) fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0.0f64), |(sum, count), it| (sum + it, count + 1.0));
    sum / count.max(1.0)
}

/// The median; 0 of none.
pub(crate) fn median(values: impl Iterator<Item = f64>) -> f64 {
    median::median(&values.collect::<Vec<f64>>()).unwrap_or(0.0)
}

/// A quantile of the response time in ms that half of the steps stay below: a few slow ones do not decide it. `None`
/// without responses.
pub(crate) fn usual_ms<'a>(
    responses: impl Iterator<Item = &'a LatencyHistogram>,
    quantile: f64,
) -> Option<f64> {
    median::median(&of_steps_ms(responses, quantile))
}

/// The quantile of each step, in their order; steps without responses have none.
pub(crate) fn of_steps_ms<'a>(
    responses: impl Iterator<Item = &'a LatencyHistogram>,
    quantile: f64,
) -> Vec<f64> {
    responses
        .filter_map(|one| one.quantile_ms(quantile))
        .collect()
}
