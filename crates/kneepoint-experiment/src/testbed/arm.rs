//! One configuration of the whole stack, standing.

mod changes;
mod context;
pub(super) mod difference;
pub(super) mod doubles;
mod facts;
mod jobs;
mod log_pipe;

pub(crate) use facts::AppFacts;

use super::app::ReplacedLine;
use super::copy::{OwnerIds, Pristine, PrivateCopy};
use super::seen::Told;
use super::{CLIENT, Testbed, app, chain, log};
use crate::error::ExperimentError;
use kneepoint_lab::{HostInfo, HostPlan, Lab, Process};
use kneepoint_load::Target;
use kneepoint_model::{
    Address, Change, CommandSpec, Layer, PeerSpec, RunningTier, Scenario, Stack, Tier, TierSpec,
    Workload,
};
use kneepoint_stack::{ConfigFile, RenderedTier, install, php_user, server};
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// A standing stack.
pub(super) struct Arm {
    pub(super) stack: Stack,
    pub(super) running: Vec<RunningTier>,
    pub(super) target: Target,
    /// Whether it failed to come to rest at zero load.
    pub(super) stuck: AtomicBool,
    /// Whether it was brought to rest, as far as it comes to rest, and nothing was driven since.
    pub(super) drained: AtomicBool,
    processes: Vec<Process>,
    resets: Vec<(String, CommandSpec)>,
    files: Vec<(Layer, ConfigFile)>,
    settings: Vec<(String, String)>,
    /// Lines of the application's files that the scenario replaced.
    replaced: Vec<ReplacedLine>,
    pub(super) nonce: String,
    /// What it is asked.
    pub(super) workload: Workload,
    /// What the rehearsal saw of it.
    pub(super) told: Told,
    /// Where its application lies.
    pub(super) app_root: PathBuf,
    /// What the application's files of settings said before its first request.
    pub(super) app_facts: AppFacts,
    /// What PHP runs; `None` without PHP.
    pub(super) copy: Option<PrivateCopy>,
    /// The application's environment, as PHP has it.
    pub(super) env: BTreeMap<String, String>,
    /// Files of the user's own configuration of tiers.
    pub(super) configs: Vec<PathBuf>,
    /// Whom it may try in vain, and whose doubles it has, with their names and addresses.
    pub(super) unreachable: Vec<String>,
    pub(super) peers: Vec<PeerSpec>,
    pub(super) doubles: Vec<(String, Address)>,
    /// What runs beside the requests, once it was started.
    jobs: Vec<jobs::Job>,
    /// How it came to life.
    pub(super) cold_start: ColdStart,
}

/// How long a stack takes from nothing to its first answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ColdStart {
    /// From the start of the PHP runtime until it takes connections; `None` without PHP.
    pub start: Option<Duration>,
    /// The first request of all.
    pub first_response: Option<Duration>,
}

/// The lab's name for a tier's host.
pub(super) fn host_name(arm: &str, layer: Layer) -> String {
    format!("{}-{layer}", of_hosts(arm))
}

/// How the lab's hosts of an arm are called: `compare` calls arms after applications, and people name those as they like.
fn of_hosts(arm: &str) -> String {
    /// With a tier's name behind it, it is no longer than a host's may be.
    const LONGEST: usize = 20;
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if arm.len() <= LONGEST && arm.chars().all(fits) {
        return arm.to_owned();
    }
    let plain = arm.chars().map(|c| c.to_ascii_lowercase());
    let plain = plain.map(|c| if fits(c) { c } else { '-' });
    let plain: String = plain.take(LONGEST - 9).collect();
    // Arms whose names are alike in this form stay apart.
    let mut hasher = DefaultHasher::new();
    arm.hash(&mut hasher);
    format!("{plain}-{:08x}", hasher.finish() as u32)
}

/// What the tiers stood up so far offer to those before them in the chain.
#[derive(Default)]
struct Standing {
    addresses: Vec<(Layer, Address)>,
    env: BTreeMap<String, String>,
    /// What PHP runs, once it is made.
    copy: Option<PrivateCopy>,
    replaced: Vec<ReplacedLine>,
    app_facts: AppFacts,
    rendered: Vec<(RenderedTier, RunningTier)>,
    processes: Vec<Process>,
    /// Names that lead to doubles, and the doubles.
    names: Vec<(String, IpAddr)>,
    doubles: Vec<(String, Address)>,
    /// The application's environment.
    app_env: BTreeMap<String, String>,
    jobs: Vec<jobs::Job>,
    /// How long the PHP runtime took to start.
    start: Option<Duration>,
}

impl Standing {
    /// Where the application lies: nginx must name a script as PHP sees it.
    fn root<'a>(&'a self, scenario: &'a Scenario) -> &'a Path {
        self.copy.as_ref().map_or(&scenario.root, |copy| &copy.root)
    }
}

/// Stands all tiers up, the last of the chain first.
pub(super) fn stand_up(
    testbed: &mut Testbed,
    name: &str,
    scenario: &Scenario,
) -> Result<Arm, ExperimentError> {
    let mut standing = Standing::default();
    let nonce = format!("kneepoint-{:016x}-{name}", testbed.nonce);
    doubles::stand_up(testbed, name, scenario, &mut standing)?;
    for layer in [
        Layer::Db,
        Layer::Cache,
        Layer::Php,
        Layer::Web,
        Layer::Proxy,
    ] {
        if let Some(spec) = scenario.tiers.iter().find(|tier| tier.layer == layer) {
            stand_up_tier(testbed, name, scenario, spec, &nonce, &mut standing)?;
        }
    }
    standing.rendered.reverse();
    know_own_site(&mut standing);
    let entry = chain::entry(scenario, &standing.addresses)?;
    let host_header = match &entry {
        Address::Tcp(tcp) => tcp.ip().to_string(),
        Address::Unix(_) => "localhost".to_owned(),
    };
    let mut arm = Arm {
        stack: stack_of(scenario, &standing),
        running: Vec::new(),
        target: Target::http(entry, host_header),
        stuck: AtomicBool::new(false),
        drained: AtomicBool::new(false),
        processes: std::mem::take(&mut standing.processes),
        resets: Vec::new(),
        files: Vec::new(),
        settings: settings_of(scenario),
        replaced: std::mem::take(&mut standing.replaced),
        nonce,
        workload: scenario.workload.clone(),
        told: Told::default(),
        app_root: standing.root(scenario).to_owned(),
        app_facts: std::mem::take(&mut standing.app_facts),
        copy: standing.copy.take(),
        env: std::mem::take(&mut standing.app_env),
        configs: configs(scenario),
        unreachable: scenario.unreachable.clone(),
        peers: scenario.peers.clone(),
        doubles: std::mem::take(&mut standing.doubles),
        jobs: std::mem::take(&mut standing.jobs),
        cold_start: ColdStart {
            start: standing.start,
            first_response: None,
        },
    };
    for (rendered, running) in standing.rendered {
        let layer = running.layer;
        arm.resets.extend(
            rendered
                .seed
                .into_iter()
                .map(|command| (host_name(name, layer), command)),
        );
        arm.files
            .extend(rendered.files.into_iter().map(|file| (layer, file)));
        arm.running.push(running);
    }
    arm.reset(&testbed.lab)?;
    Ok(arm)
}

fn stack_of(scenario: &Scenario, standing: &Standing) -> Stack {
    let values = scenario.app_settings.iter().filter_map(|setting| {
        let value = scenario
            .env
            .get(&setting.env)
            .or_else(|| setting.values.first())?;
        Some((setting.name.clone(), value.clone()))
    });
    Stack {
        tiers: standing
            .rendered
            .iter()
            .map(|(rendered, _)| with_changes(rendered.tier.clone(), scenario))
            .collect(),
        app_settings: scenario
            .app_settings
            .iter()
            .map(kneepoint_model::AppSetting::tunable)
            .collect(),
        app_values: values
            .chain(changes::of_layer(scenario, Layer::App))
            .collect(),
    }
}

/// A tier with the kernel settings and the network of its host and with the changes of its data, which rules read beside the
/// tier's own settings.
fn with_changes(mut tier: Tier, scenario: &Scenario) -> Tier {
    let host = scenario.hosts.get(&tier.layer);
    tier.settings
        .extend(host.into_iter().flat_map(|host| host.sysctl.clone()));
    let is_limited = |_: &f64| tier.own_network;
    tier.link_mbit = host.and_then(|host| host.link_mbit).filter(is_limited);
    tier.settings
        .extend(changes::of_layer(scenario, tier.layer));
    tier
}

/// Tells telemetry where PHP's own site answers, so that a page that asks it for another one is known for what it is.
fn know_own_site(standing: &mut Standing) {
    let before = |layer: &Layer| matches!(layer, Layer::Web | Layer::Proxy);
    let own = standing.addresses.iter().filter(|(layer, _)| before(layer));
    let own: Vec<(Layer, Address)> = own.cloned().collect();
    for (_, running) in &mut standing.rendered {
        if running.layer == Layer::Php {
            running.peers.extend(own.iter().cloned());
        }
    }
}

/// What a diff of the servers' files does not show: the application's own settings, the hosts' kernel settings, and changes of the
/// database and of the application's files.
fn settings_of(scenario: &Scenario) -> Vec<(String, String)> {
    let app = scenario.app_settings.iter().map(|setting| {
        let value = scenario
            .env
            .get(&setting.env)
            .or_else(|| setting.values.first())
            .cloned()
            .unwrap_or_default();
        (
            "application environment".to_owned(),
            format!("{}={value}", setting.env),
        )
    });
    let kernel = scenario.hosts.iter().flat_map(|(layer, host)| {
        host.sysctl.iter().map(move |(name, value)| {
            (
                format!("sysctl.conf of the {layer} host"),
                format!("{name} = {value}"),
            )
        })
    });
    let changed = scenario.changes().filter_map(|(change, value)| {
        let group = match change {
            Change::Statement { .. } => "statements for the database",
            Change::Command { .. } => "commands in the application's directory",
            // What stood there is known, too.
            Change::Line { .. } => return None,
        };
        Some((group.to_owned(), value.clone()))
    });
    app.chain(kernel).chain(changed).collect()
}

fn stand_up_tier(
    testbed: &mut Testbed,
    arm: &str,
    scenario: &Scenario,
    spec: &TierSpec,
    nonce: &str,
    standing: &mut Standing,
) -> Result<(), ExperimentError> {
    let server = server(spec.server.as_str())?;
    let name = host_name(arm, spec.layer);
    let limits = scenario.hosts.get(&spec.layer).cloned().unwrap_or_default();
    let log_pipe_kib_s = limits.log_pipe_kib_s;
    let host = testbed.lab.add_host(HostPlan {
        name: name.clone(),
        limits,
        names: standing.names.clone(),
    })?;
    if spec.layer == Layer::Php {
        let pristine = pristine(testbed, &scenario.root)?;
        let (copy, replaced) = app::private_copy(pristine, scenario, &host.dir, &standing.env)?;
        standing.copy = Some(copy);
        standing.replaced = replaced;
        doubles::beside_php(testbed, scenario, &host, standing)?;
    }
    let commands = testbed.lab.commands(&name);
    let program = match testbed.programs.get(server.kind()) {
        Some(program) => program.clone(),
        None => {
            let program = server.find(&commands)?;
            testbed
                .programs
                .insert(server.kind().to_owned(), program.clone());
            program
        }
    };
    let mut context = context::context(testbed, scenario, spec, &host, program, nonce, standing)?;
    let rendered = server.render(&context)?;
    install(&rendered)?;
    if let Some(kib_s) = log_pipe_kib_s {
        log_pipe::lay(&testbed.lab, &host, kib_s, standing)?;
    }
    for command in &rendered.prepare {
        must_succeed(&testbed.lab, &name, command)?;
    }
    server.check(&rendered, &commands)?;
    if spec.layer == Layer::Php {
        changes::change_app(testbed, scenario, arm, &context, standing)?;
        standing.app_facts = AppFacts::of(standing.root(scenario));
    }
    keep_template(testbed, spec, &host)?;
    let began = Instant::now();
    let process = testbed.lab.spawn(&name, &rendered.process)?;
    if spec.layer == Layer::Php {
        standing.start = Some(began.elapsed());
    }
    let mut running = running_tier(&rendered, &host, process.pid, &context.peers, spec);
    if spec.layer == Layer::Php {
        running.doubles.clone_from(&standing.doubles);
        standing.jobs = jobs::of(scenario, &context);
        standing.app_env = std::mem::take(&mut context.app.env);
    }
    standing
        .addresses
        .push((spec.layer, rendered.listen.clone()));
    standing.env.extend(rendered.env_for_app.clone());
    standing.rendered.push((rendered, running));
    standing.processes.push(process);
    Ok(())
}

/// The application as this run first saw it; copied when it is first asked for.
fn pristine(testbed: &mut Testbed, root: &Path) -> Result<Arc<Pristine>, ExperimentError> {
    if let Some(pristine) = testbed.pristine.get(root) {
        return Ok(Arc::clone(pristine));
    }
    let nth = testbed.pristine.len();
    // Every arm is made from it, so that no arm may reach it, also where they all run as one user.
    let shut = testbed.lab.dir().join("pristine");
    app::shut_dir(&shut)?;
    let dir = shut.join(format!("app-{nth}"));
    let as_root = rustix::process::geteuid().is_root();
    let owner = if as_root { Some(php_user()?) } else { None };
    let passing = testbed.lab.passing_group();
    let owner = owner.map(|(uid, gid)| OwnerIds { uid, gid, passing });
    let pristine = Arc::new(Pristine::of(root, dir, owner)?);
    testbed
        .pristine
        .insert(root.to_owned(), Arc::clone(&pristine));
    Ok(pristine)
}

/// Keeps a copy of the first database's fresh, stopped data directory, so that further arms need no initialisation.
fn keep_template(
    testbed: &mut Testbed,
    spec: &TierSpec,
    host: &HostInfo,
) -> Result<(), ExperimentError> {
    let data = host.dir.join("data");
    let kind = spec.server.as_str();
    if spec.layer != Layer::Db || testbed.db_templates.contains_key(kind) || !data.is_dir() {
        return Ok(());
    }
    let template = testbed.lab.dir().join(format!("db-template-{kind}"));
    let command = CommandSpec::new("/bin/cp").args([
        "-a".to_owned(),
        data.display().to_string(),
        template.display().to_string(),
    ]);
    must_succeed(&testbed.lab, CLIENT, &command)?;
    testbed.db_templates.insert(kind.to_owned(), template);
    Ok(())
}

fn running_tier(
    rendered: &RenderedTier,
    host: &HostInfo,
    pid: u32,
    peers: &[(Layer, Address)],
    spec: &TierSpec,
) -> RunningTier {
    RunningTier {
        layer: spec.layer,
        server: spec.server.clone(),
        pid,
        netns: host.netns.clone(),
        cgroup: host.cgroup.clone(),
        listen: vec![rendered.listen.clone()],
        peers: peers.to_vec(),
        doubles: Vec::new(),
        jobs: Vec::new(),
        endpoints: rendered.endpoints.clone(),
        logs: rendered.logs.clone(),
        workers: rendered.workers.clone(),
    }
}

/// The user's own files of configuration, beside those of the application.
fn configs(scenario: &Scenario) -> Vec<PathBuf> {
    let tiers = scenario.tiers.iter();
    tiers
        .flat_map(|tier| tier.config.iter().chain(&tier.ini))
        .filter(|path| !path.starts_with(&scenario.root))
        .cloned()
        .collect()
}

fn must_succeed(lab: &Lab, host: &str, command: &CommandSpec) -> Result<(), ExperimentError> {
    let output = lab.exec(host, command)?;
    if output.success() {
        return Ok(());
    }
    let words = if output.stderr.trim().is_empty() {
        &output.stdout
    } else {
        &output.stderr
    };
    // The rest of the name is the arm's.
    let tier = host.rsplit('-').next().unwrap_or(host);
    Err(ExperimentError::Unfit(format!(
        "`{}` on the {tier} host failed: {}",
        command.describe(),
        log::of_command(words)
    )))
}

impl Arm {
    /// Whether it has a cache or a database, which a reset empties.
    pub(super) fn keeps_state(&self) -> bool {
        !self.resets.is_empty()
    }

    /// Puts the state of cache and database back to the beginning, and the application's files back to what they were after
    /// the warm-up.
    pub(super) fn reset(&self, lab: &Lab) -> Result<(), ExperimentError> {
        self.copy.iter().try_for_each(PrivateCopy::restore)?;
        self.resets
            .iter()
            .try_for_each(|(host, command)| must_succeed(lab, host, command))
    }

    /// What the application's files are now, they are before each step.
    pub(super) fn settle(&mut self) -> Result<(), ExperimentError> {
        self.copy.iter_mut().try_for_each(PrivateCopy::settle)
    }

    /// Makes sure that every tier of the arm of this name still runs: a target that died is said to have died, not to be slow.
    pub(super) fn check_alive(&self, name: &str, lab: &Lab) -> Result<(), ExperimentError> {
        for process in &self.processes {
            if let Some(how) = lab.ended(process)? {
                return Err(ExperimentError::Died {
                    arm: Some(name.to_owned()),
                    words: format!(
                        "{} died during the run: it {how}. What was measured before is kept{}",
                        process.name,
                        self.last_words()
                    ),
                });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_have_names_that_the_lab_takes_whatever_the_arm_is_called() {
        assert_eq!(host_name("base", Layer::Php), "base-php");
        let long = "shop.example.org-with-a-very-long-name";
        for arm in ["MyShop", "my_shop", "shop é", long] {
            let name = host_name(arm, Layer::Proxy);
            let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            assert!(name.len() <= 32 && name.chars().all(fits), "{name}");
        }
        assert_ne!(of_hosts("Shop"), of_hosts("shop"));
        assert_ne!(of_hosts("my_shop"), of_hosts("my.shop"));
    }
}
