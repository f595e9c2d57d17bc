//! What rendering promises about a user's own configuration.

use crate::support::rendering::{change, mariadb, php, proxy, refused, render, text, web};
use crate::support::{config, settings};
use expect_test::expect_file;
use kneepoint_model::Layer;
use kneepoint_stack::{StackError, server};

const USERS_NGINX: &str = r#"# the shop, as deployed
user deploy;
worker_processes auto;
error_log /var/log/nginx/shop.log crit;
load_module modules/ngx_http_echo_module.so;
events { worker_connections 768; }
http {
    access_log /var/log/nginx/shop.access.log combined; # one line a request
    map $http_upgrade $upgrade { default ""; websocket upgrade; }
    server {
        listen 80 default_server;
        return 301 https://$host$request_uri;
    }
    server {
        listen 443 ssl http2 backlog=1024;
        listen [::]:443 ssl;
        server_name shop.example;
        ssl_certificate /etc/ssl/shop.pem;
        root /var/www/shop/public;
        location / { try_files $uri /index.php?$query_string; }
        location ~ ^/(status|ping)$ { fastcgi_pass unix:/run/php/php8.2-fpm.sock; }
        location ~ \.php$ {
            # keep this
            fastcgi_param SCRIPT_FILENAME /var/www/shop/public$fastcgi_script_name;
            fastcgi_read_timeout 30s;
            fastcgi_pass unix:/run/php/php8.2-fpm.sock;
        }
    }
}
"#;

#[test]
fn a_users_nginx_keeps_all_but_what_ties_it_to_its_machine() {
    let mut context = web();
    context.config = config("shop.conf", USERS_NGINX);
    let tier = render("nginx", &context);
    assert_eq!(tier.files[0].user_name.as_deref(), Some("shop.conf"));
    expect_file!["golden/users/nginx.conf"].assert_eq(text(&tier, "nginx.conf"));
    let read = |name: &str| tier.tier.settings[name].clone();
    assert_eq!(read("listen.backlog"), "1024");
    assert_eq!(read("fastcgi_read_timeout"), "30s");
    assert_eq!(read("access_log"), "on");
    assert_eq!(read("upstream.keepalive"), "0");
    expect_file!["golden/users/nginx-upstream.diff"].assert_eq(&change(
        "nginx",
        &context,
        &[("upstream.keepalive", "8")],
    ));
    expect_file!["golden/users/nginx-timeout.diff"].assert_eq(&change(
        "nginx",
        &context,
        &[("fastcgi_read_timeout", "5s")],
    ));
}

/// Linux refuses `reuseport` on a Unix socket, and nginx then does not start.
#[test]
fn a_server_that_is_cut_off_keeps_only_what_its_socket_takes() {
    let mut context = web();
    let site = "server { listen 81 reuseport deferred backlog=64; return 301 /; }\n\
                server { listen 80 reuseport; location / { fastcgi_pass a:9000; } }\n";
    context.config = config("site.conf", site);
    let tier = render("nginx", &context);
    let text = text(&tier, "nginx.conf");
    for kept in [
        "listen unix:/lab/tier/run/other-0.sock backlog=64;",
        "listen 10.9.0.2:80 reuseport;",
    ] {
        assert!(text.contains(kept), "{kept}: {text}");
    }
}

#[test]
fn a_users_site_file_gets_a_main_file_around_it() {
    let mut context = proxy();
    let site = "upstream app { least_conn; server a:1 max_fails=3; server b:2 backup; keepalive 16; }\n\
                server { listen 80; location / { proxy_pass http://app/base; } }\n";
    context.config = config("site.conf", site);
    let tier = render("nginx", &context);
    let text = text(&tier, "nginx.conf");
    for kept in [
        "upstream app { least_conn; server 10.9.0.2:80 max_fails=3;",
        "keepalive 16; }",
        "proxy_pass http://app/base;",
    ] {
        assert!(text.contains(kept), "{text}");
    }
    assert!(!text.contains("b:2"), "{text}");
    // HTTP/1.0 ends every connection: the cache of 16 keeps none.
    assert_eq!(tier.tier.settings["upstream.keepalive"], "0");
    expect_file!["golden/users/site-upstream.diff"].assert_eq(&change(
        "nginx",
        &context,
        &[("upstream.keepalive", "32")],
    ));
}

/// nginx refuses two buffers of one file, and the main file around this site has a log of its own.
#[test]
fn logs_whose_buffers_differ_are_files_of_their_own() {
    let mut context = web();
    let site = "server { listen 80; access_log /var/log/shop.log combined buffer=32k flush=5m;\n\
                location /a { access_log /var/log/a.log combined flush=5m buffer=32k; return 404; }\n\
                location /b { access_log /var/log/b.log; return 404; }\n\
                location ~ \\.php$ { fastcgi_pass a:9000; } }\n";
    context.config = config("site.conf", site);
    let tier = render("nginx", &context);
    let of_user = text(&tier, "nginx.conf");
    for line in [
        "access_log /lab/tier/log/access.log combined buffer=64k flush=1s;",
        "access_log /lab/tier/log/access-2.log combined buffer=32k flush=5m;",
        "access_log /lab/tier/log/access-2.log combined flush=5m buffer=32k;",
        "access_log /lab/tier/log/access.log; return 404;",
    ] {
        assert!(of_user.contains(line), "{line}: {of_user}");
    }
}

#[test]
fn however_a_pass_is_written_it_leads_to_the_next_tier() {
    for (written, expected) in [
        ("$backend", "http://10.9.0.2:80"),
        ("http://$backend:$port", "http://10.9.0.2:80"),
        (
            "https://$host$request_uri",
            "http://10.9.0.2:80$request_uri",
        ),
        ("http://app$request_uri", "http://app$request_uri"),
        ("http://app$uri$is_args$args", "http://app$uri$is_args$args"),
        ("http://unix:/run/app.sock", "http://10.9.0.2:80"),
        (
            "http://unix:/run/app.sock:/base/",
            "http://10.9.0.2:80/base/",
        ),
    ] {
        let mut context = proxy();
        let site = format!(
            "upstream app {{ server a:1; keepalive 16; }}\n\
             server {{ listen 80; location / {{ proxy_pass {written}; proxy_http_version 1.1; }} }}\n"
        );
        context.config = config("site.conf", &site);
        let tier = render("nginx", &context);
        let of_user = text(&tier, "nginx.conf");
        let passed = format!("proxy_pass {expected};");
        assert!(of_user.contains(&passed), "{passed}: {of_user}");
    }
    let mut context = proxy();
    context.upstream = Some(kneepoint_model::Address::Unix("/lab/web.sock".into()));
    let site =
        "server { listen 80; location / { proxy_pass http://unix:/run/app.sock:/base/; } }\n";
    context.config = config("site.conf", site);
    let plain = render("nginx", &context);
    let passed = "proxy_pass http://unix:/lab/web.sock:/base/;";
    assert!(text(&plain, "nginx.conf").contains(passed));
    context.settings = settings(&[("upstream.keepalive", "8")]);
    let kept = render("nginx", &context);
    let passed = "proxy_pass http://kneepoint_web/base/;";
    assert!(text(&kept, "nginx.conf").contains(passed));
}

/// nginx reads the certificates of the `http` block even where no server listens for TLS.
#[test]
fn certificates_for_all_servers_are_left_out_too() {
    let mut context = web();
    let site = "events {}\nhttp { ssl_certificate /etc/ssl/shop.pem; ssl_certificate_key /etc/ssl/shop.key; http2 on;\n\
                server { listen 443 ssl; location ~ \\.php$ { fastcgi_pass a:9000; } } }\n";
    context.config = config("nginx.conf", site);
    let tier = render("nginx", &context);
    let of_user = text(&tier, "nginx.conf");
    for gone in ["ssl", "http2", "443"] {
        assert!(!of_user.contains(gone), "{gone}: {of_user}");
    }
    assert!(of_user.contains("listen 10.9.0.2:80;"), "{of_user}");
}

#[test]
fn a_users_pool_keeps_all_but_what_ties_it_to_its_machine() {
    let mut context = php();
    context.app.env = settings(&[("DB_HOST", "10.9.0.5")]);
    context.config = config(
        "shop.conf",
        "; the shop\n[global]\nprocess_control_timeout = 5s\ninclude=/etc/php/pool.d/*.conf\n[shop]\nuser = deploy\ngroup = deploy\n\
         listen = /run/php/$pool.sock ; for nginx\nlisten.allowed_clients = 127.0.0.1\npm = dynamic\npm.max_children = 20\n\
         pm.start_servers = 4\npm.min_spare_servers = 2\npm.max_spare_servers = 6\n;pm.max_requests = 500\n\
         env[DB_HOST] = db.internal\nphp_admin_value[memory_limit] = 256M\n\n[admin]\nlisten = 9001\npm = ondemand\npm.max_children = 2\n",
    );
    context.ini = config(
        "php.ini",
        "[PHP]\nmemory_limit = 128M ; as delivered\n[opcache]\n;opcache.enable=1\nopcache.memory_consumption=64\n",
    );
    let tier = render("fpm", &context);
    expect_file!["golden/users/www.conf"].assert_eq(text(&tier, "www.conf"));
    expect_file!["golden/users/php.ini"].assert_eq(text(&tier, "php.ini"));
    let env = tier
        .files
        .iter()
        .find(|file| file.path.ends_with("app-env.conf"))
        .expect("the environment");
    assert!(
        env.text.contains("[shop]\n") && env.text.contains("env[DB_HOST] = \"10.9.0.5\""),
        "{}",
        env.text
    );
    assert_eq!(
        (env.mode, &env.user_name),
        (0o600, &None),
        "it may hold secrets"
    );
    assert_eq!(
        tier.tier.settings["memory_limit"], "256M",
        "the pool's value wins over php.ini"
    );
    assert_eq!(
        tier.tier.settings["opcache.jit"], "off",
        "the system's file wins over the default"
    );
    expect_file!["golden/users/pool-memory.diff"].assert_eq(&change(
        "fpm",
        &context,
        &[("memory_limit", "64M")],
    ));
    expect_file!["golden/users/pool-control.diff"].assert_eq(&change(
        "fpm",
        &context,
        &[("process_control_timeout", "10s")],
    ));
    // A smaller pool takes along what its file says of spare children, and refuses what was asked for beside it.
    context.settings = settings(&[("pm.max_children", "3")]);
    let smaller = render("fpm", &context).tier.settings;
    let sizes = ["start_servers", "min_spare_servers", "max_spare_servers"]
        .map(|name| smaller[&format!("pm.{name}")].as_str());
    assert_eq!(sizes, ["3", "2", "3"]);
    context.settings = settings(&[("pm.max_children", "5"), ("pm.max_spare_servers", "6")]);
    let error = refused("fpm", &context);
    assert!(
        error.contains("pm.max_spare_servers (6) must not exceed pm.max_children (5)"),
        "{error}"
    );
}

/// Sessions and uploads lie in the lab's own directory, which no list of a user's names.
#[test]
fn a_pool_that_is_held_within_directories_may_open_the_labs() {
    let held = |pool: &str, ini: &str| {
        let mut context = php();
        context.config = config("www.conf", pool);
        context.ini = config("php.ini", ini);
        render("fpm", &context).tier.settings["open_basedir"].clone()
    };
    let wide = "/var/www:/tmp:/srv/shop:/lab/tier";
    let pool = "[www]\npm = static\npm.max_children = 2\n";
    assert_eq!(held(pool, "open_basedir = /var/www:/tmp\n"), wide);
    let admin = format!("{pool}php_admin_value[open_basedir] = /var/www:/tmp\n");
    assert_eq!(held(&admin, ""), wide);
    let free = format!("{pool}php_admin_value[open_basedir] = none\n");
    assert_eq!(held(&free, "open_basedir = /var/www\n"), "none");
}

#[test]
fn a_request_that_holds_php_within_directories_names_the_labs_too() {
    let mut context = web();
    let site = "server { listen 80; location ~ \\.php$ { fastcgi_pass a:9000;\n\
                fastcgi_param PHP_ADMIN_VALUE \"open_basedir=$document_root/:/tmp\\nmemory_limit=64M\";\n\
                fastcgi_param PHP_VALUE \"open_basedir=none\"; } }\n";
    context.config = config("site.conf", site);
    let tier = render("nginx", &context);
    let of_user = text(&tier, "nginx.conf");
    for line in [
        "\"open_basedir=$document_root/:/tmp:/srv/shop:/lab\nmemory_limit=64M\";",
        "PHP_VALUE \"open_basedir=none\";",
    ] {
        assert!(of_user.contains(line), "{line}: {of_user}");
    }
}

/// FPM opens the logs of every pool, and its sockets, too.
#[test]
fn a_pool_that_serves_nothing_stays_within_the_lab() {
    let mut context = php();
    context.config = config(
        "www.conf",
        "[www]\npm = static\npm.max_children = 2\n[admin]\nlisten = 9001\nprefix = /srv\nchroot = /srv\nchdir = /admin\n\
         pm = ondemand\npm.max_children = 2\npm.status_listen = 127.0.0.1:9002\nrequest_slowlog_timeout = 5s\n\
         slowlog = /var/log/php/admin.slow\naccess.log = /var/log/php/$pool.access.log\n",
    );
    let tier = render("fpm", &context);
    let pools = text(&tier, "www.conf");
    let admin = pools.find("[admin]").map_or("", |at| &pools[at..]);
    for line in [
        "\nlisten = /lab/tier/run/other-admin.sock\n",
        "\nslowlog = /lab/tier/log/slow-admin.log\n",
        "\naccess.log = /lab/tier/log/access-admin.log\n",
        "\n;prefix = ",
        "\n;chroot = ",
        "\n;chdir = ",
        "\n;pm.status_listen = ",
    ] {
        assert!(admin.contains(line), "{line}: {admin}");
    }
}

#[test]
fn an_existing_configuration_is_read_by_tunable_name() {
    let nginx = server("nginx").expect("nginx");
    let read = nginx.read(Layer::Web, USERS_NGINX, None).expect("reads");
    expect_file!["golden/users/read.txt"].assert_eq(&format!("{read:#?}"));
    let fpm = server("fpm").expect("fpm");
    let read = fpm.read(
        Layer::Php,
        "[www]\npm = static\npm.max_children = 5\ncatch_workers_output = 1\n",
        Some("opcache.enable=Off\n"),
    );
    let read = read.expect("reads");
    assert_eq!(
        read,
        settings(&[
            ("pm", "static"),
            ("pm.max_children", "5"),
            ("catch_workers_output", "yes"),
            ("opcache.enable", "0")
        ])
    );
    let broken = nginx
        .read(Layer::Web, "http {", None)
        .expect_err("not closed");
    assert!(
        matches!(broken, StackError::Syntax { line: 1, .. }),
        "{broken}"
    );
}

const USERS_MARIADB: &str = "\
# the shop's database
[client]
port = 3306
[mysqld]
user = mysql
datadir = /var/lib/mysql
bind-address = 0.0.0.0
max-connections = 300 # one for each worker
innodb_buffer_pool_size = 2G
log_bin = /var/log/mysql/bin.log
innodb_data_home_dir = /var/lib/mysql
innodb-log-group-home-dir = /var/lib/mysql
innodb_undo_directory = /var/lib/mysql
aria_log_dir_path = /var/lib/mysql
slow_query_log
[mariadb-10.11]
!includedir /etc/mysql/mariadb.conf.d/
";

#[test]
fn a_users_mariadb_keeps_all_but_what_ties_it_to_its_machine() {
    let mut context = mariadb();
    context.config = config("my.cnf", USERS_MARIADB);
    let tier = render("mariadb", &context);
    expect_file!["golden/users/my.cnf"].assert_eq(text(&tier, "my.cnf"));
    let read = |name: &str| tier.tier.settings[name].clone();
    assert_eq!(read("max_connections"), "300");
    assert_eq!(read("slow_query_log"), "ON");
    assert_eq!(read("innodb_buffer_pool_size"), "2G");
}

/// mariadbd reads all of these groups but that of another version, and of several entries the last one of the file.
#[test]
fn every_group_that_mariadb_reads_becomes_the_labs() {
    let mut context = mariadb();
    context.config = config(
        "my.cnf",
        "[mariadb]\nmax_connections = 400\n[mysqld]\ndatadir=/var/lib/mysql\nmax_connections = 300\n\
         skip-networking  # socket only\n[galera]\nwsrep_on=ON\nloose-wsrep-provider=/usr/lib/galera.so\n\
         wsrep_cluster_address=gcomm://10.0.0.1\n[mariadb-10.11]\ndatadir=/srv/mysql\n! include /etc/mysql/my.cnf\n\
         [mariadb-10.6]\nmax_connections = 500\nlog_bin = /srv/bin.log\n",
    );
    let tier = render("mariadb", &context);
    let text = text(&tier, "my.cnf");
    for kept in [
        "\n# socket only\n;skip-networking\n",
        "\n;wsrep_on=ON\n;loose-wsrep-provider=/usr/lib/galera.so\n;wsrep_cluster_address=gcomm://10.0.0.1\n",
        "\n[mariadb-10.11]\ndatadir=/lab/tier/data\n#! include",
        "\n;log_bin = /srv/bin.log\n",
    ] {
        assert!(text.contains(kept), "{kept}: {text}");
    }
    let told = change("mariadb", &context, &[("max_connections", "350")]);
    assert!(told.contains("-max_connections = 300"), "{told}");
    // What a file spells in a way that nobody looks for.
    for wins in ["--datadir=/lab/tier/data", "--loose-wsrep-provider=none"] {
        assert!(tier.process.args.iter().any(|arg| arg == wins), "{wins}");
    }
}
