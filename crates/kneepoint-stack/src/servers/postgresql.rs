//! PostgreSQL as the database tier.

mod commands;
mod private;

use crate::seed::APP_ROLE;
use crate::server::{self, Server};
use crate::text::lines::{self, Dialect, Lines};
use crate::tier::PHP_USER;
use crate::tunable_spec::{self, Kind::*, Spelling, TunableSpec};
use crate::{
    ConfigFile, ConfigText, DirSpec, Program, RenderedTier, StackError, TierContext, credentials,
};
use kneepoint_model::{
    Address, Apply::Reload, Apply::Restart, CommandSpec, Commands, Endpoint, Layer, LogFormat,
    LogSource, Tunable,
};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// PostgreSQL.
pub(crate) struct Postgresql;

/// The system user of Debian's package.
const USER: &str = "postgres";
/// The lab's own role, a superuser: it resets and watches by the connections that are kept for superusers, also when
/// the application has used up all others.
const ROLE: &str = "kneepoint";
/// The application's role and its database, as in production no superuser.
const DATABASE: &str = "app";

const SPELLING: Spelling = Spelling {
    sizes: ["kB", "MB", "GB"],
    seconds: "s",
    milliseconds: Some("ms"),
};

#[rustfmt::skip]
const TUNABLES: &[TunableSpec] = &[
    TunableSpec::new("max_connections", Integer(1, 262_143, "connections"), "100", Restart, "most client connections (PG-01)"),
    TunableSpec::new("superuser_reserved_connections", Integer(0, 262_143, "connections"), "3", Restart, "of those, kept for superusers (PG-01)"),
    TunableSpec::new("shared_buffers", Bytes(128 << 10, 1 << 44), "128MB", Restart, "memory for cached pages"),
    TunableSpec::new("work_mem", Bytes(64 << 10, 1 << 41), "4MB", Reload, "memory of one sort or hash before it goes to disk"),
    TunableSpec::new("effective_cache_size", Bytes(8 << 10, 1 << 44), "4GB", Reload, "what the planner believes is cached"),
    TunableSpec::new("maintenance_work_mem", Bytes(1 << 20, 1 << 41), "64MB", Reload, "memory of vacuum and index builds"),
    TunableSpec::new("max_wal_size", Bytes(2 << 20, 1 << 44), "1GB", Reload, "log written between checkpoints"),
    TunableSpec::new("synchronous_commit", Choice(&["off", "local", "remote_write", "on", "remote_apply"]), "on", Reload, "whether a commit waits for the disk"),
    TunableSpec::new("jit", Switch("off", "on"), "on", Reload, "compile expensive queries"),
    TunableSpec::new("random_page_cost", Text, "4", Reload, "what the planner believes a random read costs (1.1 on SSDs)"),
    TunableSpec::new("idle_in_transaction_session_timeout", Duration(0, 86_400), "0", Reload, "end a session idle inside a transaction; 0 is never (PG-03)"),
    TunableSpec::new("statement_timeout", Duration(0, 86_400), "0", Reload, "end a statement that runs longer; 0 is never"),
    TunableSpec::new("log_min_duration_statement", Integer(-1, 2_147_483_647, "milliseconds"), "-1", Reload, "log statements that ran longer; -1 is none (PG-04)"),
    TunableSpec::new("log_connections", Switch("off", "on"), "off", Reload, "log every connection (PG-02)"),
];

impl Server for Postgresql {
    fn kind(&self) -> &'static str {
        "postgresql"
    }

    fn layers(&self) -> &'static [Layer] {
        &[Layer::Db]
    }

    fn find(&self, commands: &dyn Commands) -> Result<Program, StackError> {
        let mut paths: Vec<PathBuf> = server::newest_first(Path::new("/usr/lib/postgresql"), "")
            .into_iter()
            .map(|dir| dir.join("bin/postgres"))
            .collect();
        paths.extend(
            [
                "/usr/lib/postgresql/bin/postgres",
                "/usr/local/pgsql/bin/postgres",
            ]
            .map(PathBuf::from),
        );
        let path = server::find_program("postgres", "postgresql", &paths)?;
        let output = server::run(commands, &CommandSpec::new(&path).args(["--version"]))?;
        Ok(Program {
            version: server::word_after(&output.stdout, "(PostgreSQL)").unwrap_or_default(),
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
        let document = lines::parse(Dialect::Postgresql, config);
        Ok(tunable_spec::configured(TUNABLES, |name| {
            document.get(name)
        }))
    }

    fn gathered(&self, config: ConfigText, _program: &Program) -> Result<ConfigText, StackError> {
        lines::included::written_out(Dialect::Postgresql, &config)
    }

    fn render(&self, context: &TierContext) -> Result<RenderedTier, StackError> {
        server::check_layer(self, context.layer)?;
        let settings = tunable_spec::checked(
            "postgresql",
            context.layer,
            &context.settings,
            TUNABLES,
            &SPELLING,
        )?;
        let password = credentials::password()?;
        let mut document = lines::parse(Dialect::Postgresql, context.config_text(""));
        let tcp = SocketAddr::new(context.address, context.port.unwrap_or(5432));
        private::adapt(&mut document, context, tcp);
        for (name, value) in &settings {
            document.set(name, value);
        }
        let configured = tunable_spec::configured(TUNABLES, |name| document.get(name));
        let output = context.dir.join("log/postgresql.log");
        let listen = if context.unix_socket {
            Address::Unix(context.dir.join(format!("run/.s.PGSQL.{}", tcp.port())))
        } else {
            Address::Tcp(tcp)
        };
        Ok(RenderedTier {
            dirs: dirs(context),
            files: files(context, &document),
            prepare: commands::prepare(context),
            process: commands::process(context, tcp.port(), &output),
            seed: commands::seed(context, tcp.port(), &password),
            endpoints: vec![Endpoint::Postgresql {
                address: Address::Unix(context.dir.join("run")),
                port: tcp.port(),
                user: ROLE.into(),
                database: DATABASE.into(),
            }],
            logs: vec![LogSource {
                path: output,
                format: LogFormat::Postgresql,
            }],
            workers: None,
            env_for_app: environment(context, tcp, &password),
            tier: context.tier("postgresql", TUNABLES, configured, &listen),
            listen,
        })
    }

    /// `postgres -C` reads the whole configuration, checks every value and prints one of them.
    fn check(&self, tier: &RenderedTier, commands: &dyn Commands) -> Result<(), StackError> {
        let mut command = CommandSpec::new(&tier.process.program)
            .args(["-C", "max_connections"])
            .args(tier.process.args.clone());
        command.user = tier.process.user.clone();
        let output = commands.run(&command).map_err(StackError::Command)?;
        if output.success() {
            return Ok(());
        }
        Err(StackError::Refused {
            program: "postgres",
            file: tier.files[0].path.clone(),
            words: server::words(&output),
        })
    }
}

fn dirs(context: &TierContext) -> Vec<DirSpec> {
    let owner = context.user(USER);
    let dir = |name: &str, owner, mode| DirSpec::new(context.dir.join(name), owner, mode);
    let run = context.dir.join("run");
    let mut dirs = vec![
        dir("", None, 0o711),
        dir("log", None, 0o755),
        DirSpec::of_sockets(run, owner.clone(), context.user(PHP_USER)),
    ];
    dirs.push(dir("data", owner, 0o700));
    dirs
}

fn files(context: &TierContext, document: &Lines) -> Vec<ConfigFile> {
    let name = context.config_name("postgresql.conf");
    let file = |name: &str, user_name, text: String| {
        ConfigFile::new(context.dir.join(name), user_name, text)
    };
    vec![
        file("postgresql.conf", Some(name), document.to_string()),
        file("pg_hba.conf", None, private::logins(context)),
        file("pg_ident.conf", None, private::own_users(context)),
    ]
}

fn environment(context: &TierContext, tcp: SocketAddr, password: &str) -> BTreeMap<String, String> {
    let host = match context.unix_socket {
        true => context.path("run"),
        false => tcp.ip().to_string(),
    };
    let port = tcp.port().to_string();
    [
        ("DB_HOST", host.as_str()),
        ("DB_PORT", &port),
        ("DB_DATABASE", DATABASE),
        ("DB_USERNAME", APP_ROLE),
        ("DB_PASSWORD", password),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .into()
}
