//! What is made ready before a load.

use crate::connection::{Endpoint, Secure};
use crate::plan::{LoadError, LoadPlan, Target};
use crate::request::RequestTemplate;
use kneepoint_model::VariableNames;

/// What all threads read and none changes.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) target: Target,
    pub(crate) endpoint: Endpoint,
    /// What encrypted connections need; `None` when they are plain.
    pub(crate) secure: Option<Secure>,
    pub(crate) templates: Vec<RequestTemplate>,
}

impl Prepared {
    /// Prepares a plan that has been checked.
    pub(crate) fn new(plan: &LoadPlan) -> Result<Self, LoadError> {
        let target = &plan.target;
        let secure = target.tls().map(|tls| Secure::new(tls, target.version()));
        let names = VariableNames::new(&plan.workload);
        let feeders = &plan.workload.feeders;
        Ok(Self {
            target: target.clone(),
            endpoint: Endpoint::new(target.address())?,
            secure: secure.transpose()?,
            templates: plan
                .workload
                .requests
                .iter()
                .map(|request| RequestTemplate::new(&plan.target, request, &names, feeders))
                .collect(),
        })
    }
}
