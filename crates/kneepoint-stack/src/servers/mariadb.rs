//! MariaDB as the database tier.

mod commands;
mod options;
mod private;

use crate::seed::APP_ROLE;
use crate::server::{self, Server};
use crate::text::ini::Ini;
use crate::tier::PHP_USER;
use crate::tunable_spec::{self, Kind::*, Spelling, TunableSpec};
use crate::{ConfigFile, DirSpec, Program, RenderedTier, StackError, TierContext, credentials};
use kneepoint_model::{
    Address, Apply::Restart, CommandSpec, Commands, Endpoint, Layer, LogFormat, LogSource, Tunable,
};
use options::{get, parse, set};
use private::adapt;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

/// MariaDB.
pub(crate) struct Mariadb;

/// The system user of Debian's package.
const USER: &str = "mysql";
/// The lab's own login, which resets and watches by the connection that is kept for administrators.
const ROLE: &str = "root";
/// The application's login and its database.
const DATABASE: &str = "app";
const SPELLING: Spelling = Spelling {
    sizes: ["K", "M", "G"],
    seconds: "",
    milliseconds: None,
};

/// A server reads its files at the start only.
#[rustfmt::skip]
const TUNABLES: &[TunableSpec] = &[
    TunableSpec::new("max_connections", Integer(10, 100_000, "connections"), "151", Restart, "most client connections; one more is kept for an administrator (MYS-01)"),
    TunableSpec::new("thread_cache_size", Integer(0, 16_384, "threads"), "", Restart, "threads of closed connections that are kept for new ones (MYS-02)"),
    TunableSpec::new("back_log", Integer(1, 65_535, "connections"), "", Restart, "listen backlog, cut by net.core.somaxconn"),
    TunableSpec::new("innodb_buffer_pool_size", Bytes(5 << 20, 1 << 44), "128M", Restart, "memory for cached pages (MYS-05)"),
    TunableSpec::new("innodb_log_file_size", Bytes(4 << 20, 1 << 39), "96M", Restart, "log written between checkpoints"),
    TunableSpec::new("innodb_flush_log_at_trx_commit", Choice(&["0", "1", "2", "3"]), "1", Restart, "whether a commit waits for the disk (MYS-07)"),
    TunableSpec::new("sync_binlog", Integer(0, 1_000_000, "commits"), "0", Restart, "commits between two waits for the disk under the binary log; 0 is never (MYS-07)"),
    TunableSpec::new("innodb_io_capacity", Integer(100, 1_000_000, "operations a second"), "200", Restart, "writes in the background"),
    TunableSpec::new("innodb_lock_wait_timeout", Seconds(0, 1_000_000), "50", Restart, "longest wait for a row (MYS-06)"),
    TunableSpec::new("table_open_cache", Integer(1, 1_048_576, "tables"), "2000", Restart, "tables that are kept open"),
    TunableSpec::new("tmp_table_size", Bytes(0, 1 << 40), "16M", Restart, "largest temporary table in memory; max_heap_table_size bounds it too"),
    TunableSpec::new("max_heap_table_size", Bytes(16 << 10, 1 << 40), "16M", Restart, "largest table in memory"),
    TunableSpec::new("query_cache_type", Choice(&["OFF", "ON", "DEMAND"]), "OFF", Restart, "whether results are kept; one lock guards all of them"),
    TunableSpec::new("wait_timeout", Seconds(1, 31_536_000), "28800", Restart, "close a connection idle for so long"),
    TunableSpec::new("slow_query_log", Switch("OFF", "ON"), "OFF", Restart, "log slow statements (MYS-03)"),
    TunableSpec::new("long_query_time", Text, "10", Restart, "from how many seconds on a statement is slow (MYS-03)"),
    TunableSpec::new("performance_schema", Switch("OFF", "ON"), "OFF", Restart, "statistics of statements, at some cost (MYS-03)"),
];

impl Server for Mariadb {
    fn kind(&self) -> &'static str {
        "mariadb"
    }

    fn layers(&self) -> &'static [Layer] {
        &[Layer::Db]
    }

    fn find(&self, commands: &dyn Commands) -> Result<Program, StackError> {
        let paths = ["/usr/sbin/mariadbd", "/usr/local/bin/mariadbd"].map(PathBuf::from);
        let path = server::find_program("mariadbd", "mariadb-server", &paths)?;
        let output = server::run(commands, &CommandSpec::new(&path).args(["--version"]))?;
        Ok(Program {
            version: server::word_after(&output.stdout, "Ver ").unwrap_or_default(),
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
        let document = parse("my.cnf", config)?;
        Ok(tunable_spec::configured(TUNABLES, |name| {
            get(&document, "", name)
        }))
    }

    fn render(&self, context: &TierContext) -> Result<RenderedTier, StackError> {
        server::check_layer(self, context.layer)?;
        let settings = tunable_spec::checked(
            "mariadb",
            context.layer,
            &context.settings,
            TUNABLES,
            &SPELLING,
        )?;
        let mut document = parse(
            &context.config_name("my.cnf"),
            context.config_text("[mysqld]\n"),
        )?;
        let tcp = SocketAddr::new(context.address, context.port.unwrap_or(3306));
        adapt(&mut document, context, tcp);
        let version = &context.program.version;
        for (name, value) in &settings {
            set(&mut document, version, name, value);
        }
        let configured = tunable_spec::configured(TUNABLES, |name| get(&document, version, name));
        let (password, own_password) = (credentials::password()?, credentials::password()?);
        let output = context.dir.join("log/mariadb.log");
        let socket = context.dir.join("run/mysqld.sock");
        let listen = if context.unix_socket {
            Address::Unix(socket.clone())
        } else {
            Address::Tcp(tcp)
        };
        Ok(RenderedTier {
            dirs: dirs(context),
            files: files(context, &document, &own_password),
            prepare: commands::prepare(context),
            process: commands::process(context, &output),
            seed: commands::seed(context, &password),
            endpoints: vec![Endpoint::Mysql {
                address: Address::Unix(socket),
                user: ROLE.into(),
                password: own_password,
            }],
            logs: vec![LogSource {
                path: output,
                format: LogFormat::Mariadb,
            }],
            workers: None,
            env_for_app: environment(context, tcp, &password),
            tier: context.tier("mariadb", TUNABLES, configured, &listen),
            listen,
        })
    }

    /// The server reads the whole configuration, checks every name and value, and prints what it came to.
    fn check(&self, tier: &RenderedTier, commands: &dyn Commands) -> Result<(), StackError> {
        let mut command = CommandSpec::new(&tier.process.program)
            .args(tier.process.args.clone())
            .args(["--help", "--verbose"]);
        command.user = tier.process.user.clone();
        let output = commands.run(&command).map_err(StackError::Command)?;
        if output.success() {
            return Ok(());
        }
        Err(StackError::Refused {
            program: "mariadbd",
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
    dirs.push(dir("tmp", owner.clone(), 0o700));
    dirs.push(dir("data", owner, 0o700));
    dirs
}

fn files(context: &TierContext, document: &Ini, password: &str) -> Vec<ConfigFile> {
    let name = context.config_name("my.cnf");
    let secret = |name: &str, text: String| ConfigFile {
        mode: 0o600,
        owner: context.user(USER),
        ..ConfigFile::new(context.dir.join(name), None, text)
    };
    let socket = context.path("run/mysqld.sock");
    vec![
        ConfigFile::new(context.dir.join("my.cnf"), Some(name), document.to_string()),
        secret(private::FIRST, private::first(password)),
        secret(
            private::CLIENT,
            format!("[client]\nuser={ROLE}\npassword={password}\nsocket={socket}\n"),
        ),
    ]
}

fn environment(context: &TierContext, tcp: SocketAddr, password: &str) -> BTreeMap<String, String> {
    // With the name `localhost` clients take the socket (libmariadb, PDO), with an address TCP.
    let (host, socket) = match context.unix_socket {
        true => ("localhost".to_owned(), context.path("run/mysqld.sock")),
        false => (tcp.ip().to_string(), String::new()),
    };
    [
        ("DB_CONNECTION", "mysql"),
        ("DB_HOST", host.as_str()),
        ("DB_PORT", &tcp.port().to_string()),
        ("DB_SOCKET", &socket),
        ("DB_DATABASE", DATABASE),
        ("DB_USERNAME", APP_ROLE),
        ("DB_PASSWORD", password),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .into()
}
