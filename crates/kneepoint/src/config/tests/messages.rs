//! What is said when a scenario is wrong.

use super::read;
use expect_test::{Expect, expect};

/// The text is refused, in these words.
#[track_caller]
fn check(text: &str, expected: Expect) {
    let errors = read(text).expect_err("the text is refused");
    expected.assert_eq(&format!("{errors}\n"));
}

/// As [`check`], below an application that is in order.
#[track_caller]
fn check_in_app(text: &str, expected: Expect) {
    check(&format!("app = {{ root = \".\" }}\n{text}"), expected);
}

#[test]
fn a_change_of_a_line_is_one_line_with_a_plain_name() {
    check_in_app(
        "[changes]\n\"app.line.x.php:3\" = \"a\\nb\"\n\"app.line.x.php:03\" = \"a\"\n\"app.line../x.php:3\" = \"a\"\n",
        expect![[r#"
            kneepoint.toml:3:22: `app.line.x.php:3` is given more than one line
               3 | "app.line.x.php:3" = "a\nb"
                 |                      ^^^^^^
                 expected a text on one line
            kneepoint.toml:4:1: `app.line.x.php:03` can be written in a plainer way, and has to be
               4 | "app.line.x.php:03" = "a"
                 | ^^^^^^^^^^^^^^^^^^^
                 expected db.sql.NAME, app.line.FILE:LINE or app.run.NAME
            kneepoint.toml:5:1: `app.line../x.php:3` can be written in a plainer way, and has to be
               5 | "app.line../x.php:3" = "a"
                 | ^^^^^^^^^^^^^^^^^^^^
                 expected db.sql.NAME, app.line.FILE:LINE or app.run.NAME
        "#]],
    );
    check(
        "app = { root = '.', setting = [{ name = 'run.mode', env = 'MODE', values = ['slow', 'fast'] }] }\n",
        expect![[r#"
            kneepoint.toml:1:41: `run.mode` is the name of a change and not of a setting
               1 | app = { root = '.', setting = [{ name = 'run.mode', env = 'MODE', values = ['slow', 'fast'] }] }
                 |                                         ^^^^^^^^^^
                 expected another name, such as "mode"
        "#]],
    );
}

#[test]
fn a_change_says_what_it_is_made_to() {
    check_in_app(
        "[changes]\n\"db.sql.index\" = \"CREATE INDEX\"\n\"app.line.../x.php:3\" = \"\"\nphp.sql = \"x\"\n",
        expect![[r#"
            kneepoint.toml:3:1: `db.sql.index` is for a database, and the chain has none
               3 | "db.sql.index" = "CREATE INDEX"
                 | ^^^^^^^^^^^^^^
                 expected db.sql.NAME, app.line.FILE:LINE or app.run.NAME
            kneepoint.toml:4:1: `../x.php` leads out of app.root
               4 | "app.line.../x.php:3" = ""
                 | ^^^^^^^^^^^^^^^^^^^^^
                 expected db.sql.NAME, app.line.FILE:LINE or app.run.NAME
            kneepoint.toml:5:1: `php` is no change
               5 | php.sql = "x"
                 | ^^^
                 expected db.sql.NAME, app.line.FILE:LINE or app.run.NAME
        "#]],
    );
}

#[test]
fn slips_are_named_with_their_place_and_cure() {
    check(
        r#"
[app]
rooot = "."
kind = "laravle"

[stack]
web = { server = "ngnix", conifg = "deploy/nginx.conf" }
php = { server = "fpm" }
"#,
        expect![[r#"
            kneepoint.toml:2:1: `app.root` is missing
               2 | [app]
                 | ^^^^^
                 expected the application's directory, such as root = "." under [app]
            kneepoint.toml:3:1: unknown key `rooot` in [app]
               3 | rooot = "."
                 | ^^^^^
                 expected `root`, `name`, `front`, `kind`, `env`, `setting`, `file` or `unreachable`
                 did you mean `root`?
            kneepoint.toml:4:8: `laravle` is not possible
               4 | kind = "laravle"
                 |        ^^^^^^^^^
                 expected `laravel`, `symfony`, `wordpress`, `mediawiki` or `plain`
                 did you mean `laravel`?
            kneepoint.toml:7:18: `ngnix` is not possible
               7 | web = { server = "ngnix", conifg = "deploy/nginx.conf" }
                 |                  ^^^^^^^
                 expected `nginx`
                 did you mean `nginx`?
            kneepoint.toml:7:27: unknown key `conifg` in [stack.web]
               7 | web = { server = "ngnix", conifg = "deploy/nginx.conf" }
                 |                           ^^^^^^
                 expected `server`, `config`, `socket` or `settings`
                 did you mean `config`?
            kneepoint.toml:8:9: unknown key `server` in [stack.php]
               8 | php = { server = "fpm" }
                 |         ^^^^^^
                 expected `runtime`, `config`, `ini`, `socket` or `settings`
                 did you mean `runtime`?
        "#]],
    );
}

#[test]
fn settings_are_checked_against_their_bounds() {
    check_in_app(
        r#"
[stack.web]
[stack.php.settings]
"pm.max_childen" = 20
"pm.max_requests" = 0
opcache.enable = "enabled"
net.core.somaxconn = 4096
"#,
        expect![[r#"
            kneepoint.toml:5:1: fpm has no setting `pm.max_childen`
               5 | "pm.max_childen" = 20
                 | ^^^^^^^^^^^^^^^^
                 expected `pm.max_children`, `pm.max_requests` or `opcache.enable`
                 did you mean `pm.max_children`?
            kneepoint.toml:6:21: `pm.max_requests` cannot be `0`
               6 | "pm.max_requests" = 0
                 |                     ^
                 expected a whole number of workers from 1 to 4096
            kneepoint.toml:7:18: `opcache.enable` cannot be `enabled`
               7 | opcache.enable = "enabled"
                 |                  ^^^^^^^^^
                 expected `0` or `1`
            kneepoint.toml:8:1: `net.core.somaxconn` is a kernel setting, not one of fpm
               8 | net.core.somaxconn = 4096
                 | ^^^^^^^^^^^^^^^^^^
                 expected it in `sysctl` of [hosts.php]
        "#]],
    );
}

#[test]
fn files_must_exist_and_stay_where_they_belong() {
    check(
        r#"
[app]
root = "."
front = "../index.php"

[[app.file]]
path = "public/index.php"
find = "nowhere"
replace = "x"

[[app.file]]
path = "/etc/passwd"
content = ""

[stack]
web = { config = "deploy" }
php = { ini = "deploy/php.in" }
"#,
        expect![[r#"
            kneepoint.toml:4:9: `../index.php` leads out of app.root
               4 | front = "../index.php"
                 |         ^^^^^^^^^^^^^^
                 expected a file within app.root, such as "public/index.php"
            kneepoint.toml:8:8: this text is not in the file
               8 | find = "nowhere"
                 |        ^^^^^^^^^
                 expected text that the file of `path` contains, to the letter
            kneepoint.toml:12:8: `/etc/passwd` leads out of app.root
              12 | path = "/etc/passwd"
                 |        ^^^^^^^^^^^^^
                 expected a path relative to app.root and within it
            kneepoint.toml:16:18: `deploy` is a directory
              16 | web = { config = "deploy" }
                 |                  ^^^^^^^^
                 expected a configuration file, relative to the directory of kneepoint.toml
            kneepoint.toml:17:15: `deploy/php.in` does not exist
              17 | php = { ini = "deploy/php.in" }
                 |               ^^^^^^^^^^^^^^^
                 expected a php.ini, relative to the directory of kneepoint.toml
        "#]],
    );
}

#[test]
fn the_chain_must_make_sense() {
    check_in_app(
        "[stack]\ncache = {}\nweb = {}\n",
        expect![[r#"
        kneepoint.toml:2:1: `stack.php` is missing
           2 | [stack]
             | ^^^^^^^
             expected php = { runtime = "fpm" }, or only a web server (and proxy) that serves files
    "#]],
    );
    check_in_app(
        "[stack]\nproxy = {}\nphp = {}\n[hosts.db]\ncpus = 0\n",
        expect![[r#"
            kneepoint.toml:2:1: `stack.web` is missing
               2 | [stack]
                 | ^^^^^^^
                 expected web = { server = "nginx" }: a proxy speaks HTTP, PHP-FPM only FastCGI
            kneepoint.toml:5:1: limits for `db`, which is not in the chain
               5 | [hosts.db]
                 | ^^^^^^^^^^
                 expected `proxy` or `php`
            kneepoint.toml:6:8: `0` is not possible
               6 | cpus = 0
                 |        ^
                 expected a number of cores from 0.01 to 4096, such as 1.5
        "#]],
    );
}

#[test]
fn requests_must_be_sendable() {
    check_in_app(
        r#"mix = "access.log"
users = 0
[[request]]
path = "http://example.org/"
method = "post"
weight = 0
[[request]]
headers = { Content-Length = 5, "a b" = "x" }
form = { user = "{user.name}" }
body = "x"
[[request]]
form = { user = "{user.name}" }
expect = { status = 42 }
"#,
        expect![[r#"
            kneepoint.toml:2:7: a scenario has `mix` or [[request]] tables, not both
               2 | mix = "access.log"
                 |       ^^^^^^^^^^^^
                 expected one of them
            kneepoint.toml:3:9: `0` is not possible
               3 | users = 0
                 |         ^
                 expected a whole number from 1 to 1000000
            kneepoint.toml:5:8: `http://example.org/` cannot be requested
               5 | path = "http://example.org/"
                 |        ^^^^^^^^^^^^^^^^^^^^^
                 expected a path that begins with `/`, percent-encoded, such as "/search?q=a%20b"
                 leave the host away: requests go to the first tier of the chain
            kneepoint.toml:6:10: `post` is no method
               6 | method = "post"
                 |          ^^^^^^
                 expected a method in capitals, such as "POST"
                 did you mean `POST`?
            kneepoint.toml:7:10: `0` is not possible
               7 | weight = 0
                 |          ^
                 expected a weight above 0, such as 8
            kneepoint.toml:9:13: `Content-Length` is written by the load engine
               9 | headers = { Content-Length = 5, "a b" = "x" }
                 |             ^^^^^^^^^^^^^^
                 expected other headers
            kneepoint.toml:9:33: `a b` is no header name
               9 | headers = { Content-Length = 5, "a b" = "x" }
                 |                                 ^^^^^
                 expected a name such as Accept-Language
            kneepoint.toml:10:8: `form` beside `body`: a request has one body
              10 | form = { user = "{user.name}" }
                 |        ^^^^^^^^^^^^^^^^^^^^^^^^
                 expected one of them
            kneepoint.toml:13:17: `{user.name}` would be sent as it is
              13 | form = { user = "{user.name}" }
                 |                 ^^^^^^^^^^^^^
                 expected `{{user.name}}` for a value of a feeder, or another text
            kneepoint.toml:14:21: `42` is not possible
              14 | expect = { status = 42 }
                 |                     ^^
                 expected a status from 100 to 599, a class such as "2xx", or a list of these
        "#]],
    );
}

#[test]
fn the_slo_must_be_possible() {
    check_in_app(
        r#"
[slo]
timeout = "100ms"
response_time = { p95 = "200ms" }
errors = "120%"
"#,
        expect![[r#"
            kneepoint.toml:5:17: the response time exceeds the timeout: no request could take so long
               5 | response_time = { p95 = "200ms" }
                 |                 ^^^^^^^^^^^^^^^^^
                 expected a response time up to slo.timeout
            kneepoint.toml:6:10: `120%` is not possible
               6 | errors = "120%"
                 |          ^^^^^^
                 expected a share below 100%, such as "0.1%" or 0.001
        "#]],
    );
    check_in_app(
        "[slo]\nresponse_time = { p95 = '1s', p99 = '2s' }\n",
        expect![[r#"
            kneepoint.toml:3:17: found 2 quantiles
               3 | response_time = { p95 = '1s', p99 = '2s' }
                 |                 ^^^^^^^^^^^^^^^^^^^^^^^^^^
                 expected one quantile from p50 to p99.9, such as { p95 = "200ms" }
        "#]],
    );
    check_in_app(
        "[slo]\nresponse_time.p999 = '0s'\n",
        expect![[r#"
        kneepoint.toml:3:15: `p999` is no quantile of the SLO
           3 | response_time.p999 = '0s'
             |               ^^^^
             expected one quantile from p50 to p99.9, such as { p95 = "200ms" }
        kneepoint.toml:3:22: `0s` is not possible
           3 | response_time.p999 = '0s'
             |                      ^^^^
             expected a duration such as "200ms", "2s" or "20m"
    "#]],
    );
}

#[test]
fn what_may_not_be_touched_must_exist() {
    check_in_app(
        r#"
[tune]
keep = ["phq.pm.max_requests", "php.pm.max_request", "db.work_mem", "app.redis", 5]
memory = "2"
"#,
        expect![[r#"
            kneepoint.toml:4:9: `phq` is not a tier; write proxy, web, php, cache, db or app
               4 | keep = ["phq.pm.max_requests", "php.pm.max_request", "db.work_mem", "app.redis", 5]
                 |         ^^^^^^^^^^^^^^^^^^^^^
                 expected TIER.NAME, such as "php.pm.max_requests"
                 did you mean `php`?
            kneepoint.toml:4:32: fpm has no setting `pm.max_request`
               4 | keep = ["phq.pm.max_requests", "php.pm.max_request", "db.work_mem", "app.redis", 5]
                 |                                ^^^^^^^^^^^^^^^^^^^^
                 expected `pm.max_children`, `pm.max_requests` or `opcache.enable`
                 did you mean `pm.max_requests`?
            kneepoint.toml:4:54: `db` is not in the chain
               4 | keep = ["phq.pm.max_requests", "php.pm.max_request", "db.work_mem", "app.redis", 5]
                 |                                                      ^^^^^^^^^^^^^
                 expected `web` or `php`
            kneepoint.toml:4:69: the application declares no setting `redis`
               4 | keep = ["phq.pm.max_requests", "php.pm.max_request", "db.work_mem", "app.redis", 5]
                 |                                                                     ^^^^^^^^^^^
                 expected the name of an [[app.setting]]
            kneepoint.toml:4:82: found an integer
               4 | keep = ["phq.pm.max_requests", "php.pm.max_request", "db.work_mem", "app.redis", 5]
                 |                                                                                  ^
                 expected TIER.NAME, such as "php.pm.max_requests"
            kneepoint.toml:5:10: `2` is not possible
               5 | memory = "2"
                 |          ^^^
                 expected a size of at least 16MiB, such as "512M" or "2GiB"
        "#]],
    );
}

#[test]
fn every_syntax_error_is_told() {
    check(
        "[app]\nroot = .\nfront = \nkind = \"plain\n[slo",
        expect![[r#"
            kneepoint.toml:2:8: invalid mantissa, expected digits
               2 | root = .
                 |        ^
            kneepoint.toml:2:9: invalid fraction, expected digits
               2 | root = .
                 |         ^
            kneepoint.toml:3:9: string values must be quoted, expected literal string
               3 | front =
                 |         ^
            kneepoint.toml:4:14: invalid basic string, expected `"`
               4 | kind = "plain
                 |              ^
            kneepoint.toml:5:5: unclosed table, expected `]`
               5 | [slo
                 |     ^
        "#]],
    );
}

#[test]
fn nothing_at_all_is_told_what_is_needed() {
    check(
        "",
        expect![[r#"
        kneepoint.toml: `app.root` is missing
             expected the application's directory, such as root = "." under [app]
    "#]],
    );
}

#[test]
fn a_mix_that_cannot_be_learned_says_why() {
    check_in_app(
        "mix = \"none.log\"\n",
        expect![[r#"
            kneepoint.toml:2:7: `none.log` does not exist
               2 | mix = "none.log"
                 |       ^^^^^^^^^^
                 expected an access log of nginx or Apache, relative to the directory of kneepoint.toml
        "#]],
    );
    check_in_app(
        "mix = \"deploy/www.conf\"\n",
        expect![[r#"
            kneepoint.toml:2:7: the format of the access log is not known; its first line is "[www]"; say it: the text of nginx's log_format or Apache's LogFormat
               2 | mix = "deploy/www.conf"
                 |       ^^^^^^^^^^^^^^^^^
                 expected an access log of nginx or Apache
        "#]],
    );
    check_in_app(
        "mix = \"deploy/www.conf\"\nmix_format = \"$status\"\n",
        expect![[r#"
            kneepoint.toml:2:7: log format `$status`: it names no time ($msec, $time_iso8601, $time_local, %t); write it as `log_format` (nginx) or `LogFormat` (Apache) does, or name one of common, combined, vhost_combined, main, json
               2 | mix = "deploy/www.conf"
                 |       ^^^^^^^^^^^^^^^^^
                 expected an access log of nginx or Apache
        "#]],
    );
}

#[test]
fn a_double_that_cannot_be_is_refused() {
    check_in_app(
        "[[peer]]\nhost = \"https://api.example.org/\"\nkind = \"https\"\nport = 0\n\
         [[peer]]\nhost = \"mail.example.org\"\nkind = \"smtp\"\nstatus = 200\n\
         [[peer]]\nhost = \"a.test\"\nkind = \"http\"\n[[peer]]\nhost = \"A.test\"\nkind = \"http\"\nport = 80\n",
        expect![[r#"
            kneepoint.toml:3:8: `https://api.example.org/` is an address of a page
               3 | host = "https://api.example.org/"
                 |        ^^^^^^^^^^^^^^^^^^^^^^^^^^
                 expected a name such as "api.example.org", or an IPv4 address
            kneepoint.toml:4:8: `https`: a double has no certificate that the application trusts
               4 | kind = "https"
                 |        ^^^^^^^
                 expected `http` or `smtp`
                 let the application ask over http in the lab ([app.env] or [[app.file]]), or name the host in [app] unreachable
            kneepoint.toml:5:8: `0` is not possible
               5 | port = 0
                 |        ^
                 expected a whole number from 1 to 65535
            kneepoint.toml:9:10: `status` says nothing to a mail server
               9 | status = 200
                 |          ^^^
                 expected it with kind = "http" only
            kneepoint.toml:13:1: `a.test:80` is there twice
              13 | [[peer]]
                 | ^^^^^^^^
                 expected each name once
        "#]],
    );
    check(
        "[app]\nroot = \".\"\nunreachable = [\"http://a.test/\", \"b.test\", \"b.test\"]\n",
        expect![[r#"
            kneepoint.toml:3:16: `http://a.test/` is an address of a page
               3 | unreachable = ["http://a.test/", "b.test", "b.test"]
                 |                ^^^^^^^^^^^^^^^^
                 expected the host in it alone, such as "api.example.org"
            kneepoint.toml:3:44: `b.test` is there twice
               3 | unreachable = ["http://a.test/", "b.test", "b.test"]
                 |                                            ^^^^^^^^
                 expected each name once
        "#]],
    );
}
