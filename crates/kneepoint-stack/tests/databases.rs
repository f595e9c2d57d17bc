//! Databases as the real programs see them: they are seeded again and again, copied, and leave others alone.

#![expect(
    clippy::disallowed_methods,
    reason = "these tests are the lab of the tiers they render"
)]

use crate::support;
use crate::support::running::{Local, Running, eventually, real, temp_dir};
use crate::support::{config, settings};
use kneepoint_model::{Commands as _, Layer};
use kneepoint_stack::{Server, TierContext, install, unpack_seed};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

#[test]
fn postgresql_is_seeded_again_and_again_and_copied() {
    let dir = temp_dir();
    let (server, mut context) = real("postgresql", Layer::Db, dir.path(), dir.path());
    context.seed = seed(
        server,
        &context,
        b"CREATE TABLE visits (id int);\nINSERT INTO visits VALUES (1), (2);\n",
    );
    context.statements = vec!["CREATE INDEX visits_by_id ON visits (id)".into()];
    context.settings = settings(&[("max_connections", "23"), ("shared_buffers", "16MiB")]);
    let ask = |running: &Running, sql: &str| ask_postgresql(&context, running, sql);
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

/// What the application's role is answered.
fn ask_postgresql(context: &TierContext, running: &Running, sql: &str) -> String {
    let env = &running.tier.env_for_app;
    let mut psql = Command::new(context.program.path.with_file_name("psql"));
    psql.env("PGPASSWORD", &env["DB_PASSWORD"])
        .args(["-XAt", "-h", &env["DB_HOST"], "-p", &env["DB_PORT"]])
        .args(["-U", &env["DB_USERNAME"], "-d", &env["DB_DATABASE"]])
        .args(["-c", sql]);
    answer(psql)
}

/// The same of MariaDB.
fn ask_mariadb(running: &Running, sql: &str) -> String {
    let env = &running.tier.env_for_app;
    let mut client = Command::new("mariadb");
    client
        .arg("--no-defaults")
        .arg(format!("--host={}", env["DB_HOST"]))
        .arg(format!("--port={}", env["DB_PORT"]))
        .arg(format!("--user={}", env["DB_USERNAME"]))
        .arg(format!("--password={}", env["DB_PASSWORD"]))
        .args(["--skip-column-names", "-e", sql, &env["DB_DATABASE"]]);
    answer(client)
}

fn answer(mut client: Command) -> String {
    let output = client.output().expect("the client runs");
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).expect("text");
    text.trim().to_owned()
}

/// A seed as a tier finds it.
fn seed(server: &dyn Server, context: &TierContext, sql: &[u8]) -> Option<PathBuf> {
    let dir = temp_dir();
    let dump = dir.path().join("dump.sql");
    std::fs::write(&dump, sql).expect("dump written");
    let taken = unpack_seed(&dump, &context.dir, server.kind(), &context.program);
    Some(taken.expect("seed taken"))
}

/// A page of any wiki: its text is compressed, and `mariadb-dump` writes it as it is.
#[test]
fn mariadb_takes_a_dump_with_bytes_that_are_no_text() {
    let dir = temp_dir();
    let (server, mut context) = real("mariadb", Layer::Db, dir.path(), dir.path());
    context.seed = seed(
        server,
        &context,
        b"/*!40101 SET NAMES utf8mb4 */;\n\
          CREATE TABLE pages (body longblob);\n\
          INSERT INTO pages VALUES (_binary '\xff\xfe\\0\x80\\'\xff;\\n'), ('\xff\xc3\\r');\n",
    );
    let running = Running::start(server, &context);
    let bodies = ask_mariadb(&running, "SELECT hex(body) FROM pages");
    assert_eq!(bodies, "FFFE008027FF3B0A\nFFC30D");
}

/// Made on a machine with other owners, by `pg_dump --create`.
#[test]
fn postgresql_takes_a_dump_of_another_machine() {
    let dir = temp_dir();
    let (server, mut context) = real("postgresql", Layer::Db, dir.path(), dir.path());
    context.seed = seed(
        server,
        &context,
        b"SET transaction_timeout = 0;\n\
          SELECT pg_catalog.set_config('search_path', '', false);\n\
          CREATE DATABASE shop WITH TEMPLATE = template0 ENCODING = 'UTF8';\n\
          ALTER DATABASE shop OWNER TO owner;\n\
          \\connect shop\n\
          CREATE EXTENSION pg_trgm WITH SCHEMA public;\n\
          CREATE SCHEMA stock;\nALTER SCHEMA stock OWNER TO owner;\n\
          CREATE TABLE stock.items (\n    note text\n);\nALTER TABLE stock.items OWNER TO owner;\n\
          COPY stock.items (note) FROM stdin;\nGRANT it;\n\\.\n\
          SELECT pg_catalog.lo_create('16393');\nCREATE PUBLICATION news FOR TABLE stock.items;\n\
          GRANT SELECT ON TABLE stock.items TO reader;\n",
    );
    let running = Running::start(server, &context);
    // What it made must not be in its own way.
    support::running::run_all(&running.tier.seed);
    let notes = ask_postgresql(&context, &running, "SELECT note FROM stock.items");
    assert_eq!(notes, "GRANT it;");
}

/// Made by MySQL 8, with all that its mysqldump writes.
#[test]
fn mariadb_takes_a_dump_of_mysql() {
    let dir = temp_dir();
    let (server, mut context) = real("mariadb", Layer::Db, dir.path(), dir.path());
    context.seed = seed(
        server,
        &context,
        b"SET @@SESSION.SQL_LOG_BIN= 0;\nSET @@GLOBAL.GTID_PURGED=/*!80000 '+'*/ '3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5';\n\
          CREATE DATABASE /*!32312 IF NOT EXISTS*/ `shop` /*!40100 DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_ai_ci */ \
          /*!80016 DEFAULT ENCRYPTION='N' */;\nUSE `shop`;\n\
          CREATE TABLE `items` (\n  `note` varchar(20) COLLATE utf8mb4_0900_as_cs DEFAULT NULL\n) ENGINE=InnoDB DEFAULT \
          CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci;\nINSERT INTO `items` VALUES ('utf8mb4_0900_ai_ci');\n\
          /*!50001 CREATE ALGORITHM=UNDEFINED */\n/*!50013 DEFINER=`shop`@`%` SQL SECURITY DEFINER */\n\
          /*!50001 VIEW `all_items` AS select `items`.`note` AS `note` from `items` */;\nDELIMITER ;;\n\
          CREATE DEFINER=`shop`@`%` PROCEDURE `p`() BEGIN\nSELECT 1;\nEND ;;\nDELIMITER ;\n\
          CREATE EVENT `e` ON SCHEDULE EVERY 1 DAY DO SELECT 1;\nCREATE USER 'shop'@'localhost';\n",
    );
    let running = Running::start(server, &context);
    support::running::run_all(&running.tier.seed);
    let notes = ask_mariadb(&running, "SELECT note FROM all_items");
    assert_eq!(notes, "utf8mb4_0900_ai_ci");

    let seed = context.seed.as_ref().expect("there is one");
    std::fs::write(seed, "SELECT 1;\nINSERT INTO nosuch VALUES (1);\n").expect("a seed");
    let commands = running.tier.seed.iter();
    let outputs: Vec<_> = commands.map(|command| Local.run(command)).collect();
    let failed = outputs
        .last()
        .expect("commands")
        .as_ref()
        .expect("the client runs");
    assert!(!failed.success(), "{failed:?}");
    assert!(
        failed.stderr.contains("at line 2: Table 'app.nosuch'"),
        "{failed:?}"
    );
}

#[test]
fn mariadb_is_seeded_again_and_again_and_copied() {
    let dir = temp_dir();
    let (server, mut context) = real("mariadb", Layer::Db, dir.path(), dir.path());
    context.seed = seed(
        server,
        &context,
        b"CREATE TABLE visits (id int);\nINSERT INTO visits VALUES (1), (2);\n",
    );
    context.statements = vec!["CREATE INDEX visits_by_id ON visits (id)".into()];
    context.settings = settings(&[
        ("max_connections", "23"),
        ("innodb_buffer_pool_size", "16MiB"),
    ]);
    let running = Running::start(server, &context);
    assert_eq!(ask_mariadb(&running, "SELECT @@max_connections"), "23");
    assert_eq!(
        ask_mariadb(&running, "SELECT @@innodb_buffer_pool_size"),
        (16 << 20).to_string()
    );
    ask_mariadb(
        &running,
        "INSERT INTO visits VALUES (3); CREATE VIEW some AS SELECT * FROM visits",
    );
    support::running::run_all(&running.tier.seed);
    assert_eq!(ask_mariadb(&running, "SELECT count(*) FROM visits"), "2");
    let indexes =
        "SELECT index_name FROM information_schema.statistics WHERE table_name = 'visits'";
    assert_eq!(ask_mariadb(&running, indexes), "visits_by_id");
    assert_eq!(ask_mariadb(&running, "SHOW TABLES"), "visits");
    drop(running);

    let mut copy = context.clone();
    copy.template = Some(context.dir.join("data"));
    copy.dir = dir.path().join("second");
    let second = Running::start(server, &copy);
    assert_eq!(ask_mariadb(&second, "SELECT count(*) FROM visits"), "2");
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
