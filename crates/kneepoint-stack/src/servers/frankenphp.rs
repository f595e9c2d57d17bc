//! FrankenPHP as the PHP tier: Caddy with PHP in its threads, which run scripts as they are or keep the application.

mod config;

use crate::php;
use crate::php::runtime_config::{self, Parts, RuntimeConfig, USER};
use crate::server::{self, Server};
use crate::tunable_spec::{Kind::*, TunableSpec};
use crate::{ConfigFile, Program, RenderedTier, StackError, TierContext};
use kneepoint_model::{
    Address, Apply::Restart, CommandSpec, Commands, Endpoint, Layer, SettingKey, Sum, Tunable,
    WorkerPool, Workers, metric::WORKERS_QUEUED,
};
use std::collections::BTreeMap;
use std::path::Path;

/// FrankenPHP 1.
pub(crate) struct FrankenPhp;

/// Names a `frankenphp` elsewhere.
const PROGRAM: &str = "KNEEPOINT_FRANKENPHP";
/// Keeps the application between requests.
const KEEPER: &str = include_str!("frankenphp/keeper.php");
/// Where Caddy's numbers are, on the host of the tier.
const ADMIN_PORT: u16 = 2019;

/// The server's own settings; PHP's follow.
#[rustfmt::skip]
const TUNABLES: &[TunableSpec] = &[
    TunableSpec::new("num_threads", Integer(1, 10_000, "threads"), "", Restart, "threads with PHP: requests served at once; twice the cores when not set (RT-05)"),
    TunableSpec::new("max_wait_time", Seconds(0, 86_400), "0s", Restart, "how long a request may wait for a thread; 0 is without end (RT-05)"),
    TunableSpec::new("worker", Text, "", Restart, "script of the application that is kept between requests and answers them; not set, each request runs the front controller anew"),
    TunableSpec::new("worker.max_requests", Integer(0, 1_000_000_000, "requests"), "0", Restart, "a kept application is begun anew after this many requests; 0 is never (RT-02)"),
];

impl Server for FrankenPhp {
    fn kind(&self) -> &'static str {
        "frankenphp"
    }

    fn layers(&self) -> &'static [Layer] {
        &[Layer::Php]
    }

    fn speaks_http(&self) -> bool {
        true
    }

    fn find(&self, commands: &dyn Commands) -> Result<Program, StackError> {
        let path = runtime_config::find(
            "frankenphp",
            "FrankenPHP from https://frankenphp.dev, and name it by KNEEPOINT_FRANKENPHP",
            PROGRAM,
            &["/usr/local/bin/frankenphp", "/usr/bin/frankenphp"],
        )?;
        let run = |args: &[&str]| -> Result<String, StackError> {
            let command = CommandSpec::new(&path).args(args.iter().copied());
            Ok(server::run(commands, &command)?.stdout)
        };
        let [frankenphp, version, caddy] = versions(&run(&["version"])?);
        let scan_dir = run(&["php-cli", "-r", "echo PHP_CONFIG_FILE_SCAN_DIR;"])?;
        let facts = [("frankenphp", frankenphp), ("caddy", caddy)];
        Ok(Program {
            facts: facts.map(|(name, value)| (name.to_owned(), value)).into(),
            files: runtime_config::scanned(Path::new(scan_dir.trim()))?,
            version,
            path,
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
        let threads = runtime.number("num_threads");
        let threads = threads.unwrap_or((2.0 * context.cpus).ceil().max(2.0) as u64);
        runtime.set("num_threads", &threads.to_string());
        let listen = context.listen(8080, "frankenphp.sock");
        let mut env = php::app_env(context);
        env.insert("HOME".into(), context.path("tmp"));
        let worker = runtime.text("worker");
        if !worker.is_empty() {
            let script = context.app.root.join(worker);
            env.insert("KNEEPOINT_WORKER".into(), script.display().to_string());
            let most = runtime.text("worker.max_requests").to_owned();
            env.insert("KNEEPOINT_MAX_REQUESTS".into(), most);
        }
        let file = |name: &str, user_name: Option<&str>, text: String| {
            ConfigFile::new(context.dir.join(name), user_name.map(str::to_owned), text)
        };
        let admin = runtime_config::numbers_at(context, &listen, ADMIN_PORT);
        let files = vec![
            file(
                "Caddyfile",
                Some("Caddyfile"),
                config::caddyfile(context, &runtime, &listen, admin.as_ref()),
            ),
            file("keeper.php", None, KEEPER.into()),
        ];
        let queues = [
            (1, "frankenphp_queue_depth"),
            (1, "frankenphp_worker_queue_depth"),
        ];
        let sums = vec![Sum::new(WORKERS_QUEUED, &queues)];
        let parts = Parts {
            files,
            args: [
                "run",
                "--adapter",
                "caddyfile",
                "--config",
                &context.path("Caddyfile"),
            ]
            .map(str::to_owned)
            .into(),
            env,
            user: context.user(USER),
            pool: WorkerPool {
                worker: "FrankenPHP thread".into(),
                max_workers: threads,
                start_workers: threads,
                spawn_per_s: None,
                size_key: SettingKey::new(Layer::Php, "num_threads"),
                queue_limit: 0,
                keeps_queue: true,
            },
            workers: Workers::Threads {
                name: "php-".into(),
                // Go parks them, or has one of them poll for all.
                idle: vec!["futex".into(), "epoll".into()],
            },
            numbers: admin.map(|address| Endpoint::Numbers {
                address: Address::Tcp(address),
                path: "/metrics".into(),
                sums,
            }),
            listen,
        };
        Ok(runtime.render(context, parts))
    }

    /// `frankenphp validate`, and whether the user PHP runs as can read the application.
    fn check(&self, tier: &RenderedTier, commands: &dyn Commands) -> Result<(), StackError> {
        let file = tier.files[0].path.clone();
        let path = file.display().to_string();
        let mut command = CommandSpec::new(&tier.process.program).args([
            "validate",
            "--adapter",
            "caddyfile",
            "--config",
            &path,
        ]);
        command.env = tier.process.env.clone();
        command.user = tier.process.user.clone();
        let output = commands.run(&command).map_err(StackError::Command)?;
        if !output.success() {
            return Err(StackError::Refused {
                program: "frankenphp",
                file,
                words: server::words(&output),
            });
        }
        php::check_readable("frankenphp", tier, commands)
    }
}

/// Of FrankenPHP, of the PHP in it and of Caddy.
fn versions(said: &str) -> [String; 3] {
    // Its own name ends in PHP.
    ["FrankenPHP v", " PHP ", "Caddy v"]
        .map(|marker| server::word_after(said, marker).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_told_apart() {
        let said = "FrankenPHP v1.9.1 PHP 8.2.32 Caddy v2.10.2 h1:g/gTYjGMD0dec+UgMw8SnfmJ3I9+M2TdvoRL/Ovu6U8=\n";
        assert_eq!(versions(said), ["1.9.1", "8.2.32", "2.10.2"]);
        assert_eq!(versions("?"), ["", "", ""]);
    }
}
