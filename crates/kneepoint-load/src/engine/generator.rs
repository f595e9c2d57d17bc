//! Whoever sends a load: this process, or somebody who has others send it.

use super::run::{Engine, allow_files};
use crate::plan::{LoadError, LoadPlan, Progress};
use kneepoint_model::LoadPoint;
use std::sync::atomic::AtomicBool;
use std::thread;

/// Sends loads. Whoever asks for one does not know whether this process sends it ([`Engine`]) or several generators do.
pub trait Generator: Send + Sync {
    /// Sends a plan to its end, as [`Engine::run`] does.
    ///
    /// # Errors
    /// As of [`Engine::run`], or those who are to send it cannot.
    fn run(
        &self,
        plan: &LoadPlan,
        progress: &(dyn Fn(&Progress) + Sync),
        stop: &AtomicBool,
    ) -> Result<LoadPoint, LoadError>;

    /// Sends two plans in the same seconds. `progress` hears of the first.
    ///
    /// # Errors
    /// As [`Self::run`].
    fn run_both(
        &self,
        plans: &[LoadPlan; 2],
        progress: &(dyn Fn(&Progress) + Sync),
        stop: &AtomicBool,
    ) -> Result<[LoadPoint; 2], LoadError>;

    /// Requests a second that it reached against null servers on one thread of each; `None` where that was not measured.
    fn ceiling_hz(&self) -> Option<f64>;
}

impl Generator for Engine {
    fn run(
        &self,
        plan: &LoadPlan,
        progress: &(dyn Fn(&Progress) + Sync),
        stop: &AtomicBool,
    ) -> Result<LoadPoint, LoadError> {
        Self::run(plan, progress, stop)
    }

    fn run_both(
        &self,
        plans: &[LoadPlan; 2],
        progress: &(dyn Fn(&Progress) + Sync),
        stop: &AtomicBool,
    ) -> Result<[LoadPoint; 2], LoadError> {
        plans.iter().try_for_each(LoadPlan::check)?;
        allow_files(plans)?;
        let [one, other] = plans;
        thread::scope(|scope| {
            let other = scope.spawn(|| Self::run(other, &|_| {}, stop));
            let one = Self::run(one, progress, stop);
            let other = other
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            Ok([one?, other?])
        })
    }

    fn ceiling_hz(&self) -> Option<f64> {
        None
    }
}
