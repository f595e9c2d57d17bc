//! Which combination of a few settings is tried next: a Tree-structured Parzen Estimator (Bergstra et al. 2011,
//! "Algorithms for Hyper-Parameter Optimization") for each setting, after some combinations drawn at random. What is
//! searched here are settings that were tried one by one already and may need each other.

use super::levers::Lever;
use crate::random::Random;
use kneepoint_model::Setting;
use std::collections::BTreeMap;
use tpe::density_estimation::DefaultEstimatorBuilder;
use tpe::{TpeOptimizer, TpeOptimizerBuilder};

/// Combinations drawn at random before the model says what is next.
const AT_RANDOM: usize = 8;
/// How often the model is asked for a combination that was not tried yet. It comes back to the best ones again and
/// again; then one is drawn from those that are left.
const ASKS: usize = 20;
/// Share of the combinations tried that count as good ones. With a tenth a search of 24 trials lacks half as much of the
/// gain there is as one by chance does (the test below); with a fifth, two thirds.
const GOOD: f64 = 0.1;
/// What a combination counts as that could not be tried: as bad as serving half as much.
const CANNOT: f64 = -0.7;

/// The search as a state machine. A combination is the index of each setting's value.
pub struct Together {
    levers: Vec<Lever>,
    models: Vec<TpeOptimizer<DefaultEstimatorBuilder>>,
    /// ln of what a combination serves over what the present one does; `None` where it could not be tried.
    tried: BTreeMap<Vec<usize>, Option<f64>>,
    open: Option<Vec<usize>>,
    random: Random,
}

impl Together {
    /// A search from the present values, whose gain is none.
    ///
    /// # Errors
    /// A setting without values; in words.
    pub fn new(levers: Vec<Lever>, seed: u64) -> Result<Self, String> {
        let models = levers.iter().map(model).collect::<Result<_, _>>()?;
        let present = levers.iter().map(|lever| lever.present).collect();
        let mut search = Self {
            levers,
            models,
            tried: BTreeMap::new(),
            open: Some(present),
            random: Random::new(seed, 2),
        };
        search.record(Some(0.0));
        Ok(search)
    }

    /// The combination to try next, as changes to the present one; none when all were tried.
    ///
    /// # Errors
    /// The model failed; in words.
    pub fn next_settings(&mut self) -> Result<Option<Vec<Setting>>, String> {
        let suggested = match self.tried.len() <= AT_RANDOM {
            true => None,
            false => self.suggested()?,
        };
        self.open = suggested.or_else(|| self.untried());
        Ok(self.open.as_ref().map(|point| self.settings(point)))
    }

    /// What the models hold to be good and was not tried.
    fn suggested(&mut self) -> Result<Option<Vec<usize>>, String> {
        for _ in 0..ASKS {
            let mut point = Vec::new();
            for (model, lever) in self.models.iter_mut().zip(&self.levers) {
                let at = model.ask(self.random.source());
                let at = at.map_err(|error| error.to_string())?;
                point.push((at as usize).min(lever.values.len() - 1));
            }
            if !self.tried.contains_key(&point) {
                return Ok(Some(point));
            }
        }
        Ok(None)
    }

    /// One of the combinations that were not tried, each as likely as any other.
    fn untried(&mut self) -> Option<Vec<usize>> {
        let mut points = vec![Vec::new()];
        for lever in &self.levers {
            let longer = |point: &Vec<usize>| {
                let point = point.clone();
                (0..lever.values.len()).map(move |index| [&point[..], &[index]].concat())
            };
            points = points.iter().flat_map(longer).collect();
        }
        points.retain(|point| !self.tried.contains_key(point));
        let nth = (self.random.uniform() * points.len() as f64) as usize;
        points.get(nth).cloned()
    }

    /// What came of the combination that was asked for last: ln of its throughput over the present one's, or nothing
    /// where it could not be tried.
    pub fn record(&mut self, ln_ratio: Option<f64>) {
        let Some(point) = self.open.take() else {
            return;
        };
        for (model, index) in self.models.iter_mut().zip(&point) {
            // The model looks for the least. Half an index more is the middle of what stands for a value; it lies within
            // the range, and the gain is a number, so that nothing can be refused.
            let _ = model.tell(*index as f64 + 0.5, -ln_ratio.unwrap_or(CANNOT));
        }
        self.tried.insert(point, ln_ratio);
    }

    /// The combinations that seem to gain, the best first, with ln of their gain.
    #[must_use]
    pub fn best(&self) -> Vec<(Vec<Setting>, f64)> {
        let gains = self.tried.iter().filter_map(|(point, gain)| {
            let gain = gain.filter(|gain| *gain > 0.0)?;
            Some((self.settings(point), gain))
        });
        let mut best: Vec<_> = gains.collect();
        best.sort_by(|(_, a), (_, b)| b.total_cmp(a));
        best
    }

    fn settings(&self, point: &[usize]) -> Vec<Setting> {
        let chosen = self.levers.iter().zip(point);
        chosen
            .filter_map(|(lever, index)| lever.setting(*index))
            .collect()
    }
}

/// A model of one setting: neighbours tell of each other where values have an order.
fn model(lever: &Lever) -> Result<TpeOptimizer<DefaultEstimatorBuilder>, String> {
    let (estimator, range) = if lever.ordered {
        let range = tpe::range(0.0, lever.values.len() as f64);
        (tpe::parzen_estimator(), range)
    } else {
        let range = tpe::categorical_range(lever.values.len());
        (tpe::histogram_estimator(), range)
    };
    let range = range.map_err(|error| error.to_string())?;
    let mut builder = TpeOptimizerBuilder::new();
    let built = builder.gamma(GOOD).build(estimator, range);
    built.map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;
    use kneepoint_model::{Layer, SettingKey};

    fn lever(name: &str, values: usize) -> Lever {
        Lever {
            key: SettingKey::new(Layer::Php, name),
            values: (0..values).map(|value| value.to_string()).collect(),
            present: 0,
            ordered: values > 2,
        }
    }

    fn value(settings: &[Setting], name: &str) -> f64 {
        let found = settings.iter().find(|setting| setting.key.name == name);
        found.map_or(0.0, |setting| setting.value.parse().expect("a number"))
    }

    /// Two switches that only help together, and two numbers with a best somewhere in the middle; at most
    /// [`MOST_GAIN`].
    fn needs_each_other(settings: &[Setting]) -> f64 {
        let of = |name| value(settings, name);
        let switches = match of("a") * of("b") > 0.0 {
            true => 0.3,
            false => -0.05 * (of("a") + of("b")),
        };
        0.32 + switches - 0.02 * (of("c") - 4.0).powi(2) - 0.01 * (of("d") - 2.0).powi(2)
    }

    const MOST_GAIN: f64 = 0.62;
    /// Combinations that are tried, of 196.
    const TRIALS: usize = 24;
    /// How far measured gains scatter.
    const NOISE: f64 = 0.02;
    const SEARCHES: u64 = 60;

    /// What the best of a search lacks of the gain there is, on average over many searches, when `next` says what is
    /// tried.
    fn shortfall(next: fn(&mut Together) -> Vec<Setting>) -> f64 {
        let one = |seed| {
            let levers = vec![lever("a", 2), lever("b", 2), lever("c", 7), lever("d", 7)];
            let mut search = Together::new(levers, seed).expect("a search");
            let mut random = Random::new(seed, 1);
            for _ in 0..TRIALS {
                let settings = next(&mut search);
                search.record(Some(needs_each_other(&settings) + NOISE * random.normal()));
            }
            let best = search.best();
            let gain = best.first().map_or(0.0, |(best, _)| needs_each_other(best));
            1.0 - gain / MOST_GAIN
        };
        (1..=SEARCHES).map(one).sum::<f64>() / SEARCHES as f64
    }

    #[test]
    fn the_model_lacks_far_less_of_the_gain_than_chance_does() {
        let by_model = shortfall(|search| {
            let next = search.next_settings().expect("a model");
            next.expect("not all were tried")
        });
        let by_chance = shortfall(|search| {
            search.open = search.untried();
            search.settings(search.open.as_ref().expect("not all were tried"))
        });
        assert!(
            by_model < 0.05 && by_model < 0.7 * by_chance,
            "the model lacks {by_model:.3}, chance {by_chance:.3}"
        );
    }

    #[test]
    fn nothing_is_tried_twice_and_all_is_tried_in_the_end() {
        let mut search = Together::new(vec![lever("a", 2), lever("b", 3)], 5).expect("a search");
        let mut seen = Vec::new();
        while let Some(settings) = search.next_settings().expect("a model") {
            assert!(!settings.is_empty(), "the present combination is known");
            assert!(!seen.contains(&settings), "{settings:?} came twice");
            seen.push(settings);
            search.record(Some(-0.1));
        }
        assert_eq!(seen.len(), 5);
        assert!(search.best().is_empty());
    }

    #[test]
    fn what_cannot_be_tried_is_no_gain_and_does_not_come_again() {
        let mut search = Together::new(vec![lever("a", 2)], 5).expect("a search");
        assert!(search.next_settings().expect("a model").is_some());
        search.record(None);
        assert!(search.next_settings().expect("a model").is_none());
        assert!(search.best().is_empty());
    }
}
