//! What the samples of a while come to.

use crate::sample::{Sample, SampleOutcome};
use kneepoint_model::{MetAtOnce, MetStack, Place, StackProfile};
use std::collections::{BTreeMap, HashMap, HashSet};

/// The frame of a worker that has a request and runs no PHP code: it compiles the first file, or begins or ends the
/// request.
const ENGINE: &str = "(engine)";

/// How many samples went how. A profile is to be believed as far as these say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// The stack is the one the worker had.
    pub ok: u64,
    /// The stack changed while it was read; its outer part counts.
    pub salvaged: u64,
    /// No stack could be read.
    pub error: u64,
    /// The worker had no request.
    pub idle: u64,
}

impl Counts {
    /// Samples of workers that had a request.
    #[must_use]
    pub fn busy(&self) -> u64 {
        self.ok + self.salvaged + self.error
    }
}

/// What one function cost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cost {
    /// The function, as in [`Place`].
    pub function: String,
    /// Its file.
    pub file: Option<String>,
    /// The line of it that was seen most often.
    pub line: Option<u32>,
    /// Samples in which it was innermost.
    pub own: u64,
    /// Samples in which it was on the stack, once each however often it is.
    pub total: u64,
}

/// Stacks with how often each was seen.
#[derive(Debug, Clone, Default)]
pub struct PhpProfile {
    /// PHP and its server interface: `PHP 8.2.35 (fpm-fcgi)`.
    pub php: String,
    /// Processes that were sampled, those that ended meanwhile included.
    pub workers: usize,
    /// Samples a second of each worker, as asked for.
    pub rate_hz: u32,
    /// How long it took, in seconds.
    pub elapsed_s: f64,
    /// CPU time the sampling itself took, in seconds.
    pub cost_s: f64,
    /// Moments at which nothing was sampled because the one before took too long.
    pub missed: u64,
    /// How the samples went.
    pub counts: Counts,
    /// Why samples failed, with how often.
    pub errors: BTreeMap<&'static str, u64>,
    /// What should be known besides.
    pub notes: Vec<String>,
    /// Whether the stacks of each request that has a name (`X-WorkerRequest-Id`) are kept.
    by_id: bool,
    frames: Vec<Place>,
    known: HashMap<Place, usize>,
    stacks: HashMap<Vec<usize>, u64>,
    requests: HashMap<String, u64>,
    /// The frames that stand for a request, with which stacks begin.
    routes: HashSet<usize>,
    /// The stacks of requests by their names.
    of_ids: HashMap<String, Vec<Vec<usize>>>,
    /// The stacks met at each moment that was begun, with its time.
    moments: Vec<(f64, Vec<Vec<usize>>)>,
}

impl PhpProfile {
    /// Without samples, of this PHP at this rate.
    #[must_use]
    pub fn new(php: String, rate_hz: u32) -> Self {
        Self {
            php,
            rate_hz,
            ..Self::default()
        }
    }

    /// The same, which keeps the stacks of requests that have a name by it, if that is wanted.
    #[must_use]
    pub fn by_id(self, wanted: bool) -> Self {
        Self {
            by_id: wanted,
            ..self
        }
    }

    /// Begins a moment, in seconds: what is added from now on was met together.
    pub fn begin_moment(&mut self, at_s: f64) {
        self.moments.push((at_s, Vec::new()));
    }

    /// Counts a sample. What its worker waited for is the innermost frame of its stack, in brackets. With `by_request`, stacks
    /// begin with the route of their request.
    pub fn add(&mut self, sample: &Sample, wait: Option<&str>, by_request: bool) {
        let count = match sample.outcome {
            SampleOutcome::Ok => &mut self.counts.ok,
            SampleOutcome::Salvaged => &mut self.counts.salvaged,
            SampleOutcome::Error(why) => {
                *self.errors.entry(why).or_default() += 1;
                &mut self.counts.error
            }
            SampleOutcome::Idle => &mut self.counts.idle,
            SampleOutcome::Gone => return,
        };
        *count += 1;
        if !matches!(sample.outcome, SampleOutcome::Ok | SampleOutcome::Salvaged) {
            return;
        }
        let request = sample.request.path.as_ref().map(|_| sample.request.route());
        let mut stack = Vec::with_capacity(sample.stack.len() + 1);
        if let Some(request) = request.clone().filter(|_| by_request) {
            let route = self.named(request);
            self.routes.insert(route);
            stack.push(route);
        }
        stack.extend(
            sample
                .stack
                .iter()
                .map(|frame| self.frame(frame))
                .collect::<Vec<_>>(),
        );
        if sample.stack.is_empty() {
            stack.push(self.named(ENGINE.to_owned()));
        }
        if let Some(wait) = wait {
            stack.push(self.named(format!("[{wait}]")));
        }
        if let Some(id) = sample.request.id.as_ref().filter(|_| self.by_id) {
            let stacks = self.of_ids.entry(id.clone()).or_default();
            stacks.push(stack.clone());
        }
        if let Some((_, met)) = self.moments.last_mut() {
            met.push(stack.clone());
        }
        *self.stacks.entry(stack).or_default() += 1;
        if let Some(request) = request {
            *self.requests.entry(request).or_default() += 1;
        }
    }

    /// The frame that has a name alone.
    fn named(&mut self, function: String) -> usize {
        self.frame(&Place {
            function,
            ..Place::default()
        })
    }

    fn frame(&mut self, frame: &Place) -> usize {
        if let Some(index) = self.known.get(frame) {
            return *index;
        }
        let index = self.frames.len();
        self.frames.push(frame.clone());
        self.known.insert(frame.clone(), index);
        index
    }

    /// What was met, for a run's record. `phase` is the phase of the diagnosis, `arm` the configuration.
    #[must_use]
    pub fn into_record(self, phase: &str, arm: &str) -> StackProfile {
        let mut stacks = self.stacks();
        stacks.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let moments = self.met_at_once(&stacks);
        let stacks = stacks
            .into_iter()
            .map(|(stack, count)| self.met(stack, count))
            .collect();
        StackProfile {
            phase: phase.to_owned(),
            arm: arm.to_owned(),
            php: self.php,
            rate_hz: self.rate_hz,
            ok: self.counts.ok,
            salvaged: self.counts.salvaged,
            error: self.counts.error,
            idle: self.counts.idle,
            places: self.frames,
            stacks,
            moments,
            notes: self.notes,
            slow: None,
        }
    }

    /// The moments, by where the stacks met stand among these.
    fn met_at_once(&self, stacks: &[(&[usize], u64)]) -> Vec<MetAtOnce> {
        let stand: HashMap<&[usize], u32> = stacks
            .iter()
            .zip(0..)
            .map(|((stack, _), at)| (*stack, at))
            .collect();
        let moment = |(at_s, met): &(f64, Vec<Vec<usize>>)| MetAtOnce {
            at_s: *at_s,
            stacks: met
                .iter()
                .filter_map(|stack| stand.get(stack.as_slice()).copied())
                .collect(),
        };
        self.moments.iter().map(moment).collect()
    }

    fn met(&self, stack: &[usize], count: u64) -> MetStack {
        let (route, stack) = match stack.split_first() {
            Some((first, rest)) if self.routes.contains(first) => (Some(*first), rest),
            _ => (None, stack),
        };
        let route = route.and_then(|at| self.frames.get(at));
        let places = stack.iter().filter_map(|at| u32::try_from(*at).ok());
        MetStack {
            route: route.map_or_else(String::new, |place| place.function.clone()),
            places: places.collect(),
            count,
        }
    }

    /// The stacks of requests with these names, one by one: their places are those of [`PhpProfile::into_record`]. Empty
    /// unless names were kept.
    pub fn stacks_of<'i>(&self, ids: impl IntoIterator<Item = &'i str>) -> Vec<MetStack> {
        let stacks = ids.into_iter().filter_map(|id| self.of_ids.get(id));
        stacks.flatten().map(|stack| self.met(stack, 1)).collect()
    }

    /// Every frame that was seen; [`PhpProfile::stacks`] refers to them by their place.
    #[must_use]
    pub fn frames(&self) -> &[Place] {
        &self.frames
    }

    /// The stacks, outermost frame first, with how often each was seen. In the order of their frames, so that the
    /// same samples give the same file.
    #[must_use]
    pub fn stacks(&self) -> Vec<(&[usize], u64)> {
        let mut stacks: Vec<_> = self
            .stacks
            .iter()
            .map(|(stack, count)| (stack.as_slice(), *count))
            .collect();
        stacks.sort_by_cached_key(|(stack, _)| {
            let frames = stack.iter().filter_map(|at| self.frames.get(*at));
            frames.cloned().collect::<Vec<_>>()
        });
        stacks
    }

    /// Requests by method and path with the samples that were taken of them, most first.
    #[must_use]
    pub fn requests(&self) -> Vec<(&str, u64)> {
        let mut requests: Vec<_> = self
            .requests
            .iter()
            .map(|(name, count)| (name.as_str(), *count))
            .collect();
        requests.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
        requests
    }

    /// What each function cost, those that were innermost most often first.
    #[must_use]
    pub fn costs(&self) -> Vec<Cost> {
        /// Samples in the function itself, samples under it, and those of each line.
        type Counted = (u64, u64, HashMap<u32, u64>);
        let mut costs: HashMap<(&str, Option<&str>), Counted> = HashMap::new();
        for (stack, count) in &self.stacks {
            let mut met = HashSet::new();
            for (depth, frame) in stack
                .iter()
                .rev()
                .filter_map(|at| self.frames.get(*at))
                .enumerate()
            {
                let key = (frame.function.as_str(), frame.file.as_deref());
                let cost = costs.entry(key).or_default();
                if depth == 0 {
                    cost.0 += count;
                }
                if met.insert(key) {
                    cost.1 += count;
                    if let Some(line) = frame.line {
                        *cost.2.entry(line).or_default() += count;
                    }
                }
            }
        }
        let mut costs: Vec<Cost> = costs
            .into_iter()
            .map(|((function, file), (own, total, lines))| Cost {
                function: function.to_owned(),
                file: file.map(str::to_owned),
                line: lines
                    .into_iter()
                    .max_by_key(|(line, count)| (*count, u32::MAX - line))
                    .map(|(line, _)| line),
                own,
                total,
            })
            .collect();
        costs.sort_by(|a, b| {
            (b.own, b.total)
                .cmp(&(a.own, a.total))
                .then_with(|| a.function.cmp(&b.function))
        });
        costs
    }

    /// The stacks as flame graph tools read them: `outer;inner COUNT`, a line each, without lines of code.
    #[must_use]
    pub fn folded(&self) -> Vec<String> {
        let mut folded: BTreeMap<String, u64> = BTreeMap::new();
        for (stack, count) in &self.stacks {
            let names = stack.iter().filter_map(|at| self.frames.get(*at));
            // The format has no way to write these two.
            let names = names.map(|frame| frame.function.replace(';', ":").replace('\n', " "));
            *folded
                .entry(names.collect::<Vec<_>>().join(";"))
                .or_default() += count;
        }
        folded
            .into_iter()
            .map(|(stack, count)| format!("{stack} {count}"))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{State, WorkerRequest};

    fn sample(outcome: SampleOutcome, stack: &[(&str, u32)]) -> Sample {
        Sample {
            outcome,
            stack: stack
                .iter()
                .map(|(function, line)| Place {
                    function: (*function).to_owned(),
                    file: Some("a.php".to_owned()),
                    line: Some(*line),
                })
                .collect(),
            request: WorkerRequest {
                method: Some("GET".to_owned()),
                path: Some("/orders".to_owned()),
                id: None,
            },
            state: (State::Running, State::Running),
        }
    }

    fn profile(by_request: bool) -> PhpProfile {
        let mut profile = PhpProfile::default();
        let recursion = [("main a.php", 9), ("f", 2), ("f", 2), ("g;", 5)];
        profile.add(&sample(SampleOutcome::Ok, &recursion), None, by_request);
        profile.add(
            &sample(SampleOutcome::Salvaged, &recursion[..3]),
            None,
            by_request,
        );
        profile.add(
            &sample(SampleOutcome::Ok, &[("main a.php", 9), ("f", 3)]),
            None,
            by_request,
        );
        profile.add(&sample(SampleOutcome::Ok, &[]), None, by_request);
        profile.add(&sample(SampleOutcome::Error("torn"), &[]), None, by_request);
        profile.add(&sample(SampleOutcome::Idle, &[]), None, by_request);
        profile.add(&sample(SampleOutcome::Gone, &[]), None, by_request);
        profile
    }

    #[test]
    fn samples_are_counted_by_how_they_went() {
        let profile = profile(false);
        let expected = Counts {
            ok: 3,
            salvaged: 1,
            error: 1,
            idle: 1,
        };
        assert_eq!(profile.counts, expected);
        assert_eq!(profile.counts.busy(), 5);
        assert_eq!(profile.errors.get("torn"), Some(&1));
        assert_eq!(profile.requests(), [("GET /orders", 4)]);
    }

    #[test]
    fn a_worker_without_code_that_waits_is_not_at_work() {
        let mut profile = PhpProfile::default();
        profile.add(&sample(SampleOutcome::Ok, &[]), None, false);
        profile.add(&sample(SampleOutcome::Ok, &[]), Some("send web"), false);
        let folded = profile.into_record("knee", "base").folded();
        assert_eq!(folded, ["(engine) 1", "(engine);[send web] 1"]);
    }

    #[test]
    fn a_function_counts_once_a_stack_however_deep_it_recurses() {
        let costs = profile(false).costs();
        let f = costs.iter().find(|cost| cost.function == "f").expect("f");
        assert_eq!((f.own, f.total, f.line), (2, 3, Some(2)));
        let main = costs
            .iter()
            .find(|cost| cost.function == "main a.php")
            .expect("main");
        assert_eq!((main.own, main.total), (0, 3));
        assert_eq!(costs[0].function, "f");
    }

    #[test]
    fn a_record_tells_routes_from_functions() {
        let record = profile(true).into_record("over", "base");
        assert_eq!(record.samples(), 4);
        assert!(
            record
                .stacks
                .iter()
                .all(|stack| stack.route == "GET /orders")
        );
        assert_eq!(record.folded(), profile(true).folded());
        let record = profile(false).into_record("over", "base");
        assert!(record.stacks.iter().all(|stack| stack.route.is_empty()));
        assert_eq!(
            (record.ok, record.salvaged, record.error, record.idle),
            (3, 1, 1, 1)
        );
    }

    #[test]
    fn a_record_tells_who_was_met_together() {
        let mut profile = PhpProfile::default();
        for (at_s, lines) in [(0.5, &[7, 7, 3][..]), (1.0, &[]), (1.5, &[7])] {
            profile.begin_moment(at_s);
            for line in lines {
                let stack = [("main a.php", *line)];
                profile.add(&sample(SampleOutcome::Ok, &stack), None, false);
            }
            profile.add(&sample(SampleOutcome::Idle, &[]), None, false);
        }
        let record = profile.into_record("knee", "base");
        let shown: Vec<_> = record
            .moments
            .iter()
            .map(|moment| (moment.at_s, moment.stacks.as_slice()))
            .collect();
        assert_eq!(
            shown,
            [(0.5, &[0, 0, 1][..]), (1.0, &[][..]), (1.5, &[0][..])]
        );
    }

    #[test]
    fn the_stacks_of_a_request_are_found_by_its_name() {
        let mut profile = PhpProfile::default().by_id(true);
        for (id, line) in [("a", 1), ("b", 2), ("a", 3)] {
            let mut sample = sample(SampleOutcome::Ok, &[("main a.php", line)]);
            sample.request.id = Some(id.to_owned());
            profile.add(&sample, None, true);
        }
        let lines = |ids: &[&str]| -> Vec<Option<u32>> {
            let stacks = profile.stacks_of(ids.iter().copied());
            let record = profile.clone().into_record("knee", "base");
            let places = stacks
                .iter()
                .flat_map(|stack| record.places_of(stack).cloned().collect::<Vec<_>>());
            places.map(|place| place.line).collect()
        };
        assert_eq!(lines(&["a"]), [Some(1), Some(3)]);
        assert_eq!(lines(&["b", "c"]), [Some(2)]);
    }

    #[test]
    fn folded_stacks_have_their_request_when_it_is_wanted() {
        let plain = [
            "(engine) 1",
            "main a.php;f 1",
            "main a.php;f;f 1",
            "main a.php;f;f;g: 1",
        ];
        assert_eq!(profile(false).folded(), plain);
        let tagged: Vec<String> = plain
            .iter()
            .map(|line| format!("GET /orders;{line}"))
            .collect();
        assert_eq!(profile(true).folded(), tagged);
    }
}
