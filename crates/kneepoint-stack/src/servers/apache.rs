//! Apache with mod_php as the PHP tier: each child of the prefork module is a web server and an interpreter in one, so
//! that a connection that is kept open holds a whole PHP worker.

mod config;
mod tunables;

use crate::php::{self, PhpIni, SPELLING, runtime_config};
use crate::server::{self, Server};
use crate::tunable_spec;
use crate::{ConfigFile, Program, RenderedTier, StackError, TierContext};
use kneepoint_model::{
    Address, CommandSpec, Commands, Endpoint, Layer, LogFormat, LogSource, ProcessSpec, Ready,
    Signal, Tunable, Workers,
};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tunables::{TUNABLES, pool};

/// Apache 2.4 with the prefork module and PHP inside.
pub(crate) struct Apache;

/// Where Debian keeps modules.
const MODULES: &str = "/usr/lib/apache2/modules";

impl Server for Apache {
    fn kind(&self) -> &'static str {
        "apache"
    }

    fn layers(&self) -> &'static [Layer] {
        &[Layer::Php]
    }

    fn speaks_http(&self) -> bool {
        true
    }

    fn find(&self, commands: &dyn Commands) -> Result<Program, StackError> {
        let paths = ["/usr/sbin/apache2", "/usr/sbin/httpd"].map(PathBuf::from);
        let path = server::find_program("apache2", "apache2", &paths)?;
        let module = server::newest_first(Path::new(MODULES), "libphp");
        let module = server::find_program("mod_php", "libapache2-mod-php", &module)?;
        let said = server::run(commands, &CommandSpec::new(&path).args(["-v"]))?.stdout;
        let name = module.file_stem().unwrap_or_default().to_string_lossy();
        let version = name.trim_start_matches("libphp").to_owned();
        Ok(Program {
            path,
            facts: [
                (
                    "apache".to_owned(),
                    server::word_after(&said, "Apache/").unwrap_or_default(),
                ),
                (
                    "php_module".to_owned(),
                    module.to_string_lossy().into_owned(),
                ),
            ]
            .into(),
            files: runtime_config::scanned(&runtime_config::scan_dir(&version, "apache2"))?,
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
        server::check_layer(self, context.layer)?;
        let specs = runtime_config::all(TUNABLES, &context.program.version);
        let settings = tunable_spec::checked(
            "apache",
            context.layer,
            &context.settings,
            &specs,
            &SPELLING,
        )?;
        config::usable(context)?;
        let listen = context.listen(80, "apache.sock");
        let mut php = PhpIni::new(context)?;
        let mut own = config::Sizes::of(TUNABLES);
        for (name, value) in &settings {
            match own.set(name, value) {
                true => {}
                false => php.set(name, value)?,
            }
        }
        own.check(context.layer)?;
        for (name, value) in php::private_values(context, |name| php.get(name))? {
            php.set(name, &value)?;
        }
        let mut configured = own.values().clone();
        configured.extend(tunable_spec::configured(&specs, |name| php.get(name)));
        let mut tier = context.tier("apache", &specs, configured, &listen);
        tier.pool = Some(pool(&tier.settings));
        Ok(RenderedTier {
            dirs: runtime_config::dirs(context),
            files: files(context, &own, &php, &listen),
            prepare: Vec::new(),
            process: process(context, &listen),
            seed: Vec::new(),
            endpoints: vec![Endpoint::PhpPage {
                address: listen.clone(),
                path: runtime_config::PROBE_PATH.into(),
            }],
            logs: [
                ("log/error.log", LogFormat::Apache),
                ("log/php-error.log", LogFormat::PhpError),
            ]
            .map(|(name, format)| LogSource {
                path: context.dir.join(name),
                format,
            })
            .into(),
            // The children of prefork wait for connections by polling their listeners, and for nothing else that way
            // (prefork.c).
            workers: Some(Workers::Processes {
                title: String::new(),
                idle: vec!["epoll".into()],
            }),
            env_for_app: BTreeMap::new(),
            tier,
            listen,
        })
    }

    /// `apache2 -t`, and whether the user PHP runs as can read the application.
    fn check(&self, tier: &RenderedTier, commands: &dyn Commands) -> Result<(), StackError> {
        let mut command = CommandSpec::new(&tier.process.program).args(["-t"]).args(
            tier.process
                .args
                .iter()
                .filter(|arg| *arg != "-DFOREGROUND")
                .cloned(),
        );
        command.env = tier.process.env.clone();
        let output = commands.run(&command).map_err(StackError::Command)?;
        if !output.success() {
            return Err(StackError::Refused {
                program: "apache2",
                file: tier.files[0].path.clone(),
                words: server::words(&output),
            });
        }
        php::check_readable("apache2", tier, commands)
    }
}

fn files(
    context: &TierContext,
    own: &config::Sizes,
    php: &PhpIni,
    listen: &Address,
) -> Vec<ConfigFile> {
    let file = |name: &str, user_name: Option<&str>, text: String| {
        ConfigFile::new(context.dir.join(name), user_name.map(str::to_owned), text)
    };
    let mut files = vec![
        file(
            "apache2.conf",
            Some("apache2.conf"),
            config::main(context, own, listen),
        ),
        file("probe.php", None, php::PROBE.into()),
        file("identity.txt", None, context.nonce.clone()),
    ];
    // It carries passwords.
    let mut env = file("app-env.conf", None, config::app_env(context));
    env.mode = 0o600;
    files.push(env);
    files.extend(php.files(context));
    files
}

fn process(context: &TierContext, listen: &Address) -> ProcessSpec {
    ProcessSpec {
        name: format!("{} apache", context.layer),
        program: context.program.path.clone(),
        args: ["-DFOREGROUND", "-f", &context.path("apache2.conf")]
            .map(str::to_owned)
            .into(),
        env: vec![
            ("PHP_INI_SCAN_DIR".into(), context.path("conf.d")),
            (php::FRONT_VARIABLE.into(), context.path_of_front()),
        ],
        dir: context.dir.clone(),
        user: None,
        output: context.dir.join("log/output.log"),
        ready: Ready::Connects(listen.clone()),
        ready_timeout: Duration::from_secs(20),
        reload: None,
        stop: Signal::Term,
        stop_timeout: Duration::from_secs(5),
    }
}
