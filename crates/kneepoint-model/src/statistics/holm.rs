//! Several claims at once: each that is shown by itself may be chance where many were tried.

/// Which of several claims hold together, with a chance of at most `alpha` that any of them is wrong (Holm's step-down
/// procedure; an e-value E counts as p = 1/E, by Markov's inequality). All that were tried belong in, also those that
/// showed nothing.
#[must_use]
pub fn hold_together(e_values: &[f64], alpha: f64) -> Vec<bool> {
    let mut order: Vec<usize> = (0..e_values.len()).collect();
    order.sort_by(|a, b| e_values[*b].total_cmp(&e_values[*a]));
    let mut holds = vec![false; e_values.len()];
    for (nth, index) in order.into_iter().enumerate() {
        let tried = (e_values.len() - nth) as f64;
        if 1.0 / e_values[index] > alpha / tried {
            break;
        }
        holds[index] = true;
    }
    holds
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_shown_by_itself_may_not_hold_among_many() {
        assert_eq!(hold_together(&[25.0], 0.05), [true]);
        assert_eq!(hold_together(&[25.0, 1.0], 0.05), [false, false]);
        // The strongest needs 60, the next 40, the last 20.
        assert_eq!(hold_together(&[25.0, 1e6, 45.0], 0.05), [true, true, true]);
        assert_eq!(
            hold_together(&[25.0, 1e6, 30.0], 0.05),
            [false, true, false]
        );
        assert!(hold_together(&[], 0.05).is_empty());
    }

    proptest! {
        /// Never more than each by itself, and never less than Bonferroni.
        #[test]
        fn it_lies_between_no_correction_and_bonferroni(
            e_values in prop::collection::vec(0.01..1e4f64, 1..12),
        ) {
            let holds = hold_together(&e_values, 0.05);
            for (e_value, holds) in e_values.iter().zip(holds) {
                let by_itself = 1.0 / e_value <= 0.05;
                let bonferroni = 1.0 / e_value <= 0.05 / e_values.len() as f64;
                prop_assert!(by_itself || !holds);
                prop_assert!(holds || !bonferroni);
            }
        }
    }
}
