use super::*;
use crate::files::Memory;

/// What is in force with these files, the first of them the main one.
fn configured(files: &[(&str, &str)], args: &[&str]) -> Configured {
    let files = Memory::of(files);
    let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
    let subject = Subject {
        files: &files,
        args: &args,
        cwd: "/",
        env: &|_| None,
        loaded_s: 200.0,
    };
    read(&subject, &Program::default())
}

#[test]
fn includes_are_read_in_their_place_with_their_lines() {
    let found = configured(
        &[
            (
                "/etc/nginx/nginx.conf",
                "worker_processes 2;\nhttp {\n include sites/*;\n gzip on;\n}",
            ),
            (
                "/etc/nginx/sites/b",
                "\nserver {\n listen 81;\n root /srv/b;\n}",
            ),
            ("/etc/nginx/sites/a", "gzip_comp_level 9;"),
        ],
        &["nginx"],
    );
    let level = found.settings.get("gzip_comp_level").expect("set");
    assert_eq!(level.source.to_string(), "/etc/nginx/sites/a:1");
    assert_eq!(
        found.nginx.servers[0].listens[0].source.to_string(),
        "/etc/nginx/sites/b:3"
    );
    assert_eq!(found.nginx.servers[0].settings.text("gzip"), Some("on"));
    assert_eq!(found.roots, ["/srv/b"]);
    assert_eq!(found.files.len(), 3);
    assert!(found.blind.is_empty(), "{:?}", found.blind);
}

#[test]
fn a_pass_has_the_settings_of_its_place() {
    let found = configured(
        &[(
            "/c",
            "http {\n proxy_http_version 1.0;\n proxy_set_header X 1;\n upstream app {\n  server a:1;\n  keepalive 8;\n }\n \
             server {\n  server_name shop;\n  location / {\n   proxy_set_header Connection \"\";\n   proxy_http_version 1.1;\n   \
             proxy_pass http://app/x;\n  }\n  location ~ php {\n   fastcgi_pass unix:/run/p.sock;\n  }\n }\n}",
        )],
        &["nginx", "-c", "/c", "-g", "daemon off;"],
    );
    assert_eq!(
        found.settings.get("daemon").expect("flag").source,
        SettingSource::Flag
    );
    let [proxied, php] = found.nginx.passes.as_slice() else {
        panic!("{:?}", found.nginx.passes);
    };
    assert_eq!(found.nginx.upstream_of(proxied).expect("one").name, "app");
    assert_eq!(proxied.settings.text("proxy_http_version"), Some("1.1"));
    assert_eq!(
        proxied.settings.text("proxy_set_header connection"),
        Some("")
    );
    assert_eq!(proxied.settings.text("proxy_set_header x"), None);
    assert_eq!(php.settings.text("proxy_http_version"), Some("1.0"));
    assert_eq!(
        (php.server.as_str(), php.target.text.as_str()),
        ("shop", "unix:/run/p.sock")
    );
    assert_eq!(
        found.nginx.upstreams[0].settings.text("keepalive"),
        Some("8")
    );
}

#[test]
fn what_cannot_be_read_is_told() {
    let found = configured(&[("/c", "include /gone;\nhttp {")], &["nginx", "-c", "/c"]);
    assert_eq!(found.blind[0].what, "/c:2");
    let found = configured(
        &[("/c", "include /gone;\ninclude /none/*;")],
        &["nginx", "-c", "/c"],
    );
    assert_eq!(found.blind.len(), 1, "{:?}", found.blind);
    let circle = configured(&[("/c", "include /c;")], &["nginx", "-c", "/c"]);
    assert!(circle.blind[0].why.contains("deep"), "{:?}", circle.blind);
}

#[test]
fn variables_whose_values_are_written_lead_to_pools() {
    let targets = |text: &str| -> Vec<String> {
        let found = configured(&[("/c", text)], &["nginx", "-c", "/c"]);
        let passes = found.nginx.passes.into_iter();
        passes.map(|pass| pass.target.text).collect()
    };
    assert_eq!(
        targets("http { server { set $b unix:/one; location / { fastcgi_pass $b; } } }"),
        ["unix:/one"]
    );
    assert_eq!(
        targets(
            "http { map $host $b { default /a; hostnames; x.org /b; y.org /a; z $dyn; }\n \
             server { location / { fastcgi_pass unix:${b}; } } server { location / { fastcgi_pass unix:$b.sock; } } }"
        ),
        ["unix:/a", "unix:/b", "unix:/a.sock", "unix:/b.sock"]
    );
    // What only a request tells.
    assert_eq!(
        targets(
            "http { server { location / { set $c $host; fastcgi_pass $c; } location /b { fastcgi_pass $a$b; } } }"
        ),
        ["$c", "$a$b"]
    );
}

#[test]
fn requests_are_logged_where_nginx_was_built_to() {
    let program = Program::saying(&[None, None, None, None, Some("/var/log/nginx/access.log")]);
    let files = Memory::of(&[(
        "/etc/nginx/nginx.conf",
        "http { server { listen 80; } server { access_log /own; } }",
    )]);
    let args: Vec<String> = Vec::new();
    let subject = Subject::with(&files, &args);
    let found = read(&subject, &program);
    let logs = |at: usize| {
        let settings = &found.nginx.servers[at].settings;
        settings
            .every("access_log")
            .map(|(text, _)| text)
            .collect::<Vec<_>>()
    };
    assert_eq!(logs(0), ["/var/log/nginx/access.log combined"]);
    assert_eq!(logs(1), ["/own"]);
}
