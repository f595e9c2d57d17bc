//! Golden renders, and what rendering promises about a user's own configuration.

mod support;

use expect_test::{Expect, expect};
use kneepoint_model::{Address, Layer};
use kneepoint_stack::{RenderedTier, SERVERS, StackError, TierContext, server};
use std::collections::BTreeMap;
use support::{config, context, program, settings};

fn render(kind: &str, context: &TierContext) -> RenderedTier {
    server(kind)
        .expect("a known server")
        .render(context)
        .unwrap_or_else(|error| panic!("{error}"))
}

fn refused(kind: &str, context: &TierContext) -> String {
    server(kind)
        .expect("a known server")
        .render(context)
        .expect_err("it is refused")
        .to_string()
}

fn text<'a>(tier: &'a RenderedTier, name: &str) -> &'a str {
    let file = tier.files.iter().find(|file| file.path.ends_with(name));
    &file.unwrap_or_else(|| panic!("no file {name}")).text
}

fn check(kind: &str, context: &TierContext, file: &str, expected: &Expect) {
    expected.assert_eq(text(&render(kind, context), file));
}

/// What differs between two texts, as a diff without context.
fn diff(before: &str, after: &str) -> String {
    let (before, after): (Vec<_>, Vec<_>) = (before.lines().collect(), after.lines().collect());
    let removed = before
        .iter()
        .filter(|line| !after.contains(line))
        .map(|line| format!("-{}", line.trim()));
    let added = after
        .iter()
        .filter(|line| !before.contains(line))
        .map(|line| format!("+{}", line.trim()));
    removed.chain(added).collect::<Vec<_>>().join("\n")
}

fn check_change(
    kind: &str,
    context: &TierContext,
    set: &[(&str, &str)],
    file: &str,
    expected: &Expect,
) {
    let before = render(kind, context);
    let mut changed = context.clone();
    changed.settings.extend(settings(set));
    let after = render(kind, &changed);
    expected.assert_eq(&diff(text(&before, file), text(&after, file)));
    for (name, value) in set {
        assert_eq!(
            after.tier.settings.get(*name).map(String::as_str),
            Some(*value),
            "{name}"
        );
    }
}

fn web() -> TierContext {
    TierContext {
        upstream: Some("10.9.0.3:9000".parse().expect("an address")),
        ..context(Layer::Web, program("/usr/sbin/nginx", "1.22.1"))
    }
}

fn proxy() -> TierContext {
    TierContext {
        upstream: Some("10.9.0.2:80".parse().expect("an address")),
        ..context(Layer::Proxy, program("/usr/sbin/nginx", "1.22.1"))
    }
}

fn php() -> TierContext {
    let mut program = program("/usr/sbin/php-fpm8.2", "8.2.35");
    program.files = vec![
        (
            "10-opcache.ini".into(),
            "; priority=10\nzend_extension=opcache.so\nopcache.jit=off\n".into(),
        ),
        ("20-redis.ini".into(), "extension=redis.so\n".into()),
    ];
    context(Layer::Php, program)
}

fn cache() -> TierContext {
    context(Layer::Cache, program("/usr/bin/redis-server", "7.0.15"))
}

fn db() -> TierContext {
    context(
        Layer::Db,
        program("/usr/lib/postgresql/15/bin/postgres", "15.18"),
    )
}

#[test]
fn golden_web() {
    check(
        "nginx",
        &web(),
        "nginx.conf",
        &expect![[r#"
        user www-data;
        worker_processes 2;
        worker_rlimit_nofile 8192;
        pid /lab/tier/run/nginx.pid;
        error_log /lab/tier/log/error.log warn;
        daemon off;

        events {
            worker_connections 4096;
        }

        http {
            types {
                text/html html htm;
                text/css css;
                text/plain txt;
                text/xml xml;
                application/javascript js mjs;
                application/json json map;
                application/pdf pdf;
                application/wasm wasm;
                font/woff2 woff2;
                font/woff woff;
                image/avif avif;
                image/gif gif;
                image/jpeg jpeg jpg;
                image/png png;
                image/svg+xml svg;
                image/webp webp;
                image/x-icon ico;
            }
            default_type application/octet-stream;

            sendfile on;
            tcp_nopush on;
            keepalive_timeout 65s;
            server_tokens off;
            access_log /lab/tier/log/access.log combined buffer=64k flush=1s;

            upstream php {
                server 10.9.0.3:9000;
            }

            server {
                listen 10.9.0.2:80;
                root /srv/shop/public;
                index index.php;

                location / {
                    try_files $uri $uri/ /index.php$is_args$args;
                }

                location ~ [^/]\.php(/|$) {
                    fastcgi_split_path_info ^(.+?\.php)(/.*)$;
                    fastcgi_pass php;
                    fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;
                    fastcgi_param SCRIPT_NAME $fastcgi_script_name;
                    fastcgi_param PATH_INFO $fastcgi_path_info;
                    fastcgi_param QUERY_STRING $query_string;
                    fastcgi_param REQUEST_METHOD $request_method;
                    fastcgi_param CONTENT_TYPE $content_type;
                    fastcgi_param CONTENT_LENGTH $content_length;
                    fastcgi_param REQUEST_URI $request_uri;
                    fastcgi_param DOCUMENT_URI $document_uri;
                    fastcgi_param DOCUMENT_ROOT $document_root;
                    fastcgi_param SERVER_PROTOCOL $server_protocol;
                    fastcgi_param REQUEST_SCHEME $scheme;
                    fastcgi_param HTTPS $https if_not_empty;
                    fastcgi_param GATEWAY_INTERFACE CGI/1.1;
                    fastcgi_param SERVER_SOFTWARE nginx/$nginx_version;
                    fastcgi_param REMOTE_ADDR $remote_addr;
                    fastcgi_param REMOTE_PORT $remote_port;
                    fastcgi_param SERVER_ADDR $server_addr;
                    fastcgi_param SERVER_PORT $server_port;
                    fastcgi_param SERVER_NAME $server_name;
                    fastcgi_param HTTP_PROXY "";
                    fastcgi_param REDIRECT_STATUS 200;
                }
                include /lab/tier/identity.conf;
            }
            client_body_temp_path /lab/tier/tmp/client_body;
            proxy_temp_path /lab/tier/tmp/proxy;
            fastcgi_temp_path /lab/tier/tmp/fastcgi;
            uwsgi_temp_path /lab/tier/tmp/uwsgi;
            scgi_temp_path /lab/tier/tmp/scgi;
            include /lab/tier/status.conf;
        }
    "#]],
    );
    check(
        "nginx",
        &web(),
        "identity.conf",
        &expect![[r#"
        location = /.well-known/kneepoint {
            access_log off;
            auth_basic off;
            default_type text/plain;
            return 200 "0123abcd";
        }
    "#]],
    );
    check(
        "nginx",
        &web(),
        "status.conf",
        &expect![[r#"
        server {
            listen 127.0.0.1:8081;
            access_log off;
            location = /kneepoint/stub {
                stub_status;
            }
        }
    "#]],
    );
}

#[test]
fn golden_proxy() {
    check(
        "nginx",
        &proxy(),
        "nginx.conf",
        &expect![[r#"
        user www-data;
        worker_processes 2;
        worker_rlimit_nofile 8192;
        pid /lab/tier/run/nginx.pid;
        error_log /lab/tier/log/error.log warn;
        daemon off;

        events {
            worker_connections 4096;
        }

        http {
            types {
                text/html html htm;
                text/css css;
                text/plain txt;
                text/xml xml;
                application/javascript js mjs;
                application/json json map;
                application/pdf pdf;
                application/wasm wasm;
                font/woff2 woff2;
                font/woff woff;
                image/avif avif;
                image/gif gif;
                image/jpeg jpeg jpg;
                image/png png;
                image/svg+xml svg;
                image/webp webp;
                image/x-icon ico;
            }
            default_type application/octet-stream;

            sendfile on;
            tcp_nopush on;
            keepalive_timeout 65s;
            server_tokens off;
            access_log /lab/tier/log/access.log combined buffer=64k flush=1s;

            upstream web {
                server 10.9.0.2:80;
                keepalive 32;
            }

            server {
                listen 10.9.0.2:80;

                location / {
                    proxy_pass http://web;
                    proxy_http_version 1.1;
                    proxy_set_header Connection "";
                    proxy_set_header Host $host;
                    proxy_set_header X-Real-IP $remote_addr;
                    proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
                    proxy_set_header X-Forwarded-Proto $scheme;
                }
                include /lab/tier/identity.conf;
            }
            client_body_temp_path /lab/tier/tmp/client_body;
            proxy_temp_path /lab/tier/tmp/proxy;
            fastcgi_temp_path /lab/tier/tmp/fastcgi;
            uwsgi_temp_path /lab/tier/tmp/uwsgi;
            scgi_temp_path /lab/tier/tmp/scgi;
            include /lab/tier/status.conf;
        }
    "#]],
    );
    check(
        "nginx",
        &proxy(),
        "identity.conf",
        &expect![[r#"
        location = /.well-known/kneepoint {
            access_log off;
            auth_basic off;
            proxy_pass http://10.9.0.2:80;
        }
    "#]],
    );
}

#[test]
fn golden_fpm() {
    check(
        "fpm",
        &php(),
        "php-fpm.conf",
        &expect![[r#"
        [global]
        process_control_timeout = 10s
        error_log = /lab/tier/log/fpm.log
        pid = /lab/tier/run/fpm.pid
        log_level = notice
        daemonize = no
        include = /lab/tier/www.conf
        include = /lab/tier/app-env.conf
        include = /lab/tier/probe.conf
    "#]],
    );
    check(
        "fpm",
        &php(),
        "www.conf",
        &expect![[r#"
        [www]
        user = www-data
        group = www-data
        listen.owner = www-data
        listen.group = www-data
        listen = 10.9.0.2:9000
        pm.status_path = /kneepoint/status
        pm.status_listen = /lab/tier/run/status.sock
        ping.path = /.well-known/kneepoint
        ping.response = 0123abcd
        slowlog = /lab/tier/log/slow.log
        pm = static
        pm.max_children = 6
    "#]],
    );
    check(
        "fpm",
        &php(),
        "php.ini",
        &expect![[r#"
        [PHP]
        expose_php = 0
        display_errors = 0
        log_errors = 1
        error_log = /lab/tier/log/php-error.log
        sys_temp_dir = /lab/tier/tmp
        session.save_path = /lab/tier/sessions
    "#]],
    );
    check(
        "fpm",
        &php(),
        "probe.conf",
        &expect![[r#"
        [kneepoint-probe]
        user = www-data
        group = www-data
        listen = /lab/tier/run/probe.sock
        pm = static
        pm.max_children = 1
        request_terminate_timeout = 5s
        php_admin_value[opcache.restrict_api] = 
        php_admin_value[auto_prepend_file] = 
        php_admin_value[auto_append_file] = 
        php_admin_value[open_basedir] = 
        php_admin_flag[display_errors] = off
    "#]],
    );
    check(
        "fpm",
        &php(),
        "conf.d/10-opcache.ini",
        &expect![[r#"
        ; priority=10
        zend_extension=opcache.so
        opcache.jit=off
    "#]],
    );
}

#[test]
fn golden_cache_and_database() {
    check(
        "redis",
        &cache(),
        "redis.conf",
        &expect![[r#"
        save ""
        appendonly no
        bind 10.9.0.2
        port 6379
        protected-mode no
        daemonize no
        supervised no
        logfile ""
        dir /lab/tier/data
        pidfile /lab/tier/run/redis.pid
    "#]],
    );
    check(
        "postgresql",
        &db(),
        "postgresql.conf",
        &expect![[r#"
        data_directory = '/lab/tier/data'
        hba_file = '/lab/tier/pg_hba.conf'
        listen_addresses = '10.9.0.2'
        port = 5432
        unix_socket_directories = '/lab/tier/run'
        logging_collector = off
        log_destination = stderr
    "#]],
    );
}

#[test]
fn a_setting_changes_its_directive_and_no_other() {
    check_change(
        "nginx",
        &web(),
        &[("worker_connections", "1024")],
        "nginx.conf",
        &expect![[r#"
            -worker_connections 4096;
            +worker_connections 1024;"#]],
    );
    check_change(
        "nginx",
        &web(),
        &[("listen.backlog", "4096"), ("listen.reuseport", "on")],
        "nginx.conf",
        &expect![[r#"
            -listen 10.9.0.2:80;
            +listen 10.9.0.2:80 backlog=4096 reuseport;"#]],
    );
    check_change(
        "nginx",
        &web(),
        &[("fastcgi_keep_conn", "on"), ("upstream.keepalive", "4")],
        "nginx.conf",
        &expect![[r#"
            +keepalive 4;
            +fastcgi_keep_conn on;"#]],
    );
    check_change(
        "nginx",
        &web(),
        &[("open_file_cache", "max=10000 inactive=60s")],
        "nginx.conf",
        &expect!["+open_file_cache max=10000 inactive=60s;"],
    );
    check_change(
        "nginx",
        &web(),
        &[("access_log", "on")],
        "nginx.conf",
        &expect![[r#"
            -access_log /lab/tier/log/access.log combined buffer=64k flush=1s;
            +access_log /lab/tier/log/access.log combined;"#]],
    );
    check_change(
        "nginx",
        &proxy(),
        &[("upstream.keepalive", "0")],
        "nginx.conf",
        &expect![[r#"
            -keepalive 32;
            -proxy_http_version 1.1;
            -proxy_set_header Connection "";"#]],
    );
    check_change(
        "nginx",
        &proxy(),
        &[
            ("upstream.max_fails", "0"),
            ("upstream.keepalive_requests", "10000"),
        ],
        "nginx.conf",
        &expect![[r#"
            -server 10.9.0.2:80;
            +server 10.9.0.2:80 max_fails=0;
            +keepalive_requests 10000;"#]],
    );
    check_change(
        "fpm",
        &php(),
        &[("pm.max_children", "40")],
        "www.conf",
        &expect![[r#"
            -pm.max_children = 6
            +pm.max_children = 40"#]],
    );
    check_change(
        "fpm",
        &php(),
        &[("pm", "dynamic")],
        "www.conf",
        &expect![[r#"
        -pm = static
        +pm = dynamic
        +pm.start_servers = 2
        +pm.min_spare_servers = 1
        +pm.max_spare_servers = 3"#]],
    );
    check_change(
        "fpm",
        &php(),
        &[("process_control_timeout", "30s")],
        "php-fpm.conf",
        &expect![[r#"
            -process_control_timeout = 10s
            +process_control_timeout = 30s"#]],
    );
    check_change(
        "fpm",
        &php(),
        &[("opcache.validate_timestamps", "0")],
        "php.ini",
        &expect!["+opcache.validate_timestamps = 0"],
    );
    check_change(
        "fpm",
        &php(),
        &[("opcache.jit", "tracing")],
        "conf.d/10-opcache.ini",
        &expect![[r#"
            -opcache.jit=off
            +opcache.jit=tracing"#]],
    );
    check_change(
        "fpm",
        &php(),
        &[("extension.opcache", "off")],
        "conf.d/10-opcache.ini",
        &expect![[r#"
            -zend_extension=opcache.so
            +;zend_extension=opcache.so"#]],
    );
    check_change(
        "redis",
        &cache(),
        &[("save", "900 1"), ("maxclients", "50")],
        "redis.conf",
        &expect![[r#"
            -save ""
            +save 900 1
            +maxclients 50"#]],
    );
    check_change(
        "postgresql",
        &db(),
        &[("max_connections", "20")],
        "postgresql.conf",
        &expect!["+max_connections = 20"],
    );
}

const USERS_NGINX: &str = r#"# the shop, as deployed
user deploy;
worker_processes auto;
error_log /var/log/nginx/shop.log crit;
include modules-enabled/*.conf;
events { worker_connections 768; }
http {
    include mime.types;
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
            include fastcgi_params;
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
    expect![[r##"
        # the shop, as deployed
        user www-data;
        worker_processes auto;
        error_log /lab/tier/log/error.log warn;
        include /etc/nginx/modules-enabled/*.conf;
        pid /lab/tier/run/nginx.pid;
        daemon off;
        events { worker_connections 768; }
        http {
            include /etc/nginx/mime.types;
            access_log /lab/tier/log/access.log combined; # one line a request
            map $http_upgrade $upgrade { default ""; websocket upgrade; }
            server {
                listen unix:/lab/tier/run/other-0.sock;
                return 301 https://$host$request_uri;
            }
            server {
                listen 10.9.0.2:80 backlog=1024;
                server_name shop.example;
                root /srv/shop/public;
                location / { try_files $uri /index.php?$query_string; }
                location ~ ^/(status|ping)$ { fastcgi_pass 10.9.0.3:9000; }
                location ~ \.php$ {
                    # keep this
                    include /etc/nginx/fastcgi_params;
                    fastcgi_param SCRIPT_FILENAME /srv/shop/public$fastcgi_script_name;
                    fastcgi_read_timeout 30s;
                    fastcgi_pass 10.9.0.3:9000;
                }
                include /lab/tier/identity.conf;
            }
            client_body_temp_path /lab/tier/tmp/client_body;
            proxy_temp_path /lab/tier/tmp/proxy;
            fastcgi_temp_path /lab/tier/tmp/fastcgi;
            uwsgi_temp_path /lab/tier/tmp/uwsgi;
            scgi_temp_path /lab/tier/tmp/scgi;
            include /lab/tier/status.conf;
        }
    "##]]
    .assert_eq(text(&tier, "nginx.conf"));
    let read = |name: &str| tier.tier.settings[name].clone();
    assert_eq!(read("listen.backlog"), "1024");
    assert_eq!(read("fastcgi_read_timeout"), "30s");
    assert_eq!(read("access_log"), "on");
    assert_eq!(read("upstream.keepalive"), "0");
    check_change(
        "nginx",
        &context,
        &[("upstream.keepalive", "8")],
        "nginx.conf",
        &expect![[r#"
            -fastcgi_pass 10.9.0.3:9000;
            +upstream kneepoint_php {
            +server 10.9.0.3:9000;
            +keepalive 8;
            +fastcgi_pass kneepoint_php;"#]],
    );
    check_change(
        "nginx",
        &context,
        &[("fastcgi_read_timeout", "5s")],
        "nginx.conf",
        &expect![[r#"
            -fastcgi_read_timeout 30s;
            +fastcgi_read_timeout 5s;"#]],
    );
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
    check_change(
        "nginx",
        &context,
        &[("upstream.keepalive", "32")],
        "nginx.conf",
        &expect![[r#"
            -upstream app { least_conn; server 10.9.0.2:80 max_fails=3;  keepalive 16; }
            -server { listen 10.9.0.2:80; location / { proxy_pass http://app/base; }
            +upstream app { least_conn; server 10.9.0.2:80 max_fails=3;  keepalive 32; }
            +server { listen 10.9.0.2:80; location / { proxy_pass http://app/base;
            +proxy_http_version 1.1;
            +proxy_set_header Connection "";
            +}"#]],
    );
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
    expect![[r#"
        ; the shop
        [global]
        process_control_timeout = 5s
        ;include=/etc/php/pool.d/*.conf
        [shop]
        user = www-data
        group = www-data
        listen = 10.9.0.2:9000 ; for nginx
        ;listen.allowed_clients = 127.0.0.1
        pm = dynamic
        pm.max_children = 20
        pm.start_servers = 4
        pm.min_spare_servers = 2
        pm.max_spare_servers = 6
        ;pm.max_requests = 500
        ;env[DB_HOST] = db.internal
        php_admin_value[memory_limit] = 256M
        listen.owner = www-data
        listen.group = www-data
        pm.status_path = /kneepoint/status
        pm.status_listen = /lab/tier/run/status.sock
        ping.path = /.well-known/kneepoint
        ping.response = 0123abcd
        slowlog = /lab/tier/log/slow.log

        [admin]
        listen = /lab/tier/run/other-admin.sock
        pm = ondemand
        pm.max_children = 2
        user = www-data
        group = www-data
        listen.owner = www-data
        listen.group = www-data
    "#]]
    .assert_eq(text(&tier, "www.conf"));
    expect![[r#"
        [PHP]
        memory_limit = 128M ; as delivered
        [opcache]
        ;opcache.enable=1
        opcache.memory_consumption=64
        error_log = /lab/tier/log/php-error.log
        sys_temp_dir = /lab/tier/tmp
        session.save_path = /lab/tier/sessions
    "#]]
    .assert_eq(text(&tier, "php.ini"));
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
    check_change(
        "fpm",
        &context,
        &[("memory_limit", "64M")],
        "www.conf",
        &expect![[r#"
            -php_admin_value[memory_limit] = 256M
            +php_admin_value[memory_limit] = 64M"#]],
    );
    check_change(
        "fpm",
        &context,
        &[("process_control_timeout", "10s")],
        "www.conf",
        &expect![[r#"
            -process_control_timeout = 5s
            +process_control_timeout = 10s"#]],
    );
    context.settings = settings(&[("pm.max_children", "5")]);
    let error = refused("fpm", &context);
    assert!(
        error.contains("pm.max_spare_servers (6) must not exceed pm.max_children (5)"),
        "{error}"
    );
}

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
    check_change(
        "nginx",
        &context,
        &[("upstream.keepalive", "0")],
        "nginx.conf",
        &expect![[r#"
            -keepalive 32;
            +keepalive 0;"#]],
    );

    let mut context = php();
    context.program.version = "8.5.0".into();
    context.program.files.clear();
    context.settings = settings(&[("extension.opcache", "off")]);
    assert!(refused("fpm", &context).contains("built in"));
}

#[test]
fn what_is_wrong_is_said_with_what_to_do() {
    let check = |kind: &str, context: TierContext, words: &str| {
        let error = refused(kind, &context);
        assert!(error.contains(words), "{error}");
    };
    let with = |context: TierContext, set: &[(&str, &str)]| TierContext {
        settings: settings(set),
        ..context
    };
    check(
        "fpm",
        with(php(), &[("max_children", "3")]),
        "did you mean `pm.max_children`?",
    );
    check(
        "fpm",
        with(php(), &[("pm", "fast")]),
        "use one of static, dynamic, ondemand",
    );
    check(
        "fpm",
        with(php(), &[("pm.max_children", "0")]),
        "from 1 to 10000",
    );
    check(
        "fpm",
        with(php(), &[("extension.xdebug", "on")]),
        "install and enable its package first",
    );
    check(
        "nginx",
        with(web(), &[("gzip", "perhaps")]),
        "use `off` or `on`",
    );
    check(
        "nginx",
        TierContext {
            layer: Layer::Db,
            ..web()
        },
        "nginx cannot serve the db tier; it serves proxy and web",
    );
    check(
        "nginx",
        TierContext {
            config: config("x.conf", "http {\n"),
            ..web()
        },
        "`x.conf`, line 2",
    );
    check(
        "nginx",
        TierContext {
            config: config("x.conf", "http { include sites/*; }\n"),
            ..web()
        },
        "name the file of the server itself",
    );
    check(
        "nginx",
        TierContext {
            config: config("x.conf", "http { server { listen 80; } }\n"),
            ..web()
        },
        "no server in it has a `fastcgi_pass`",
    );
    check(
        "fpm",
        TierContext {
            config: config("x.conf", "[global]\npid = x\n"),
            ..php()
        },
        "no pool section",
    );
    check(
        "fpm",
        TierContext {
            ini: config("php.ini", "a=1\nb=\"\n"),
            ..php()
        },
        "`php.ini`, line 2",
    );
    let mut secret = php();
    secret.app.env = settings(&[("TOKEN", "hush\nhush")]);
    check("fpm", secret.clone(), "app.env.TOKEN");
    assert!(!refused("fpm", &secret).contains("hush"));
    let unknown = server("apache").err().map(|error| error.to_string());
    assert_eq!(
        unknown.as_deref(),
        Some(
            "`apache` is not a server Kneepoint can run; use one of nginx, fpm, redis, postgresql"
        )
    );
}

#[test]
fn unprivileged_tiers_name_no_users() {
    for (kind, context) in [
        ("nginx", web()),
        ("nginx", proxy()),
        ("fpm", php()),
        ("redis", cache()),
        ("postgresql", db()),
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

/// Every tunable can be set to its own default, is read back, and names a catalogue entry that exists in words.
#[test]
fn every_tunable_can_be_set_and_is_read_back() {
    for (kind, context) in [
        ("nginx", web()),
        ("nginx", proxy()),
        ("fpm", php()),
        ("redis", cache()),
        ("postgresql", db()),
    ] {
        let server = server(kind).expect("a known server");
        for tunable in server.tunables(context.layer, &context.program.version) {
            let Some(value) = tunable.default.clone() else {
                continue;
            };
            let mut changed = context.clone();
            changed.settings = BTreeMap::from([(tunable.name.clone(), value.clone())]);
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
fn every_server_is_in_the_list_once() {
    let kinds: Vec<&str> = SERVERS.iter().map(|server| server.kind()).collect();
    assert_eq!(kinds, ["nginx", "fpm", "redis", "postgresql"]);
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

#[test]
fn an_existing_configuration_is_read_by_tunable_name() {
    let nginx = server("nginx").expect("nginx");
    let read = nginx.read(Layer::Web, USERS_NGINX, None).expect("reads");
    expect![[r#"
        {
            "access_log": "on",
            "fastcgi_read_timeout": "30s",
            "worker_connections": "768",
            "worker_processes": "auto",
        }"#]]
    .assert_eq(&format!("{read:#?}"));
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
