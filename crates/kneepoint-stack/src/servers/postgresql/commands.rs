//! The commands around a PostgreSQL server: `initdb`, the server itself, the seed.

use super::{DATABASE, ROLE, USER};
use crate::seed::APP_ROLE;
use crate::{TierContext, seed};
use kneepoint_model::{CommandSpec, ProcessSpec, Ready, Signal};
use std::path::{Path, PathBuf};
use std::time::Duration;

fn program(context: &TierContext, name: &str) -> PathBuf {
    context.program.path.with_file_name(name)
}

fn command(context: &TierContext, program: PathBuf) -> CommandSpec {
    let mut command = CommandSpec::new(program);
    command.user = context.user(USER);
    command.dir = Some(context.dir.clone());
    command.timeout = Duration::from_secs(120);
    command
}

/// An empty cluster, or the copy of a stopped one (faster: for the second arm of an experiment).
pub(super) fn prepare(context: &TierContext) -> Vec<CommandSpec> {
    let data = context.path("data");
    let command = match &context.template {
        Some(template) => command(context, "/bin/cp".into()).args([
            "-a".to_owned(),
            "--reflink=auto".to_owned(),
            format!("{}/.", template.display()),
            data,
        ]),
        None => command(context, program(context, "initdb")).args([
            "--pgdata",
            &data,
            "--username",
            ROLE,
            "--auth",
            "reject",
            "--encoding",
            "UTF8",
            "--locale",
            "C",
            "--no-sync",
        ]),
    };
    vec![command]
}

pub(super) fn process(context: &TierContext, port: u16, output: &Path) -> ProcessSpec {
    let ready = CommandSpec::new(program(context, "pg_isready")).args([
        "-h",
        &context.path("run"),
        "-p",
        &port.to_string(),
        "-d",
        "postgres",
        "-U",
        ROLE,
    ]);
    ProcessSpec {
        name: format!("{} postgresql", context.layer),
        program: context.program.path.clone(),
        args: vec![
            "-D".into(),
            context.path("data"),
            "-c".into(),
            format!("config_file={}", context.path("postgresql.conf")),
        ],
        env: vec![("LC_ALL".into(), "C".into())],
        dir: context.dir.clone(),
        user: context.user(USER),
        output: output.to_owned(),
        ready: Ready::Command(ready),
        ready_timeout: Duration::from_secs(30),
        reload: Some(Signal::Hup),
        // SIGINT is the fast shutdown: clients are disconnected, the cluster stays clean.
        stop: Signal::Int,
        stop_timeout: Duration::from_secs(20),
    }
}

/// Brings the database to its beginning: made when it is not there, emptied, loaded, changed, analysed.
/// Emptying drops the schema and not the database, so that persistent connections survive.
pub(super) fn seed(context: &TierContext, port: u16, password: &str) -> Vec<CommandSpec> {
    let psql = |database: &str| {
        command(context, program(context, "psql")).args([
            "-X",
            "-q",
            "-v",
            "ON_ERROR_STOP=1",
            "-h",
            &context.path("run"),
            "-p",
            &port.to_string(),
            "-U",
            ROLE,
            "-d",
            database,
        ])
    };
    let mut create = psql("postgres");
    create.stdin = Some(format!(
        "SET password_encryption = md5;\n\
         SELECT 'CREATE ROLE {APP_ROLE} LOGIN' \
         WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = '{APP_ROLE}') \\gexec\n\
         ALTER ROLE {APP_ROLE} PASSWORD '{password}';\n\
         SELECT 'CREATE DATABASE {DATABASE} OWNER {APP_ROLE}' \
         WHERE NOT EXISTS (SELECT FROM pg_database WHERE datname = '{DATABASE}') \\gexec\n"
    ));
    let mut empty = psql(DATABASE);
    // A transaction somebody left open must end the wait with an error, not make it endless.
    empty.stdin = Some(format!(
        "SET client_min_messages = warning; SET lock_timeout = '10s';\n\
         SELECT format('DROP PUBLICATION %I', pubname) FROM pg_publication \\gexec\n\
         SELECT format('DROP EXTENSION IF EXISTS %I CASCADE', extname) FROM pg_extension WHERE extname <> 'plpgsql' \\gexec\n\
         SELECT count(lo_unlink(oid)) FROM pg_largeobject_metadata \\g /dev/null\n\
         SELECT format('DROP SCHEMA IF EXISTS %I CASCADE', nspname) FROM pg_namespace \
         WHERE nspname !~ '^pg_' AND nspname <> 'information_schema' \\gexec\n\
         CREATE SCHEMA public AUTHORIZATION {APP_ROLE};\n"
    ));
    let mut commands = vec![create, empty];
    // What is made belongs to the application, over a connection that is the lab's.
    let as_app = format!("SET SESSION AUTHORIZATION {APP_ROLE}");
    let run = |file: &str| psql(DATABASE).args(["-c", &as_app, "-f", file]);
    if let Some(seed) = &context.seed {
        commands.push(run(&seed.to_string_lossy()));
    }
    if !context.statements.is_empty() {
        let mut changes = run("-");
        changes.stdin = Some(seed::script(&context.statements));
        commands.push(changes);
    }
    commands.push(psql(DATABASE).args(["-c", "VACUUM ANALYZE"]));
    commands
}
