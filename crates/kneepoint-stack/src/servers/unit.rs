//! NGINX Unit as the PHP tier: a router that answers HTTP itself, and processes with PHP inside.

mod config;

use crate::knob::{Kind::*, Knob};
use crate::php;
use crate::php::settled::{self, Parts, Settled, USER};
use crate::server::{self, Server};
use crate::{ConfigFile, Program, RenderedTier, StackError, TierContext};
use kneepoint_model::{
    Address, Apply::Restart, CommandSpec, Commands, Endpoint, Layer, SettingKey, Sum, Tunable,
    WorkerPool, Workers, metric::WORKER_REQUESTS, metric::WORKERS_QUEUED,
};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// NGINX Unit with its PHP module. Its authors have ended their work on it (RT-08): it is here to be measured beside
/// the others and migrated away from.
pub(crate) struct Unit;

/// Names a `unitd` elsewhere: it is in no distribution.
const PROGRAM: &str = "KNEEPOINT_UNITD";

/// The server's own settings; PHP's follow.
#[rustfmt::skip]
const KNOBS: &[Knob] = &[
    Knob::new("processes", Integer(1, 10_000, "processes"), "1", Restart, "processes of the application: requests served at once (RT-07)"),
    Knob::new("processes.spare", Integer(0, 10_000, "processes"), "", Restart, "idle processes that are kept; set, `processes` is the most there can be"),
    Knob::new("processes.idle_timeout", Duration(0, 86_400), "", Restart, "how long a process beyond the spare ones stays idle"),
    Knob::new("limits.requests", Integer(0, 1_000_000_000, "requests"), "0", Restart, "a process ends after this many requests; 0 is never"),
    Knob::new("limits.timeout", Duration(0, 86_400), "0s", Restart, "longest time of a request; 0 is no end"),
    Knob::new("backlog", Integer(1, 65_535, "connections"), "511", Restart, "connections that may wait for the router, cut by net.core.somaxconn"),
];

impl Server for Unit {
    fn kind(&self) -> &'static str {
        "unit"
    }

    fn layers(&self) -> &'static [Layer] {
        &[Layer::Php]
    }

    fn speaks_http(&self) -> bool {
        true
    }

    fn find(&self, commands: &dyn Commands) -> Result<Program, StackError> {
        let path = settled::find(
            "unitd",
            "NGINX Unit with its PHP module from its source, and name it by KNEEPOINT_UNITD",
            PROGRAM,
            &["/usr/sbin/unitd", "/usr/local/sbin/unitd"],
        )?;
        let said = |flag: &str| -> Result<String, StackError> {
            let output = server::run(commands, &CommandSpec::new(&path).args([flag]))?;
            Ok(format!("{}{}", output.stdout, output.stderr))
        };
        let modules = modules_dir(&said("--help")?).unwrap_or_default();
        let module = server::first_of(
            "the PHP module of Unit",
            "it by `./configure php --module=php` and `make install` in Unit's source",
            &php_modules(&modules),
        )?;
        let version = php_version(&module);
        let unit = server::word_after(&said("--version")?, "unit version: ").unwrap_or_default();
        let modules = modules.to_string_lossy().into_owned();
        let files = settled::scanned(&settled::scan_dir(&version, "embed"))?;
        Ok(Program {
            path,
            facts: [("modules".to_owned(), modules), ("unit".to_owned(), unit)].into(),
            files,
            version,
        })
    }

    fn tunables(&self, _layer: Layer, version: &str) -> Vec<Tunable> {
        settled::tunables(KNOBS, version)
    }

    fn read(
        &self,
        _layer: Layer,
        _config: &str,
        ini: Option<&str>,
    ) -> Result<BTreeMap<String, String>, StackError> {
        settled::read(ini)
    }

    fn render(&self, context: &TierContext) -> Result<RenderedTier, StackError> {
        let settled = Settled::of(context, &Self, KNOBS)?;
        let listen = context.listen(80, "unit.sock");
        let config = config::whole(context, &settled, &listen);
        let parts = Parts {
            files: files(context, config),
            args: args(context),
            env: BTreeMap::new(),
            user: None,
            pool: pool(&settled),
            workers: Workers::Processes {
                title: "unit: \"php\" application".into(),
                idle: vec!["poll".into()],
            },
            numbers: Some(numbers(context)),
            listen,
        };
        let mut tier = settled.render(context, parts);
        tier.dirs
            .push(crate::DirSpec::new(context.dir.join("state"), None, 0o755));
        Ok(tier)
    }

    /// Unit checks its configuration when it starts, and says what it refuses in its log; what can be said before is
    /// whether the user PHP runs as can read the application.
    fn check(&self, tier: &RenderedTier, commands: &dyn Commands) -> Result<(), StackError> {
        php::check_readable("unitd", tier, commands)
    }
}

/// `--modulesdir DIR ... default: "/usr/lib/unit/modules"`.
fn modules_dir(help: &str) -> Option<PathBuf> {
    let rest = &help[help.find("--modulesdir")?..];
    let quoted = &rest[rest.find("default: \"")? + "default: \"".len()..];
    Some(PathBuf::from(&quoted[..quoted.find('"')?]))
}

fn php_modules(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    let is_php = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| name.starts_with("php") && name.ends_with(".unit.so"))
    };
    let mut paths: Vec<PathBuf> = paths.filter(is_php).collect();
    paths.sort();
    paths
}

/// The version of PHP that a module was built for, which it tells Unit (`nxt_app_module_t`): `8.2.35`.
fn php_version(module: &Path) -> String {
    let bytes = std::fs::read(module).unwrap_or_default();
    let texts = bytes.split(|byte| *byte == 0);
    let mut texts = texts.filter_map(|text| std::str::from_utf8(text).ok());
    texts
        .find(|text| is_php_version(text))
        .unwrap_or_default()
        .to_owned()
}

fn is_php_version(text: &str) -> bool {
    let mut parts = text.split('.');
    let numbers: Vec<u32> = parts.by_ref().map_while(|part| part.parse().ok()).collect();
    matches!(numbers[..], [7..=9, _, _]) && parts.next().is_none() && text.len() < 10
}

fn control(context: &TierContext) -> PathBuf {
    context.dir.join("run/control.sock")
}

/// Requests the router holds for the application, less those that its processes serve.
fn numbers(context: &TierContext) -> Endpoint {
    let waiting = [
        (1, "/applications/php/requests/active"),
        (-1, "/applications/php/processes/running"),
        (1, "/applications/php/processes/idle"),
    ];
    Endpoint::Numbers {
        address: Address::Unix(control(context)),
        path: "/status".into(),
        sums: vec![
            Sum::new(WORKERS_QUEUED, &waiting),
            Sum::new(WORKER_REQUESTS, &[(1, "/requests/total")]),
        ],
    }
}

/// The saturation model of the processes.
fn pool(settled: &Settled) -> WorkerPool {
    let max_workers = settled.number("processes").unwrap_or(1);
    WorkerPool {
        worker: "Unit process".into(),
        max_workers,
        start_workers: settled
            .number("processes.spare")
            .map_or(max_workers, |spare| spare.min(max_workers)),
        spawn_per_s: None,
        size_key: SettingKey::new(Layer::Php, "processes"),
        queue_limit: settled.number("backlog").unwrap_or(0),
        keeps_queue: true,
    }
}

fn files(context: &TierContext, config: config::Texts) -> Vec<ConfigFile> {
    // The environment of the application carries passwords.
    let mut state = ConfigFile::new(context.dir.join("state/conf.json"), None, config.whole);
    state.mode = 0o600;
    let shown = ConfigFile::new(
        context.dir.join("unit.json"),
        Some("unit.json".into()),
        config.shown,
    );
    vec![shown, state]
}

fn args(context: &TierContext) -> Vec<String> {
    let mut args = vec!["--no-daemon".to_owned()];
    for (flag, value) in [
        ("--control", format!("unix:{}", control(context).display())),
        ("--pid", context.path("run/unit.pid")),
        ("--log", context.path("log/unit.log")),
        ("--statedir", context.path("state")),
        ("--tmpdir", context.path("tmp")),
        ("--modulesdir", context.program.fact("modules").to_owned()),
    ] {
        args.extend([flag.to_owned(), value]);
    }
    if context.as_root {
        args.extend(["--user", USER, "--group", USER].map(str::to_owned));
    }
    args
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_modules_are_is_read_from_the_help() {
        let help = "  --modulesdir DIR     set modules directory name\n                       default: \"/opt/unit/modules\"\n";
        assert_eq!(modules_dir(help), Some(PathBuf::from("/opt/unit/modules")));
        assert_eq!(modules_dir("usage: unitd"), None);
    }

    #[test]
    fn versions_of_php_are_three_numbers() {
        assert!(is_php_version("8.2.36"));
        for text in ["8.2", "1.35.0", "8.2.36.1", "8.2.x", ""] {
            assert!(!is_php_version(text), "{text}");
        }
    }
}
