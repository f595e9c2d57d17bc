//! A host of shared sites: thousands of pools, each with a server of nginx. What it takes grows as they do, not faster.

use super::assemble;
use crate::chain::Seen;
use crate::files::Root;
use crate::files::abreast::Time;
use crate::report::judge;
use crate::rule::case::Case;
use crate::snapshot::Listener;
use std::fmt::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

/// So many pools, and as many servers, each with a directory and a socket of its own; the files of the sockets may be any.
fn sites(dir: &Path, count: usize) -> Vec<Seen> {
    let (mut pools, mut servers) = (String::new(), String::from("http {\n"));
    let dir_name = dir.display();
    for at in 0..count {
        let root = dir.join(format!("s{at}/public"));
        let _ = write!(
            pools,
            "[p{at}]\nlisten = {dir_name}/s{at}.sock\npm = ondemand\npm.max_children = {}\npm.max_requests = 9\n\
             php_admin_value[memory_limit] = {at}M\n",
            at + 1
        );
        let _ = write!(
            servers,
            "upstream u{at} {{ server unix:{dir_name}/s{at}.sock; keepalive 2; }}\nserver {{ server_name s{at}; root {};\n\
             location /a {{ fastcgi_keep_conn on; fastcgi_buffering off; fastcgi_pass u{at}; }}\n\
             location /b {{ fastcgi_read_timeout {at}s; fastcgi_pass unix:{dir_name}/s{at}.sock; }} }}\n",
            root.display()
        );
    }
    servers.push('}');
    let services = Case::healthy()
        .fpm(&pools, "memory_limit = 1G")
        .nginx(&servers)
        .0
        .services;
    let seen = services.into_iter().take(2).map(|mut service| {
        let pools = service.pools.iter().filter_map(|pool| pool.listen.clone());
        let listener = |endpoint| Listener {
            endpoint,
            queue: Some((0, 128)),
        };
        service.listens = pools.map(listener).collect();
        let nginx = service.nginx.as_ref();
        let asks = nginx.map_or_else(Vec::new, super::asks::of_nginx);
        service.asks = asks;
        let roots = (0..count).map(|at| format!("{dir_name}/s{at}/public"));
        Seen {
            roots: roots.collect(),
            root: Root::at("/").ok(),
            ..Seen::new(service)
        }
    });
    seen.collect()
}

/// The directories of so many sites, and a file in place of each socket.
fn directories(dir: &Path, count: usize) {
    for at in 0..count {
        let root = dir.join(format!("s{at}/public"));
        std::fs::create_dir_all(&root).expect("made");
        std::fs::write(root.join("index.php"), "<?php").expect("written");
        std::fs::write(dir.join(format!("s{at}.sock")), "").expect("written");
    }
}

/// The least of some times, since others use the machine, too. It works with many threads, so that the CPU time of one says little.
fn took(dir: &Path, count: usize) -> Duration {
    let machine = Case::healthy().0.machine;
    let once = || {
        let began = Instant::now();
        let time = Time::from_now(Duration::from_secs(3600));
        let snapshot = assemble(machine, sites(dir, count), Vec::new(), time);
        assert_eq!((snapshot.links.len(), snapshot.apps.len()), (count, count));
        let report = judge(&snapshot);
        assert!(
            report
                .findings
                .iter()
                .any(|one| one.also.len() + 1 == count)
        );
        began.elapsed()
    };
    (0..3).map(|_| once()).min().unwrap_or_default()
}

#[test]
fn four_times_as_many_pools_take_about_four_times_as_long() {
    let dir = tempfile::tempdir().expect("directory");
    directories(dir.path(), 4000);
    let (few, many) = (took(dir.path(), 1000), took(dir.path(), 4000));
    let ratio = many.as_secs_f64() / few.as_secs_f64();
    assert!(ratio < 10.0, "{few:?} for 1000, {many:?} for 4000");
}
