//! What the runtimes that answer HTTP themselves have in common: settings of their own beside PHP's, a private php.ini,
//! a page that says what the interpreter is like, and a pool of workers.

use super::{PROBE, PhpIni, SPELLING, private_values, tunables};
use crate::server::{self, Server};
pub(crate) use crate::tier::PHP_USER as USER;
use crate::tunable_spec::{self, TunableSpec};
use crate::{ConfigFile, DirSpec, RenderedTier, StackError, TierContext};
use kneepoint_model::{
    Address, CommandSpec, Commands, Endpoint, LogFormat, LogSource, ProcessSpec, Ready, Signal,
    Tunable, WorkerPool, Workers,
};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Where the interpreter answers for itself.
pub(crate) const PROBE_PATH: &str = "/.well-known/kneepoint-probe.php";

/// A runtime's settings, checked and told apart.
pub(crate) struct RuntimeConfig {
    kind: &'static str,
    specs: Vec<TunableSpec>,
    /// The runtime's own, defaults included.
    own: BTreeMap<String, String>,
    /// PHP's.
    pub(crate) php: PhpIni,
}

/// What differs between the runtimes.
pub(crate) struct Parts {
    pub(crate) listen: Address,
    pub(crate) files: Vec<ConfigFile>,
    /// Arguments of the program.
    pub(crate) args: Vec<String>,
    /// Environment beyond PHP's.
    pub(crate) env: BTreeMap<String, String>,
    /// The user it is started as; `None` where it changes to one by itself.
    pub(crate) user: Option<String>,
    pub(crate) pool: WorkerPool,
    pub(crate) workers: Workers,
    pub(crate) numbers: Option<Endpoint>,
}

impl RuntimeConfig {
    /// Of a tier; `own` are the tunables PHP does not know.
    ///
    /// # Errors
    /// Another layer, an unknown or bad value, or a configuration of the user's.
    pub(crate) fn of(
        context: &TierContext,
        server: &'static dyn Server,
        own: &[TunableSpec],
    ) -> Result<Self, StackError> {
        server::check_layer(server, context.layer)?;
        if let Some(config) = &context.config {
            return Err(StackError::Unusable {
                file: config.name(),
                what: format!(
                    "a configuration of {} cannot be made the lab's yet; leave `config` out and write what differs \
                     from the defaults below `settings`",
                    server.kind()
                ),
            });
        }
        let specs = all(own, &context.program.version);
        let kind = server.kind();
        let settings =
            tunable_spec::checked(kind, context.layer, &context.settings, &specs, &SPELLING)?;
        let mut php = PhpIni::new(context)?;
        let named = own
            .iter()
            .filter_map(|spec| Some((spec.name.to_owned(), spec.default?.to_owned())));
        let mut values: BTreeMap<String, String> = named.collect();
        for (name, value) in settings {
            match own.iter().any(|spec| spec.name == name) {
                true => drop(values.insert(name, value)),
                false => php.set(&name, &value)?,
            }
        }
        for (name, value) in private_values(context, |name| php.get(name))? {
            php.set(name, &value)?;
        }
        Ok(Self {
            kind,
            specs,
            own: values,
            php,
        })
    }

    /// Says what is in effect where nothing was set.
    pub(crate) fn set(&mut self, name: &str, value: &str) {
        self.own.insert(name.to_owned(), value.to_owned());
    }

    /// A setting of the runtime's own; empty where it has no default and is not set.
    pub(crate) fn text(&self, name: &str) -> &str {
        self.own.get(name).map_or("", String::as_str)
    }

    /// The same as a number; durations in seconds.
    pub(crate) fn number(&self, name: &str) -> Option<u64> {
        self.text(name).trim_end_matches('s').parse().ok()
    }

    /// The application's script for a server that keeps it.
    ///
    /// # Errors
    /// No `worker` is set.
    pub(crate) fn kept_script(
        &self,
        context: &TierContext,
        server: &str,
    ) -> Result<PathBuf, StackError> {
        match self.text("worker") {
            "" => Err(StackError::Inconsistent {
                layer: context.layer,
                rule: format!(
                    "{server} runs no front controllers: `worker` must name the application's script for servers that \
                     keep it (docs/runtimes.md, \"Servers that keep the application\")"
                ),
            }),
            worker => Ok(context.app.root.join(worker)),
        }
    }

    /// The command-line PHP has its cache off unless told: it is on where `opcache.enable` is.
    ///
    /// # Errors
    /// The php.ini of the user is damaged.
    pub(crate) fn cache_of_command_line(&mut self) -> Result<(), StackError> {
        let cache = self.php.get("opcache.enable");
        let cache = cache.unwrap_or_else(|| "1".into());
        self.php.set("opcache.enable_cli", &cache)
    }

    /// The tier.
    pub(crate) fn render(self, context: &TierContext, parts: Parts) -> RenderedTier {
        let mut configured = self.own.clone();
        configured.extend(tunable_spec::configured(&self.specs, |name| {
            self.php.get(name)
        }));
        let mut tier = context.tier(self.kind, &self.specs, configured, &parts.listen);
        tier.pool = Some(parts.pool);
        let mut endpoints = vec![Endpoint::PhpPage {
            address: parts.listen.clone(),
            path: PROBE_PATH.into(),
        }];
        endpoints.extend(parts.numbers);
        let mut files = parts.files;
        let own =
            |name: &str, text: &str| ConfigFile::new(context.dir.join(name), None, text.to_owned());
        files.extend([own("probe.php", PROBE), own("identity.txt", &context.nonce)]);
        files.extend(self.php.files(context));
        let mut env = parts.env;
        env.insert("PHP_INI_SCAN_DIR".into(), context.path("conf.d"));
        env.insert("PHPRC".into(), context.path(""));
        env.insert(super::FRONT_VARIABLE.into(), context.path_of_front());
        RenderedTier {
            dirs: dirs(context),
            files,
            prepare: Vec::new(),
            process: ProcessSpec {
                name: format!("{} {}", context.layer, self.kind),
                program: context.program.path.clone(),
                args: parts.args,
                env: env.into_iter().collect(),
                dir: context.dir.clone(),
                user: parts.user,
                output: context.dir.join("log/output.log"),
                ready: Ready::Connects(parts.listen.clone()),
                ready_timeout: Duration::from_secs(20),
                reload: None,
                stop: Signal::Term,
                stop_timeout: Duration::from_secs(5),
            },
            seed: Vec::new(),
            endpoints,
            logs: vec![LogSource {
                path: context.dir.join("log/php-error.log"),
                format: LogFormat::PhpError,
            }],
            workers: Some(parts.workers),
            env_for_app: BTreeMap::new(),
            tier,
            listen: parts.listen,
        }
    }
}

/// The tunables of a runtime and PHP's, with the defaults of a version.
pub(crate) fn all(own: &[TunableSpec], php: &str) -> Vec<TunableSpec> {
    [own.to_vec(), tunables::all(php)].concat()
}

/// The same as others know them.
pub(crate) fn tunables(own: &[TunableSpec], php: &str) -> Vec<Tunable> {
    all(own, php).iter().map(TunableSpec::tunable).collect()
}

/// What an existing php.ini sets.
///
/// # Errors
/// It is not in PHP's format.
pub(crate) fn read(ini: Option<&str>) -> Result<BTreeMap<String, String>, StackError> {
    let php = PhpIni::of_user(ini.unwrap_or(""))?;
    Ok(tunable_spec::configured(&tunables::all(""), |name| {
        php.get(name)
    }))
}

/// The directories of a runtime; PHP writes into some.
pub(crate) fn dirs(context: &TierContext) -> Vec<DirSpec> {
    let dir = |name: &str, owner, mode| DirSpec::new(context.dir.join(name), owner, mode);
    let mut dirs = vec![dir("", None, 0o711), dir("conf.d", None, 0o755)];
    let run = context.dir.join("run");
    dirs.push(DirSpec::of_sockets(run, None, context.user(USER)));
    // Whoever may make files among the logs could lead the one that root opens next elsewhere.
    dirs.push(dir("log", None, 0o755));
    let written = ["tmp", "sessions", "storage", "opcache"];
    dirs.extend(written.map(|name| dir(name, context.user(USER), 0o700)));
    dirs
}

/// A program that no distribution has: where a variable says, or at its usual places.
///
/// # Errors
/// It is at none of them.
pub(crate) fn find(
    program: &'static str,
    how: &str,
    variable: &str,
    usual: &[&str],
) -> Result<PathBuf, StackError> {
    let named = std::env::var_os(variable).map(PathBuf::from);
    let usual = usual.iter().map(PathBuf::from);
    let paths: Vec<PathBuf> = named.into_iter().chain(usual).collect();
    server::first_of(program, how, &paths)
}

/// Where Debian has the ini files of a server interface, such as `cli`, of a version.
pub(crate) fn scan_dir(version: &str, interface: &str) -> PathBuf {
    let minor: Vec<&str> = version.split('.').take(2).collect();
    PathBuf::from(format!("/etc/php/{}/{interface}/conf.d", minor.join(".")))
}

/// The newest PHP of the command line on this machine, and its version.
///
/// # Errors
/// There is none, or it does not answer.
pub(crate) fn command_line_php(commands: &dyn Commands) -> Result<(PathBuf, String), StackError> {
    let installed = server::newest_first(Path::new("/usr/bin"), "php");
    let php = server::find_program("php", "php-cli", &installed)?;
    let ask = CommandSpec::new(&php).args(["-n", "-r", "echo PHP_VERSION;"]);
    let version = server::run(commands, &ask)?.stdout;
    Ok((php, version))
}

/// Where a runtime tells its numbers: only on a host of the tier's own, whose ports nobody else has.
pub(crate) fn numbers_at(context: &TierContext, listen: &Address, port: u16) -> Option<SocketAddr> {
    let address = match listen {
        Address::Tcp(address) => address.ip(),
        Address::Unix(_) => context.address,
    };
    context.own_network.then(|| SocketAddr::new(address, port))
}

/// The small ini files of a scan directory; none where there is no such directory.
pub(crate) fn scanned(dir: &Path) -> Result<Vec<(String, String)>, StackError> {
    match dir.is_dir() {
        true => super::read_scan_dir(dir),
        false => Ok(Vec::new()),
    }
}
