//! HAProxy as the proxy tier: a load balancer that keeps its own connections to the web server.

mod config;

use crate::server::{self, Server};
use crate::tunable_spec::{self, Kind::*, Spelling, TunableSpec};
use crate::{ConfigFile, DirSpec, Program, RenderedTier, StackError, TierContext};
use kneepoint_model::{
    Address, Apply::Reload, CommandSpec, Commands, Layer, ProcessSpec, Ready, Signal, Tunable,
};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// HAProxy, from 2.2 on (`http-request return`).
pub(crate) struct Haproxy;

/// The system user of Debian's package.
const USER: &str = "haproxy";

const SPELLING: Spelling = Spelling {
    sizes: ["k", "m", "g"],
    seconds: "s",
    milliseconds: Some("ms"),
};

/// A reload starts new processes that take the listeners over.
#[rustfmt::skip]
const TUNABLES: &[TunableSpec] = &[
    TunableSpec::new("maxconn", Integer(1, 1_000_000, "connections"), "4096", Reload, "client connections at once; more wait in the kernel's queue"),
    TunableSpec::new("nbthread", Integer(1, 64, "threads"), "", Reload, "threads; as many as there are cores where it is not set"),
    TunableSpec::new("http-reuse", Choice(&["never", "safe", "aggressive", "always"]), "safe", Reload, "whether idle connections to the web server serve other clients' requests"),
    TunableSpec::new("http-connection", Choice(&["keep-alive", "server-close", "close"]), "keep-alive", Reload, "which connections stay open after a response: both, the client's, none"),
    TunableSpec::new("server.maxconn", Integer(0, 1_000_000, "connections"), "0", Reload, "requests at once that are handed to the web server; more wait here; 0 is no limit"),
    TunableSpec::new("server.pool-max-conn", Integer(-1, 1_000_000, "connections"), "-1", Reload, "idle connections to the web server that are kept; -1 is no limit"),
    TunableSpec::new("server.pool-purge-delay", Duration(0, 3600), "5s", Reload, "how long an idle connection to the web server is kept"),
    TunableSpec::new("timeout.connect", Duration(0, 3600), "5s", Reload, "longest wait for a connection to the web server"),
    TunableSpec::new("timeout.client", Duration(0, 86_400), "30s", Reload, "longest silence of a client"),
    TunableSpec::new("timeout.server", Duration(0, 86_400), "60s", Reload, "longest wait for the web server"),
    TunableSpec::new("timeout.queue", Duration(0, 3600), "5s", Reload, "longest wait for a slot of server.maxconn"),
    TunableSpec::new("timeout.http-keep-alive", Duration(0, 3600), "10s", Reload, "how long a client's connection is kept between two requests"),
    TunableSpec::new("retries", Integer(0, 100, "times"), "3", Reload, "times that a connection to the web server is tried again"),
];

impl Server for Haproxy {
    fn kind(&self) -> &'static str {
        "haproxy"
    }

    fn layers(&self) -> &'static [Layer] {
        &[Layer::Proxy]
    }

    fn find(&self, commands: &dyn Commands) -> Result<Program, StackError> {
        let paths = ["/usr/sbin/haproxy", "/usr/local/sbin/haproxy"].map(PathBuf::from);
        let path = server::find_program("haproxy", "haproxy", &paths)?;
        let said = server::run(commands, &CommandSpec::new(&path).args(["-v"]))?.stdout;
        let version = server::word_after(&said, "version ").unwrap_or_default();
        // Debian's: 2.6.12-1+deb12u4.
        let version = version.split('-').next().unwrap_or_default().to_owned();
        Ok(Program {
            path,
            version,
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
        Ok(tunable_spec::configured(TUNABLES, |name| {
            config::found(config, name)
        }))
    }

    fn render(&self, context: &TierContext) -> Result<RenderedTier, StackError> {
        server::check_layer(self, context.layer)?;
        let settings = tunable_spec::checked(
            "haproxy",
            context.layer,
            &context.settings,
            TUNABLES,
            &SPELLING,
        )?;
        if let Some(config) = &context.config {
            return Err(StackError::Unusable {
                file: config.name(),
                what: "a configuration of HAProxy cannot be made the lab's yet; leave `config` out and write what \
                       differs from the defaults below `settings`"
                    .into(),
            });
        }
        let Some(upstream) = &context.upstream else {
            return Err(StackError::Unusable {
                file: "stack.proxy".into(),
                what: "HAProxy serves no files: it needs a web server behind it".into(),
            });
        };
        let listen = context.listen(80, "haproxy.sock");
        let text = config::text(context, &settings, &listen, upstream);
        let path = context.dir.join("haproxy.cfg");
        Ok(RenderedTier {
            dirs: ["", "run", "log"]
                .map(|name| DirSpec::new(context.dir.join(name), None, 0o755))
                .into(),
            process: process(context, &path, &listen),
            files: vec![ConfigFile::new(path, Some("haproxy.cfg".into()), text)],
            prepare: Vec::new(),
            seed: Vec::new(),
            endpoints: Vec::new(),
            logs: Vec::new(),
            workers: None,
            env_for_app: BTreeMap::new(),
            tier: context.tier("haproxy", TUNABLES, settings, &listen),
            listen,
        })
    }

    /// `haproxy -c`.
    fn check(&self, tier: &RenderedTier, commands: &dyn Commands) -> Result<(), StackError> {
        let file = &tier.files[0].path;
        let command = CommandSpec::new(&tier.process.program).args([
            "-c".to_owned(),
            "-f".to_owned(),
            file.to_string_lossy().into_owned(),
        ]);
        let output = commands.run(&command).map_err(StackError::Command)?;
        match output.success() {
            true => Ok(()),
            false => Err(StackError::Refused {
                program: "haproxy",
                file: file.clone(),
                words: server::words(&output),
            }),
        }
    }
}

fn process(context: &TierContext, config: &std::path::Path, listen: &Address) -> ProcessSpec {
    ProcessSpec {
        name: format!("{} haproxy", context.layer),
        program: context.program.path.clone(),
        // -W: a master that a reload is asked of; -db: in the foreground.
        args: ["-W", "-db", "-f"]
            .map(str::to_owned)
            .into_iter()
            .chain([config.to_string_lossy().into_owned()])
            .collect(),
        env: Vec::new(),
        dir: context.dir.clone(),
        user: None,
        output: context.dir.join("log/haproxy.log"),
        ready: Ready::Connects(listen.clone()),
        ready_timeout: Duration::from_secs(10),
        reload: Some(Signal::Usr2),
        stop: Signal::Term,
        stop_timeout: Duration::from_secs(5),
    }
}
