//! A scenario: the validated form of `kneepoint.toml`.

use crate::stack::change::Change;
use crate::stack::{Layer, ServerKind, Setting, SettingKey, Tunable};
use crate::{Slo, Workload};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// A change to one file of the application, made in a private copy of it (`[[app.file]]`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilePatch {
    /// The file, relative to the application's root.
    pub path: PathBuf,
    /// Text to replace, every occurrence; `None` makes `text` the whole file.
    pub find: Option<String>,
    /// The replacement, or the whole file.
    pub text: String,
}

/// What kind of application it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AppKind {
    /// Laravel.
    Laravel,
    /// Symfony.
    Symfony,
    /// WordPress.
    Wordpress,
    /// MediaWiki.
    Mediawiki,
    /// Anything else.
    #[default]
    Plain,
}

/// Something the application itself can be told, through an environment variable.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AppSetting {
    /// The name a remedy may use: `redis.persistent`.
    pub name: String,
    /// The environment variable that carries it.
    pub env: String,
    /// The values it takes; the first is the default.
    pub values: Vec<String>,
}

impl AppSetting {
    /// The setting as a tunable of layer `app`.
    #[must_use]
    pub fn tunable(&self) -> Tunable {
        Tunable {
            name: self.name.clone(),
            about: format!("application setting, environment variable {}", self.env),
            values: crate::ValueKind::Choice {
                of: self.values.clone(),
            },
            default: self.values.first().cloned(),
            apply: crate::Apply::Reload,
        }
    }
}

/// Limits and kernel settings of one tier's host.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct HostLimits {
    /// Cores; `None` is all of the machine.
    pub cpus: Option<f64>,
    /// Memory in bytes; `None` is all of the machine.
    pub memory_bytes: Option<u64>,
    /// Reads, and as many writes, that the disk below the lab does for the tier in a second; `None` is all it can.
    #[serde(default)]
    pub disk_iops: Option<u32>,
    /// What its network takes from it and, as much, brings to it, in megabits a second; `None` is all it can.
    #[serde(default)]
    pub link_mbit: Option<f64>,
    /// What is read of the access log in a second, in KiB: the log is then a pipe, and nginx waits while it is full. `None` is a
    /// file.
    #[serde(default)]
    pub log_pipe_kib_s: Option<f64>,
    /// Kernel settings of the host's namespace, by name.
    pub sysctl: BTreeMap<String, String>,
}

/// One tier as the scenario asks for it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TierSpec {
    /// Where in the chain.
    pub layer: Layer,
    /// Which program serves it.
    pub server: ServerKind,
    /// The user's main configuration file; `None` renders a sane default.
    pub config: Option<PathBuf>,
    /// The user's php.ini (PHP tier only).
    pub ini: Option<PathBuf>,
    /// SQL that brings the database to its initial state (database tier only).
    pub seed: Option<PathBuf>,
    /// Whether the tier listens on TCP or (where it can and the next tier shares its host) a Unix socket.
    pub unix_socket: bool,
    /// Settings on top of the configuration, by tunable name.
    pub settings: BTreeMap<String, String>,
}

/// What a double speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PeerKind {
    /// HTTP/1.1, without TLS.
    Http,
    /// SMTP, without TLS; mail is taken and forgotten.
    Smtp,
}

impl PeerKind {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Http, Self::Smtp];

    /// Its name in scenarios: `http`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Smtp => "smtp",
        }
    }
}

/// A double: what stands in the lab for somebody whom the application must talk to (`[[peer]]`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerSpec {
    /// The name, or the IPv4 address, by which the application asks for it.
    pub host: String,
    /// What it speaks.
    pub kind: PeerKind,
    /// The port it listens on.
    pub port: u16,
    /// How long it takes for an answer.
    pub latency: Duration,
    /// How many requests it serves at once; the others wait.
    pub capacity: u32,
    /// The status it answers with (HTTP only).
    pub status: u16,
    /// The body it answers with (HTTP only).
    pub body: String,
}

impl PeerSpec {
    /// The name in `[app] unreachable` of mail that PHP hands to the machine's mail program.
    pub const MAIL: &str = "mail()";
}

/// A command that runs beside the requests, on the host of PHP (`[[job]]`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobSpec {
    /// What it is called in messages.
    pub name: String,
    /// The command, for a shell, in the application's directory and with its environment.
    pub run: String,
    /// From one start to the next; `None` starts it again when it has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every: Option<Duration>,
}

/// How much tuning may take.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Budget {
    /// Wall-clock time for the whole of `tune`.
    pub time: Duration,
    /// Memory all tiers together may use, in bytes; `None` is what the machine has.
    pub memory_bytes: Option<u64>,
    /// Settings nobody may touch.
    pub keep: Vec<SettingKey>,
}

/// Everything a run needs to know, checked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Scenario {
    /// What runs and reports are called after: the application's own name, or its directory's.
    pub name: String,
    /// The application's directory, absolute.
    pub root: PathBuf,
    /// The front controller, relative to the root: `public/index.php`.
    pub front: PathBuf,
    /// What kind of application.
    pub kind: AppKind,
    /// Environment of the application, by name.
    pub env: BTreeMap<String, String>,
    /// What the application can be told.
    pub app_settings: Vec<AppSetting>,
    /// Changes to the application's files, made in a private copy (`[[app.file]]` with `path` and either
    /// `find` and `replace`, or `content`).
    #[serde(default)]
    pub app_files: Vec<FilePatch>,
    /// Whom the application may try to reach in vain: hosts, addresses with or without a port, paths of sockets.
    #[serde(default)]
    pub unreachable: Vec<String>,
    /// Doubles of those whom it must reach.
    #[serde(default)]
    pub peers: Vec<PeerSpec>,
    /// What runs beside the requests.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub jobs: Vec<JobSpec>,
    /// The tiers in the order a request meets them.
    pub tiers: Vec<TierSpec>,
    /// Changes that are no setting of a server, made after the seed and after `app_files` ([`Change`]).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub changes: BTreeMap<SettingKey, String>,
    /// How many agents on hosts of their own send the load; `None` leaves it to this process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generators: Option<u32>,
    /// Limits by tier; a tier that is missing here is not limited.
    pub hosts: BTreeMap<Layer, HostLimits>,
    /// The mix.
    pub workload: Workload,
    /// When the stack counts as coping.
    pub slo: Slo,
    /// How much tuning may take.
    pub budget: Budget,
}

/// Longest name that files and labs are called by.
const SLUG_LONGEST: usize = 32;

impl Scenario {
    /// Its name as files and labs may be called: letters, digits, `-`, `_` and `.` of the ASCII characters, any other as `-`.
    #[must_use]
    pub fn slug(&self) -> String {
        let fits = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        let slug = self.name.chars().map(|c| if fits(c) { c } else { '-' });
        let slug: String = slug.take(SLUG_LONGEST).collect();
        match slug.trim_start_matches(['.', '-']) {
            "" => "kneepoint".to_owned(),
            slug => slug.to_owned(),
        }
    }

    /// The same scenario with settings changed: sysctls on the host, tier settings on the tier, application
    /// settings in the environment, and what is no setting of a server among the changes.
    ///
    /// # Errors
    /// A setting names a tier the chain has not, or an application setting nobody declared.
    pub fn with(&self, settings: &[Setting]) -> Result<Self, String> {
        let mut changed = self.clone();
        for setting in settings {
            changed.set(setting)?;
        }
        Ok(changed)
    }

    /// The changes that are no setting of a server, with what is put there, in the order of their names.
    pub fn changes(&self) -> impl Iterator<Item = (Change<'_>, &String)> {
        let changes = self.changes.iter();
        changes.filter_map(|(key, text)| Some((Change::of(key)?, text)))
    }

    fn set(&mut self, setting: &Setting) -> Result<(), String> {
        let Setting { key, value } = setting;
        if let Some(change) = Change::of(key) {
            if matches!(change, Change::Statement { .. }) {
                self.tier_mut(key)?;
            }
            self.changes.insert(key.clone(), value.clone());
            return Ok(());
        }
        if key.layer == Layer::App {
            let declared = self
                .app_settings
                .iter()
                .find(|declared| declared.name == key.name)
                .ok_or_else(|| format!("the application declares no setting `{}`", key.name))?;
            if !declared.values.contains(value) {
                let values = declared.values.join(", ");
                return Err(format!(
                    "`{value}` is no value of `{key}`: it takes {values}"
                ));
            }
            self.env.insert(declared.env.clone(), value.clone());
            return Ok(());
        }
        if key.is_sysctl() {
            let host = self.hosts.entry(key.layer).or_default();
            host.sysctl.insert(key.name.clone(), value.clone());
            return Ok(());
        }
        let tier = self.tier_mut(key)?;
        tier.settings.insert(key.name.clone(), value.clone());
        Ok(())
    }

    fn tier_mut(&mut self, key: &SettingKey) -> Result<&mut TierSpec, String> {
        let mut tiers = self.tiers.iter_mut();
        tiers
            .find(|tier| tier.layer == key.layer)
            .ok_or_else(|| format!("the stack has no {} tier to set `{key}` on", key.layer))
    }
}
