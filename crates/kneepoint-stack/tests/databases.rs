//! Databases as the real programs see them: they are seeded again and again, copied, and leave others alone.

#![expect(
    clippy::disallowed_methods,
    reason = "these tests are the lab of the tiers they render"
)]

use crate::support;
use crate::support::running::{Local, Running, eventually, real, temp_dir};
use crate::support::{config, settings};
use kneepoint_model::Layer;
use kneepoint_stack::{TierContext, install, unpack_seed};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

#[test]
fn postgresql_is_seeded_again_and_again_and_copied() {
    let dir = temp_dir();
    let (server, mut context) = real("postgresql", Layer::Db, dir.path(), dir.path());
    context.seed = seed(
        &context,
        b"CREATE TABLE visits (id int);\nINSERT INTO visits VALUES (1), (2);\n",
    );
    context.statements = vec!["CREATE INDEX visits_by_id ON visits (id)".into()];
    context.settings = settings(&[("max_connections", "23"), ("shared_buffers", "16MiB")]);
    let ask = |running: &Running, sql: &str| {
        let env = &running.tier.env_for_app;
        let output = std::process::Command::new(context.program.path.with_file_name("psql"))
            .env("PGPASSWORD", &env["DB_PASSWORD"])
            .args([
                "-XAt",
                "-h",
                &env["DB_HOST"],
                "-p",
                &env["DB_PORT"],
                "-U",
                &env["DB_USERNAME"],
                "-d",
                &env["DB_DATABASE"],
                "-c",
                sql,
            ])
            .output()
            .expect("psql runs");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout)
            .expect("text")
            .trim()
            .to_owned()
    };
    let mut running = Running::start(server, &context);
    assert_eq!(ask(&running, "SHOW max_connections"), "23");
    assert_eq!(ask(&running, "SHOW shared_buffers"), "16MB");
    ask(&running, "INSERT INTO visits VALUES (3)");
    support::running::run_all(&running.tier.seed);
    assert_eq!(ask(&running, "SELECT count(*) FROM visits"), "2");
    let indexes = "SELECT indexname FROM pg_indexes WHERE tablename = 'visits'";
    assert_eq!(ask(&running, indexes), "visits_by_id");

    let mut changed = context.clone();
    changed.settings.insert("work_mem".into(), "8MB".into());
    running.reload(server, &changed);
    // A tier that is rendered anew has another password, which the seed sets.
    support::running::run_all(&running.tier.seed);
    let work_mem = eventually(|| ask(&running, "SHOW work_mem"), |value| value == "8MB");
    assert_eq!(work_mem, "8MB");
    drop(running);

    let mut copy = context.clone();
    copy.template = Some(context.dir.join("data"));
    copy.dir = dir.path().join("second");
    let second = Running::start(server, &copy);
    assert_eq!(ask(&second, "SELECT count(*) FROM visits"), "2");
}

#[test]
fn postgresql_words_are_quoted_when_it_refuses() {
    let dir = temp_dir();
    let (server, mut context) = real("postgresql", Layer::Db, dir.path(), dir.path());
    context.config = config("postgresql.conf", "max_connections = lots\n");
    let tier = server.render(&context).expect("renders");
    install(&tier).expect("installs");
    support::running::run_all(&tier.prepare);
    let error = server
        .check(&tier, &Local)
        .expect_err("PostgreSQL refuses it");
    assert!(error.to_string().contains("max_connections"), "{error}");
}

/// A seed as a tier finds it.
fn seed(context: &TierContext, sql: &[u8]) -> Option<PathBuf> {
    let dir = temp_dir();
    let dump = dir.path().join("dump.sql");
    std::fs::write(&dump, sql).expect("dump written");
    Some(unpack_seed(&dump, &context.dir).expect("seed taken"))
}

/// A page of any wiki: its text is compressed, and `mariadb-dump` writes it as it is.
#[test]
fn mariadb_takes_a_dump_with_bytes_that_are_no_text() {
    let dir = temp_dir();
    let (server, mut context) = real("mariadb", Layer::Db, dir.path(), dir.path());
    context.seed = seed(
        &context,
        b"/*!40101 SET NAMES utf8mb4 */;\n\
          CREATE TABLE pages (body longblob);\n\
          INSERT INTO pages VALUES (_binary '\xff\xfe\\0\x80\\'\xff;\\n'), ('\xff\xc3\\r');\n",
    );
    let running = Running::start(server, &context);
    let env = &running.tier.env_for_app;
    let output = std::process::Command::new("mariadb")
        .arg("--no-defaults")
        .arg(format!("--host={}", env["DB_HOST"]))
        .arg(format!("--port={}", env["DB_PORT"]))
        .arg(format!("--user={}", env["DB_USERNAME"]))
        .arg(format!("--password={}", env["DB_PASSWORD"]))
        .args(["--skip-column-names", "-e", "SELECT hex(body) FROM pages"])
        .arg(&env["DB_DATABASE"])
        .output()
        .expect("the client runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(text.trim(), "FFFE008027FF3B0A\nFFC30D", "{output:?}");
}

#[test]
fn mariadb_is_seeded_again_and_again_and_copied() {
    let dir = temp_dir();
    let (server, mut context) = real("mariadb", Layer::Db, dir.path(), dir.path());
    context.seed = seed(
        &context,
        b"CREATE TABLE visits (id int);\nINSERT INTO visits VALUES (1), (2);\n",
    );
    context.statements = vec!["CREATE INDEX visits_by_id ON visits (id)".into()];
    context.settings = settings(&[
        ("max_connections", "23"),
        ("innodb_buffer_pool_size", "16MiB"),
    ]);
    let ask = |running: &Running, sql: &str| {
        let env = &running.tier.env_for_app;
        let output = std::process::Command::new("mariadb")
            .arg("--no-defaults")
            .arg(format!("--host={}", env["DB_HOST"]))
            .arg(format!("--port={}", env["DB_PORT"]))
            .arg(format!("--user={}", env["DB_USERNAME"]))
            .arg(format!("--password={}", env["DB_PASSWORD"]))
            .args(["--skip-column-names", "-e", sql, &env["DB_DATABASE"]])
            .output()
            .expect("the client runs");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout)
            .expect("text")
            .trim()
            .to_owned()
    };
    let running = Running::start(server, &context);
    assert_eq!(ask(&running, "SELECT @@max_connections"), "23");
    assert_eq!(
        ask(&running, "SELECT @@innodb_buffer_pool_size"),
        (16 << 20).to_string()
    );
    ask(
        &running,
        "INSERT INTO visits VALUES (3); CREATE VIEW some AS SELECT * FROM visits",
    );
    support::running::run_all(&running.tier.seed);
    assert_eq!(ask(&running, "SELECT count(*) FROM visits"), "2");
    let indexes =
        "SELECT index_name FROM information_schema.statistics WHERE table_name = 'visits'";
    assert_eq!(ask(&running, indexes), "visits_by_id");
    assert_eq!(ask(&running, "SHOW TABLES"), "visits");
    drop(running);

    let mut copy = context.clone();
    copy.template = Some(context.dir.join("data"));
    copy.dir = dir.path().join("second");
    let second = Running::start(server, &copy);
    assert_eq!(ask(&second, "SELECT count(*) FROM visits"), "2");
}

/// At its start MariaDB removes what looks like temporary tables from its directory for them, whoever's they are; by
/// default that is the one every other MariaDB of the machine has.
#[test]
fn mariadb_leaves_the_temporary_tables_of_others_alone() {
    let dir = temp_dir();
    let shared = temp_dir();
    // What `/tmp` is to servers that run as one user.
    let open = std::fs::Permissions::from_mode(0o777);
    std::fs::set_permissions(shared.path(), open).expect("access");
    let table = shared.path().join("#sql-temptable-1-2-3.MAI");
    std::fs::write(&table, "").expect("a table of another server");
    let (server, context) = real("mariadb", Layer::Db, dir.path(), dir.path());
    let mut tier = server.render(&context).expect("renders");
    install(&tier).expect("installs");
    let by_default = ("TMPDIR".into(), shared.path().display().to_string());
    for command in &mut tier.prepare {
        command.env.push(by_default.clone());
    }
    support::running::run_all(&tier.prepare);
    assert!(table.exists(), "the installation removed it");
    tier.process.env.push(by_default);
    drop(Running::run(tier));
    assert!(table.exists(), "the server removed it");
}

#[test]
fn mariadb_words_are_quoted_when_it_refuses() {
    let dir = temp_dir();
    let (server, mut context) = real("mariadb", Layer::Db, dir.path(), dir.path());
    context.config = config("my.cnf", "[mysqld]\nno_such_setting = 1\n");
    let tier = server.render(&context).expect("renders");
    install(&tier).expect("installs");
    support::running::run_all(&tier.prepare);
    let error = server.check(&tier, &Local).expect_err("MariaDB refuses it");
    assert!(error.to_string().contains("no_such_setting"), "{error}");
}
