//! nginx as the proxy tier and as the web tier.

mod config;
mod defaults;
mod held;
mod includes;
mod private;
mod tunables;
mod upstream;

use crate::server::{self, Server};
use crate::tier::{IDENTITY_PATH, NGINX_ACCESS_LOG};
use crate::tunable_spec::{self, TunableSpec};
use crate::{ConfigFile, ConfigText, DirSpec, Program, RenderedTier, StackError, TierContext};
use config::NginxConfig;
use kneepoint_model::{
    Address, CommandSpec, Commands, Endpoint, Layer, LogFormat, LogSource, ProcessSpec, Ready,
    Signal, Tunable,
};
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tunables::SPELLING;

/// nginx, from 1.15.3 on (`keepalive_requests` in upstream blocks).
pub(crate) struct Nginx;

/// The system user of Debian's package.
const USER: &str = "www-data";
/// Where `stub_status` answers, on a listener of its own.
const STUB_PATH: &str = "/kneepoint/stub";
const STUB_PORT: u16 = 8081;

impl Server for Nginx {
    fn kind(&self) -> &'static str {
        "nginx"
    }

    fn layers(&self) -> &'static [Layer] {
        &[Layer::Proxy, Layer::Web]
    }

    fn find(&self, commands: &dyn Commands) -> Result<Program, StackError> {
        let paths = [
            "/usr/sbin/nginx",
            "/usr/local/sbin/nginx",
            "/usr/local/nginx/sbin/nginx",
        ];
        let path = server::find_program("nginx", "nginx", &paths.map(PathBuf::from))?;
        let said = server::run(commands, &CommandSpec::new(&path).args(["-V"]))?.stderr;
        let conf = server::word_after(&said, "--conf-path=")
            .unwrap_or_else(|| "/etc/nginx/nginx.conf".into());
        let conf_dir = Path::new(&conf)
            .parent()
            .map_or(String::new(), |dir| dir.to_string_lossy().into_owned());
        let prefix = server::word_after(&said, "--prefix=").unwrap_or_default();
        let facts = [("conf_dir", conf_dir), ("prefix", prefix)];
        Ok(Program {
            version: server::word_after(&said, "nginx/").unwrap_or_default(),
            facts: facts.map(|(name, dir)| (name.to_owned(), dir)).into(),
            path,
            ..Program::default()
        })
    }

    fn tunables(&self, layer: Layer, version: &str) -> Vec<Tunable> {
        tunables::of(layer, version)
            .iter()
            .map(TunableSpec::tunable)
            .collect()
    }

    fn read(
        &self,
        layer: Layer,
        config: &str,
        _ini: Option<&str>,
    ) -> Result<BTreeMap<String, String>, StackError> {
        server::check_layer(self, layer)?;
        let site = NginxConfig::parse(layer, "nginx.conf", config, false, "")?;
        Ok(site.configured())
    }

    fn gathered(&self, config: ConfigText, program: &Program) -> Result<ConfigText, StackError> {
        includes::written_out(&config, Path::new(program.fact("conf_dir")))
    }

    fn render(&self, context: &TierContext) -> Result<RenderedTier, StackError> {
        server::check_layer(self, context.layer)?;
        let specs = tunables::of(context.layer, &context.program.version);
        let settings =
            tunable_spec::checked("nginx", context.layer, &context.settings, &specs, &SPELLING)?;
        let listen = context.listen(80, "nginx.sock");
        let default;
        let (name, text) = match &context.config {
            Some(config) => (config.name(), config.text.as_str()),
            None => {
                default = defaults::text(context);
                ("nginx.conf".to_owned(), default.as_str())
            }
        };
        let needs_upstream = context.upstream.is_some();
        let mut site = NginxConfig::parse(
            context.layer,
            &name,
            text,
            needs_upstream,
            &context.program.version,
        )?;
        private::adapt(&mut site, context, &listen);
        for (setting, value) in &settings {
            site.set(setting, value, &context.path(NGINX_ACCESS_LOG));
        }
        site.part_access_logs(context);
        let tier = context.tier("nginx", &specs, site.configured(), &listen);
        Ok(RenderedTier {
            dirs: ["", "run", "log", "tmp"]
                .map(|name| DirSpec::new(context.dir.join(name), None, 0o755))
                .into(),
            files: files(context, name, &site),
            prepare: prepare(context, &site),
            process: process(context, &listen),
            seed: Vec::new(),
            endpoints: vec![Endpoint::NginxStub {
                address: stub_address(context),
                path: STUB_PATH.into(),
            }],
            logs: vec![LogSource {
                path: context.dir.join("log/error.log"),
                format: LogFormat::NginxError,
            }],
            workers: None,
            env_for_app: BTreeMap::new(),
            tier,
            listen,
        })
    }

    /// `nginx -t`. It binds the tier's addresses for a moment, so it must run on the tier's host.
    fn check(&self, tier: &RenderedTier, commands: &dyn Commands) -> Result<(), StackError> {
        let command = CommandSpec::new(&tier.process.program)
            .args(["-t"])
            .args(tier.process.args.clone());
        let output = commands.run(&command).map_err(StackError::Command)?;
        if output.success() {
            return Ok(());
        }
        Err(StackError::Refused {
            program: "nginx",
            file: tier.files[0].path.clone(),
            words: server::words(&output),
        })
    }
}

/// Loopback of a host with a network of its own; otherwise a socket nobody else can have taken.
fn stub_address(context: &TierContext) -> Address {
    if context.own_network {
        Address::Tcp(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), STUB_PORT))
    } else {
        Address::Unix(context.dir.join("run/stub.sock"))
    }
}

/// An address as `listen` and `server` take it.
fn spelled(address: &Address) -> String {
    match address {
        Address::Tcp(address) => address.to_string(),
        Address::Unix(path) => format!("unix:{}", path.display()),
    }
}

fn files(context: &TierContext, name: String, site: &NginxConfig) -> Vec<ConfigFile> {
    let file =
        |path: &str, user_name, text| ConfigFile::new(context.dir.join(path), user_name, text);
    let status = format!(
        "server {{\n    listen {};\n    access_log off;\n    location = {STUB_PATH} {{\n        stub_status;\n    }}\n}}\n",
        spelled(&stub_address(context)),
    );
    let answer = match (&context.upstream, context.layer) {
        (Some(web), Layer::Proxy) => format!("proxy_pass http://{};", spelled(web)),
        _ => format!(
            "default_type text/plain;\n    return 200 \"{}\";",
            context.nonce
        ),
    };
    let identity = format!(
        "location = {IDENTITY_PATH} {{\n    access_log off;\n    auth_basic off;\n    {answer}\n}}\n"
    );
    vec![
        file("nginx.conf", Some(name), site.to_string()),
        file("status.conf", None, status),
        file("identity.conf", None, identity),
    ]
}

/// nginx does not bind a Unix socket whose file a killed predecessor left.
fn prepare(context: &TierContext, site: &NginxConfig) -> Vec<CommandSpec> {
    let sockets = ["run/stub.sock".to_owned(), "run/nginx.sock".to_owned()]
        .into_iter()
        .chain((0..site.other_servers()).map(private::other_socket))
        .map(|name| context.path(&name));
    vec![CommandSpec::new("/bin/rm").args(["-f"]).args(sockets)]
}

fn process(context: &TierContext, listen: &Address) -> ProcessSpec {
    let mut args = vec![
        "-c".to_owned(),
        context.path("nginx.conf"),
        "-p".into(),
        context.path(""),
    ];
    // Before it has read its configuration nginx writes to a compiled-in path, unless told since 1.19.5.
    if tunable_spec::version(&context.program.version) >= [1, 19, 5] {
        args.extend(["-e".into(), context.path("log/error.log")]);
    }
    ProcessSpec {
        name: format!("{} nginx", context.layer),
        program: context.program.path.clone(),
        args,
        env: Vec::new(),
        dir: context.dir.clone(),
        user: None,
        output: context.dir.join("log/output.log"),
        ready: Ready::Connects(listen.clone()),
        ready_timeout: Duration::from_secs(10),
        reload: Some(Signal::Hup),
        stop: Signal::Quit,
        stop_timeout: Duration::from_secs(5),
    }
}
