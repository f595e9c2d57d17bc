//! Golden renders of every tier, and the diff each kind of setting makes. `UPDATE_EXPECT=1` writes them anew.

use crate::support::rendering::{
    apache, cache, change, db, frankenphp, haproxy, mariadb, php, proxy, render, roadrunner,
    swoole, text, unit, web,
};
use expect_test::expect_file;
use kneepoint_stack::TierContext;

fn check(kind: &str, context: &TierContext, files: &[&str]) {
    let tier = render(kind, context);
    for file in files {
        let golden = format!("golden/{}/{}", context.layer, file.replace('/', "-"));
        expect_file![golden].assert_eq(text(&tier, file));
    }
}

#[test]
fn every_tier_renders_as_it_did() {
    let nginx = ["nginx.conf", "identity.conf", "status.conf"];
    check("nginx", &web(), &nginx);
    check("nginx", &proxy(), &nginx);
    let fpm = [
        "php-fpm.conf",
        "www.conf",
        "php.ini",
        "probe.conf",
        "app-env.conf",
        "conf.d/10-opcache.ini",
    ];
    check("fpm", &php(), &fpm);
    check("haproxy", &haproxy(), &["haproxy.cfg"]);
    check("apache", &apache(), &["apache2.conf"]);
    check("unit", &unit(), &["unit.json"]);
    check("frankenphp", &frankenphp(), &["Caddyfile"]);
    check("swoole", &swoole(), &["swoole.json"]);
    check("roadrunner", &roadrunner(), &["rr.yaml"]);
    check("redis", &cache(), &["redis.conf"]);
    check("postgresql", &db(), &["postgresql.conf", "pg_hba.conf"]);
    check("mariadb", &mariadb(), &["my.cnf"]);
}

#[test]
fn a_setting_changes_its_directive_and_no_other() {
    let mut diffs = String::new();
    let mut add = |kind: &str, context: TierContext, set: &[(&str, &str)]| {
        diffs.push_str(&change(kind, &context, set));
    };
    add("nginx", web(), &[("worker_connections", "1024")]);
    add(
        "nginx",
        web(),
        &[("listen.backlog", "4096"), ("listen.reuseport", "on")],
    );
    add(
        "nginx",
        web(),
        &[("fastcgi_keep_conn", "on"), ("upstream.keepalive", "4")],
    );
    add(
        "nginx",
        web(),
        &[("open_file_cache", "max=10000 inactive=60s")],
    );
    add("nginx", web(), &[("access_log", "on")]);
    add("nginx", web(), &[("access_log", "off")]);
    add("nginx", proxy(), &[("upstream.keepalive", "0")]);
    add(
        "nginx",
        proxy(),
        &[
            ("upstream.max_fails", "0"),
            ("upstream.keepalive_requests", "10000"),
        ],
    );
    add("fpm", php(), &[("pm.max_children", "40")]);
    add("fpm", php(), &[("pm", "dynamic")]);
    add("fpm", php(), &[("process_control_timeout", "30s")]);
    add("fpm", php(), &[("opcache.validate_timestamps", "0")]);
    add("fpm", php(), &[("opcache.jit", "tracing")]);
    add("fpm", php(), &[("extension.opcache", "off")]);
    add(
        "haproxy",
        haproxy(),
        &[("server.maxconn", "40"), ("http-connection", "close")],
    );
    add(
        "apache",
        apache(),
        &[("MaxRequestWorkers", "8"), ("KeepAlive", "Off")],
    );
    add("apache", apache(), &[("opcache.enable", "0")]);
    runtimes(&mut add);
    add("redis", cache(), &[("save", "900 1"), ("maxclients", "50")]);
    add("postgresql", db(), &[("max_connections", "20")]);
    add("mariadb", mariadb(), &[("max_connections", "20")]);
    add(
        "mariadb",
        mariadb(),
        &[("innodb_buffer_pool_size", "1G"), ("slow_query_log", "ON")],
    );
    expect_file!["golden/changes.diff"].assert_eq(&diffs);
}

/// The runtimes that answer HTTP themselves and stand in no distribution.
fn runtimes(add: &mut impl FnMut(&str, TierContext, &[(&str, &str)])) {
    add(
        "unit",
        unit(),
        &[("processes", "8"), ("processes.spare", "2")],
    );
    add(
        "frankenphp",
        frankenphp(),
        &[("num_threads", "8"), ("max_wait_time", "2s")],
    );
    add("frankenphp", frankenphp(), &[("worker", "worker.php")]);
    add(
        "swoole",
        swoole(),
        &[("worker", "worker.php"), ("worker_num", "8")],
    );
    add(
        "roadrunner",
        roadrunner(),
        &[("worker", "worker.php"), ("num_workers", "8")],
    );
}
