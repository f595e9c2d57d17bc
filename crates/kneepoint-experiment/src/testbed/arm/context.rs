//! Everything the configuration of a tier depends on.

use super::{Standing, changes};
use crate::error::ExperimentError;
use crate::testbed::{Testbed, app, chain, offers};
use kneepoint_lab::HostInfo;
use kneepoint_model::{Layer, PeerKind, Scenario, TierSpec};
use kneepoint_stack::{AppContext, ConfigText, Program, TierContext, server, unpack_seed};
use std::collections::BTreeMap;
use std::path::Path;

/// What a tier is configured by; the user's own configuration with all that it includes.
///
/// # Errors
/// A file of the user's cannot be read, or there is no free port.
pub(super) fn context(
    testbed: &Testbed,
    scenario: &Scenario,
    spec: &TierSpec,
    host: &HostInfo,
    program: Program,
    nonce: &str,
    standing: &Standing,
) -> Result<TierContext, ExperimentError> {
    let own_network = host.netns.is_some();
    let has_web = scenario.tiers.iter().any(|tier| tier.layer == Layer::Web);
    let reachable = standing
        .addresses
        .iter()
        .filter(|(layer, _)| chain::connects_to(spec.layer, *layer, has_web));
    let mut context = TierContext {
        layer: spec.layer,
        port: if own_network {
            None
        } else {
            Some(testbed.lab.free_port(&host.name)?)
        },
        address: host.address,
        upstream: chain::upstream(spec.layer, &standing.addresses),
        peers: reachable.cloned().collect(),
        app: app_context(spec.layer, scenario, host, standing)?,
        config: read(spec.config.as_deref(), scenario, standing)?,
        ini: read(spec.ini.as_deref(), scenario, standing)?,
        seed: spec
            .seed
            .as_deref()
            .map(|seed| unpack_seed(seed, &host.dir, spec.server.as_str(), &program))
            .transpose()?,
        program,
        statements: changes::statements(scenario, spec.layer),
        template: if spec.layer == Layer::Db {
            testbed.db_templates.get(spec.server.as_str()).cloned()
        } else {
            None
        },
        settings: spec.settings.clone(),
        cpus: host.cpus,
        memory_bytes: host.memory_bytes,
        unix_socket: spec.unix_socket,
        own_network,
        as_root: rustix::process::geteuid().is_root(),
        nonce: nonce.to_owned(),
        dir: host.dir.clone(),
    };
    if let Some(config) = context.config.take() {
        let server = server(spec.server.as_str())?;
        let (own, copy) = (&scenario.root, standing.root(scenario));
        let gathered = app::gathered(server, config, &context.program, own, copy)?;
        context.config = Some(gathered);
    }
    Ok(context)
}

fn app_context(
    layer: Layer,
    scenario: &Scenario,
    host: &HostInfo,
    standing: &Standing,
) -> Result<AppContext, ExperimentError> {
    let mut context = AppContext {
        root: standing.root(scenario).to_owned(),
        front: scenario.front.clone(),
        env: BTreeMap::new(),
        takes_mail: scenario
            .peers
            .iter()
            .any(|peer| peer.kind == PeerKind::Smtp),
    };
    if layer == Layer::Php {
        context.env = standing.env.clone();
        let own = app::environment(scenario, &host.dir, &context.root)?;
        let offers = offers::with_root(&standing.env, &context.root);
        context.env.extend(offers::filled(own, &offers));
    }
    Ok(context)
}

/// A configuration file of the user. Where it names the application's directory, it means the copy.
fn read(
    path: Option<&Path>,
    scenario: &Scenario,
    standing: &Standing,
) -> Result<Option<ConfigText>, ExperimentError> {
    path.map(|path| {
        let text = std::fs::read_to_string(path).map_err(|error| {
            ExperimentError::Unfit(format!("cannot read {}: {error}", path.display()))
        })?;
        Ok(ConfigText {
            path: path.to_owned(),
            text: app::follow(&text, &scenario.root, standing.root(scenario)),
        })
    })
    .transpose()
}
