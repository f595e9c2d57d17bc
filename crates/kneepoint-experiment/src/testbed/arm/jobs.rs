//! What runs beside the requests, on the host of PHP: cron jobs, queue workers, a backup.

use super::{host_name, must_succeed};
use crate::error::ExperimentError;
use crate::testbed::{Testbed, app};
use kneepoint_linux::process::{all, has_in_environment, name_of, number_inside};
use kneepoint_model::units::format_span;
use kneepoint_model::{CommandSpec, JobSpec, Layer, ProcessSpec, Ready, Scenario, Signal};
use kneepoint_stack::{PHP_USER, TierContext};
use std::path::PathBuf;
use std::time::Duration;

/// A shell that runs a command from time to time: so many seconds from one start to the next, or at once where it took longer.
const EVERY: &str =
    r#"sleep "$1"; while :; do sleep "$1" & pause=$!; sh -c "$2"; wait "$pause"; done"#;
/// A shell that runs a command again and again, with a pause in between.
const AGAIN: &str = r#"while :; do sh -c "$2"; sleep "$1"; done"#;
/// That pause in seconds: a command that fails at once is not to take a core.
const PAUSE_S: f64 = 1.0;

/// What processes of jobs have in their environment, with the arm's nonce.
const MARK: &str = "KNEEPOINT_JOB";

/// A job of an arm.
pub(super) struct Job {
    spec: JobSpec,
    /// One run of it.
    command: CommandSpec,
    /// Where its words go.
    dir: PathBuf,
}

/// The jobs that run beside a PHP.
pub(super) fn of(scenario: &Scenario, php: &TierContext) -> Vec<Job> {
    let user = php.as_root.then_some(PHP_USER);
    let job = |spec: &JobSpec| {
        let mut command = app::command(&spec.run, php, user);
        command.env.push((MARK.to_owned(), php.nonce.clone()));
        Job {
            spec: spec.clone(),
            command,
            dir: php.dir.clone(),
        }
    };
    scenario.jobs.iter().map(job).collect()
}

impl Job {
    /// What runs it all the time.
    fn process(&self, nth: usize) -> ProcessSpec {
        let (script, pause_s) = match self.spec.every {
            Some(every) => (EVERY, every.as_secs_f64()),
            None => (AGAIN, PAUSE_S),
        };
        let command = &self.command;
        let args = ["-c", script, "job", &pause_s.to_string(), &self.spec.run];
        ProcessSpec {
            name: format!("job {}", self.spec.name),
            program: command.program.clone(),
            args: args.map(str::to_owned).to_vec(),
            env: command.env.clone(),
            dir: command.dir.clone().unwrap_or_else(|| "/".into()),
            user: command.user.clone(),
            output: self.dir.join(format!("job-{nth}.log")),
            ready: Ready::Immediately,
            ready_timeout: Duration::from_secs(1),
            reload: None,
            stop: Signal::Term,
            stop_timeout: Duration::from_secs(1),
        }
    }

    /// What people are told of it; not the command, in which a password may stand.
    fn describe(&self) -> String {
        let JobSpec { name, every, .. } = &self.spec;
        match every {
            Some(every) => format!(
                "beside the requests runs {name}, every {}",
                format_span(*every)
            ),
            None => format!("beside the requests runs {name}, again and again"),
        }
    }
}

impl Testbed {
    /// Starts the jobs of an arm, which rest until it is loaded. One that comes from time to time is tried before, once in a run:
    /// one that fails would do nothing beside the requests, and nobody would know.
    ///
    /// # Errors
    /// A job fails, or the lab does not start it.
    pub(in crate::testbed) fn start_jobs(&mut self, name: &str) -> Result<(), ExperimentError> {
        let host = host_name(name, Layer::Php);
        let Some(arm) = self.arms.get_mut(name) else {
            return Ok(());
        };
        for job in &arm.jobs {
            if job.spec.every.is_none() || self.tried_jobs.contains(&job.spec) {
                continue;
            }
            must_succeed(&self.lab, &host, &job.command).map_err(|error| {
                ExperimentError::Unfit(format!("[[job]] {}: {error}", job.spec.name))
            })?;
            self.tried_jobs.push(job.spec.clone());
            // What it wrote is not what the load begins with.
            arm.reset(&self.lab)?;
        }
        for (nth, job) in arm.jobs.iter().enumerate() {
            let process = self.lab.spawn(&host, &job.process(nth))?;
            let mut tiers = arm.running.iter_mut();
            if let Some(php) = tiers.find(|tier| tier.layer == Layer::Php) {
                php.jobs.push((job.spec.name.clone(), process.pid));
            }
            arm.processes.push(process);
            arm.told.results.push(job.describe());
        }
        self.rest_jobs(name)
    }

    /// Lets the jobs of an arm run, which is loaded now.
    ///
    /// # Errors
    /// There is no such arm, or the lab is gone.
    pub(in crate::testbed) fn resume_jobs(&self, name: &str) -> Result<(), ExperimentError> {
        self.signal(name, "-CONT", &self.shells(name)?)
    }

    /// Lets the jobs of an arm begin nothing more, and ends what they have begun: nobody is to pay for those of an arm that is
    /// not loaded, and a dump of the database would keep it from being put back.
    ///
    /// # Errors
    /// There is no such arm, or the lab is gone.
    pub(in crate::testbed) fn rest_jobs(&self, name: &str) -> Result<(), ExperimentError> {
        let shells = self.shells(name)?;
        if shells.is_empty() {
            return Ok(());
        }
        self.signal(name, "-STOP", &shells)?;
        self.signal(name, "-KILL", &at_work(&shells, &self.arm(name)?.nonce))
    }

    /// The first processes of an arm's jobs.
    fn shells(&self, name: &str) -> Result<Vec<u32>, ExperimentError> {
        let jobs = self.arm(name)?.running.iter().flat_map(|tier| &tier.jobs);
        Ok(jobs.map(|(_, pid)| *pid).collect())
    }

    /// Sends a signal to processes on the host of PHP of an arm.
    ///
    /// # Errors
    /// The lab is gone.
    pub(in crate::testbed) fn signal(
        &self,
        name: &str,
        signal: &str,
        pids: &[u32],
    ) -> Result<(), ExperimentError> {
        // The command runs on their host, which has numbers of its own.
        let ids = pids.iter().copied().filter_map(number_inside);
        let ids: Vec<String> = ids.map(|id| id.to_string()).collect();
        if ids.is_empty() {
            return Ok(());
        }
        let args = std::iter::once(signal.to_owned()).chain(ids);
        let kill = CommandSpec::new("/bin/kill").args(args);
        // One that ended meanwhile makes the command fail, which is no matter.
        self.lab.exec(&host_name(name, Layer::Php), &kill)?;
        Ok(())
    }
}

/// What jobs have begun, but for their pauses: what they put into the background, too, which has lost its parents.
fn at_work(shells: &[u32], nonce: &str) -> Vec<u32> {
    let mark = format!("{MARK}={nonce}");
    let is_work = |pid: &u32| {
        let is_shell = shells.contains(pid);
        !is_shell && has_in_environment(*pid, &mark) && name_of(*pid).as_deref() != Some("sleep")
    };
    all().into_iter().filter(is_work).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(every: Option<Duration>, told: &str, shell: &str) {
        let job = Job {
            spec: JobSpec {
                name: "backup".into(),
                run: "./backup \"$DB_HOST\"".into(),
                every,
            },
            command: CommandSpec::new("/bin/sh"),
            dir: "/lab/php".into(),
        };
        assert_eq!(job.describe(), told);
        let process = job.process(0);
        let [_, script, name, pause_s, run] = process.args.as_slice() else {
            panic!("{:?}", process.args);
        };
        assert_eq!((name.as_str(), run), ("job", &job.spec.run));
        assert!(script.starts_with(shell), "{script}");
        assert_eq!(pause_s, if every.is_some() { "20" } else { "1" });
    }

    #[test]
    fn a_job_comes_from_time_to_time_or_again_and_again() {
        check(
            Some(Duration::from_secs(20)),
            "beside the requests runs backup, every 20s",
            "sleep",
        );
        check(
            None,
            "beside the requests runs backup, again and again",
            "while",
        );
    }
}
