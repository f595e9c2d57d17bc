//! Which request of the mix comes next.

use crate::arrivals::random::{Purpose, Random, Weighted};
use kneepoint_model::Workload;

/// The weighted mixture of requests, as one thread draws it.
#[derive(Debug)]
pub(crate) struct Mix {
    weights: Weighted,
    random: Random,
}

impl Mix {
    pub(crate) fn new(workload: &Workload, seed: u64, thread: usize) -> Self {
        Self {
            weights: Weighted::new(workload.requests.iter().map(|r| r.weight)),
            random: Random::new(seed, Purpose::Mix, thread),
        }
    }

    /// The index of the next request.
    pub(crate) fn draw(&mut self) -> u32 {
        self.weights.draw(&mut self.random) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kneepoint_model::Request;
    use proptest::prelude::*;

    #[test]
    fn the_mixture_keeps_its_weights() {
        let mut workload = Workload::single("/a");
        workload.requests[0].weight = 8.0;
        for (path, weight) in [("/b", 2.0), ("/never", 0.0)] {
            let mut request = Request::get(path);
            request.weight = weight;
            workload.requests.push(request);
        }
        let mut mix = Mix::new(&workload, 42, 0);
        let mut counts = [0u32; 3];
        (0..20_000).for_each(|_| counts[mix.draw() as usize] += 1);
        let sd = (20_000f64 * 0.8 * 0.2).sqrt();
        assert!(
            (f64::from(counts[0]) - 16_000.0).abs() < 4.0 * sd,
            "{counts:?}"
        );
        assert_eq!(counts[2], 0);
    }

    proptest! {
        #[test]
        fn a_draw_is_always_a_request(weights in prop::collection::vec(0.0..10.0f64, 1..9), seed: u64) {
            prop_assume!(weights.iter().sum::<f64>() > 0.0);
            let mut workload = Workload { requests: Vec::new(), ..Workload::single("/") };
            for weight in &weights {
                let mut request = Request::get("/");
                request.weight = *weight;
                workload.requests.push(request);
            }
            let mut mix = Mix::new(&workload, seed, 1);
            for _ in 0..50 {
                let drawn = mix.draw() as usize;
                prop_assert!(drawn < weights.len());
                prop_assert!(weights.len() == 1 || weights[drawn] > 0.0);
            }
        }
    }
}
