//! Where a part of a stack runs: on the host, or in a container.

use super::chores::{parents, write};
use anyhow::{Context as _, ensure};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// What makes a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Engine {
    /// Nothing: it is on the host.
    #[default]
    Host,
    /// Docker, with the labels and the network that compose gives.
    Docker,
    /// Docker, with the control groups that a kubelet gives.
    Kubelet,
    /// podman with runc.
    Podman,
}

impl Engine {
    /// Its name in the table.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Docker => "docker, as compose does",
            Self::Kubelet => "docker, in a kubelet's groups",
            Self::Podman => "podman",
        }
    }

    /// The program it needs that this machine has not.
    pub(super) fn missing(self) -> Option<&'static str> {
        let needed: &[&str] = match self {
            Self::Host => &[],
            Self::Docker | Self::Kubelet => &["/usr/sbin/dockerd", "/usr/bin/docker"],
            Self::Podman => &["/usr/bin/podman", "/usr/sbin/runc"],
        };
        needed
            .iter()
            .copied()
            .find(|path| !Path::new(path).exists())
    }
}

/// A part of a stack, and what it is made of.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Place {
    /// What makes it.
    #[serde(default)]
    pub(super) engine: Engine,
    /// The service that compose would name it after.
    pub(super) service: Option<String>,
    /// The place whose network it shares.
    pub(super) network_of: Option<String>,
    /// Whether its root directory cannot be written to.
    #[serde(default)]
    pub(super) read_only: bool,
    /// Most memory, as the engine takes it: `64m`.
    pub(super) memory: Option<String>,
    /// Most cores.
    pub(super) cpus: Option<String>,
    /// Variables that its programs are started with.
    #[serde(default)]
    pub(super) env: BTreeMap<String, String>,
    /// Files of its own, by path.
    #[serde(default)]
    pub(super) files: BTreeMap<String, String>,
    /// Files of this machine that it has a copy of: its path, then that of this machine.
    #[serde(default)]
    pub(super) copies: BTreeMap<String, String>,
    /// Files of the host that are mounted into it one by one, by path within it.
    #[serde(default)]
    pub(super) mounts: BTreeMap<String, String>,
    /// Files that are changed once everything runs, `mounts` and those of the host.
    #[serde(default)]
    pub(super) later: BTreeMap<String, String>,
    /// Commands that are run to their end before it is started; on the host only.
    #[serde(default)]
    pub(super) prepare: Vec<Vec<String>>,
    /// Commands that run while it stands. A container has one.
    pub(super) run: Vec<Vec<String>>,
}

impl Place {
    /// Whether it can be made.
    ///
    /// # Errors
    /// It cannot: why.
    pub(super) fn sound(&self) -> anyhow::Result<()> {
        ensure!(
            self.run.iter().all(|command| !command.is_empty()),
            "a command has no words"
        );
        let paths = self.files.keys().chain(self.mounts.keys());
        for path in paths.chain(self.copies.keys()).chain(self.later.keys()) {
            ensure!(
                path.starts_with('/') && !path.contains("/../"),
                "`{path}` is no absolute path"
            );
        }
        if self.engine == Engine::Host {
            let container = self.service.is_some()
                || self.network_of.is_some()
                || self.read_only
                || self.memory.is_some()
                || self.cpus.is_some()
                || !self.mounts.is_empty();
            ensure!(!container, "the host is no container: what is it to have?");
        } else {
            ensure!(
                self.run.len() == 1 && self.prepare.is_empty(),
                "a container runs one command and prepares nothing"
            );
            let known = self.later.keys().all(|path| self.mounts.contains_key(path));
            ensure!(known, "only `mounts` of a container can change later");
        }
        Ok(())
    }

    /// Writes its files and copies below a root directory.
    ///
    /// # Errors
    /// One cannot be written.
    pub(super) fn write_below(&self, root: &Path) -> anyhow::Result<()> {
        let below = |path: &str| root.join(path.trim_start_matches('/'));
        for (path, text) in &self.files {
            write(&below(path), text)?;
        }
        for (path, from) in &self.copies {
            let to = below(path);
            parents(&to)?;
            fs::copy(from, &to).with_context(|| format!("`{from}` cannot be copied"))?;
        }
        Ok(())
    }
}
