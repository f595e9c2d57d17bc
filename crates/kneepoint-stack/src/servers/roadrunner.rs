//! RoadRunner as the PHP tier: a server written in Go that keeps command-line PHP workers, with the application begun in
//! each, and talks to them over pipes.

use crate::php;
use crate::php::runtime_config::{self, Parts, RuntimeConfig, USER};
use crate::server::{self, Server};
use crate::tunable_spec::{Kind::*, TunableSpec};
use crate::{ConfigFile, Program, RenderedTier, StackError, TierContext};
use kneepoint_model::metric::WORKERS_QUEUED;
use kneepoint_model::{
    Address, Apply::Restart, CommandSpec, Commands, Endpoint, Layer, SettingKey, Sum, Tunable,
    WorkerPool, Workers,
};
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// RoadRunner 2, with its plugins http, static, prometheus and metrics. Later ones write the frames of their HTTP plugin in protocol
/// buffers, which the worker here does not read.
pub(crate) struct RoadRunner;

/// Names a `rr` elsewhere than at its usual places.
const PROGRAM: &str = "KNEEPOINT_ROADRUNNER";
/// How versions begin that it was tried with.
const KNOWN: &str = "2.";
const SERVER: &str = include_str!("roadrunner/server.php");
/// What workers call themselves.
const TITLE: &str = "kneepoint: roadrunner worker";
/// Where its numbers are, on the host of the tier.
const NUMBERS_PORT: u16 = 2112;
/// PHP of the command line, among the facts of the program.
const PHP: &str = "php";

/// The server's own settings; PHP's follow. Defaults: https://docs.roadrunner.dev/docs/php-worker/pool
#[rustfmt::skip]
const TUNABLES: &[TunableSpec] = &[
    TunableSpec::new("worker", Text, "", Restart, "script of the application that is kept between requests and answers them"),
    TunableSpec::new("num_workers", Integer(1, 10_000, "workers"), "", Restart, "worker processes: requests served at once; one for each core when not set (RT-01)"),
    TunableSpec::new("max_jobs", Integer(0, 1_000_000_000, "requests"), "0", Restart, "a worker is replaced after this many requests; 0 is never (RT-02)"),
    TunableSpec::new("allocate_timeout", Seconds(1, 86_400), "60s", Restart, "how long a request may wait for a free worker"),
];

impl Server for RoadRunner {
    fn kind(&self) -> &'static str {
        "roadrunner"
    }

    fn layers(&self) -> &'static [Layer] {
        &[Layer::Php]
    }

    fn speaks_http(&self) -> bool {
        true
    }

    fn find(&self, commands: &dyn Commands) -> Result<Program, StackError> {
        let path = runtime_config::find(
            "rr",
            "RoadRunner from its releases (roadrunner.dev), and name it by KNEEPOINT_ROADRUNNER",
            PROGRAM,
            &["/usr/local/bin/rr", "/usr/bin/rr"],
        )?;
        let said = server::run(commands, &CommandSpec::new(&path).args(["--version"]))?.stdout;
        let own = server::word_after(&said, "version ").unwrap_or_default();
        if !own.starts_with(KNOWN) {
            return Err(StackError::Unusable {
                file: path.display().to_string(),
                what: format!(
                    "it is RoadRunner {own}, and the worker here speaks to {KNOWN}x only; name one of these by {PROGRAM}"
                ),
            });
        }
        let (php, version) = runtime_config::command_line_php(commands)?;
        Ok(Program {
            path,
            facts: [
                (PHP.to_owned(), php.to_string_lossy().into_owned()),
                ("roadrunner".to_owned(), own),
            ]
            .into(),
            files: runtime_config::scanned(&runtime_config::scan_dir(&version, "cli"))?,
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
        let script = runtime.kept_script(context, "RoadRunner")?;
        let cores = context.cpus.ceil().max(1.0) as u64;
        let workers = runtime.number("num_workers").unwrap_or(cores);
        runtime.set("num_workers", &workers.to_string());
        runtime.cache_of_command_line()?;
        let listen = context.listen(8000, "roadrunner.sock");
        let numbers = runtime_config::numbers_at(context, &listen, NUMBERS_PORT);
        let mut env = php::app_env(context);
        env.insert("KNEEPOINT_WORKER".into(), script.display().to_string());
        let config = ConfigFile::new(
            context.dir.join("rr.yaml"),
            Some(".rr.yaml".into()),
            options(context, &runtime, &listen, numbers),
        );
        let worker = ConfigFile::new(context.dir.join("server.php"), None, SERVER.into());
        // RoadRunner counts a request from when it comes until it is answered.
        let queued = [
            (1, "rr_http_requests_queue"),
            (-1, "rr_http_workers_working"),
        ];
        let parts = Parts {
            files: vec![config, worker],
            args: ["serve", "-c", &context.path("rr.yaml"), "-s"]
                .map(str::to_owned)
                .into(),
            env,
            user: context.user(USER),
            pool: WorkerPool {
                worker: "RoadRunner worker".into(),
                max_workers: workers,
                start_workers: workers,
                spawn_per_s: None,
                size_key: SettingKey::new(Layer::Php, "num_workers"),
                queue_limit: 0,
                keeps_queue: true,
            },
            workers: Workers::Processes {
                title: TITLE.into(),
                idle: vec!["recv pipe".into()],
            },
            numbers: numbers.map(|address| Endpoint::Numbers {
                address: Address::Tcp(address),
                path: "/metrics".into(),
                sums: vec![Sum::new(WORKERS_QUEUED, &queued)],
            }),
            listen,
        };
        Ok(runtime.render(context, parts))
    }

    /// RoadRunner checks its configuration when it starts; what can be said before is whether the user PHP runs as can read
    /// the application.
    fn check(&self, tier: &RenderedTier, commands: &dyn Commands) -> Result<(), StackError> {
        php::check_readable("rr", tier, commands)
    }
}

/// `.rr.yaml`, in the part of YAML that is JSON.
fn options(
    context: &TierContext,
    runtime: &RuntimeConfig,
    listen: &Address,
    numbers: Option<SocketAddr>,
) -> String {
    let address = match listen {
        Address::Tcp(address) => address.to_string(),
        Address::Unix(path) => format!("unix://{}", path.display()),
    };
    let php = context.program.fact(PHP);
    let mut options = serde_json::json!({
        "version": "2.7",
        "rpc": { "listen": format!("unix://{}", context.path("tmp/rpc.sock")) },
        "server": {
            // What PHP prints of errors must not come between the answers.
            "command": format!("{php} -d display_errors=stderr {}", context.path("server.php")),
            "relay": "pipes",
        },
        "http": {
            "address": address,
            "middleware": ["prometheus", "static"],
            "static": { "dir": context.app.document_root(), "forbid": [".php", ".htaccess"] },
            "pool": {
                "num_workers": runtime.number("num_workers"),
                "max_jobs": runtime.number("max_jobs"),
                "allocate_timeout": runtime.text("allocate_timeout"),
            },
        },
        "logs": { "level": "error", "encoding": "json" },
    });
    if let Some(numbers) = numbers {
        options["metrics"] = serde_json::json!({ "address": numbers.to_string() });
    }
    serde_json::to_string_pretty(&options).unwrap_or_default() + "\n"
}
