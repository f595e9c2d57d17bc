use super::*;
use crate::snapshot::{Container, Runtime};

fn service(container: bool) -> (Service, FpmPool) {
    let mut service = Service::new(ServiceKind::Fpm, 7);
    service.place.container = container.then(|| Container {
        id: "a".repeat(64),
        runtime: Runtime::Docker,
        name: None,
        compose_service: Some("php".into()),
        in_pod: false,
    });
    let mut pool = FpmPool {
        name: "www".into(),
        ..FpmPool::default()
    };
    let path = "/usr/local/etc/php-fpm.d/zz-docker.conf";
    pool.settings
        .set("pm.max_children", "5", SettingSource::file(path, 3));
    (service, pool)
}

#[test]
fn a_host_gets_a_drop_in_that_is_read_last() {
    let (service, pool) = service(false);
    let fix = Fix::pool(&service, &pool, &[("pm.max_children", "20".into())]);
    let file = fix.file.expect("a file");
    assert_eq!(file.path, "/usr/local/etc/php-fpm.d/zz-kneepoint.conf");
    assert_eq!(file.content, "[www]\npm.max_children = 20\n");
    assert_eq!(fix.apply, "php-fpm -t && kill -USR2 7");
}

#[test]
fn what_an_earlier_check_proposed_goes_on() {
    let (service, mut pool) = service(false);
    let path = "/usr/local/etc/php-fpm.d/zz-kneepoint.conf";
    pool.settings
        .set("pm", "static", SettingSource::file(path, 3));
    let fix = Fix::pool(&service, &pool, &[("pm.max_children", "20".into())]);
    assert_eq!(fix.text, format!("Add to {path}:"));
    assert_eq!(fix.file.expect("a file").path, path);
}

#[test]
fn an_ini_is_read_after_all_that_are_there() {
    let (mut service, _) = service(false);
    let path = |name: &str| format!("/usr/local/etc/php/conf.d/{name}");
    service.files.push(read(&path("zz-own.ini")));
    let fix = Fix::ini(&service, &[("opcache.enable", "1".into())]);
    assert_eq!(fix.file.expect("a file").path, path("zzz-kneepoint.ini"));
}

#[test]
fn an_ini_is_proposed_only_where_php_reads_it() {
    let fix = |scanned: &[&str]| {
        let (mut service, _) = service(false);
        service.files.push(read("/etc/php/php.ini"));
        service.php = Some(crate::snapshot::PhpService {
            scanned: Some(scanned.iter().map(|dir| (*dir).to_owned()).collect()),
            ..Default::default()
        });
        Fix::ini(&service, &[("opcache.enable", "1".into())])
    };
    let own = fix(&["/etc/php/conf.d", "/srv/ini/"]);
    assert_eq!(own.file.expect("a file").path, "/srv/ini/zz-kneepoint.ini");
    let main = fix(&[]);
    assert_eq!(main.file, None);
    assert_eq!(
        main.in_one_line(),
        "In /etc/php/php.ini, below all that it sets, write: opcache.enable = 1"
    );
}

fn read(path: &str) -> crate::snapshot::ReadFile {
    crate::snapshot::ReadFile {
        path: path.into(),
        modified_s: 0.0,
        newer: false,
    }
}

fn database(files: &[&str]) -> Service {
    let mut service = Service::new(ServiceKind::Mysql, 7);
    service.files = files.iter().map(|path| read(path)).collect();
    service
}

#[test]
fn a_database_gets_a_file_with_the_header_of_its_section() {
    let unset = SettingValue::new("0", SettingSource::Default);
    let text = "slow_query_log = 1\nlong_query_time = 1";
    let content = format!("[mysqld]\n{text}\n");
    let debian = [
        "/etc/mysql/my.cnf",
        "/etc/mysql/conf.d/a.cnf",
        "/etc/mysql/mariadb.conf.d/50-server.cnf",
    ];
    let fix = Fix::line(&database(&debian), &unset, text);
    let file = fix.file.clone().expect("a file");
    assert_eq!(
        (file.path.as_str(), &file.content),
        ("/etc/mysql/mariadb.conf.d/zz-kneepoint.cnf", &content)
    );
    assert_eq!(fix.apply, "Restart MariaDB as it was started.");
    // What a file of an earlier directory says is overridden there, too.
    let set = SettingValue::new("0", SettingSource::file(debian[1], 3));
    assert_eq!(Fix::line(&database(&debian), &set, text).file, Some(file));
    // Nobody knows a directory here.
    let fix = Fix::line(&database(&["/srv/my.cnf"]), &unset, text);
    assert_eq!(fix.text, "In /srv/my.cnf, below [mysqld], write:");
    assert_eq!(fix.lines, ["slow_query_log = 1", "long_query_time = 1"]);
    // A line of the main file may come after its includes.
    let set = SettingValue::new("0", SettingSource::file(debian[0], 30));
    let fix = Fix::line(&database(&debian), &set, "general_log = 0");
    assert_eq!(
        (fix.text.as_str(), fix.file),
        (
            "In /etc/mysql/my.cnf:30, change this setting to: general_log = 0",
            None
        )
    );
}

#[test]
fn what_the_command_line_says_is_changed_there() {
    let flag = SettingValue::new("10", SettingSource::Flag);
    let of = |kind, line| Fix::line(&Service::new(kind, 7), &flag, line).text;
    let said = [
        of(ServiceKind::Mysql, "max_connections = 50"),
        of(ServiceKind::Redis, "maxclients 50"),
        of(ServiceKind::Postgresql, "work_mem = 16MB"),
    ];
    for (said, flag) in said.iter().zip([
        "--max-connections=50",
        "--maxclients 50",
        "-c work_mem=16MB",
    ]) {
        assert_eq!(
            *said,
            format!("On its command line, change this setting to: {flag}")
        );
    }
}

#[test]
fn several_directives_are_a_line_each() {
    let set = SettingValue::new("httpclose", SettingSource::file("/h.cfg", 3));
    let fix = Fix::line(
        &Service::new(ServiceKind::Haproxy, 7),
        &set,
        "option http-keep-alive\nhttp-reuse safe",
    );
    assert_eq!(fix.text, "In /h.cfg:3, write instead of this setting:");
    assert_eq!(fix.lines, ["option http-keep-alive", "http-reuse safe"]);
    assert_eq!(
        fix.in_one_line(),
        "In /h.cfg:3, write instead of this setting: option http-keep-alive; http-reuse safe"
    );
    assert!(!fix.is_command() && !fix.apply.is_empty(), "{fix:?}");
    let fix = Fix::without(&Service::new(ServiceKind::Nginx, 7), &set, "");
    assert_eq!(fix.text, "In /h.cfg:3, remove this setting");
}

#[test]
fn open_files_are_raised_where_the_service_is_started() {
    let mut service = database(&[]);
    assert!(Fix::open_files(&service).text.contains("ulimit -n 65535"));
    service.place.unit = Some("mariadb.service".into());
    let fix = Fix::open_files(&service);
    assert_eq!(
        fix.apply,
        "systemctl daemon-reload && systemctl restart mariadb.service"
    );
    assert_eq!(
        fix.file.expect("a file").content,
        "[Service]\nLimitNOFILE=65535\n"
    );
}

#[test]
fn a_pool_of_the_main_file_is_changed_there() {
    let (mut service, pool) = service(false);
    let path = "/usr/local/etc/php-fpm.d/zz-docker.conf".to_owned();
    service.files.push(crate::snapshot::ReadFile {
        path,
        modified_s: 0.0,
        newer: false,
    });
    let fix = Fix::pool(&service, &pool, &[("pm.max_children", "20".into())]);
    assert!(fix.file.is_none(), "{fix:?}");
    assert!(
        fix.text
            .ends_with("zz-docker.conf:3, change this setting to: pm.max_children = 20"),
        "{fix:?}"
    );
}

#[test]
fn a_container_gets_a_mounted_file_or_its_environment() {
    let (service, mut pool) = service(true);
    let fix = Fix::pool(&service, &pool, &[("pm.max_children", "20".into())]);
    assert!(
        fix.text.contains("volumes:") && fix.apply.contains("anew"),
        "{fix:?}"
    );
    let variable = SettingSource::Variable {
        name: "MAX".into(),
        path: "/c".into(),
        line: 1,
    };
    pool.settings.set("pm.max_children", "5", variable);
    let fix = Fix::pool(&service, &pool, &[("pm.max_children", "20".into())]);
    assert!(
        fix.text.ends_with("MAX=20") && fix.file.is_none(),
        "{fix:?}"
    );
    let fix = Fix::sysctl(&service, "net.core.somaxconn", "4096");
    assert!(
        fix.text.contains("sysctls: [\"net.core.somaxconn=4096\"]"),
        "{fix:?}"
    );
}

#[test]
fn settings_of_the_kernel_are_written_where_they_hold() {
    let both = [("net.a", "1"), ("net.b", "2,3")];
    let (host, _) = service(false);
    let fix = Fix::sysctls(&host, &both);
    let file = fix.file.as_ref().expect("a file");
    assert_eq!(file.path, "/etc/sysctl.d/zz-kneepoint.conf");
    assert_eq!(file.content, "net.a = 1\nnet.b = 2,3\n");
    assert_eq!(fix.apply, "sysctl -p /etc/sysctl.d/zz-kneepoint.conf");
    assert!(fix.text.contains("/etc/sysctl.conf"), "{fix:?}");
    let (container, _) = service(true);
    let fix = Fix::sysctls(&container, &both);
    let listed = "sysctls: [\"net.a=1\", \"net.b=2,3\"]";
    assert!(fix.text.contains(listed), "{fix:?}");
    // A container that is to set these does not start.
    for name in ["net.netfilter.nf_conntrack_max", "fs.file-max"] {
        let fix = Fix::sysctl(&container, name, "9");
        let by_host = format!("On the host, for a container cannot have it: write {name} = 9 to");
        assert!(fix.text.starts_with(&by_host), "{fix:?}");
        assert!(!fix.text.contains("sysctls"), "{fix:?}");
    }
}

#[test]
fn what_alter_system_wrote_is_altered_and_not_edited() {
    let service = Service::new(ServiceKind::Postgresql, 7);
    let path = "/var/lib/postgresql/15/main/postgresql.auto.conf";
    let value = SettingValue::new("on", SettingSource::file(path, 3));
    let fix = Fix::line(&service, &value, "log_statement = 'none'");
    assert_eq!(
        fix.in_one_line(),
        format!(
            "ALTER SYSTEM wrote {path}:3. In psql, as a superuser: ALTER SYSTEM SET log_statement = 'none';"
        )
    );
}

fn php_of(pool: &str) -> (Service, FpmPool) {
    let case = crate::rule::case::Case::healthy().pool_with(pool, "");
    let service = case.0.services[1].clone();
    let pool = service.pools[0].clone();
    (service, pool)
}

#[test]
fn a_setting_of_php_is_changed_in_the_line_of_the_pool_that_sets_it() {
    let said = |line: &str, directives: &[(&str, String)]| {
        let (service, pool) = php_of(line);
        Fix::php(&service, &pool, directives).in_one_line()
    };
    assert_eq!(
        said(
            "php_admin_value[memory_limit] = -1",
            &[("memory_limit", "256M".into())]
        ),
        "In /etc/php/php-fpm.conf:16, change this setting to: php_admin_value[memory_limit] = 256M"
    );
    // A flag takes a switch and no number.
    let limit = [("max_execution_time", "30".to_owned())];
    assert!(
        said("php_flag[max_execution_time] = off", &limit)
            .ends_with("php_value[max_execution_time] = 30")
    );
    let shown = [
        ("display_errors", "Off".to_owned()),
        ("log_errors", "On".to_owned()),
    ];
    assert_eq!(
        said("php_flag[display_errors] = on", &shown),
        "In /etc/php/php-fpm.conf:16, write instead of this setting: php_flag[display_errors] = Off; php_flag[log_errors] = On"
    );
    let both = said(
        "php_flag[display_errors] = on\nphp_value[log_errors] = 0",
        &shown,
    );
    assert!(
        both.starts_with("Remove /etc/php/php-fpm.conf:17. In /etc/php/php-fpm.conf:16,"),
        "{both}"
    );
    let ini = said("", &shown);
    assert!(
        ini.starts_with("Write /etc/php/conf.d/zz-kneepoint.ini:"),
        "{ini}"
    );
}

#[test]
fn no_file_is_promised_for_what_was_given_at_the_start() {
    let from_memory = |name: &str, text: &str| {
        let (mut service, _) = php_of("");
        let source = SettingSource::Memory { pid: service.pid };
        service.place.unit = Some("php8.2-fpm.service".into());
        let php = service.php.as_mut().expect("PHP");
        php.ini.set(name, text, source);
        service
    };
    // A file says something else; or nothing says it, and it is not what PHP has by itself.
    for (name, text) in [("opcache.enable", "0"), ("realpath_cache_size", "16K")] {
        let service = from_memory(name, text);
        let fix = Fix::ini(&service, &[(name, "1".into())]);
        assert!(
            fix.file.is_none() && fix.text.contains("ExecStart"),
            "{fix:?}"
        );
        assert!(fix.text.contains(&format!("-d {name}")), "{fix:?}");
        assert_eq!(fix.apply, "systemctl restart php8.2-fpm.service");
    }
    let service = from_memory("realpath_cache_size", "4096K");
    let fix = Fix::ini(&service, &[("realpath_cache_size", "16M".into())]);
    assert!(fix.file.is_some(), "PHP has it by itself: {fix:?}");
    // The file was changed since, and is not yet read.
    let mut service = from_memory("opcache.enable", "0");
    service.files.iter_mut().for_each(|file| file.newer = true);
    let fix = Fix::ini(&service, &[("opcache.enable", "1".into())]);
    assert!(fix.file.is_some(), "{fix:?}");
}

#[test]
fn a_new_directive_of_nginx_is_told_with_its_block() {
    let mut service = Service::new(ServiceKind::Nginx, 7);
    service.files.push(read("/etc/nginx/nginx.conf"));
    let unset = SettingValue::new("", SettingSource::Default);
    for (line, place) in [
        ("gzip_types application/json;", "inside http { }"),
        ("worker_rlimit_nofile 65535;", "outside of every block"),
        ("worker_connections 4096;", "inside events { }"),
    ] {
        assert_eq!(
            Fix::line(&service, &unset, line).text,
            format!("In /etc/nginx/nginx.conf, {place}, add: {line}")
        );
    }
}

#[test]
fn a_pool_is_changed_in_its_lines_where_no_further_file_is_read() {
    let path = "/p2/zzz-shop.conf";
    let fix = |pattern: &str, directives: &[(&str, String)]| {
        let (mut service, mut pool) = service(false);
        pool.settings = Settings::default();
        pool.settings
            .set("pm", "static", SettingSource::file(path, 12));
        service.files = vec![read("/p2/fpm.conf"), read(path)];
        service.php = Some(crate::snapshot::PhpService {
            included: Some(vec![pattern.to_owned()]),
            ..Default::default()
        });
        Fix::pool(&service, &pool, directives).in_one_line()
    };
    let dynamic = ("pm", "dynamic".to_owned());
    let spare = ("pm.start_servers", "4".to_owned());
    let many = fix("/p2/*.conf", std::slice::from_ref(&dynamic));
    assert!(many.starts_with("Write /p2/zzzz-kneepoint.conf:"), "{many}");
    assert_eq!(
        fix(path, std::slice::from_ref(&dynamic)),
        "In /p2/zzz-shop.conf:12, change this setting to: pm = dynamic"
    );
    assert_eq!(
        fix(path, std::slice::from_ref(&spare)),
        "In /p2/zzz-shop.conf, below [www], write: pm.start_servers = 4"
    );
    assert_eq!(
        fix(path, &[dynamic, spare]),
        "Remove /p2/zzz-shop.conf:12. In /p2/zzz-shop.conf, below [www], write: pm = dynamic; pm.start_servers = 4"
    );
}

#[test]
fn what_is_done_within_a_process_s_own_files_names_them_from_here() {
    let within = |pid_within| {
        let mut fix = Fix {
            text: "Write /c:".into(),
            file: Some(FixFile::new("/c", "a")),
            apply: "nginx -t && kill -HUP 70".into(),
            ..Fix::default()
        };
        fix.within(70, pid_within);
        fix
    };
    let fix = within(Some(3));
    let file = fix.file.expect("a file");
    assert_eq!(file.from_here.as_deref(), Some("/proc/70/root/c"));
    assert_eq!(
        fix.apply,
        "nsenter -t 70 -m -n -p sh -c 'nginx -t && kill -HUP 3'"
    );
    assert!(
        fix.text.ends_with("below /proc/70/root. Write /c:"),
        "{}",
        fix.text
    );
    assert_eq!(
        within(None).apply,
        "nsenter -t 70 -m -n sh -c 'nginx -t && kill -HUP 70'"
    );
}
