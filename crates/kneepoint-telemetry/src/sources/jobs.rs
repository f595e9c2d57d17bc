//! CPU time of the jobs that run beside the requests.

use crate::source::{Failure, Lane, Open, Probe, Sink, Source};
use kneepoint_linux::{Stat, Tree};
use kneepoint_model::RunningTier;
use kneepoint_model::metric::JOB_CPU_S;
use rustix::param::clock_ticks_per_second;
use std::time::Duration;

/// Metadata.
pub(super) static SOURCE: Source = Source {
    name: "jobs",
    about: "CPU time of each job of the scenario, with all that it started and that ended",
    requirements: "/proc with CONFIG_PROC_CHILDREN, and a job in the scenario",
    overhead: "about 10 us a process of a job and second",
    cadence: Duration::from_secs(1),
    metrics: &[JOB_CPU_S],
    lane: Lane::Trend,
    open: Open::Tier(|tier| {
        let jobs = Jobs::of(tier);
        (!jobs.0.is_empty()).then(|| Box::new(jobs) as Box<dyn Probe>)
    }),
};

struct Jobs(Vec<Job>);

struct Job {
    name: String,
    tree: Tree,
    /// What it took so far. It never falls: a process that ends between two reads is missing in one sample.
    cpu_s: f64,
}

impl Jobs {
    fn of(tier: &RunningTier) -> Self {
        let job = |(name, pid): &(String, u32)| Job {
            name: name.clone(),
            tree: Tree::new(*pid),
            cpu_s: 0.0,
        };
        Self(tier.jobs.iter().map(job).collect())
    }
}

impl Probe for Jobs {
    fn sample(&mut self, sink: &mut Sink) -> Result<(), Failure> {
        let per_second = clock_ticks_per_second().max(1) as f64;
        for job in &mut self.0 {
            let name = &job.name;
            let pids = job.tree.refresh();
            let pids = pids.map_err(|why| Failure(format!("the job {name} is gone: {why}")))?;
            let stats = pids.into_iter().filter_map(Stat::of);
            let ticks: u64 = stats.map(|stat| stat.with_children()).sum();
            job.cpu_s = job.cpu_s.max(ticks as f64 / per_second);
            sink.labelled(JOB_CPU_S, name, job.cpu_s);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::tests::tier_without_doors;

    #[test]
    fn a_tier_without_jobs_has_no_such_source() {
        let mut tier = tier_without_doors(std::process::id());
        assert!(Jobs::of(&tier).0.is_empty());
        tier.jobs.push(("backup".to_owned(), std::process::id()));
        let jobs = Jobs::of(&tier);
        assert_eq!((jobs.0.len(), jobs.0[0].name.as_str()), (1, "backup"));
    }
}
