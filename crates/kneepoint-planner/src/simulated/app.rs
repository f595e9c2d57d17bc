//! What the simulated stack serves: kinds of requests, and what each takes.

use super::pool::{Piece, PoolSize};
use crate::random::Random;

/// One kind of request.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Kind {
    /// Share of the mix, relative to the others.
    pub weight: f64,
    /// Mean CPU in seconds at speed 1.
    pub cpu_s: f64,
    /// Mean wait in seconds.
    pub wait_s: f64,
    /// Pieces that the CPU comes in, with waits between; each is exponentially distributed.
    pub pieces: u32,
}

/// A pool with the requests it is for.
#[derive(Debug, Clone, PartialEq)]
pub struct App {
    /// The pool.
    pub size: PoolSize,
    /// The mix.
    pub kinds: Vec<Kind>,
    /// Requests of a visit, each of which follows the response to the one before; `None` where every request stands for
    /// itself.
    pub requests_a_visit: Option<u32>,
}

impl Default for App {
    /// 16 workers on 2 cores, 6.4 ms of CPU and 9 ms of waiting on average in a light and a heavy kind of request:
    /// 313 requests per second at most, as in the simulations of method.md.
    fn default() -> Self {
        Self {
            size: PoolSize {
                workers: 16,
                cores: 2.0,
                backlog: 511,
            },
            kinds: vec![
                Kind {
                    weight: 0.75,
                    cpu_s: 0.0048,
                    wait_s: 0.006,
                    pieces: 3,
                },
                Kind {
                    weight: 0.25,
                    cpu_s: 0.0112,
                    wait_s: 0.018,
                    pieces: 3,
                },
            ],
            requests_a_visit: None,
        }
    }
}

impl App {
    /// The same application, this many times as fast in everything it does.
    #[must_use]
    pub fn faster(&self, factor: f64) -> Self {
        let mut app = self.clone();
        for kind in &mut app.kinds {
            kind.cpu_s /= factor;
            kind.wait_s /= factor;
        }
        app
    }

    /// Requests per second that cores and workers can serve at most, at speed 1.
    #[must_use]
    pub fn capacity_hz(&self) -> f64 {
        let weights: f64 = self.kinds.iter().map(|kind| kind.weight).sum();
        let mean = |of: fn(&Kind) -> f64| {
            self.kinds
                .iter()
                .map(|kind| kind.weight * of(kind))
                .sum::<f64>()
                / weights
        };
        let cores = self.size.cores / mean(|kind| kind.cpu_s);
        let workers = f64::from(self.size.workers) / mean(|kind| kind.cpu_s + kind.wait_s);
        cores.min(workers)
    }

    /// Which kind the next request is.
    pub(super) fn kind(&self, random: &mut Random) -> Kind {
        let weights: f64 = self.kinds.iter().map(|kind| kind.weight).sum();
        let mut left = random.uniform() * weights;
        for kind in &self.kinds {
            left -= kind.weight;
            if left < 0.0 {
                return *kind;
            }
        }
        self.kinds[self.kinds.len() - 1]
    }
}

impl Kind {
    /// What one request of this kind takes. The last piece of CPU ends it; a single piece has the wait after it.
    pub(super) fn draw(&self, random: &mut Random) -> Vec<Piece> {
        let pieces = self.pieces.max(1);
        let waits = f64::from((pieces - 1).max(1));
        (1..=pieces)
            .map(|nth| Piece {
                cpu_s: random.exponential(self.cpu_s / f64::from(pieces)),
                wait_s: if nth < pieces || pieces == 1 {
                    random.exponential(self.wait_s / waits)
                } else {
                    0.0
                },
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_takes_on_average_what_its_kind_says() {
        let app = App::default();
        let mut random = Random::new(3, 0);
        let (mut cpu, mut wait) = (0.0, 0.0);
        for _ in 0..40_000 {
            for piece in app.kind(&mut random).draw(&mut random) {
                cpu += piece.cpu_s / 40_000.0;
                wait += piece.wait_s / 40_000.0;
            }
        }
        assert!((cpu / 0.0064 - 1.0).abs() < 0.02, "{cpu}");
        assert!((wait / 0.009 - 1.0).abs() < 0.03, "{wait}");
        assert!((app.capacity_hz() - 312.5).abs() < 1e-6);
        assert!((app.faster(2.0).capacity_hz() - 625.0).abs() < 1e-6);
    }
}
