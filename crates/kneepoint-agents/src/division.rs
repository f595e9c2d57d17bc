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

/// What a share must have something of: numbers from one to below another.
pub(crate) type Seats = std::ops::Range<u64>;

/// Divides a load among those of some generators who can each have something of everything: whose these are by number, and
/// their shares. Where there is less than one for each, the heaviest have it.
pub(crate) fn divide_seats(weights: &[f64], seats: &[Seats]) -> (Vec<usize>, Vec<Share>) {
    let mut chosen: Vec<usize> = (0..weights.len()).collect();
    let fewest = seats.iter().map(|seats| seats.end - seats.start).min();
    if let Some(fewest) = fewest
        && fewest < chosen.len() as u64
    {
        chosen.sort_by(|a, b| weights[*b].total_cmp(&weights[*a]).then(a.cmp(b)));
        chosen.truncate((fewest as usize).max(1));
        chosen.sort_unstable();
    }
    loop {
        let own: Vec<f64> = chosen.iter().map(|agent| weights[*agent]).collect();
        let shares = divide(&own);
        let sits = |share: &Share| {
            let mut seats = seats.iter();
            seats.all(|seats| share.count_below(seats.end) > share.count_below(seats.start))
        };
        let seated: Vec<bool> = shares.iter().map(sits).collect();
        // Of nothing nobody has anything: then all are asked, and say so.
        if seated.iter().all(|sits| *sits) || !seated.contains(&true) {
            return (chosen, shares);
        }
        let mut seated = seated.into_iter();
        chosen.retain(|_| seated.next().unwrap_or(true));
    }
}

/// A generator's part of so many connections: all parts together are all of them, and each is one at least.
pub(crate) fn connections(all: usize, share: &Share) -> usize {
    share.count_below(all as u64).max(1) as usize
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

    #[test]
    fn whoever_would_have_nothing_is_left_out() {
        let seated = |weights: &[f64], seats: u64| divide_seats(weights, &[0..1000, 0..seats]).0;
        assert_eq!(seated(&[1.0; 4], 2), [0, 1]);
        assert_eq!(seated(&[1.0, 1.0, 5.0, 5.0], 2), [2, 3]);
        assert_eq!(seated(&[1.0; 4], 4), [0, 1, 2, 3]);
        assert_eq!(
            seated(&[1000.0, 1.0], 10),
            [0],
            "its first number is far beyond"
        );
        assert_eq!(
            seated(&[1.0; 3], 0),
            [0],
            "somebody has to say that there is nothing"
        );
        // A window that begins late.
        assert_eq!(divide_seats(&[1.0; 4], &[0..9, 101..103]).0.len(), 2);
    }

    proptest! {
        /// Whoever sits has something of everything, and together they have all.
        #[test]
        fn seats_are_divided_without_a_rest(weights in prop::collection::vec(0.1f64..50.0, 1..12), workers in 1u64..40, requests in 1u64..200) {
            let (chosen, shares) = divide_seats(&weights, &[0..workers, 0..requests]);
            prop_assert_eq!(chosen.len(), shares.len());
            let sum = |all: u64| shares.iter().map(|share| share.count_below(all)).sum::<u64>();
            prop_assert_eq!((sum(workers), sum(requests)), (workers, requests));
            prop_assert!(shares.iter().all(|share| share.count_below(workers) > 0 && share.count_below(requests) > 0));
            let connections: usize = shares.iter().map(|share| connections(workers as usize, share)).sum();
            prop_assert_eq!(connections as u64, workers);
        }

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
