//! What every rule's file needs.

pub(crate) use super::{AppliesTo, Rule, RuleDoc, RuleStage, UseSignal};
pub(crate) use crate::advice::Advice;
pub(crate) use crate::evidence::{Evidence, Phase, PhaseKind};
pub(crate) use kneepoint_model::units::{format_ms, format_rate, format_share};
pub(crate) use kneepoint_model::{CallKind, Finding, Layer, LogKind, Outcome, metric};
#[cfg(test)]
pub(crate) use {
    crate::test_support::{Case, check as verify, stays_silent},
    expect_test::expect,
};
