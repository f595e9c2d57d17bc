//! Bins with round edges for a distribution of times that may span five decades.

use kneepoint_model::LatencyHistogram;

/// Times above `from_ms` and up to `to_ms`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Bin {
    pub(crate) from_ms: f64,
    pub(crate) to_ms: f64,
    pub(crate) count: u64,
}

/// Most bins: more lines than that nobody takes in at a glance.
const MOST: usize = 14;

/// Edges within a decade, finest first.
const STEPS: [&[f64]; 4] = [
    &[
        1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.8, 2.0, 2.2, 2.5, 2.8, 3.0, 3.5, 4.0, 4.5, 5.0, 5.5,
        6.0, 7.0, 8.0, 9.0,
    ],
    &[1.0, 1.5, 2.0, 3.0, 5.0, 7.0],
    &[1.0, 2.0, 5.0],
    &[1.0],
];

/// The finest bins that hold every time and are not more than [`MOST`]; none without times.
pub(crate) fn bins(times: &LatencyHistogram) -> Vec<Bin> {
    let curve = times.curve();
    let (Some(first), Some(last)) = (curve.first(), curve.last()) else {
        return Vec::new();
    };
    let total = times.count() as f64;
    let below = |edge: f64| match curve.partition_point(|point| point.0 <= edge) {
        0 => 0,
        n => (curve[n - 1].1 * total).round() as u64,
    };
    let fitting = STEPS
        .iter()
        .map(|steps| edges(first.0, last.0, steps))
        .find(|edges| edges.len() <= MOST + 1);
    // A histogram spans less than nine decades, so whole decades always fit.
    fitting
        .unwrap_or_default()
        .windows(2)
        .map(|edge| Bin {
            from_ms: edge[0],
            to_ms: edge[1],
            count: below(edge[1]) - below(edge[0]),
        })
        .collect()
}

/// Round values from the last below `low` to the first not below `high`.
fn edges(low: f64, high: f64, steps: &[f64]) -> Vec<f64> {
    let (first, last) = (low.log10().floor() as i32 - 1, high.log10().ceil() as i32);
    let all: Vec<f64> = (first..=last)
        .flat_map(|decade| steps.iter().map(move |step| step * 10f64.powi(decade)))
        .collect();
    let from = all.iter().rposition(|edge| *edge < low).unwrap_or(0);
    let to = all.iter().position(|edge| *edge >= high);
    all[from..=to.unwrap_or(all.len() - 1)].to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(times_us: &[u64], expected: &[(f64, f64, u64)]) {
        let mut histogram = LatencyHistogram::default();
        times_us.iter().for_each(|us| histogram.record_us(*us));
        let got = bins(&histogram);
        assert_eq!(got.len(), expected.len(), "{got:?}");
        for (bin, (from, to, count)) in got.iter().zip(expected) {
            let close = |a: f64, b: f64| (a / b - 1.0).abs() < 1e-9;
            assert!(
                close(bin.from_ms, *from) && close(bin.to_ms, *to),
                "{bin:?}"
            );
            assert_eq!(bin.count, *count, "{bin:?}");
        }
    }

    #[test]
    fn edges_are_round_and_hold_every_time() {
        check(&[], &[]);
        check(&[1050, 1060], &[(1.0, 1.1, 2)]);
        check(
            &[3_000, 400_000, 30_000_000],
            &[
                (2.0, 5.0, 1),
                (5.0, 10.0, 0),
                (10.0, 20.0, 0),
                (20.0, 50.0, 0),
                (50.0, 100.0, 0),
                (100.0, 200.0, 0),
                (200.0, 500.0, 1),
                (500.0, 1000.0, 0),
                (1000.0, 2000.0, 0),
                (2000.0, 5000.0, 0),
                (5000.0, 10_000.0, 0),
                (10_000.0, 20_000.0, 0),
                (20_000.0, 50_000.0, 1),
            ],
        );
    }

    #[test]
    fn no_time_is_lost_however_wide_the_distribution() {
        let mut histogram = LatencyHistogram::default();
        (0..60).for_each(|k| histogram.record_us(1 << (k % 27)));
        let got = bins(&histogram);
        assert!(got.len() <= MOST);
        assert_eq!(got.iter().map(|bin| bin.count).sum::<u64>(), 60);
    }
}
