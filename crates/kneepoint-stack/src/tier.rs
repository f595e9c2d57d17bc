//! What goes into rendering a tier, and what comes out.

use crate::StackError;
use crate::tunable_spec::TunableSpec;
use kneepoint_model::{
    Address, CommandSpec, Endpoint, Layer, LogSource, ProcessSpec, ServerKind, Tier, Workers,
};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

/// Where the target names the run it belongs to.
pub(crate) const IDENTITY_PATH: &str = "/.well-known/kneepoint";

/// A server program of this machine.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Program {
    /// Absolute path.
    pub path: PathBuf,
    /// Its version: `8.2.35`.
    pub version: String,
    /// Further facts by name: the directory of its configuration, of its other programs.
    pub facts: BTreeMap<String, String>,
    /// The system's own small configuration files that the tier starts from (PHP's `conf.d`): name and text.
    pub files: Vec<(String, String)>,
}

impl Program {
    pub(crate) fn fact(&self, name: &str) -> &str {
        self.facts.get(name).map_or("", String::as_str)
    }
}

/// The application as the tiers must know it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AppContext {
    /// Its directory, absolute.
    pub root: PathBuf,
    /// The front controller, relative to the root.
    pub front: PathBuf,
    /// Environment of the application, including the addresses of cache and database
    /// ([`RenderedTier::env_for_app`] of those tiers).
    pub env: BTreeMap<String, String>,
    /// Whether mail that PHP hands on is taken, as where a double stands for the mail server.
    pub takes_mail: bool,
}

impl AppContext {
    /// The directory the web server serves: the front controller's.
    #[must_use]
    pub fn document_root(&self) -> PathBuf {
        let front = self.root.join(&self.front);
        front.parent().map_or(front.clone(), Path::to_owned)
    }

    /// The front controller's file name.
    #[must_use]
    pub fn front_name(&self) -> String {
        self.front.file_name().map_or_else(
            || "index.php".into(),
            |name| name.to_string_lossy().into_owned(),
        )
    }

    /// The files that answer for a directory, the first that is there: its index.php, then the front controller. Where that
    /// one has another name, `/` and `/admin/` belong to the index.php that lies there, as where a rule of Apache passes
    /// directories over (`!-d`).
    pub(crate) fn index_names(&self) -> String {
        let front = self.front_name();
        if front == "index.php" {
            return front;
        }
        format!("index.php {front}")
    }
}

/// A configuration file of the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigText {
    /// Where it is; its name is the name reports use.
    pub path: PathBuf,
    /// Its text.
    pub text: String,
}

impl ConfigText {
    pub(crate) fn name(&self) -> String {
        self.path
            .file_name()
            .map_or_else(String::new, |name| name.to_string_lossy().into_owned())
    }
}

/// Everything a tier's configuration depends on. Rendering is a pure function of it.
#[derive(Debug, Clone, PartialEq)]
pub struct TierContext {
    /// Where in the chain.
    pub layer: Layer,
    /// The program, from [`crate::Server::find`].
    pub program: Program,
    /// The tier's private directory, absolute. Users other than root must be able to pass through its parents.
    pub dir: PathBuf,
    /// The address of the tier's host.
    pub address: IpAddr,
    /// The port to listen on; `None` is the server's usual one, for a host with a network of its own.
    pub port: Option<u16>,
    /// The next tier of the chain: a proxy's web server, a web server's PHP.
    pub upstream: Option<Address>,
    /// The tiers this one connects to, by layer.
    pub peers: Vec<(Layer, Address)>,
    /// The application.
    pub app: AppContext,
    /// The user's main configuration; `None` starts from a sane default.
    pub config: Option<ConfigText>,
    /// The user's php.ini (PHP only).
    pub ini: Option<ConfigText>,
    /// Where SQL lies that brings the database to its initial state, from [`crate::unpack_seed`] (database only).
    pub seed: Option<PathBuf>,
    /// Statements that are run after the seed, in the order of their names (database only).
    pub statements: Vec<String>,
    /// A stopped data directory to copy in place of `initdb` (PostgreSQL only).
    pub template: Option<PathBuf>,
    /// Settings on top of the configuration, by tunable name.
    pub settings: BTreeMap<String, String>,
    /// Cores of the host.
    pub cpus: f64,
    /// Memory of the host in bytes.
    pub memory_bytes: u64,
    /// Listen on a Unix socket in the private directory instead of TCP.
    pub unix_socket: bool,
    /// Whether the tier has a network namespace of its own.
    pub own_network: bool,
    /// Whether the tier is started by root: servers then change to their usual users.
    pub as_root: bool,
    /// What the target must answer at `/.well-known/kneepoint`.
    pub nonce: String,
}

impl TierContext {
    /// Where the tier listens: its Unix socket, or its address with the given or usual port.
    pub(crate) fn listen(&self, usual_port: u16, socket: &str) -> Address {
        if self.unix_socket {
            Address::Unix(self.dir.join("run").join(socket))
        } else {
            Address::Tcp(SocketAddr::new(
                self.address,
                self.port.unwrap_or(usual_port),
            ))
        }
    }

    /// A path within the private directory, as text.
    pub(crate) fn path(&self, relative: &str) -> String {
        self.dir.join(relative).to_string_lossy().into_owned()
    }

    /// The name of the user's configuration, or the usual one.
    pub(crate) fn config_name(&self, usual: &str) -> String {
        let name = self.config.as_ref().map(ConfigText::name);
        name.unwrap_or_else(|| usual.to_owned())
    }

    /// The user's configuration, or a default.
    pub(crate) fn config_text<'a>(&'a self, default: &'a str) -> &'a str {
        self.config.as_ref().map_or(default, |config| &config.text)
    }

    /// The front controller's absolute path, as text.
    pub(crate) fn path_of_front(&self) -> String {
        let front = self.app.root.join(&self.app.front);
        front.to_string_lossy().into_owned()
    }

    /// The tier as the model knows it: what is configured over the documented defaults.
    pub(crate) fn tier(
        &self,
        kind: &'static str,
        specs: &[TunableSpec],
        configured: BTreeMap<String, String>,
        listen: &Address,
    ) -> Tier {
        let mut settings: BTreeMap<String, String> = specs
            .iter()
            .filter_map(|spec| Some((spec.name.to_owned(), spec.default?.to_owned())))
            .collect();
        settings.extend(configured);
        Tier {
            layer: self.layer,
            server: ServerKind::new(kind),
            version: self.program.version.clone(),
            settings,
            tunables: specs.iter().map(TunableSpec::tunable).collect(),
            listen: Some(listen.clone()),
            pool: None,
            cpus: self.cpus,
            memory_bytes: self.memory_bytes,
            link_mbit: None,
            own_network: self.own_network,
        }
    }

    /// The user a server runs as, when root starts it.
    pub(crate) fn user(&self, name: &'static str) -> Option<String> {
        self.as_root.then(|| name.to_owned())
    }
}

/// One configuration file, ready to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigFile {
    /// Where it goes.
    pub path: PathBuf,
    /// The name its user knows (`nginx.conf`, `www.conf`, `php.ini`): a change of it belongs in a diff.
    /// `None` for files of the lab's own, and for those with secrets.
    pub user_name: Option<String>,
    /// Its text.
    pub text: String,
    /// Permission bits.
    pub mode: u32,
    /// Its owner when root writes it.
    pub owner: Option<String>,
}

impl ConfigFile {
    pub(crate) fn new(path: PathBuf, user_name: Option<String>, text: String) -> Self {
        Self {
            path,
            user_name,
            text,
            mode: 0o644,
            owner: None,
        }
    }
}

/// A directory to be there before the files are written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirSpec {
    /// Where.
    pub path: PathBuf,
    /// Its owner when root creates it.
    pub owner: Option<String>,
    /// The user whose group it belongs to when root creates it; `None` is the owner's.
    pub group: Option<String>,
    /// Permission bits.
    pub mode: u32,
}

impl DirSpec {
    pub(crate) fn new(path: PathBuf, owner: Option<String>, mode: u32) -> Self {
        Self {
            path,
            owner,
            group: None,
            mode,
        }
    }

    /// A directory of sockets: its owner makes them, and of all others only the group of a user reaches them.
    pub(crate) fn of_sockets(
        path: PathBuf,
        owner: Option<String>,
        reached_by: Option<String>,
    ) -> Self {
        Self {
            path,
            owner,
            // Without another user there is none to let through.
            mode: if reached_by.is_some() { 0o710 } else { 0o700 },
            group: reached_by,
        }
    }
}

/// A tier ready to be installed, checked and started.
#[derive(Debug, Clone, PartialEq)]
pub struct RenderedTier {
    /// Directories, parents first.
    pub dirs: Vec<DirSpec>,
    /// Files.
    pub files: Vec<ConfigFile>,
    /// Commands to run once after the files are installed and before the first start.
    pub prepare: Vec<CommandSpec>,
    /// The process to keep running.
    pub process: ProcessSpec,
    /// Commands that bring the running tier's state to its beginning. They can be run again and again.
    pub seed: Vec<CommandSpec>,
    /// Where it listens for requests.
    pub listen: Address,
    /// What answers questions about it.
    pub endpoints: Vec<Endpoint>,
    /// What it writes.
    pub logs: Vec<LogSource>,
    /// Its workers; `None` when it is no PHP runtime.
    pub workers: Option<Workers>,
    /// The tier as the model knows it, with effective settings.
    pub tier: Tier,
    /// Environment variables that tell the application where this tier is.
    pub env_for_app: BTreeMap<String, String>,
}

/// Where nginx writes its access log in the lab, below its private directory.
pub const NGINX_ACCESS_LOG: &str = "log/access.log";

/// The user that every PHP runs as where root starts it: the system user of Debian's packages.
pub const PHP_USER: &str = "www-data";

/// User and group id of a user, from `/etc/passwd`.
pub(crate) fn user_ids(name: &str) -> Option<(u32, u32)> {
    let passwd = std::fs::read_to_string("/etc/passwd").ok()?;
    let fields: Vec<&str> = passwd
        .lines()
        .map(|line| line.split(':').collect::<Vec<_>>())
        .find(|fields| fields[0] == name)?;
    Some((fields.get(2)?.parse().ok()?, fields.get(3)?.parse().ok()?))
}

/// User and group id that PHP's workers run with where root starts them: what they are to write must belong to it.
///
/// # Errors
/// This machine has no such user.
pub fn php_user() -> Result<(u32, u32), StackError> {
    user_ids(PHP_USER).ok_or_else(|| {
        let path = Path::new("/etc/passwd");
        StackError::io(
            "find PHP's user in",
            path,
            &format!("this machine has no user `{PHP_USER}`"),
        )
    })
}
