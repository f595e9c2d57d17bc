//! What is planted in every place of a stack comes out of no format, and what was told apart still is.

use super::*;
use crate::report::{judge, render, telling};
use crate::rule::case::Case;
use crate::snapshot::{Container, Listener, Runtime, SettingSource};
use kneepoint_linux::clock::thread_cpu;
use std::collections::BTreeSet;

/// Words of names, none of which is everybody's.
const PLANTED: [&str; 12] = [
    "acme",
    "globex",
    "initech",
    "hooli",
    "umbrella",
    "stark",
    "wonka",
    "cyberdyne",
    "tyrell",
    "soylent",
    "203.0.113.7",
    "2001:db8",
];

/// A stack of somebody whose name is everywhere.
fn planted() -> Case {
    let conf = "http { upstream acme_backend { server 203.0.113.7:80; } server {\n server_name www.Acme.example tyrell.test;\n \
        root /srv/globex-initech/current/public;\n access_log /var/log/nginx/acme_access.log;\n location / {\n \
        proxy_pass http://acme_backend; } } }";
    let pools = "[acme]\nuser = hooli\nlisten = /run/php/php8.2-fpm-acme.sock\npm = static\npm.max_children = 20\n\
        request_slowlog_timeout = 0\n[travel]\nlisten = /run/php/travel.sock\npm = static\npm.max_children = 20\n\
        request_slowlog_timeout = 0\n";
    let ini = "opcache.enable=0\nopcache.preload=/srv/globex-initech/preload.php\nopcache.preload_user=hooli\n\
        session.save_handler=redis\nsession.save_path=\"tcp://cache.umbrella.example:6379?auth=x\"";
    Case::healthy()
        .nginx(conf)
        .pool_with(pools, ini)
        .with(|all| {
            all.apps[0].root = "/srv/globex-initech/current".into();
            all.apps[0].laravel_cached = Some((false, false));
            all.services[1].place.unit = Some("php8.2-fpm-stark.service".into());
            all.services[2].place.container = Some(Container {
                id: "cyberdyne0123456789".into(),
                runtime: Runtime::Docker,
                name: Some("wonka-redis-1".into()),
                compose_service: None,
                in_pod: false,
            });
            all.services[2].settings.set(
                "maxmemory-policy",
                "noeviction",
                SettingSource::file("/etc/redis/My Soylent/redis.conf", 3),
            );
            all.services[0].listens.push(Listener {
                endpoint: ListenEndpoint::Tcp("203.0.113.7".into(), 80),
                queue: None,
            });
            all.links[1].by = ListenEndpoint::Tcp("2001:db8::5".into(), 6379);
            all.links[1].how = "/srv/globex-initech/current/.env:3".into();
        })
}

fn told(report: &Report) -> String {
    let all = telling::FORMATS.map(|format| render(report, format));
    all.join("\n")
}

#[test]
fn nothing_names_the_site() {
    let case = planted();
    let report = judge(&case.0);
    let plain = told(&report).to_lowercase();
    for name in [
        "acme",
        "globex-initech",
        "hooli",
        "soylent",
        "203.0.113.7",
        "2001:db8",
        "travel",
    ] {
        assert!(plain.contains(name), "{name} is not in the test: {plain}");
    }
    let hidden = redacted(&report, &case.0);
    let text = told(&hidden).to_lowercase();
    for name in PLANTED.iter().chain(&["/travel", "pool travel"]) {
        let at = text.find(name);
        let around = at.map(|at| text.get(at.saturating_sub(80)..(at + 80).min(text.len())));
        assert_eq!(at, None, "{name} in {around:?}");
    }
    assert_eq!(hidden.findings.len(), report.findings.len());
}

#[test]
fn what_is_planted_in_any_text_is_found_by_its_form() {
    let case = planted();
    let mut report = judge(&case.0);
    report.each(&mut |text| {
        text.push_str(" /opt/vandelay/x_vandelay.log http://u:pw@kramerica.example/y me@pendant.test 198.51.100.9 2001:db8:7::1");
    });
    let text = told(&redacted(&report, &case.0)).to_lowercase();
    for name in [
        "vandelay",
        "kramerica",
        "pendant",
        "198.51.100.9",
        "2001:db8",
    ] {
        assert!(!text.contains(name), "{name} is in {text}");
    }
}

#[test]
fn what_was_told_apart_still_is() {
    let case = planted();
    let mut report = judge(&case.0);
    let names = Names::of(&mut report, &case.0);
    let mut texts = BTreeSet::new();
    report.each(&mut |text| {
        texts.insert(text.clone());
    });
    let instead: BTreeSet<String> = texts.iter().map(|text| names.replace(text)).collect();
    assert_eq!(texts.len(), instead.len(), "two texts became one");
}

#[test]
fn a_name_is_the_same_as_a_part_of_others_and_what_everybody_has_stays() {
    let case = planted();
    let hidden = redacted(&judge(&case.0), &case.0);
    let text = told(&hidden);
    let pools = hidden.services[1].settings.keys();
    let pool = pools
        .filter_map(|key| key.strip_suffix(" pm.max_children"))
        .find(|name| *name != "www")
        .expect("a pool");
    assert!(text.contains(&format!("pool {pool} of php-fpm")), "{text}");
    for usual in [
        "/etc/php/conf.d/a.ini:9",
        "/etc/nginx/nginx.conf",
        "opcache.enable = 0",
        "pm.max_children",
        "/etc/php/conf.d/zz-kneepoint.ini",
        "worker_connections = 512",
        "net.ipv4.ip_local_port_range",
        "OPcache is off: PHP compiles every file for every request",
    ] {
        assert!(text.contains(usual), "`{usual}` is not in {text}");
    }
    let twice = redacted(&hidden, &case.0);
    assert_eq!(
        twice.findings, hidden.findings,
        "twice changes nothing more"
    );
}

#[test]
fn names_are_replaced_as_whole_words() {
    let mut names = Names::default();
    for (name, instead) in [("shop.x", "Y"), ("shop.x.y", "Z"), ("::5", "A")] {
        names.wholes.insert(name.into(), instead.into());
    }
    for (text, expected) in [
        ("Shop.x workshop.x shop.x.conf", "Y workshop.x Y.conf"),
        ("shop.x_y shop.x.y, (shop.x)", "shop.x_y Z, (Y)"),
        ("[::5]:80 a::5 É Shop.X", "[A]:80 a::5 É Y"),
    ] {
        assert_eq!(names.replace(text), expected);
    }
}

/// Names that are words of the rules: each where the rules write a name.
#[test]
fn a_name_that_is_a_word_of_the_check_is_hidden_where_names_stand() {
    // `session`, `memory` and `worker` are everybody's words, and name nobody.
    for name in ["orders", "visitor", "connections", "handshake", "requests"] {
        assert!(is_own(name) && !is_usual(name), "{name}");
        let conf = format!(
            "http {{ upstream {name} {{ server {name}:8080; keepalive_timeout 90s; }} server {{\n server_name {name};\n \
             location / {{\n proxy_pass http://{name}; }} }} }}"
        );
        let pool = format!(
            "[{name}]\nuser = {name}\nlisten = /run/{name}.sock\npm = static\npm.max_children = 20\n\
             request_slowlog_timeout = 0\n"
        );
        let case = Case::healthy()
            .nginx(&conf)
            .pool_with(&pool, "opcache.enable=0")
            .with(|all| {
                all.services[1].place.unit = Some(format!("{name}.service"));
                all.services[2].place.container = Some(Container {
                    id: "cyberdyne0123456789".into(),
                    runtime: Runtime::Docker,
                    name: Some(name.into()),
                    compose_service: None,
                    in_pod: false,
                });
            });
        let mut report = judge(&case.0);
        let sentences = [
            "In upstream {} (/etc/a.conf:1), below",
            "keepalive_timeout 8s; (in upstream {})",
            "upstream kept_{} { server {}; keepalive 64; }",
            "proxy_set_header Host {};",
            "it asks pool {}",
            "/srv/x, served by pools {}, {}, {} of php-fpm",
            "user = {}",
            "listen.owner = {}",
            "systemctl daemon-reload && systemctl restart {}.service",
            "redis in container {}",
            "fastcgi_pass = {}:9000",
            "/run/{}.sock",
        ]
        .map(|one| one.replace("{}", name));
        report.picture.extend(sentences.iter().cloned());
        let hidden = redacted(&report, &case.0);
        for text in hidden.picture.iter().rev().take(sentences.len()) {
            assert!(!text.contains(name), "{text}");
        }
        let text = places_of(name, &told(&hidden));
        assert!(text.is_empty(), "{name} in {text:#?}");
    }
}

/// Lines in which a name stands where only names do.
fn places_of(name: &str, text: &str) -> Vec<String> {
    let places = [
        "upstream ",
        "pool ",
        "container ",
        "server ",
        "user = ",
        "http://",
        "restart ",
        "reload ",
    ];
    let lines = text.lines();
    let holds = |line: &&str| {
        let mut places = places.iter();
        places.any(|place| line.contains(&format!("{place}{name}")))
    };
    lines.filter(holds).map(str::to_owned).collect()
}

/// CPU seconds that it takes to hide the names of so many sites.
fn time_of(sites: usize) -> f64 {
    let mut conf = "http {\n".to_owned();
    for site in 0..sites {
        conf.push_str(&format!(
            "upstream customer{site}x_orders {{ server 10.{}.{}.9:80; }}\nserver {{\n server_name customer{site}x.orders.example;\n \
             access_log /var/log/nginx/customer{site}x-orders.log;\n location / {{\n \
             proxy_pass http://customer{site}x_orders; }} }}\n",
            site / 250,
            site % 250
        ));
    }
    conf.push('}');
    let case = Case::healthy().nginx(&conf);
    let report = judge(&case.0);
    let began = thread_cpu();
    let hidden = redacted(&report, &case.0);
    let took = (thread_cpu() - began).as_secs_f64();
    let text = render(&hidden, crate::report::CheckFormat::Json);
    assert!(!text.contains("customer"), "a name is told");
    took
}

#[test]
fn four_times_as_many_sites_take_about_four_times_as_long() {
    let (few, many) = (time_of(500), time_of(2_000));
    let ratio = many / few;
    assert!(ratio < 10.0, "{few} s for 500 sites, {many} s for 2000");
}
