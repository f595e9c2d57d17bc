//! What a user's nginx configuration includes: found where nginx would find it, and changed like the rest.

use crate::support;
use crate::support::rendering::{change, render, text, web};
use crate::support::running::{Running, app, http, real, temp_dir};
use kneepoint_model::Layer;
use kneepoint_stack::{ConfigText, StackError, server};
use std::path::Path;

/// Files of an nginx directory, and a site that is made of them.
const FILES: &[(&str, &str)] = &[
    (
        "etc/nginx.conf",
        "events {}\nhttp { include sites-enabled/*; }\n",
    ),
    (
        "etc/fastcgi.conf",
        "fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;\n",
    ),
    (
        "etc/snippets/php.conf",
        "# as the package has it\nfastcgi_read_timeout 30s;\n\ninclude fastcgi.conf;\nfastcgi_pass unix:/run/php/php.sock;\n",
    ),
    (
        "etc/snippets/log.conf",
        "access_log /var/log/nginx/shop.log; # one line a request",
    ),
    (
        "etc/snippets/listen.conf",
        "listen 443 ssl backlog=1024;\nssl_certificate /etc/ssl/shop.pem;\n",
    ),
    (
        "etc/sites-enabled/shop",
        "server {\n    include snippets/l*.conf;\n    include nothing/*.conf;\n    root /var/www/shop;\n    \
         location ~ \\.php$ { include snippets/php.conf; }\n    location / { return 404; } # the rest\n}\n",
    ),
];

fn written(dir: &Path) {
    for (name, text) in FILES {
        let path = dir.join(name);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
        std::fs::write(path, text).expect("a file");
    }
}

/// A configuration as it is rendered: with all that it includes.
fn gathered(path: &Path, conf_dir: &Path) -> Result<ConfigText, StackError> {
    let mut program = web().program;
    let conf_dir = conf_dir.display().to_string();
    program.facts.insert("conf_dir".into(), conf_dir);
    let config = ConfigText {
        path: path.to_owned(),
        text: std::fs::read_to_string(path).expect("it is there"),
    };
    server("nginx").expect("nginx").gathered(config, &program)
}

#[test]
fn what_a_file_includes_becomes_the_labs_like_the_rest() {
    let dir = temp_dir();
    written(dir.path());
    let elsewhere = Path::new("/nonexistent");
    let mut context = web();
    let site = dir.path().join("etc/sites-enabled/shop");
    context.config = Some(gathered(&site, elsewhere).expect("all is there"));
    let tier = render("nginx", &context);
    let file = text(&tier, "nginx.conf");
    let servers = file.find("server {").map_or("", |at| &file[at..]);
    for kept in [
        "listen 10.9.0.2:80 backlog=1024;",
        "access_log /lab/tier/log/access.log;",
        "# as the package has it",
        "fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;",
        "fastcgi_pass 10.9.0.3:9000;",
        "# include nothing/*.conf;",
    ] {
        assert!(servers.contains(kept), "{kept}: {servers}");
    }
    for gone in [
        "443",
        "ssl_",
        "/run/php",
        "/var/log",
        "    include snippets",
    ] {
        assert!(!servers.contains(gone), "{gone}: {servers}");
    }
    assert_eq!(tier.tier.settings["fastcgi_read_timeout"], "30s");
    assert_eq!(tier.tier.settings["listen.backlog"], "1024");
    let told = change("nginx", &context, &[("fastcgi_read_timeout", "5s")]);
    assert!(told.contains("-fastcgi_read_timeout 30s;"), "{told}");

    // A main file whose servers are in files that it includes.
    let main = dir.path().join("etc/nginx.conf");
    context.config = Some(gathered(&main, elsewhere).expect("all is there"));
    let tier = render("nginx", &context);
    assert_eq!(tier.tier.settings["listen.backlog"], "1024");
}

#[test]
fn a_relative_path_is_looked_for_beside_the_file_and_then_where_nginx_would() {
    let dir = temp_dir();
    written(dir.path());
    let (etc, own) = (dir.path().join("etc"), dir.path().join("own"));
    std::fs::create_dir(&own).expect("a directory");
    let site = own.join("site.conf");
    let check = |include: &str, expected: &str| {
        std::fs::write(&site, format!("include {include};\n")).expect("a file");
        let told = match gathered(&site, &etc) {
            Ok(config) => config.text,
            Err(error) => error.to_string(),
        };
        assert!(told.contains(expected), "{include}: {told}");
    };
    check("fastcgi.conf", "$document_root$fastcgi_script_name");
    std::fs::write(own.join("fastcgi.conf"), "set $own 1;").expect("a file");
    check("fastcgi.conf", "\nset $own 1;");
    check("fast*.conf", "\nset $own 1;");
    check("\"snippets/log.conf\"", "shop.log");
    check("absent/*.conf", "# include absent/*.conf;");
    check(
        "absent.conf",
        &format!(
            "includes `absent.conf`, which is not there (looked for {}/absent.conf, {}/absent.conf)",
            own.display(),
            etc.display()
        ),
    );
    check("site.conf", "includes itself");
    std::fs::write(own.join("broken.conf"), "a {").expect("a file");
    check("broken.conf", "broken.conf`, line 1");
    check("[", "no pattern");
}

#[test]
fn a_site_of_debian_serves_with_what_it_includes() {
    let dir = temp_dir();
    let app = app(dir.path());
    let (fpm, php) = real("fpm", Layer::Php, dir.path(), &app);
    let php = Running::start(fpm, &php);
    let (nginx, mut web) = real("nginx", Layer::Web, dir.path(), &app);
    web.upstream = Some(php.tier.listen.clone());
    let site = "server {\n    listen 80;\n    root /var/www/html;\n    index index.php;\n    location / {\n        \
                try_files $uri $uri/ /index.php;\n    }\n    location ~ \\.php$ {\n        \
                include snippets/fastcgi-php.conf;\n        fastcgi_pass unix:/run/php/php8.2-fpm.sock;\n    }\n}\n";
    let config = support::config("default", site).expect("a configuration");
    web.config = Some(
        nginx
            .gathered(config, &web.program)
            .expect("nginx's own files"),
    );
    let running = Running::start(nginx, &web);
    let answer = http(&running.tier.listen, "/any/route");
    assert!(answer.contains("hello /index.php"), "{answer}");
}
