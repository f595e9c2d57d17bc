//! Swoole as the PHP tier, the server below Laravel's Octane: an extension of the command-line PHP whose worker processes
//! keep the application between requests.

use crate::php;
use crate::php::runtime_config::{self, Parts, RuntimeConfig, USER};
use crate::server::{self, Server};
use crate::tunable_spec::{Kind::*, TunableSpec};
use crate::{ConfigFile, Program, RenderedTier, StackError, TierContext};
use kneepoint_model::{
    Address, Apply::Restart, CommandSpec, Commands, Layer, SettingKey, Tunable, WorkerPool, Workers,
};
use std::collections::BTreeMap;

/// Swoole 5 and 6.
pub(crate) struct Swoole;

/// Names a `swoole.so` elsewhere than among PHP's extensions.
const EXTENSION: &str = "KNEEPOINT_SWOOLE";
const SERVER: &str = include_str!("swoole/server.php");
/// What workers call themselves.
const TITLE: &str = "kneepoint: swoole worker";

/// The server's own settings; PHP's follow.
#[rustfmt::skip]
const TUNABLES: &[TunableSpec] = &[
    TunableSpec::new("worker", Text, "", Restart, "script of the application that is kept between requests and answers them"),
    TunableSpec::new("worker_num", Integer(1, 10_000, "workers"), "", Restart, "worker processes: requests served at once; one for each core when not set (RT-01)"),
    TunableSpec::new("reactor_num", Integer(1, 1_000, "threads"), "", Restart, "threads that read and write connections; as many as workers when not set"),
    TunableSpec::new("max_request", Integer(0, 1_000_000_000, "requests"), "0", Restart, "a worker is replaced after this many requests; 0 is never (RT-02)"),
    TunableSpec::new("backlog", Integer(1, 65_535, "connections"), "512", Restart, "connections that may wait to be accepted, cut by net.core.somaxconn (RT-03)"),
    TunableSpec::new("max_conn", Integer(1, 1_000_000, "connections"), "", Restart, "most connections at once; Swoole's own limit by descriptors when not set (RT-03)"),
    TunableSpec::new("dispatch_mode", Integer(1, 9, ""), "2", Restart, "which worker gets a request: 1 in turns, 2 by connection, 3 an idle one"),
];

impl Server for Swoole {
    fn kind(&self) -> &'static str {
        "swoole"
    }

    fn layers(&self) -> &'static [Layer] {
        &[Layer::Php]
    }

    fn speaks_http(&self) -> bool {
        true
    }

    fn find(&self, commands: &dyn Commands) -> Result<Program, StackError> {
        let (path, version) = runtime_config::command_line_php(commands)?;
        let ask = |code: &str| -> Result<String, StackError> {
            let command = CommandSpec::new(&path).args(["-n", "-r", code]);
            Ok(server::run(commands, &command)?.stdout)
        };
        let beside = ask("echo PHP_EXTENSION_DIR;")? + "/swoole.so";
        let extension = runtime_config::find(
            "swoole.so",
            "Swoole built for this PHP (`phpize` in its source), and name it by KNEEPOINT_SWOOLE",
            EXTENSION,
            &[&beside],
        )?;
        let extension = extension.to_string_lossy().into_owned();
        let command = CommandSpec::new(&path).args([
            "-n",
            "-d",
            &format!("extension={extension}"),
            "-r",
            "echo phpversion('swoole');",
        ]);
        let swoole = server::run(commands, &command)?.stdout;
        let mut files = runtime_config::scanned(&runtime_config::scan_dir(&version, "cli"))?;
        let loads_it = |text: &str| {
            text.lines()
                .any(|line| line.trim() == "extension=swoole.so")
        };
        files.retain(|(_, text)| !loads_it(text));
        files.push(("30-swoole.ini".into(), format!("extension={extension}\n")));
        Ok(Program {
            path,
            facts: [("swoole".to_owned(), swoole)].into(),
            files,
            version,
        })
    }

    fn tunables(&self, _layer: Layer, version: &str) -> Vec<Tunable> {
        runtime_config::tunables(TUNABLES, version)
    }

    fn read(
        &self,
        _layer: Layer,
        _config: &str,
        ini: Option<&str>,
    ) -> Result<BTreeMap<String, String>, StackError> {
        runtime_config::read(ini)
    }

    fn render(&self, context: &TierContext) -> Result<RenderedTier, StackError> {
        let mut runtime = RuntimeConfig::of(context, &Self, TUNABLES)?;
        let script = runtime.kept_script(context, "Swoole")?;
        let cores = context.cpus.ceil().max(1.0) as u64;
        let workers = runtime.number("worker_num").unwrap_or(cores);
        let reactors = runtime.number("reactor_num").unwrap_or(workers);
        runtime.set("worker_num", &workers.to_string());
        runtime.set("reactor_num", &reactors.to_string());
        runtime.cache_of_command_line()?;
        let listen = context.listen(8000, "swoole.sock");
        let mut env = php::app_env(context);
        env.insert("KNEEPOINT_WORKER".into(), script.display().to_string());
        let files = vec![
            ConfigFile::new(context.dir.join("server.php"), None, SERVER.into()),
            ConfigFile::new(
                context.dir.join("swoole.json"),
                Some("swoole.json".into()),
                options(context, &runtime, &listen),
            ),
        ];
        let parts = Parts {
            files,
            args: vec![context.path("server.php")],
            env,
            user: context.user(USER),
            pool: WorkerPool {
                worker: "Swoole worker".into(),
                max_workers: workers,
                start_workers: workers,
                spawn_per_s: None,
                size_key: SettingKey::new(Layer::Php, "worker_num"),
                queue_limit: runtime.number("backlog").unwrap_or(0),
                keeps_queue: true,
            },
            workers: Workers::Processes {
                title: TITLE.into(),
                idle: vec!["epoll".into()],
            },
            numbers: None,
            listen,
        };
        Ok(runtime.render(context, parts))
    }

    /// What can be said before it starts: whether the user PHP runs as can read the application.
    fn check(&self, tier: &RenderedTier, commands: &dyn Commands) -> Result<(), StackError> {
        php::check_readable("swoole", tier, commands)
    }
}

/// What the server script is told.
fn options(context: &TierContext, runtime: &RuntimeConfig, listen: &Address) -> String {
    let (host, port) = match listen {
        Address::Tcp(address) => (address.ip().to_string(), address.port()),
        Address::Unix(path) => (path.display().to_string(), 0),
    };
    let mut server = serde_json::Map::new();
    for spec in TUNABLES.iter().filter(|spec| spec.name != "worker") {
        if let Some(value) = runtime.number(spec.name) {
            server.insert(spec.name.to_owned(), value.into());
        }
    }
    let options = serde_json::json!({
        "host": host,
        "port": port,
        "title": TITLE,
        "document_root": context.app.document_root(),
        "log": context.path("tmp/swoole.log"),
        "pid": context.path("tmp/swoole.pid"),
        "server": server,
    });
    serde_json::to_string_pretty(&options).unwrap_or_default() + "\n"
}
