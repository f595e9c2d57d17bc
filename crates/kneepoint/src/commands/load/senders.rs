//! Who sends a load, and where it is kept while it goes on.

use super::plan::Hop;
use super::watch::{Watch, line};
use crate::args::LoadArgs;
use crate::session::fleet;
use anyhow::{Result, bail};
use kneepoint_agents::FleetGenerator;
use kneepoint_experiment::Recorder;
use kneepoint_load::{Engine, Generator, Progress};
use kneepoint_model::LoadPoint;
use kneepoint_model::redact::{Redact as _, Secrets};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Whoever sends. What agents measure is kept second by second, as it is of runs in the lab.
pub(super) struct Senders {
    generator: Box<dyn Generator>,
    recorder: Option<Recorder<'static>>,
}

impl Senders {
    /// The agents that were asked for, or this process.
    pub(super) fn of(args: &LoadArgs, stop: &Arc<AtomicBool>) -> Result<Self> {
        let Some(fleet) = fleet::gather(&args.fleet)? else {
            return Ok(Self {
                generator: Box::new(Engine),
                recorder: None,
            });
        };
        if !args.source.is_empty() {
            bail!(
                "--source names addresses of this machine, and agents send from theirs; leave it out"
            );
        }
        let recorder = Recorder::of_load(&args.runs, &(), Arc::clone(stop))?;
        if !args.quiet {
            fleet::told(&fleet).iter().for_each(|told| line(told));
            if let Some(path) = recorder.path() {
                line(&format!("run file: {}", path.display()));
            }
        }
        Ok(Self {
            generator: Box::new(FleetGenerator::new(fleet, line)),
            recorder: Some(recorder),
        })
    }

    /// Sends a plan.
    pub(super) fn run(
        &mut self,
        hop: &Hop,
        watch: &Watch<'_>,
        stop: &AtomicBool,
    ) -> Result<LoadPoint> {
        let flight = self.recorder.as_ref().and_then(Recorder::flight);
        let tell = |progress: &Progress| {
            watch.tell(progress);
            if let Some(flight) = &flight {
                flight.keep(&hop.name, progress);
            }
        };
        let sent = self.generator.run(&hop.plan, &tell, stop);
        drop(flight);
        let mut point = match sent {
            Ok(point) => point,
            Err(error) => {
                self.give_up(&error.to_string());
                return Err(error.into());
            }
        };
        // A page may say again what it was sent: a token that it does not know.
        point.redact(&Secrets::of_requests(&hop.plan.workload.requests));
        if let Some(recorder) = &mut self.recorder {
            recorder.trial("load", &hop.name, point.clone());
        }
        Ok(point)
    }

    /// Closes the run file, if there is one, of a load that cannot be sent: it was not killed.
    pub(super) fn give_up(&mut self, because: &str) {
        if let Some(recorder) = self.recorder.take() {
            let _ = recorder.end(&format!("not sent: {because}"));
        }
    }

    /// Closes the run file, if there is one.
    ///
    /// # Errors
    /// It is incomplete.
    pub(super) fn end(self, how: &str) -> Result<()> {
        let Some(recorder) = self.recorder else {
            return Ok(());
        };
        match recorder.end(how) {
            (_, Some(error)) => bail!("the run file is incomplete: {error}"),
            (_, None) => Ok(()),
        }
    }
}
