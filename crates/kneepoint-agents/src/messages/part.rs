//! An agent's part of a plan, with what a stored plan leaves out.

use kneepoint_load::{LoadPlan, Mode, Share, Target};
use kneepoint_model::body::{Body, FileContent, PartContent};
use kneepoint_model::{FirstArrival, Slo, Workload};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// An agent's part of a plan. What is the agent's own (its network, its addresses, its ceiling) is not in it, nor is what
/// the coordinator judges from the whole.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Part {
    target: Target,
    workload: Workload,
    /// Of each feeder, its rows: a workload that is written down is without.
    rows: Vec<Vec<Vec<String>>>,
    /// Of each file that a request sends, its bytes, likewise.
    files: Vec<Body>,
    mode: Mode,
    exact_starts: bool,
    first: FirstArrival,
    slo: Slo,
    threads: usize,
    max_connections: usize,
    skip: Duration,
    slowest: usize,
    seed: u64,
    share: Share,
}

impl Part {
    /// This share of a plan, with so many threads and connections of its own.
    pub(crate) fn of(plan: &LoadPlan, share: Share, threads: usize, connections: usize) -> Self {
        let LoadPlan {
            target,
            mut workload,
            mode,
            exact_starts,
            first,
            slo,
            threads: _,
            max_connections: _,
            skip,
            netns: _,
            abort: _,
            stop_when: _,
            source_addresses: _,
            slowest,
            seed,
            ceiling_hz: _,
            share: _,
        } = plan.clone();
        let rows = workload.feeders.iter().map(|feeder| feeder.rows.to_vec());
        let rows = rows.collect();
        let files = files(&mut workload).map(|file| Body::Bytes(file.bytes.to_vec()));
        let files = files.collect();
        Self {
            target,
            workload,
            rows,
            files,
            mode,
            exact_starts,
            first,
            slo,
            threads,
            max_connections: connections,
            skip,
            slowest,
            seed,
            share,
        }
    }

    /// The plan that an agent with this ceiling (of one thread) drives.
    ///
    /// # Errors
    /// It cannot be driven by anybody; a sentence with what to do.
    pub(crate) fn plan(mut self, ceiling_hz: f64) -> Result<LoadPlan, String> {
        if self.rows.len() != self.workload.feeders.len() {
            return Err("the plan has feeders without rows; use the same release of kneepoint on all machines".into());
        }
        for (feeder, rows) in self.workload.feeders.iter_mut().zip(self.rows) {
            feeder.rows = rows.into();
        }
        let mut contents = self.files.into_iter();
        for file in files(&mut self.workload) {
            let Some(Body::Bytes(bytes)) = contents.next() else {
                return Err("the plan sends files and has not their content; use the same release of kneepoint on all machines".into());
            };
            file.bytes = bytes.into();
        }
        let threads = self.threads;
        let plan = LoadPlan {
            exact_starts: self.exact_starts,
            first: self.first,
            slo: self.slo,
            threads,
            max_connections: self.max_connections,
            skip: self.skip,
            slowest: self.slowest,
            seed: self.seed,
            ceiling_hz: (ceiling_hz > 0.0).then_some(ceiling_hz * threads as f64),
            share: Some(self.share),
            ..LoadPlan::new(self.target, self.workload, self.mode)
        };
        plan.check().map_err(|error| error.to_string())?;
        Ok(plan)
    }
}

/// The files that requests send, in the order of the requests and of their parts.
fn files(workload: &mut Workload) -> impl Iterator<Item = &mut FileContent> {
    let bodies = workload
        .requests
        .iter_mut()
        .filter_map(|it| it.body.as_mut());
    bodies.flat_map(|body| match body {
        Body::File(file) => vec![file],
        Body::Multipart(parts) => {
            let contents = parts.iter_mut().map(|part| &mut part.content);
            let files = contents.filter_map(|content| match content {
                PartContent::File(file) => Some(file),
                PartContent::Value(_) => None,
            });
            files.collect()
        }
        _ => Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::{LARGEST, Message, read, written};
    use kneepoint_model::{Arrivals, Feeder, RowOrder};

    fn plan() -> LoadPlan {
        let mode = Mode::Open {
            schedule: "const(10,5)".parse().expect("a schedule"),
            arrivals: Arrivals::Even,
        };
        let target = Target::http("127.0.0.1:80".parse().expect("an address"), "a");
        LoadPlan::new(target, Workload::single("/"), mode)
    }

    fn message(plan: &LoadPlan) -> Message {
        let share = Share::new(vec![0, 2], 4).expect("a share");
        Message::Prepare {
            run: "r".into(),
            part: Box::new(Part::of(plan, share, 1, 10)),
        }
    }

    /// The plan as an agent has it.
    fn carried(plan: &LoadPlan) -> LoadPlan {
        let bytes = written(&message(plan)).expect("is written");
        let Ok(Message::Prepare { part, .. }) = read(&bytes) else {
            panic!("it is no plan");
        };
        part.plan(100.0).expect("can be driven")
    }

    fn feeder(rows: usize) -> Feeder {
        Feeder {
            name: "users".into(),
            columns: vec!["name".into()],
            order: RowOrder::InTurn,
            rows: (0..rows).map(|row| vec![format!("user {row}")]).collect(),
        }
    }

    #[test]
    fn rows_and_files_go_with_the_plan() {
        let mut plan = plan();
        plan.workload.feeders = vec![feeder(3)];
        plan.workload.requests[0].path = "/{{users.name}}".into();
        plan.workload.requests[0].body = Some(Body::File(FileContent {
            path: "/no/such/file".into(),
            bytes: [0, 255, 7].into(),
        }));
        let carried = carried(&plan);
        assert_eq!(carried.workload, plan.workload);
    }

    #[test]
    fn more_rows_than_a_message_takes_are_refused_in_words() {
        let mut plan = plan();
        plan.workload.feeders = vec![feeder(LARGEST / 10)];
        let said = written(&message(&plan)).expect_err("too long").told();
        assert!(said.contains("fewer rows in feeders"), "{said}");
    }

    #[test]
    fn a_plan_with_impossible_numbers_is_refused_before_anything_is_made_of_it() {
        type Wrong = (fn(&mut LoadPlan), &'static str);
        let wrong: [Wrong; 10] = [
            (|it| it.workload.users = 1_000_000_000, "users"),
            (|it| it.slo.quantile = 99.0, "quantile"),
            (|it| it.slo.quantile = -1.0, "quantile"),
            (|it| it.slo.errors = -1.0, "errors"),
            (|it| it.skip = Duration::from_secs(u64::MAX), "left out"),
            (|it| it.slowest = 1_000_000_000, "slowest"),
            (|it| it.slo.timeout = Duration::MAX, "timeout"),
            (
                |it| {
                    it.mode = Mode::Closed(kneepoint_model::ClosedLoop::new(
                        u32::MAX,
                        Duration::from_secs(1),
                    ))
                },
                "workers",
            ),
            (
                |it| {
                    if let Mode::Open { schedule, .. } = &mut it.mode {
                        schedule.segments[0].to_hz = 1e300;
                    }
                },
                "a rate",
            ),
            (
                |it| {
                    if let Mode::Open { schedule, .. } = &mut it.mode {
                        schedule.segments.clear();
                    }
                },
                "no piece",
            ),
        ];
        for (make, word) in wrong {
            let mut plan = plan();
            make(&mut plan);
            let share = Share::new(vec![0], 4).expect("a share");
            let said = Part::of(&plan, share, 1, 10).plan(100.0).expect_err(word);
            assert!(said.contains(word), "{word}: {said}");
        }
    }
}
