//! Changes that are no setting of a server, made while an arm stands up.

use super::{Standing, host_name, must_succeed};
use crate::error::ExperimentError;
use crate::testbed::{Testbed, app};
use kneepoint_model::{Change, Layer, Scenario};
use kneepoint_stack::{PHP_USER, TierContext};

/// The changes at a layer that are no settings of its server, by name.
pub(super) fn of_layer(
    scenario: &Scenario,
    layer: Layer,
) -> impl Iterator<Item = (String, String)> {
    let changes = scenario.changes.iter();
    changes
        .filter(move |(key, _)| key.layer == layer)
        .map(|(key, value)| (key.name.clone(), value.clone()))
}

/// The statements by which the scenario changes the database.
pub(super) fn statements(scenario: &Scenario, layer: Layer) -> Vec<String> {
    let changes = scenario.changes();
    let statements = changes
        .filter(|(change, _)| layer == Layer::Db && matches!(change, Change::Statement { .. }));
    statements.map(|(_, text)| text.clone()).collect()
}

/// Runs the commands by which the scenario changes the application's copy, with the database and the cache as they are at the
/// beginning. On the machine's own network nobody watches whom such a command tries to reach: there, none that a remedy asks
/// for is run.
pub(super) fn change_app(
    testbed: &Testbed,
    scenario: &Scenario,
    arm: &str,
    context: &TierContext,
    standing: &Standing,
) -> Result<(), ExperimentError> {
    let changes = scenario.changes();
    let is_command = |change: &Change<'_>| matches!(change, Change::Command { .. });
    let commands: Vec<_> = changes.filter(|(change, _)| is_command(change)).collect();
    if commands.is_empty() {
        return Ok(());
    }
    for (rendered, running) in &standing.rendered {
        let host = host_name(arm, running.layer);
        let mut seed = rendered.seed.iter();
        seed.try_for_each(|command| must_succeed(&testbed.lab, &host, command))?;
    }
    let user = context.as_root.then_some(PHP_USER);
    for (change, text) in commands {
        let own = testbed.scenario().changes.get(&change.key());
        let is_asked_for = !testbed.tries_remedies || own == Some(text);
        if !context.own_network && !is_asked_for {
            return Err(ExperimentError::Unfit(format!(
                "`{text}` is run in a network of the lab's own only: leave --host-network out, or name it in [changes]"
            )));
        }
        let command = app::command(text, context, user);
        must_succeed(&testbed.lab, &host_name(arm, context.layer), &command)
            .map_err(|error| ExperimentError::Unfit(format!("`{text}`: {error}")))?;
    }
    let copy = standing.copy.as_ref();
    copy.map_or(Ok(()), |copy| app::still_replaced(copy, &standing.replaced))
}
