//! Rendered tiers as the real programs see them: they accept the files, serve, answer telemetry, and take a
//! change by a reload.

#![expect(
    clippy::disallowed_methods,
    reason = "these tests are the lab of the tiers they render"
)]

use crate::support;
use crate::support::running::{Local, Running, app, connect, eventually, http, real, temp_dir};
use crate::support::{config, fastcgi, settings};
use kneepoint_model::{Address, Commands as _, Endpoint, Layer};
use kneepoint_stack::{StackError, install, unpack_seed};
use std::path::Path;

fn probe(running: &Running) -> serde_json::Value {
    let found = running
        .tier
        .endpoints
        .iter()
        .find_map(|endpoint| match endpoint {
            Endpoint::PhpProbe { address, script } => Some((address, script)),
            _ => None,
        });
    let (address, script) = found.expect("FPM has a probe");
    let answer = fastcgi::get(connect(address), &script.to_string_lossy(), "/probe.php");
    let body = answer.split_once("\r\n\r\n").expect("headers and body").1;
    serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {answer}"))
}

fn fpm_status(running: &Running) -> String {
    let found = running
        .tier
        .endpoints
        .iter()
        .find_map(|endpoint| match endpoint {
            Endpoint::FpmStatus { address, path } => Some((address, path)),
            _ => None,
        });
    let (address, path) = found.expect("FPM has a status page");
    fastcgi::get(connect(address), path, path)
}

#[test]
fn fpm_serves_answers_and_reloads() {
    let dir = temp_dir();
    let app = app(dir.path());
    let (server, mut context) = real("fpm", Layer::Php, dir.path(), &app);
    context.app.env = settings(&[("DB_HOST", "10.9.0.5")]);
    let mut running = Running::start(server, &context);

    let script = app.join("index.php");
    let answer = fastcgi::get(
        connect(&running.tier.listen),
        &script.to_string_lossy(),
        "/index.php",
    );
    assert!(answer.ends_with("hello /index.php  10.9.0.5"), "{answer}");
    let ping = fastcgi::get(connect(&running.tier.listen), "", "/.well-known/kneepoint");
    assert!(ping.ends_with("0123abcd"), "{ping}");
    assert!(fpm_status(&running).contains("process manager:      static"));

    let before = probe(&running);
    assert_eq!(before["sapi"], "fpm-fcgi");
    assert_eq!(before["loaded"], true);
    assert_eq!(before["opcache"]["opcache_enabled"], true);
    assert_eq!(before["ini"]["opcache.memory_consumption"], "128");
    let scripts = &before["opcache"]["opcache_statistics"]["num_cached_scripts"];
    assert!(
        scripts.as_u64() >= Some(1),
        "the pools share one cache: {scripts}"
    );

    context.settings = settings(&[
        ("opcache.memory_consumption", "64"),
        ("opcache.jit", "tracing"),
        ("memory_limit", "64M"),
        ("pm", "dynamic"),
        ("pm.max_children", "6"),
    ]);
    running.reload(server, &context);
    let after = eventually(
        || probe(&running),
        |after| after["ini"]["memory_limit"] == "64M",
    );
    assert_eq!(after["ini"]["memory_limit"], "64M");
    assert_eq!(after["ini"]["opcache.memory_consumption"], "64");
    assert_eq!(
        after["ini"]["opcache.jit"], "tracing",
        "the system's file does not win over a setting"
    );
    assert!(fpm_status(&running).contains("process manager:      dynamic"));

    context.settings = settings(&[("extension.opcache", "off")]);
    running.reload(server, &context);
    let without = eventually(|| probe(&running), |after| after["loaded"] == false);
    assert_eq!(without["loaded"], false);
    assert_eq!(without["opcache"], false);
    assert_eq!(running.tier.tier.settings["extension.opcache"], "off");
}

#[test]
fn fpm_env_arrives_unchanged() {
    let dir = temp_dir();
    let app = app(dir.path());
    let values = [
        "a \"b\" c;d=\\ 'e' #f %g !h ~i {j} (k|l&m^n)",
        "base64:x/y+z==",
        "price $c and ${d}",
        "both $c 'and' ${d} \\${e}",
        " spaces ",
        "",
        "off",
        "null",
    ];
    let names: Vec<String> = (0..values.len()).map(|at| format!("VALUE_{at}")).collect();
    let script =
        "<?php for ($i = 0; ($v = getenv(\"VALUE_$i\")) !== false; $i++) echo $v, \"\\0\";";
    std::fs::write(app.join("index.php"), script).expect("a script");
    let (server, mut context) = real("fpm", Layer::Php, dir.path(), &app);
    context.app.env = names.into_iter().zip(values.map(str::to_owned)).collect();
    context.unix_socket = true;
    let running = Running::start(server, &context);
    assert!(matches!(running.tier.listen, Address::Unix(_)));
    let script = app.join("index.php");
    let answer = fastcgi::get(
        connect(&running.tier.listen),
        &script.to_string_lossy(),
        "/index.php",
    );
    let body = answer.split_once("\r\n\r\n").expect("headers and body").1;
    let seen: Vec<&str> = body.split_terminator('\0').collect();
    assert_eq!(seen, values);
}

#[test]
fn a_request_passes_proxy_web_and_php() {
    let dir = temp_dir();
    let app = app(dir.path());
    let (fpm, php) = real("fpm", Layer::Php, dir.path(), &app);
    let php = Running::start(fpm, &php);
    let (nginx, mut web) = real("nginx", Layer::Web, dir.path(), &app);
    web.upstream = Some(php.tier.listen.clone());
    let mut web_running = Running::start(nginx, &web);
    let (_, mut proxy) = real("nginx", Layer::Proxy, dir.path(), &app);
    proxy.upstream = Some(web_running.tier.listen.clone());
    let proxy_running = Running::start(nginx, &proxy);

    let front = &proxy_running.tier.listen;
    for (path, expected) in [
        ("/", "hello /index.php"),
        ("/any/route?x=1", "hello /index.php"),
        ("/index.php/Main_Page", "hello /index.php /Main_Page"),
        ("/static.html", "a static page"),
        ("/.well-known/kneepoint", "0123abcd"),
    ] {
        let answer = http(front, path);
        assert!(answer.starts_with("HTTP/1.1 200"), "{path}: {answer}");
        assert!(answer.contains(expected), "{path}: {answer}");
    }
    for running in [&proxy_running, &web_running] {
        let Some(Endpoint::NginxStub { address, path }) = running.tier.endpoints.first() else {
            panic!("nginx has a stub");
        };
        let answer = http(address, path);
        assert!(answer.contains("Active connections"), "{answer}");
    }

    web.settings = settings(&[
        ("gzip", "on"),
        ("fastcgi_keep_conn", "on"),
        ("upstream.keepalive", "1"),
        ("access_log", "off"),
        ("worker_processes", "2"),
    ]);
    web_running.reload(nginx, &web);
    let workers = || {
        std::fs::read_to_string(format!(
            "/proc/{0}/task/{0}/children",
            web_running.child_pid()
        ))
        .expect("proc")
    };
    // Two, once the worker of before is gone.
    let is_two = |children: &String| children.split_whitespace().count() == 2;
    for path in ["/", "/static.html"] {
        let answer = http(front, path);
        assert!(
            answer.starts_with("HTTP/1.1 200"),
            "it serves through the reload: {answer}"
        );
    }
    std::thread::sleep(std::time::Duration::from_millis(200));
    let children = eventually(workers, is_two);
    assert!(is_two(&children), "{children}");
}

#[test]
fn nginx_words_are_quoted_when_it_refuses() {
    let dir = temp_dir();
    let app = app(dir.path());
    let (server, mut context) = real("nginx", Layer::Web, dir.path(), &app);
    let text =
        "events {}\nhttp { server { no_such_directive on; location / { fastcgi_pass x:1; } } }\n";
    context.config = config("nginx.conf", text);
    context.upstream = Some("127.0.0.1:9000".parse().expect("an address"));
    let tier = server.render(&context).expect("renders");
    install(&tier).expect("installs");
    let error = server.check(&tier, &Local).expect_err("nginx refuses it");
    assert!(
        matches!(&error, StackError::Refused { words, .. } if words.contains("unknown directive \"no_such_directive\"")),
        "{error}"
    );
}

#[test]
fn fpm_words_are_quoted_when_it_refuses() {
    let dir = temp_dir();
    let app = app(dir.path());
    let (server, mut context) = real("fpm", Layer::Php, dir.path(), &app);
    context.config = config(
        "www.conf",
        "[www]\npm = static\npm.max_children = 2\nno_such_key = 1\n",
    );
    let tier = server.render(&context).expect("renders");
    install(&tier).expect("installs");
    let error = server.check(&tier, &Local).expect_err("FPM refuses it");
    assert!(error.to_string().contains("no_such_key"), "{error}");

    context.config = None;
    context.ini = config("php.ini", "memory_limit = (\n");
    let tier = server.render(&context).expect("renders");
    install(&tier).expect("installs");
    let error = server
        .check(&tier, &Local)
        .expect_err("PHP cannot parse it");
    assert!(error.to_string().contains("syntax error"), "{error}");

    context.ini = None;
    context.app.front = "missing.php".into();
    let tier = server.render(&context).expect("renders");
    install(&tier).expect("installs");
    let error = server
        .check(&tier, &Local)
        .expect_err("there is no front controller");
    assert!(error.to_string().contains("missing.php"), "{error}");
}

#[test]
fn redis_serves_and_forgets() {
    let dir = temp_dir();
    let (server, mut context) = real("redis", Layer::Cache, dir.path(), dir.path());
    context.settings = settings(&[("maxclients", "17"), ("maxmemory", "64MiB")]);
    let seed = dir.path().join("a seed.txt");
    std::fs::write(&seed, "SET greeting \"good day\"\nRPUSH queue a b\n").expect("writable");
    context.seed = Some(seed.clone());
    let running = Running::start(server, &context);
    let client = |args: &[&str]| {
        let port = running.tier.env_for_app["REDIS_PORT"].clone();
        let output = std::process::Command::new("/usr/bin/redis-cli")
            .args(["-p", &port])
            .args(args)
            .output();
        String::from_utf8(output.expect("redis-cli runs").stdout).expect("text")
    };
    assert_eq!(client(&["config", "get", "maxclients"]), "maxclients\n17\n");
    assert_eq!(
        client(&["config", "get", "maxmemory"]),
        "maxmemory\n67108864\n"
    );
    assert_eq!(client(&["config", "get", "save"]), "save\n\n");
    client(&["set", "a", "1"]);
    support::running::run_all(&running.tier.seed);
    assert_eq!(client(&["keys", "a"]), "\n");
    assert_eq!(client(&["get", "greeting"]), "good day\n");
    assert_eq!(client(&["llen", "queue"]), "2\n");
    std::fs::write(&seed, "SETT greeting x\n").expect("writable");
    let refused = Local.run(running.tier.seed.last().expect("the file"));
    assert!(
        !refused.expect("it runs").success(),
        "a wrong command is a failure"
    );
}

/// An application of the repository, on a chain of its own.
fn repository_app(name: &str, front: &str) -> kneepoint_stack::AppContext {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../apps")
        .join(name);
    kneepoint_stack::AppContext {
        root: root
            .canonicalize()
            .expect("the repository has the application"),
        front: front.into(),
        ..Default::default()
    }
}

#[test]
fn the_applications_run_on_the_whole_chain() {
    for (name, key, checks) in [
        (
            "plain",
            "",
            &[("/db", "articles"), ("/static.html", "A static page")][..],
        ),
        (
            "laravel",
            "base64:a25lZXBvaW50LWZpeHR1cmUtbm90LWEtc2VjcmV0ISE=",
            &[("/visits", "visits"), ("/session", "visits")][..],
        ),
        ("lumen", "", &[("/json", "lumen")][..]),
    ] {
        let dir = temp_dir();
        let mut app = repository_app(name, "public/index.php");
        let (postgresql, mut db) = real("postgresql", Layer::Db, dir.path(), &app.root);
        let seed = app.root.join("seed.sql");
        // One of them has no data.
        db.seed = unpack_seed(&seed, &db.dir, "postgresql", &db.program).ok();
        let db = Running::start(postgresql, &db);
        let (redis, cache) = real("redis", Layer::Cache, dir.path(), &app.root);
        let cache = Running::start(redis, &cache);
        app.env = settings(&[("APP_ENV", "production"), ("APP_KEY", key)]);
        app.env.extend(db.tier.env_for_app.clone());
        app.env.extend(cache.tier.env_for_app.clone());
        let (fpm, mut php) = real("fpm", Layer::Php, dir.path(), &app.root);
        php.app = app.clone();
        let php = Running::start(fpm, &php);
        let (nginx, mut web) = real("nginx", Layer::Web, dir.path(), &app.root);
        (web.app, web.upstream) = (app, Some(php.tier.listen.clone()));
        let web = Running::start(nginx, &web);
        for (path, expected) in checks {
            let answer = http(&web.tier.listen, path);
            assert!(
                answer.starts_with("HTTP/1.1 200") && answer.contains(expected),
                "{name}{path}: {answer}"
            );
        }
    }
}

#[test]
fn apache_serves_answers_and_says_what_it_runs() {
    let dir = temp_dir();
    let app = app(dir.path());
    let (server, mut context) = real("apache", Layer::Php, dir.path(), &app);
    context.app.env = settings(&[("DB_HOST", "a \"b\" $c \\d")]);
    context.settings = settings(&[
        ("MaxRequestWorkers", "4"),
        ("opcache.memory_consumption", "32"),
        ("memory_limit", "64M"),
    ]);
    let running = Running::start(server, &context);
    for (path, expected) in [
        ("/", "hello /index.php  a \"b\" $c \\d"),
        ("/pages/1", "hello /index.php"),
        ("/static.html", "a static page"),
        ("/.well-known/kneepoint", "0123abcd"),
    ] {
        let answer = http(&running.tier.listen, path);
        assert!(
            answer.starts_with("HTTP/1.1 200") && answer.contains(expected),
            "{path}: {answer}"
        );
    }
    let Endpoint::PhpPage { address, path } = &running.tier.endpoints[0] else {
        panic!("Apache has a page that answers for PHP");
    };
    let answer = http(address, path);
    let body = answer.split_once("\r\n\r\n").expect("headers and body").1;
    let seen: serde_json::Value =
        serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {answer}"));
    assert_eq!(seen["sapi"], "apache2handler");
    assert_eq!(seen["ini"]["memory_limit"], "64M");
    assert_eq!(seen["ini"]["opcache.memory_consumption"], "32");
    let workers = running.tier.tier.pool.as_ref().map(|pool| pool.max_workers);
    assert_eq!(workers, Some(4));
}

#[test]
fn laravel_runs_on_apache_and_mariadb() {
    let dir = temp_dir();
    let mut app = repository_app("laravel", "public/index.php");
    let (mariadb, mut db) = real("mariadb", Layer::Db, dir.path(), &app.root);
    let seed = app.root.join("seed-mysql.sql");
    db.seed = Some(
        unpack_seed(&seed, &db.dir, "mariadb", &db.program).expect("the application has a seed"),
    );
    let db = Running::start(mariadb, &db);
    let (redis, cache) = real("redis", Layer::Cache, dir.path(), &app.root);
    let cache = Running::start(redis, &cache);
    app.env = settings(&[
        ("APP_ENV", "production"),
        (
            "APP_KEY",
            "base64:a25lZXBvaW50LWZpeHR1cmUtbm90LWEtc2VjcmV0ISE=",
        ),
    ]);
    app.env.extend(db.tier.env_for_app.clone());
    app.env.extend(cache.tier.env_for_app.clone());
    let (apache, mut php) = real("apache", Layer::Php, dir.path(), &app.root);
    php.app = app.clone();
    let php = Running::start(apache, &php);
    let (nginx, mut proxy) = real("nginx", Layer::Proxy, dir.path(), &app.root);
    (proxy.app, proxy.upstream) = (app, Some(php.tier.listen.clone()));
    let proxy = Running::start(nginx, &proxy);
    for (path, expected) in [("/visits", "{\"visits\":"), ("/session", "visits")] {
        let answer = http(&proxy.tier.listen, path);
        assert!(
            answer.starts_with("HTTP/1.1 200") && answer.contains(expected),
            "{path}: {answer}"
        );
    }
}

#[test]
fn a_users_configurations_serve_in_the_lab() {
    let dir = temp_dir();
    let app = app(dir.path());
    let (fpm, mut php) = real("fpm", Layer::Php, dir.path(), &app);
    php.config = config(
        "www.conf",
        "[www]\nuser = nobody\ngroup = nogroup\nlisten = /run/php/$pool.sock\nlisten.allowed_clients = 192.0.2.1\npm = ondemand\npm.max_children = 3\nchdir = /var/www\nenv[DB_HOST] = other\n",
    );
    php.ini = config(
        "php.ini",
        "[PHP]\nmemory_limit = 96M\n[opcache]\nopcache.memory_consumption=32\n",
    );
    php.app.env = settings(&[("DB_HOST", "10.9.0.5")]);
    let php = Running::start(fpm, &php);
    let (nginx, mut web) = real("nginx", Layer::Web, dir.path(), &app);
    web.upstream = Some(php.tier.listen.clone());
    web.config = config(
        "nginx.conf",
        "user nobody;\nevents {}\nhttp {\n include mime.types;\n server { listen 80; return 301 https://$host$request_uri; }\n server {\n  listen 443 ssl http2;\n  ssl_certificate missing.pem;\n  ssl_certificate_key missing.key;\n  root /var/www/shop;\n  index index.php;\n  location ~ \\.php$ { include fastcgi_params; fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name; fastcgi_pass unix:/run/php/www.sock; }\n }\n}\n",
    );
    web.settings = settings(&[("upstream.keepalive", "2"), ("listen.backlog", "128")]);
    let web = Running::start(nginx, &web);
    for (path, expected) in [
        ("/", "hello /index.php  10.9.0.5"),
        ("/.well-known/kneepoint", "0123abcd"),
        ("/static.html", "a static page"),
    ] {
        let answer = http(&web.tier.listen, path);
        assert!(
            answer.starts_with("HTTP/1.1 200") && answer.contains(expected),
            "{path}: {answer}"
        );
    }
    let seen = probe(&php);
    assert_eq!(seen["ini"]["memory_limit"], "96M");
    assert_eq!(seen["ini"]["opcache.memory_consumption"], "32");
    assert!(fpm_status(&php).contains("process manager:      ondemand"));
}
