//! PHP-FPM as the PHP tier: one master, the application's pool, and a pool of one child that answers for the
//! interpreter both share (OPcache, ini values, extensions).

mod documents;
mod files;
mod pool;
mod tunables;

use crate::php::runtime_config::USER;
use crate::php::{self, runtime_config};
use crate::server::{self, Server};
use crate::tunable_spec::{self, TunableSpec};
use crate::{Program, RenderedTier, StackError, TierContext};
use documents::Documents;
use kneepoint_model::{
    Address, CommandSpec, Commands, Endpoint, Layer, LogFormat, LogSource, ProcessSpec, Ready,
    Signal, Tunable, Workers,
};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tunables::SPELLING;

/// PHP's FastCGI process manager.
pub(crate) struct Fpm;

/// Where the program is that shall be used of several.
const PROGRAM: &str = "KNEEPOINT_PHP_FPM";
/// Where the pool answers with its status, on a listener of its own.
const STATUS_PATH: &str = "/kneepoint/status";
/// Where the pool answers with the nonce, as the web tier does.
const PING_PATH: &str = "/.well-known/kneepoint";

impl Server for Fpm {
    fn kind(&self) -> &'static str {
        "fpm"
    }

    fn layers(&self) -> &'static [Layer] {
        &[Layer::Php]
    }

    fn find(&self, commands: &dyn Commands) -> Result<Program, StackError> {
        let path = located(std::env::var_os(PROGRAM))?;
        let said = server::run(commands, &CommandSpec::new(&path).args(["-v"]))?.stdout;
        let info = server::run(commands, &CommandSpec::new(&path).args(["-i"]))?.stdout;
        let scan_dir = server::word_after(&info, "Scan this dir for additional .ini files =>")
            .filter(|dir| dir.starts_with('/'));
        Ok(Program {
            version: server::word_after(&said, "PHP ").unwrap_or_default(),
            files: scan_dir.map_or(Ok(Vec::new()), |dir| php::read_scan_dir(Path::new(&dir)))?,
            path,
            ..Program::default()
        })
    }

    fn tunables(&self, _layer: Layer, version: &str) -> Vec<Tunable> {
        tunables::all(version)
            .iter()
            .map(TunableSpec::tunable)
            .collect()
    }

    fn read(
        &self,
        _layer: Layer,
        config: &str,
        ini: Option<&str>,
    ) -> Result<BTreeMap<String, String>, StackError> {
        Ok(Documents::of_user(config, ini.unwrap_or(""))?.configured())
    }

    fn render(&self, context: &TierContext) -> Result<RenderedTier, StackError> {
        server::check_layer(self, context.layer)?;
        let specs = tunables::all(&context.program.version);
        let settings =
            tunable_spec::checked("fpm", context.layer, &context.settings, &specs, &SPELLING)?;
        check_env(&context.app.env)?;
        let listen = context.listen(9000, "php.sock");
        let mut documents = Documents::new(context)?;
        documents.adapt(context, &listen);
        for (name, value) in &settings {
            documents.set(name, value)?;
        }
        pool::settle(&mut documents, context)?;
        documents.keep_private(context)?;
        let mut tier = context.tier("fpm", &specs, documents.configured(), &listen);
        tier.pool = Some(pool::workers(&tier.settings));
        Ok(RenderedTier {
            dirs: runtime_config::dirs(context),
            files: files::files(context, &documents),
            prepare: Vec::new(),
            process: process(context, &listen),
            seed: Vec::new(),
            endpoints: endpoints(context),
            logs: logs(context),
            workers: Some(Workers::FpmPool),
            env_for_app: BTreeMap::new(),
            tier,
            listen,
        })
    }

    /// `php-fpm -t`, and whether the user PHP runs as can read the application.
    fn check(&self, tier: &RenderedTier, commands: &dyn Commands) -> Result<(), StackError> {
        let refused = |words: String| StackError::Refused {
            program: "php-fpm",
            file: tier.files[0].path.clone(),
            words,
        };
        let mut command = CommandSpec::new(&tier.process.program)
            .args(["-t"])
            .args(tier.process.args.iter().filter(|arg| *arg != "-F").cloned());
        command.env = tier.process.env.clone();
        let output = commands.run(&command).map_err(StackError::Command)?;
        // A php.ini that cannot be parsed, or an extension that cannot be loaded, does not change the exit code.
        let broken = [
            "syntax error",
            "Failed loading",
            "Unable to load dynamic library",
        ];
        if !output.success() || broken.iter().any(|mark| output.stderr.contains(mark)) {
            return Err(refused(server::words(&output)));
        }
        php::check_readable("php-fpm", tier, commands)
    }
}

/// The one that is named and no other; else the newest that is installed.
fn located(named: Option<OsString>) -> Result<PathBuf, StackError> {
    if let Some(named) = named.filter(|named| !named.is_empty()) {
        let how = format!("it there, or name another one by {PROGRAM}");
        // It is started in a directory of its own.
        let path = std::path::absolute(&named).unwrap_or_else(|_| PathBuf::from(&named));
        return server::first_of("php-fpm", &how, &[path]);
    }
    let mut paths = server::newest_first(Path::new("/usr/sbin"), "php-fpm");
    paths.extend(["/usr/sbin/php-fpm", "/usr/local/sbin/php-fpm"].map(PathBuf::from));
    server::find_program("php-fpm", "php-fpm", &paths)
}

/// FPM reads its files line by line, and takes a value that begins with `$` for a variable of its own.
fn check_env(env: &BTreeMap<String, String>) -> Result<(), StackError> {
    let breaks = |text: &str| text.contains(['\n', '\r', '\0']);
    let bad_name =
        |name: &str| breaks(name) || name.is_empty() || name.contains(['=', ']', ';', '"']);
    let bad = |(name, value): &(&String, &String)| {
        bad_name(name) || breaks(value) || value.starts_with('$')
    };
    match env.iter().find(bad) {
        // The value may be a secret: it is not shown.
        Some((name, _)) => Err(StackError::Unusable {
            file: format!("app.env.{name}"),
            what: "FPM cannot pass on a value with a line break or a `$` at its start, nor a name with `=`, `]`, `;` or a quote".into(),
        }),
        None => Ok(()),
    }
}

fn process(context: &TierContext, listen: &Address) -> ProcessSpec {
    ProcessSpec {
        name: format!("{} fpm", context.layer),
        program: context.program.path.clone(),
        args: [
            "-F",
            "-y",
            &context.path("php-fpm.conf"),
            "-c",
            &context.path("php.ini"),
        ]
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
        reload: Some(Signal::Usr2),
        stop: Signal::Quit,
        stop_timeout: Duration::from_secs(5),
    }
}

fn endpoints(context: &TierContext) -> Vec<Endpoint> {
    vec![
        Endpoint::FpmStatus {
            address: Address::Unix(context.dir.join("run/status.sock")),
            path: STATUS_PATH.into(),
        },
        Endpoint::PhpProbe {
            address: Address::Unix(context.dir.join("run/probe.sock")),
            script: context.dir.join("probe.php"),
        },
    ]
}

fn logs(context: &TierContext) -> Vec<LogSource> {
    [
        ("log/fpm.log", LogFormat::FpmError),
        ("log/php-error.log", LogFormat::PhpError),
    ]
    .map(|(name, format)| LogSource {
        path: context.dir.join(name),
        format,
    })
    .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_one_that_is_named_is_used_and_no_other() {
        let missing = located(Some("/nowhere/php-fpm8.2".into())).expect_err("nothing is there");
        let told = "php-fpm is not installed (looked for /nowhere/php-fpm8.2); install it there, or name another one by \
                    KNEEPOINT_PHP_FPM";
        assert_eq!(missing.to_string(), told);
        let relative = located(Some("Cargo.toml".into())).expect("a file of this crate");
        assert!(relative.is_absolute() && relative.ends_with("Cargo.toml"));
        assert_eq!(located(Some("".into())), located(None));
    }
}
