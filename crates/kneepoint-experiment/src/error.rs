//! What can go wrong in an experiment, in words a person can act on.

/// An experiment failed. What was measured before is in the run file.
#[derive(Debug, thiserror::Error)]
pub enum ExperimentError {
    /// The lab could not be made or a process in it failed.
    #[error(transparent)]
    Lab(#[from] kneepoint_lab::LabError),
    /// A tier could not be configured.
    #[error(transparent)]
    Stack(#[from] kneepoint_stack::StackError),
    /// The load could not be driven.
    #[error(transparent)]
    Load(#[from] kneepoint_load::LoadError),
    /// The run file could not be written or read.
    #[error("run file {path}: {what}")]
    Store {
        /// The file.
        path: String,
        /// What happened and what to do.
        what: String,
    },
    /// The testbed has no such arm.
    #[error("there is no arm `{0}` in the testbed")]
    NoArm(String),
    /// The scenario cannot have these settings.
    #[error("{0}")]
    Settings(String),
    /// The stored run has no R*.
    #[error(
        "run {0} has no R* to compare with; take one of `kneepoint limit` that finished and found a rate that meets the SLO"
    )]
    NoBaseline(String),
    /// What was measured says too little to go on from it.
    #[error("{0}")]
    Unsound(String),
    /// The stack or the application cannot be measured, or does not answer as the scenario says.
    #[error("{0}")]
    Unfit(String),
    /// A server of the stack died of the load.
    #[error("{words}")]
    Died {
        /// The arm it belonged to; `None` where it was none of an arm.
        arm: Option<String>,
        /// What died and how.
        words: String,
    },
    /// Somebody asked to stop.
    #[error("interrupted")]
    Interrupted,
}

impl ExperimentError {
    /// Whether this arm died, and not another one beside it.
    #[must_use]
    pub fn is_death_of(&self, name: &str) -> bool {
        matches!(self, Self::Died { arm: Some(arm), .. } if arm == name)
    }
}

/// A simulated stack never fails.
impl From<std::convert::Infallible> for ExperimentError {
    fn from(never: std::convert::Infallible) -> Self {
        match never {}
    }
}
