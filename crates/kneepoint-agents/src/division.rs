//! Who has which part of a load.

use kneepoint_load::Share;

/// Least slots of an agent on average, and least slots of a load: a weight is met within a few percent.
const SLOTS_EACH: usize = 16;
const SLOTS: usize = 64;

/// Divides a load among some generators in proportion to their weights; each has something. A weight that is no number
/// above 0 makes all alike. Of nobody, nothing.
///
/// The slots of one lie between those of the others as evenly as they can (smooth weighted round robin), so that equal
/// generators take turns.
#[must_use]
pub fn divide(weights: &[f64]) -> Vec<Share> {
    let agents = weights.len();
    if agents == 0 {
        return Vec::new();
    }
    let each = SLOTS_EACH.max(SLOTS.div_ceil(agents));
    let counts = apportioned(weights, each * agents);
    let total = (each * agents) as i64;
    let mut owed = vec![0i64; agents];
    let mut slots = vec![Vec::new(); agents];
    for slot in 0..each * agents {
        owed.iter_mut()
            .zip(&counts)
            .for_each(|(owed, count)| *owed += *count as i64);
        // The first of those to whom most is owed.
        let next = (0..agents)
            .rev()
            .max_by_key(|agent| owed[*agent])
            .unwrap_or(0);
        owed[next] -= total;
        slots[next].push(slot as u32);
    }
    let shares = slots.into_iter().map(|own| Share::new(own, total as u32));
    shares.flatten().collect()
}

/// How many of so many slots each has: at least one, and otherwise by largest remainder.
fn apportioned(weights: &[f64], slots: usize) -> Vec<usize> {
    let usable = |weight: &f64| weight.is_finite() && *weight > 0.0;
    let equal = vec![1.0; weights.len()];
    let weights = if weights.iter().all(usable) {
        weights
    } else {
        &equal
    };
    let sum: f64 = weights.iter().sum();
    let spare = (slots - weights.len()) as f64;
    let wanted: Vec<f64> = weights.iter().map(|weight| spare * weight / sum).collect();
    let mut counts: Vec<usize> = wanted.iter().map(|wanted| 1 + *wanted as usize).collect();
    let mut by_rest: Vec<usize> = (0..weights.len()).collect();
    by_rest.sort_by(|a, b| wanted[*b].fract().total_cmp(&wanted[*a].fract()));
    let left = slots.saturating_sub(counts.iter().sum());
    by_rest
        .iter()
        .take(left)
        .for_each(|agent| counts[*agent] += 1);
    counts
}

/// A generator's part of so many connections: at least one for each of its threads.
pub(crate) fn connections(all: usize, share: &Share, threads: usize) -> usize {
    let own = (all as f64 * share.fraction()).round() as usize;
    own.max(threads)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn equal_agents_take_turns() {
        let shares = divide(&[5.0, 5.0, 5.0]);
        for (agent, share) in shares.iter().enumerate() {
            let turns: Vec<u32> = (0..22).map(|round| 3 * round + agent as u32).collect();
            assert_eq!(share.slots(), turns);
            assert_eq!(share.of(), 66);
        }
        assert_eq!(divide(&[f64::NAN, 1.0])[0].fraction(), 0.5);
        assert!(divide(&[]).is_empty());
    }

    proptest! {
        /// The union is the whole: every slot has one owner, and each has about what its weight asks for.
        #[test]
        fn each_slot_has_one_owner(weights in prop::collection::vec(0.2f64..5.0, 1..40)) {
            let shares = divide(&weights);
            prop_assert_eq!(shares.len(), weights.len());
            let of = shares[0].of();
            let mut all: Vec<u32> = shares.iter().flat_map(|share| share.slots().to_vec()).collect();
            all.sort_unstable();
            prop_assert_eq!(all, (0..of).collect::<Vec<_>>());
            let sum: f64 = weights.iter().sum();
            let spare = f64::from(of) - weights.len() as f64;
            for (share, weight) in shares.iter().zip(&weights) {
                let wanted = 1.0 + spare * weight / sum;
                prop_assert!((share.slots().len() as f64 - wanted).abs() <= 1.0);
            }
        }

        /// Of any number of arrivals in a row, each has about its part: nobody's share is a burst.
        #[test]
        fn no_share_is_a_burst(weights in prop::collection::vec(0.5f64..2.0, 2..12), from in 0usize..64, length in 1usize..64) {
            let shares = divide(&weights);
            for share in &shares {
                let within = (from..from + length).filter(|k| share.slots().contains(&((*k as u32) % share.of()))).count();
                let wanted = share.fraction() * length as f64;
                prop_assert!((within as f64 - wanted).abs() <= weights.len() as f64, "{within} of {length}, {wanted} wanted");
            }
        }
    }
}
