//! HAProxy as the real program sees it.

use crate::support::running::{Local, Running, app, eventually, http, real, temp_dir};
use kneepoint_model::{Address, Layer};
use kneepoint_stack::install;

#[test]
fn haproxy_hands_requests_on_and_takes_a_change_by_a_reload() {
    let dir = temp_dir();
    let app = app(dir.path());
    let (nginx, mut web) = real("nginx", Layer::Web, dir.path(), &app);
    web.app.root = app.clone();
    let (fpm, php) = real("fpm", Layer::Php, dir.path(), &app);
    let php = Running::start(fpm, &php);
    web.upstream = Some(php.tier.listen.clone());
    let web = Running::start(nginx, &web);
    let (haproxy, mut context) = real("haproxy", Layer::Proxy, dir.path(), &app);
    context.upstream = Some(web.tier.listen.clone());
    let mut running = Running::start(haproxy, &context);
    for (path, expected) in [
        ("/.well-known/kneepoint", "0123abcd"),
        ("/", "hello"),
        ("/static.html", "a static page"),
    ] {
        let answer = http(&running.tier.listen, path);
        assert!(
            answer.starts_with("HTTP/1.1 200") && answer.contains(expected),
            "{path}: {answer}"
        );
    }
    context.nonce = "4567cdef".to_owned();
    running.reload(haproxy, &context);
    let ask = || http(&running.tier.listen, "/.well-known/kneepoint");
    let answer = eventually(ask, |answer| answer.contains("4567cdef"));
    assert!(answer.contains("4567cdef"), "{answer}");
}

#[test]
fn haproxys_words_are_quoted_when_it_refuses() {
    let dir = temp_dir();
    let app = app(dir.path());
    let (server, mut context) = real("haproxy", Layer::Proxy, dir.path(), &app);
    context.upstream = Some(Address::Tcp("127.0.0.1:1".parse().expect("an address")));
    let mut tier = server.render(&context).expect("renders");
    tier.files[0].text.push_str("    no-such-keyword\n");
    install(&tier).expect("installs");
    let error = server.check(&tier, &Local).expect_err("HAProxy refuses it");
    assert!(error.to_string().contains("no-such-keyword"), "{error}");
}
