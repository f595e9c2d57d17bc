//! What a scenario means.

use super::*;
use expect_test::{expect, expect_file};
use kneepoint_model::{AppKind, Apply, Body, Setting, SettingKey, ValueKind};
use proptest::prelude::*;
use std::path::PathBuf;
use std::time::Duration;
use tempfile::TempDir;

mod content;
mod messages;

/// A few real names, so that these tests do not depend on what the stack crate supports this week.
struct Few;

impl Servers for Few {
    fn names(&self, layer: Layer) -> Vec<String> {
        let names: &[&str] = match layer {
            Layer::Proxy | Layer::Web => &["nginx"],
            Layer::Php => &["fpm", "frankenphp"],
            Layer::Cache => &["redis"],
            Layer::Db => &["postgresql"],
            Layer::Generator | Layer::App => &[],
        };
        names.iter().copied().map(String::from).collect()
    }

    fn speaks_http(&self, runtime: &str) -> bool {
        runtime == "frankenphp"
    }

    fn tunables(&self, _: Layer, server: &ServerKind) -> Vec<Tunable> {
        let switch = || ValueKind::Switch {
            off: "0".into(),
            on: "1".into(),
        };
        let workers = || ValueKind::Integer {
            min: 1,
            max: 4096,
            unit: "workers".into(),
            words: Vec::new(),
        };
        let named = |name: &str, values| Tunable {
            name: name.into(),
            about: String::new(),
            values,
            default: None,
            apply: Apply::Reload,
        };
        match server.as_str() {
            "fpm" => vec![
                named("pm.max_children", workers()),
                named("pm.max_requests", workers()),
                named("opcache.enable", switch()),
            ],
            "nginx" => vec![named("worker_processes", workers())],
            _ => Vec::new(),
        }
    }
}

/// A directory with a small application and the files a scenario may name.
fn app() -> TempDir {
    let dir = TempDir::new().expect("a temporary directory");
    let write = |path: &str, text: &str| {
        let path = dir.path().join(path);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
        std::fs::write(path, text).expect("a file");
    };
    write("public/index.php", "<?php echo 'visits';");
    write("deploy/nginx.conf", "events {}");
    write("deploy/www.conf", "[www]");
    write("deploy/php.ini", "");
    write("deploy/seed.sql", "");
    write("users.csv", "\u{feff}name, password\nann,\"a,b\"\nbob,c\n");
    write("crooked.csv", "name,age\nann\n");
    write("empty.csv", "name\n");
    write("named.csv", "first name,name,name\na,b,c\n");
    write("photo.png", "\u{1}PNG");
    dir
}

fn read(text: &str) -> Result<Scenario, ConfigErrors> {
    parse(text, app().path(), "kneepoint.toml", &Few)
}

#[track_caller]
fn good(text: &str) -> Scenario {
    read(text).unwrap_or_else(|errors| panic!("{errors}"))
}

const WHOLE: &str = r#"
users = 7

[app]
root = "."
front = "./public/index.php"
kind = "laravel"
env = { APP_ENV = "production", REDIS_PERSISTENT = false }

[[app.setting]]
name = "redis.persistent"
env = "REDIS_PERSISTENT"
values = ["false", "true"]

[[app.file]]
path = "public/index.php"
find = "visits"
replace = ""

[stack]
proxy = {}
web = { server = "nginx", config = "deploy/nginx.conf" }
cache = { socket = "unix" }
db = { server = "postgresql", seed = "deploy/seed.sql" }

[stack.php]
runtime = "fpm"
config = "deploy/www.conf"
ini = "deploy/php.ini"
settings.pm.max_children = 20
settings.opcache.enable = true

[hosts]
web = { log_pipe_kib_s = 64 }
php = { cpus = 1, memory = "2GiB", disk_iops = 500, link_mbit = 99.5, sysctl = { net.core.somaxconn = 128 } }

[[request]]
weight = 8
expect = { status = 200, body_contains = "visits" }

[[request]]
path = "/login"
headers = { Accept = "text/html", X-Test = 1 }
form = { user = "ann & bob", stay = true }
session = true
client_mbit = 1.6

[slo]
timeout = "3s"
response_time = { p99.9 = "250ms" }
errors = 0

[tune]
budget = "9m"
keep = ["php.pm.max_requests", "app.redis.persistent", "web.net.core.somaxconn"]
memory = "512M"
"#;

#[test]
fn every_key_arrives_where_it_belongs() {
    let dir = app();
    let scenario = parse(WHOLE, dir.path(), "kneepoint.toml", &Few).expect("in order");
    let root = dir.path().canonicalize().expect("there");
    assert_eq!(
        scenario.name,
        root.file_name().expect("a name").to_string_lossy()
    );
    assert_eq!(scenario.root, root);
    assert_eq!(scenario.front, PathBuf::from("public/index.php"));
    assert_eq!(scenario.kind, AppKind::Laravel);
    assert_eq!(scenario.env["REDIS_PERSISTENT"], "false");
    assert_eq!(scenario.app_settings[0].values, ["false", "true"]);
    assert_eq!(scenario.app_files[0].find.as_deref(), Some("visits"));
    let layers: Vec<Layer> = scenario.tiers.iter().map(|tier| tier.layer).collect();
    assert_eq!(layers, Layer::TIERS);
    let php = &scenario.tiers[2];
    assert_eq!(php.settings["pm.max_children"], "20");
    assert_eq!(php.settings["opcache.enable"], "1");
    assert_eq!(php.ini, Some(dir.path().join("deploy/php.ini")));
    assert_eq!(
        scenario.tiers[4].seed,
        Some(dir.path().join("deploy/seed.sql"))
    );
    assert!(scenario.tiers[3].unix_socket && !php.unix_socket);
    let host = &scenario.hosts[&Layer::Php];
    assert_eq!((host.cpus, host.memory_bytes), (Some(1.0), Some(2 << 30)));
    assert_eq!((host.disk_iops, host.link_mbit), (Some(500), Some(99.5)));
    assert_eq!(host.sysctl["net.core.somaxconn"], "128");
    assert_eq!(scenario.hosts[&Layer::Web].log_pipe_kib_s, Some(64.0));
    assert_eq!(scenario.slo.quantile, 0.999);
    assert_eq!(scenario.slo.response_time, Duration::from_millis(250));
    assert_eq!(
        (scenario.slo.errors, scenario.slo.timeout.as_secs()),
        (0.0, 3)
    );
    assert_eq!(scenario.budget.time, Duration::from_secs(540));
    assert_eq!(scenario.budget.memory_bytes, Some(512 << 20));
    assert_eq!(
        scenario.budget.keep[1],
        SettingKey::new(Layer::App, "redis.persistent")
    );
}

#[test]
fn the_application_is_only_told_what_it_declares() {
    let scenario = good(WHOLE);
    let check = |name: &str, value: &str, expected: Result<&str, &str>| {
        let setting = Setting {
            key: SettingKey::new(Layer::App, name),
            value: value.to_owned(),
        };
        let changed = scenario.with(&[setting]);
        let env = changed.map(|it| it.env["REDIS_PERSISTENT"].clone());
        assert_eq!(env.as_deref().map_err(String::as_str), expected);
    };
    check("redis.persistent", "true", Ok("true"));
    check(
        "redis.persistent",
        "tru",
        Err("`tru` is no value of `app.redis.persistent`: it takes false, true"),
    );
    check(
        "redis",
        "true",
        Err("the application declares no setting `redis`"),
    );
}

#[test]
fn a_form_is_posted() {
    let workload = good(WHOLE).workload;
    let login = &workload.requests[1];
    assert_eq!(workload.users, 7);
    assert_eq!(workload.requests[0].path, "/");
    assert_eq!(login.method.0, "POST");
    let fields = [("user", "ann & bob"), ("stay", "true")];
    let fields = fields.map(|(name, value)| (name.to_owned(), value.to_owned()));
    assert_eq!(login.body, Some(Body::Form(fields.into())));
    let names: Vec<&str> = login
        .headers
        .iter()
        .map(|(name, _)| name.as_str())
        .collect();
    assert_eq!(names, ["Accept", "X-Test"]);
    assert!(login.session);
    assert_eq!(login.client_mbit, Some(1.6));
}

#[test]
fn the_smallest_scenario_is_the_root() {
    let scenario = good("app.root = '.'");
    let layers: Vec<&str> = scenario
        .tiers
        .iter()
        .map(|tier| tier.server.as_str())
        .collect();
    assert_eq!(layers, ["nginx", "fpm"]);
    assert_eq!(scenario.workload.requests.len(), 1);
    assert_eq!(scenario.budget.time, Duration::from_secs(1200));
    assert_eq!(
        scenario.slo.describe(),
        "p95 <= 200 ms, errors <= 0.1 %, timeout 2 s"
    );
}

#[test]
fn a_mix_is_learned_from_an_access_log() {
    let dir = app();
    let line = |path: &str| {
        format!("::1 - - [21/Nov/2026:01:15:12 +0000] \"GET {path} HTTP/1.1\" 200 5\n")
    };
    let log: String = ["/", "/", "/", "/post/1"].map(line).concat();
    std::fs::write(dir.path().join("access.log"), log).expect("written");
    let text = "mix = 'access.log'\nusers = 3\napp.root = '.'\n";
    let scenario = parse(text, dir.path(), "kneepoint.toml", &Few).expect("in order");
    let workload = scenario.workload;
    let mix: Vec<(&str, f64)> = workload
        .requests
        .iter()
        .map(|request| (request.path.as_str(), request.weight))
        .collect();
    assert_eq!(mix, [("/", 3.0), ("/post/1", 1.0)]);
    assert_eq!((workload.users, workload.sessions), (3, None));
}

#[test]
fn a_chain_that_only_serves_files_needs_no_php() {
    let scenario = good("app.root = '.'\n[stack]\nweb = {}\n");
    assert_eq!(scenario.tiers.len(), 1);
}

/// Renew it with `UPDATE_EXPECT=1 cargo test -p kneepoint --lib`.
#[test]
fn the_reference_is_in_the_documentation() {
    expect_file!["../../../../docs/scenario.md"].assert_eq(&reference());
}

#[test]
fn the_applications_of_this_repository_are_in_order() {
    let apps = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../apps");
    for file in [
        "plain/kneepoint.toml",
        "laravel/kneepoint.toml",
        "laravel/demo.toml",
        "laravel/visitors.toml",
    ] {
        load(&apps.join(file)).unwrap_or_else(|errors| panic!("{errors}"));
    }
}

#[test]
fn every_fault_of_the_bench_can_be_laid_over_its_scenario() {
    let faults = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../faults");
    let mut read = 0;
    for entry in std::fs::read_dir(&faults).expect("the bench") {
        let path = entry.expect("an entry").path();
        if path.extension().is_none_or(|extension| extension != "toml") {
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("readable");
        let fault: toml::Table = text.parse().expect("TOML");
        let scenario = faults.join(fault["scenario"].as_str().expect("a path"));
        let patch = fault.get("inject").map(toml::to_string).transpose();
        let patch = patch.expect("TOML").unwrap_or_default();
        // A fault may bring its own files along.
        let own = tempfile::tempdir().expect("a directory");
        for (name, content) in fault
            .get("files")
            .and_then(toml::Value::as_table)
            .into_iter()
            .flatten()
        {
            std::fs::write(own.path().join(name), content.as_str().expect("a text"))
                .expect("written");
        }
        let patch = patch.replace("{files}", &own.path().to_string_lossy());
        load_with_patch(&scenario, &patch)
            .unwrap_or_else(|errors| panic!("{}: {errors}\n{patch}", path.display()));
        read += 1;
    }
    assert!(read > 10, "only {read} faults");
}

/// A date is accepted nowhere: a documented key that takes one is a key nobody reads.
#[test]
fn every_documented_key_is_read() {
    for key in keys::all() {
        for table in key.tables {
            let app = "app = { root = '.' }\n";
            let text = match *table {
                "" if key.name == "app" => "app = 1979-05-27".to_owned(),
                "" => format!("{app}{} = 1979-05-27", key.name),
                "app" if key.name == "root" => "app.root = 1979-05-27".to_owned(),
                "app" => format!("app.root = '.'\napp.{} = 1979-05-27", key.name),
                "request" => format!("{app}[[request]]\n{} = 1979-05-27", key.name),
                "request.multipart" => {
                    let name = key.name;
                    format!("{app}[[request]]\n[[request.multipart]]\n{name} = 1979-05-27")
                }
                "request.capture" => {
                    let name = key.name;
                    format!("{app}[[request]]\n[request.capture.x]\n{name} = 1979-05-27")
                }
                "feeder" => format!("{app}[feeder.x]\n{} = 1979-05-27", key.name),
                "session" | "peer" | "job" => {
                    format!("{app}[[{table}]]\n{} = 1979-05-27", key.name)
                }
                "app.setting" | "app.file" => {
                    let name = key.name;
                    format!("[app]\nroot = '.'\n[[{table}]]\n{name} = 1979-05-27")
                }
                "request.expect" => {
                    format!("{app}[[request]]\nexpect = {{ {} = 1979-05-27 }}", key.name)
                }
                _ => {
                    let stack = if table.starts_with("hosts") {
                        "stack = { proxy = {}, web = {}, php = {}, cache = {}, db = {} }\n"
                    } else {
                        ""
                    };
                    format!("{app}{stack}[{table}]\n{} = 1979-05-27", key.name)
                }
            };
            let errors = read(&text).expect_err("a date is no value");
            let pointed = errors.0.iter().filter_map(|error| error.place.as_ref());
            let mut pointed = pointed.filter(|place| place.quoted.contains("1979-05-27"));
            assert!(pointed.next().is_some(), "nobody reads {text}\n{errors}");
        }
    }
}

#[test]
fn secrets_are_in_no_message_but_the_quoted_line() {
    let text = "[app]\nroot = '.'\n[[app.setting]]\nname = 'a'\nenv = 'TOKEN'\nvalues = ['x', 'y']\n\
                [app.env]\nTOKEN = 's3cret'\n";
    let errors = read(text).expect_err("not among the values");
    let [error] = errors.0.as_slice() else {
        panic!("{errors}")
    };
    assert!(!error.message.contains("s3cret"));
    assert!(!format!("{:?}{:?}", error.expected, error.help).contains("s3cret"));
}

/// The whole scenario in an application's directory, with a patch over it.
fn patched(dir: &Path, text: &str) -> Result<Scenario, ConfigErrors> {
    let path = dir.join("kneepoint.toml");
    std::fs::write(&path, WHOLE).expect("written");
    let patch = Patch {
        name: "fault.toml",
        dir,
        text,
    };
    load_with(&path, &[patch], &Few)
}

#[test]
fn a_patch_is_merged_key_by_key_and_cited_by_its_own_name() {
    let dir = app();
    let patched = |text| patched(dir.path(), text);
    let text = "[stack.php]\nsettings = { 'pm.max_children' = 2 }\n[[request]]\npath = '/only'\n";
    let scenario = patched(text).expect("in order");
    assert_eq!(scenario.tiers[2].settings["pm.max_children"], "2");
    assert_eq!(scenario.tiers[2].settings["opcache.enable"], "1");
    assert_eq!(scenario.workload.requests.len(), 1);
    assert_eq!(
        scenario.name,
        dir.path().file_name().expect("name").to_string_lossy()
    );

    let errors = patched("[stack.php.settings]\npm.max_children = 0\n").expect_err("too few");
    expect![[r#"
        fault.toml:2:19: `pm.max_children` cannot be `0`
           2 | pm.max_children = 0
             |                   ^
             expected a whole number of workers from 1 to 4096
    "#]]
    .assert_eq(&format!("{errors}\n"));
}

#[test]
fn a_patch_leaves_tables_out_and_adds_to_arrays() {
    let dir = app();
    let patched = |text| patched(dir.path(), text);
    let whole = patched("").expect("in order");
    let text = "hosts = false\n[stack]\nproxy = false\n[['+request']]\npath = '/more'\n";
    let scenario = patched(text).expect("in order");
    assert!(!whole.hosts.is_empty() && scenario.hosts.is_empty());
    assert_eq!(scenario.tiers.len() + 1, whole.tiers.len());
    assert!(!scenario.tiers.iter().any(|tier| tier.layer == Layer::Proxy));
    let requests = &scenario.workload.requests;
    assert_eq!(requests.len(), whole.workload.requests.len() + 1);
    assert_eq!(requests.last().expect("some").path.to_string(), "/more");

    for wrong in [
        "'+request' = 1\n",
        "[['+app']]\nroot = '.'\n",
        "'+slo' = 1\n",
    ] {
        let errors = patched(wrong).err().map(|errors| errors.to_string());
        let said = errors.unwrap_or_default();
        assert!(
            said.contains("fault.toml:1") && said.contains('+'),
            "{wrong}: {said}"
        );
    }
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let dir = app();
    let missing = load_with(&dir.path().join("none.toml"), &[], &Few).expect_err("missing");
    assert!(
        missing.to_string().contains("none.toml: cannot be read"),
        "{missing}"
    );
    let directory = load_with(dir.path(), &[], &Few).expect_err("a directory");
    assert!(
        directory.to_string().contains("is not a file"),
        "{directory}"
    );
    let path = dir.path().join("latin1.toml");
    std::fs::write(&path, b"# caf\xe9").expect("written");
    let binary = load_with(&path, &[], &Few).expect_err("not UTF-8");
    assert!(
        binary.to_string().contains("not UTF-8 text (byte 5)"),
        "{binary}"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn arbitrary_text_is_refused_or_read_but_never_panics(text in "\\PC*") {
        if let Err(errors) = read(&text) {
            prop_assert!(!errors.0.is_empty() && !errors.to_string().is_empty());
        }
    }

    /// Cuts a good scenario anywhere and plants anything: far deeper than noise alone gets.
    #[test]
    fn a_damaged_scenario_never_panics(start in 0..WHOLE.len(), len in 0..40_usize, junk in "[\\[\\]{}=.,'\"a-z0-9 \\n-]{0,12}") {
        let end = (start + len).min(WHOLE.len());
        let text = format!("{}{junk}{}", &WHOLE[..start], &WHOLE[end..]);
        if let Err(errors) = read(&text) {
            prop_assert!(!errors.0.is_empty() && !errors.to_string().is_empty());
        }
    }
}

/// A run is called after the application, and not after the file that somebody tried something with.
#[test]
fn a_scenario_is_called_after_its_application() {
    let dir = TempDir::new().expect("a temporary directory");
    let check = |root: &str, file: &str, name: &str, expected: &str| {
        let root = dir.path().join(root);
        std::fs::create_dir_all(&root).expect("a directory");
        std::fs::write(root.join("index.php"), "<?php").expect("a file");
        let text = format!(
            "[app]\nroot = '{}'\n{name}[stack]\nweb = {{ server = \"nginx\" }}\nphp = {{ runtime = \"fpm\" }}\n",
            root.display()
        );
        let scenario = parse(&text, dir.path(), file, &Few).expect("in order");
        assert_eq!(scenario.name, expected, "{} {file}", root.display());
    };
    check("kanboard", "kneepoint.toml", "", "kanboard");
    check("kanboard", "K6.toml", "", "kanboard");
    check("kanboard/public", "K6.toml", "", "kanboard");
    check("www/html", "K6.toml", "", "K6");
    check("www/html", "kneepoint.toml", "", "html");
    check("kanboard", "K6.toml", "name = 'Our board'\n", "Our board");
}

#[test]
fn doubles_have_defaults_that_work() {
    let text = "[app]\nroot = '.'\nunreachable = ['b.test', '/run/x.sock']\n[[peer]]\nhost = 'a.test'\nkind = 'http'\n\
                [[peer]]\nhost = '10.0.0.9'\nkind = 'smtp'\nlatency = '50ms'\ncapacity = 3\n";
    let scenario = read(text).expect("a scenario");
    assert_eq!(scenario.unreachable, ["b.test", "/run/x.sock"]);
    let [http, smtp] = scenario.peers.as_slice() else {
        panic!("{:?}", scenario.peers);
    };
    assert_eq!(
        (http.port, http.status, http.body.as_str()),
        (80, 200, "{}")
    );
    assert_eq!(http.latency, Duration::ZERO);
    assert_eq!((smtp.port, smtp.capacity), (25, 3));
    assert_eq!(smtp.latency, Duration::from_millis(50));
}

#[test]
fn jobs_have_names_and_run_beside_php() {
    let of = |stack: &str, jobs: &str| read(&format!("app.root = '.'\n{stack}{jobs}"));
    let jobs = "[[job]]\nrun = './work'\n[[job]]\nname = 'dump'\nrun = './dump'\nevery = '20s'\n";
    let scenario = of("", jobs).expect("a scenario");
    let found = scenario.jobs.iter();
    let named: Vec<_> = found.map(|it| (it.name.as_str(), it.every)).collect();
    let every = Some(Duration::from_secs(20));
    assert_eq!(named, [("job 1", None), ("dump", every)]);
    let refused = |stack: &str, jobs: &str| of(stack, jobs).expect_err("refused").to_string();
    let said = refused("[stack]\nweb = {}\n", jobs);
    assert!(said.contains("this chain has none"), "{said}");
    let said = refused("", "[[job]]\nname = 'dump'\n");
    assert!(said.contains("`job.run` is missing"), "{said}");
}
