//! The commands around a MariaDB server: the data directory, the server itself, the seed.

use super::private::CLIENT;
use super::{DATABASE, USER};
use crate::seed::APP_ROLE;
use crate::{TierContext, seed};
use kneepoint_model::{CommandSpec, ProcessSpec, Ready, Signal};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A client program: beside the server, or where Debian puts clients.
fn client(context: &TierContext, name: &str) -> PathBuf {
    let server = &context.program.path;
    match server.parent().is_some_and(|dir| dir.ends_with("sbin")) {
        true => server.with_file_name("../bin").join(name),
        false => server.with_file_name(name),
    }
}

fn command(context: &TierContext, program: PathBuf) -> CommandSpec {
    let mut command = CommandSpec::new(program);
    command.user = context.user(USER);
    command.dir = Some(context.dir.clone());
    command.timeout = Duration::from_secs(120);
    command
}

/// An empty data directory, or the copy of a stopped one (faster: for the second arm of an experiment).
pub(super) fn prepare(context: &TierContext) -> Vec<CommandSpec> {
    let data = context.path("data");
    vec![match &context.template {
        Some(template) => command(context, "/bin/cp".into()).args([
            "-a".to_owned(),
            "--reflink=auto".to_owned(),
            format!("{}/.", template.display()),
            data,
        ]),
        None => command(context, client(context, "mariadb-install-db")).args([
            "--no-defaults".to_owned(),
            format!("--datadir={data}"),
            // At its start MariaDB removes every temporary table in this directory, and by default it is the one that
            // all other MariaDB servers of the machine have theirs in.
            format!("--tmpdir={}", context.path("tmp")),
            "--auth-root-authentication-method=normal".to_owned(),
            "--skip-test-db".to_owned(),
            "--skip-name-resolve".to_owned(),
        ]),
    }]
}

/// The administrator's login and no other setting. It must be the first of all arguments.
fn login(context: &TierContext) -> String {
    format!("--defaults-file={}", context.path(CLIENT))
}

pub(super) fn process(context: &TierContext, output: &Path) -> ProcessSpec {
    let ready = CommandSpec::new(client(context, "mariadb-admin"))
        .args([login(context), "ping".to_owned()]);
    ProcessSpec {
        name: format!("{} mariadb", context.layer),
        program: context.program.path.clone(),
        // The file must be the first of all arguments. What follows wins over it: a file may spell a name in more ways than
        // anybody looks for, and these lead to the user's data.
        args: vec![
            format!("--defaults-file={}", context.path("my.cnf")),
            format!("--datadir={}", context.path("data")),
            format!("--tmpdir={}", context.path("tmp")),
            "--loose-wsrep-on=OFF".to_owned(),
            "--loose-wsrep-provider=none".to_owned(),
        ],
        env: vec![("LC_ALL".into(), "C".into())],
        dir: context.dir.clone(),
        user: context.user(USER),
        output: output.to_owned(),
        ready: Ready::Command(ready),
        ready_timeout: Duration::from_secs(60),
        reload: None,
        stop: Signal::Term,
        stop_timeout: Duration::from_secs(30),
    }
}

/// Brings the database to its beginning: made when it is not there, emptied, loaded, changed. Emptying drops the tables and not
/// the database, so that persistent connections survive.
pub(super) fn seed(context: &TierContext, password: &str) -> Vec<CommandSpec> {
    let client = |arguments: &[&str]| {
        command(context, client(context, "mariadb"))
            .args([login(context), "--batch".to_owned()])
            .args(arguments.iter().map(|argument| (*argument).to_owned()))
    };
    let mut empty = client(&[]);
    // A transaction somebody left open must end the wait with an error, not make it endless.
    empty.stdin = Some(format!(
        "SET SESSION lock_wait_timeout = 10;\n\
         CREATE DATABASE IF NOT EXISTS {DATABASE};\n\
         CREATE USER IF NOT EXISTS '{APP_ROLE}'@'%' IDENTIFIED BY '{password}';\n\
         CREATE USER IF NOT EXISTS '{APP_ROLE}'@'localhost' IDENTIFIED BY '{password}';\n\
         ALTER USER '{APP_ROLE}'@'%' IDENTIFIED BY '{password}', '{APP_ROLE}'@'localhost' IDENTIFIED BY '{password}';\n\
         GRANT ALL ON {DATABASE}.* TO '{APP_ROLE}'@'%';\n\
         GRANT ALL ON {DATABASE}.* TO '{APP_ROLE}'@'localhost';\n\
         SET SESSION foreign_key_checks = 0;\n\
         DELIMITER //\n\
         BEGIN NOT ATOMIC FOR found IN (SELECT table_name AS name, table_type AS kind FROM information_schema.tables \
           WHERE table_schema = '{DATABASE}') DO\n\
           EXECUTE IMMEDIATE CONCAT('DROP ', IF(found.kind = 'VIEW', 'VIEW', 'TABLE'), ' `{DATABASE}`.`', found.name, '`');\n\
         END FOR;\n\
         FOR found IN (SELECT routine_name AS name, routine_type AS kind FROM information_schema.routines \
           WHERE routine_schema = '{DATABASE}' UNION ALL SELECT event_name, 'EVENT' FROM information_schema.events \
           WHERE event_schema = '{DATABASE}') DO\n\
           EXECUTE IMMEDIATE CONCAT('DROP ', found.kind, ' `{DATABASE}`.`', found.name, '`');\n\
         END FOR; END//\n\
         DELIMITER ;\n"
    ));
    let mut commands = vec![empty];
    if let Some(seed) = &context.seed {
        // What `source` meets in a command of -e ends nothing.
        commands.push(client(&[DATABASE]).reading(seed));
    }
    if !context.statements.is_empty() {
        let mut changes = client(&[DATABASE]);
        changes.stdin = Some(seed::script(&context.statements));
        commands.push(changes);
    }
    commands
}
