//! Defaults, bounds, versions and errors of rendering, for every server.

use crate::support::rendering::{
    apache, cache, change, db, frankenphp, haproxy, mariadb, php, proxy, refused, render,
    roadrunner, swoole, text, unit, web,
};
use crate::support::{config, settings};
use expect_test::expect_file;
use kneepoint_model::{Address, Layer};
use kneepoint_stack::{SERVERS, TierContext, server};
use std::collections::BTreeMap;

#[test]
fn the_pool_is_what_fpm_would_run() {
    let check = |set: &[(&str, &str)], max: u64, start: u64, spawn: Option<f64>| {
        let context = TierContext {
            settings: settings(set),
            ..php()
        };
        let pool = render("fpm", &context).tier.pool.expect("FPM is a pool");
        assert_eq!(
            (pool.max_workers, pool.start_workers, pool.spawn_per_s),
            (max, start, spawn),
            "{set:?}"
        );
        assert_eq!(pool.queue_limit, 511);
    };
    check(&[], 6, 6, None);
    check(&[("pm", "static"), ("pm.max_children", "9")], 9, 9, None);
    let pre = [
        ("pm", "dynamic"),
        ("pm.max_children", "100"),
        ("pm.start_servers", "6"),
        ("pm.min_spare_servers", "4"),
        ("pm.max_spare_servers", "8"),
    ];
    check(&pre, 100, 6, Some(4.0));
    let burst = [
        ("pm", "dynamic"),
        ("pm.max_children", "200"),
        ("pm.start_servers", "90"),
        ("pm.min_spare_servers", "80"),
        ("pm.max_spare_servers", "100"),
    ];
    check(&burst, 200, 90, Some(32.0));
    check(
        &[("pm", "ondemand"), ("pm.max_children", "8")],
        8,
        0,
        Some(4.0),
    );
}

#[test]
fn defaults_follow_the_version() {
    let jit = |version: &str| {
        let mut context = php();
        context.program.version = version.into();
        context.program.files.clear();
        render("fpm", &context).tier.settings["opcache.jit"].clone()
    };
    assert_eq!(
        (jit("8.3.1").as_str(), jit("8.4.0").as_str()),
        ("tracing", "disable")
    );
    let keepalive = |version: &str| {
        let mut context = web();
        context.program.version = version.into();
        render("nginx", &context).tier.settings["upstream.keepalive"].clone()
    };
    assert_eq!(
        (keepalive("1.22.1").as_str(), keepalive("1.29.7").as_str()),
        ("0", "32")
    );

    let mut context = proxy();
    context.program.version = "1.29.7".into();
    expect_file!["golden/keepalive-by-default.diff"].assert_eq(&change(
        "nginx",
        &context,
        &[("upstream.keepalive", "0")],
    ));

    let mut context = php();
    context.program.version = "8.5.0".into();
    context.program.files.clear();
    context.settings = settings(&[("extension.opcache", "off")]);
    assert!(refused("fpm", &context).contains("built in"));
}

fn check_refused(kind: &str, context: &TierContext, words: &str) {
    let error = refused(kind, context);
    assert!(error.contains(words), "{error}");
}

#[test]
fn a_wrong_setting_is_said_with_what_to_do() {
    let check = |kind: &str, context: TierContext, set: &[(&str, &str)], words: &str| {
        let settings = settings(set);
        check_refused(
            kind,
            &TierContext {
                settings,
                ..context
            },
            words,
        );
    };
    check(
        "fpm",
        php(),
        &[("max_children", "3")],
        "did you mean `pm.max_children`?",
    );
    check(
        "fpm",
        php(),
        &[("pm", "fast")],
        "use `static`, `dynamic` or `ondemand`",
    );
    check("fpm", php(), &[("pm.max_children", "0")], "from 1 to 10000");
    check(
        "fpm",
        php(),
        &[("extension.xdebug", "on")],
        "install and enable its package first",
    );
    check("nginx", web(), &[("gzip", "perhaps")], "use `off` or `on`");
}

#[test]
fn a_configuration_that_cannot_be_used_is_said_with_what_to_do() {
    let check = |text: &str, words: &str| {
        let config = config("x.conf", text);
        check_refused("nginx", &TierContext { config, ..web() }, words);
    };
    check("http {\n", "`x.conf`, line 2");
    check(
        "http { include sites/*; }\n",
        "neither it nor a file it includes has a `server`",
    );
    check(
        "http { server { listen 80; } }\n",
        "no server in it or in a file it includes has a `fastcgi_pass`",
    );
    let pool = config("x.conf", "[global]\npid = x\n");
    check_refused(
        "fpm",
        &TierContext {
            config: pool,
            ..php()
        },
        "no pool section",
    );
    let ini = config("php.ini", "a=1\nb=\"\n");
    check_refused("fpm", &TierContext { ini, ..php() }, "`php.ini`, line 2");
    let elsewhere = TierContext {
        layer: Layer::Db,
        ..web()
    };
    check_refused(
        "nginx",
        &elsewhere,
        "nginx cannot serve the db tier; it serves proxy and web",
    );
    let unknown = server("iis").err().map(|error| error.to_string());
    assert_eq!(
        unknown.as_deref(),
        Some(
            "`iis` is not a server Kneepoint can run; use one of haproxy, nginx, fpm, apache, unit, frankenphp, swoole, roadrunner, redis, postgresql, mariadb"
        )
    );
}

#[test]
fn an_error_about_the_environment_keeps_its_secrets() {
    let mut secret = php();
    secret.app.env = settings(&[("TOKEN", "hush\nhush")]);
    check_refused("fpm", &secret, "app.env.TOKEN");
    assert!(!refused("fpm", &secret).contains("hush"));
}

#[test]
fn unprivileged_tiers_name_no_users() {
    for (kind, context) in [
        ("nginx", web()),
        ("nginx", proxy()),
        ("haproxy", haproxy()),
        ("fpm", php()),
        ("apache", apache()),
        ("unit", unit()),
        ("frankenphp", frankenphp()),
        ("swoole", swoole()),
        ("roadrunner", roadrunner()),
        ("redis", cache()),
        ("postgresql", db()),
        ("mariadb", mariadb()),
    ] {
        let tier = render(
            kind,
            &TierContext {
                as_root: false,
                ..context
            },
        );
        assert_eq!(tier.process.user, None, "{kind}");
        assert!(tier.dirs.iter().all(|dir| dir.owner.is_none()), "{kind}");
        assert!(
            tier.prepare
                .iter()
                .chain(&tier.seed)
                .all(|command| command.user.is_none()),
            "{kind}"
        );
        for file in &tier.files {
            assert!(
                !file.text.contains("www-data"),
                "{}: {}",
                file.path.display(),
                file.text
            );
        }
    }
}

#[test]
fn a_cache_is_emptied_in_the_words_of_its_version_or_fails() {
    let check = |version: &str, args: &[&str], stdin: Option<&str>| {
        let mut context = cache();
        context.program.version = version.into();
        let seed = render("redis", &context).seed;
        // Behind where the server listens.
        let seen: Vec<&str> = seed[0].args.iter().skip(4).map(String::as_str).collect();
        assert_eq!(seen, args, "{version}");
        assert_eq!(seed[0].stdin.as_deref(), stdin, "{version}");
    };
    check("7.0.15", &["-e", "FLUSHALL", "SYNC"], None);
    check("6.2.1", &["--pipe"], Some("FLUSHALL SYNC\n"));
    check("6.0.16", &["--pipe"], Some("FLUSHALL\n"));
}

#[test]
fn a_socket_connects_tiers_without_ports() {
    let tier = render(
        "fpm",
        &TierContext {
            unix_socket: true,
            ..php()
        },
    );
    assert_eq!(tier.listen, Address::Unix("/lab/tier/run/php.sock".into()));
    let mut context = web();
    context.upstream = Some(tier.listen);
    let web = render("nginx", &context);
    assert!(text(&web, "nginx.conf").contains("server unix:/lab/tier/run/php.sock;"));
}

#[test]
fn no_write_waits_for_a_replica_that_is_not_there() {
    let text_of = |kind: &str, mut context: TierContext, name: &str, users: &str| {
        context.config = config(name, users);
        text(&render(kind, &context), name).to_owned()
    };
    let postgresql = text_of(
        "postgresql",
        db(),
        "postgresql.conf",
        "synchronous_standby_names = 'FIRST 1 (s1)'\nwork_mem = 8MB\n",
    );
    let users = "min-replicas-to-write 1\nmin-slaves-max-lag 5\nhz 20\n";
    let redis = text_of("redis", cache(), "redis.conf", users);
    for gone in ["standby", "min-replicas", "min-slaves"] {
        assert!(!postgresql.contains(gone), "{postgresql}");
        assert!(!redis.contains(gone), "{redis}");
    }
    assert!(postgresql.contains("work_mem = 8MB\n") && redis.contains("hz 20\n"));
}

#[test]
fn postgresql_loads_no_library_by_a_path() {
    let mut context = db();
    context.config = config(
        "postgresql.conf",
        "shared_preload_libraries = 'pg_stat_statements, /srv/shop/x.so' # ours\n\
         local_preload_libraries = '\\057srv\\057x'\ndynamic_library_path = '/srv/shop'\njit_provider = '../x'\n",
    );
    let tier = render("postgresql", &context);
    let text = text(&tier, "postgresql.conf");
    let kept = "shared_preload_libraries = pg_stat_statements\n";
    assert!(text.contains(kept), "{text}");
    for gone in ["/srv", "\\057", "library_path", "jit_provider"] {
        assert!(!text.contains(gone), "{gone}: {text}");
    }
}

/// A debugger that the person's own php.ini loads is one of the settings, wherever its file lies.
#[test]
fn an_extension_of_the_users_own_ini_is_a_setting() {
    let loaded = |ini: &str| {
        let ini = config("php.ini", ini);
        let tier = render("fpm", &TierContext { ini, ..php() }).tier;
        tier.settings["extension.xdebug"].clone()
    };
    assert_eq!(loaded("zend_extension=/x/xdebug.so\n"), "on");
    assert_eq!(loaded("; zend_extension=/x/xdebug.so\n"), "off");
}

#[test]
fn a_server_that_keeps_the_application_is_told_its_script() {
    let unset = TierContext {
        settings: BTreeMap::new(),
        ..swoole()
    };
    assert!(refused("swoole", &unset).contains("`worker`"));
    let kept = render("swoole", &swoole());
    let named = |env: &(String, String)| env.0 == "KNEEPOINT_WORKER";
    let script = kept.process.env.iter().find(|env| named(env));
    assert!(script.is_some_and(|(_, path)| path.ends_with("/worker.php")));
    assert!(
        !render("frankenphp", &frankenphp())
            .process
            .env
            .iter()
            .any(named)
    );
}

/// Every tunable can be set to its own default, is read back, and names a catalogue entry that exists in words.
#[test]
fn every_tunable_can_be_set_and_is_read_back() {
    for (kind, context) in [
        ("nginx", web()),
        ("nginx", proxy()),
        ("haproxy", haproxy()),
        ("fpm", php()),
        ("apache", apache()),
        ("unit", unit()),
        ("frankenphp", frankenphp()),
        ("swoole", swoole()),
        ("roadrunner", roadrunner()),
        ("redis", cache()),
        ("postgresql", db()),
        ("mariadb", mariadb()),
    ] {
        let server = server(kind).expect("a known server");
        for tunable in server.tunables(context.layer, &context.program.version) {
            let Some(value) = tunable.default.clone() else {
                continue;
            };
            let mut changed = context.clone();
            changed.settings.insert(tunable.name.clone(), value.clone());
            let tier = render(kind, &changed);
            let read = kneepoint_model::Stack {
                tiers: vec![tier.tier],
                ..Default::default()
            };
            let seen = read.setting(context.layer, &tunable.name);
            let same = seen == Some(&value) || seconds(seen) == seconds(Some(&value));
            let private =
                ["opcache.file_cache", "session.save_path"].contains(&tunable.name.as_str());
            assert!(
                same || private,
                "{}.{} = {value}: {:?}",
                context.layer,
                tunable.name,
                read.setting(context.layer, &tunable.name)
            );
        }
    }
}

fn seconds(text: Option<&str>) -> Option<u64> {
    let text = text?;
    let text = text.strip_suffix('s').unwrap_or(text);
    kneepoint_model::units::parse_bytes(text)
        .ok()
        .or_else(|| Some(kneepoint_model::units::parse_duration(text).ok()?.as_secs()))
}

#[test]
fn a_directory_belongs_to_its_index_where_the_front_controller_has_another_name() {
    let check = |kind: &str, mut context: TierContext, file: &str, lines: [&str; 2]| {
        let fronts = ["public/index.php", "public/loader.php"];
        for (front, line) in fronts.into_iter().zip(lines) {
            context.app.front = front.into();
            let tier = render(kind, &context);
            assert!(text(&tier, file).contains(line), "{kind}: {line}");
        }
    };
    let nginx = ["    index index.php;", "    index index.php loader.php;"];
    check("nginx", web(), "nginx.conf", nginx);
    let apache_lines = [
        "DirectoryIndex index.php index.html\n",
        "DirectoryIndex index.php loader.php index.html\n",
    ];
    check("apache", apache(), "apache2.conf", apache_lines);
    let caddy = [
        "try_files {path} index.php\n",
        "try_files {path} {path}/index.php loader.php\n",
    ];
    check("frankenphp", frankenphp(), "Caddyfile", caddy);
}

#[test]
fn every_server_is_in_the_list_once() {
    let kinds: Vec<&str> = SERVERS.iter().map(|server| server.kind()).collect();
    assert_eq!(
        kinds,
        [
            "haproxy",
            "nginx",
            "fpm",
            "apache",
            "unit",
            "frankenphp",
            "swoole",
            "roadrunner",
            "redis",
            "postgresql",
            "mariadb"
        ]
    );
    for server in SERVERS {
        for layer in server.layers() {
            let mut names: Vec<String> = server
                .tunables(*layer, "")
                .into_iter()
                .map(|tunable| tunable.name)
                .collect();
            let all = names.len();
            names.sort();
            names.dedup();
            assert_eq!(names.len(), all, "{} has a tunable twice", server.kind());
        }
    }
}
