//! Redis as the cache tier.

mod private;

use crate::server::{self, Server};
use crate::text::lines::{self, Dialect};
use crate::tier::PHP_USER;
use crate::tunable_spec::{self, Kind::*, Spelling, TunableSpec};
use crate::{ConfigFile, ConfigText, DirSpec, Program, RenderedTier, StackError, TierContext};
use kneepoint_model::{
    Address, Apply::Restart, CommandSpec, Commands, Endpoint, Layer, LogFormat, LogSource,
    ProcessSpec, Ready, Signal, Tunable,
};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// Redis; also what speaks its protocol under its name.
pub(crate) struct Redis;

const USER: &str = "redis";

const SPELLING: Spelling = Spelling {
    sizes: ["kb", "mb", "gb"],
    seconds: "",
    milliseconds: None,
};

/// Redis reads its file only at the start, so every change is a restart.
#[rustfmt::skip]
const TUNABLES: &[TunableSpec] = &[
    TunableSpec::new("maxclients", Integer(1, 1_000_000, "connections"), "10000", Restart, "most client connections; more are refused (RDS-02)"),
    TunableSpec::new("io-threads", Integer(1, 128, "threads"), "1", Restart, "threads that read and write sockets; commands stay on one (RDS-04)"),
    TunableSpec::new("tcp-backlog", Integer(1, 65_535, "connections"), "511", Restart, "listen backlog, cut by net.core.somaxconn"),
    TunableSpec::new("timeout", Seconds(0, 86_400), "0", Restart, "close a client idle for so long; 0 is never"),
    TunableSpec::new("tcp-keepalive", Seconds(0, 86_400), "300", Restart, "TCP keepalive of client connections"),
    TunableSpec::new("maxmemory", Bytes(0, 1 << 44), "0", Restart, "memory for data; 0 is no limit (RDS-10)"),
    TunableSpec::new("maxmemory-policy", Choice(&["noeviction", "allkeys-lru", "allkeys-lfu", "allkeys-random", "volatile-lru", "volatile-lfu", "volatile-random", "volatile-ttl"]), "noeviction", Restart, "what to drop when memory is full (RDS-06)"),
    TunableSpec::new("appendonly", Switch("no", "yes"), "no", Restart, "append-only file (RDS-11)"),
    TunableSpec::new("appendfsync", Choice(&["always", "everysec", "no"]), "everysec", Restart, "when the append-only file reaches the disk (RDS-11)"),
    TunableSpec::new("save", Text, "3600 1 300 100 60 10000", Restart, "snapshot points as SECONDS CHANGES pairs; empty is no snapshots (RDS-12)"),
    TunableSpec::new("slowlog-log-slower-than", Integer(-1, 60_000_000, "microseconds"), "10000", Restart, "commands slower than this are logged (RDS-04)"),
    TunableSpec::new("hz", Integer(1, 500, "times a second"), "10", Restart, "how often background work runs"),
];

/// What a lab cache starts from: a cache, so nothing is kept on disk.
const DEFAULT: &str = "save \"\"\nappendonly no\n";

impl Server for Redis {
    fn kind(&self) -> &'static str {
        "redis"
    }

    fn layers(&self) -> &'static [Layer] {
        &[Layer::Cache]
    }

    fn find(&self, commands: &dyn Commands) -> Result<Program, StackError> {
        let paths = ["/usr/bin/redis-server", "/usr/local/bin/redis-server"].map(PathBuf::from);
        let path = server::find_program("redis-server", "redis-server", &paths)?;
        let output = server::run(commands, &CommandSpec::new(&path).args(["--version"]))?;
        Ok(Program {
            version: server::word_after(&output.stdout, "v=").unwrap_or_default(),
            path,
            ..Program::default()
        })
    }

    fn tunables(&self, _layer: Layer, _version: &str) -> Vec<Tunable> {
        TUNABLES.iter().map(TunableSpec::tunable).collect()
    }

    fn read(
        &self,
        _layer: Layer,
        config: &str,
        _ini: Option<&str>,
    ) -> Result<BTreeMap<String, String>, StackError> {
        let document = lines::parse(Dialect::Redis, config);
        Ok(tunable_spec::configured(TUNABLES, |name| {
            document.get(name)
        }))
    }

    fn gathered(&self, config: ConfigText, _program: &Program) -> Result<ConfigText, StackError> {
        lines::included::written_out(Dialect::Redis, &config)
    }

    fn render(&self, context: &TierContext) -> Result<RenderedTier, StackError> {
        server::check_layer(self, context.layer)?;
        let settings = tunable_spec::checked(
            "redis",
            context.layer,
            &context.settings,
            TUNABLES,
            &SPELLING,
        )?;
        let mut document = lines::parse(Dialect::Redis, context.config_text(DEFAULT));
        let listen = context.listen(6379, "redis.sock");
        private::adapt(&mut document, context, &listen);
        for (name, value) in &settings {
            document.set_only(name, value);
        }
        let user_name = context.config_name("redis.conf");
        let configured = tunable_spec::configured(TUNABLES, |name| document.get(name));
        let path = context.dir.join("redis.conf");
        let output = context.dir.join("log/redis.log");
        let owner = context.user(USER);
        Ok(RenderedTier {
            dirs: vec![
                DirSpec::new(context.dir.clone(), None, 0o711),
                DirSpec::new(context.dir.join("log"), None, 0o755),
                DirSpec::of_sockets(
                    context.dir.join("run"),
                    owner.clone(),
                    context.user(PHP_USER),
                ),
                DirSpec::new(context.dir.join("data"), owner, 0o700),
            ],
            files: vec![ConfigFile::new(
                path.clone(),
                Some(user_name),
                document.to_string(),
            )],
            prepare: Vec::new(),
            process: process(context, &path, &output, &listen),
            seed: seed(context, &listen),
            endpoints: vec![Endpoint::Redis {
                address: listen.clone(),
            }],
            logs: vec![LogSource {
                path: output,
                format: LogFormat::Redis,
            }],
            workers: None,
            env_for_app: environment(&listen),
            tier: context.tier("redis", TUNABLES, configured, &listen),
            listen,
        })
    }

    /// Redis has no check of its own; that the file is still the one rendered is all that can be said.
    /// What it refuses it says at the start, in its output.
    fn check(&self, tier: &RenderedTier, _commands: &dyn Commands) -> Result<(), StackError> {
        tier.files.iter().try_for_each(|file| {
            let text = std::fs::read_to_string(&file.path)
                .map_err(|error| StackError::io("read", &file.path, &error))?;
            match text == file.text {
                true => Ok(()),
                false => Err(StackError::Refused {
                    program: "Kneepoint",
                    file: file.path.clone(),
                    words: "the file is not the one that was installed".into(),
                }),
            }
        })
    }
}

fn process(
    context: &TierContext,
    config: &std::path::Path,
    output: &std::path::Path,
    listen: &Address,
) -> ProcessSpec {
    ProcessSpec {
        name: format!("{} redis", context.layer),
        program: context.program.path.clone(),
        args: vec![config.to_string_lossy().into_owned()],
        env: Vec::new(),
        dir: context.dir.clone(),
        user: context.user(USER),
        output: output.to_owned(),
        ready: Ready::Connects(listen.clone()),
        ready_timeout: Duration::from_secs(10),
        reload: None,
        stop: Signal::Term,
        stop_timeout: Duration::from_secs(5),
    }
}

/// Empties it, and fills it from the scenario's file, which holds a command a line.
fn seed(context: &TierContext, listen: &Address) -> Vec<CommandSpec> {
    let client = context.program.path.with_file_name("redis-cli");
    let door = match listen {
        Address::Tcp(address) => vec![
            "-h".to_owned(),
            address.ip().to_string(),
            "-p".to_owned(),
            address.port().to_string(),
        ],
        Address::Unix(path) => vec!["-s".to_owned(), path.to_string_lossy().into_owned()],
    };
    let client = CommandSpec::new(&client).args(door);
    let version = tunable_spec::version(&context.program.version);
    // Before 6.2 it always waits, and refuses the word.
    let empty = match version >= [6, 2, 0] {
        true => "FLUSHALL SYNC",
        false => "FLUSHALL",
    };
    // With --pipe every version of the client ends with a failure when a command fails.
    let pipe = client.clone().args(["--pipe"]);
    let flush = match version >= [7, 0, 0] {
        // Since 7.0 it can do so for a single command, too.
        true => client.args(["-e"]).args(empty.split(' ')),
        false => CommandSpec {
            stdin: Some(format!("{empty}\n")),
            ..pipe.clone()
        },
    };
    let fill = context.seed.as_ref().map(|seed| pipe.reading(seed));
    std::iter::once(flush).chain(fill).collect()
}

fn environment(listen: &Address) -> BTreeMap<String, String> {
    let (host, port) = match listen {
        Address::Tcp(address) => (address.ip().to_string(), address.port().to_string()),
        // phpredis takes a path for the host and then ignores the port.
        Address::Unix(path) => (path.to_string_lossy().into_owned(), "0".into()),
    };
    [
        ("REDIS_HOST".to_owned(), host),
        ("REDIS_PORT".to_owned(), port),
    ]
    .into()
}
