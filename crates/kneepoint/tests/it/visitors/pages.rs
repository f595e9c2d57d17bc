//! Pages that are not what a person means to measure: none of them is loaded, and what they say is told.

use crate::support::company::{Place, among_others, briefly_among_others};
use crate::support::{kneepoint, start, text, wait};
use std::path::Path;
use std::time::Duration;

/// A site of one script behind nginx and PHP-FPM.
fn site(directory: &Path, script: &str, requests: &str) -> std::path::PathBuf {
    std::fs::write(directory.join("index.php"), script).expect("script written");
    let scenario = format!(
        "[app]\nroot = \".\"\nfront = \"index.php\"\n\n[stack]\nweb = {{ server = \"nginx\" }}\n\
         php = {{ runtime = \"fpm\" }}\n{requests}"
    );
    let path = directory.join("kneepoint.toml");
    std::fs::write(&path, scenario).expect("scenario written");
    // PHP may run as somebody else.
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(directory, open).expect("opened");
    path
}

/// Runs `limit` on a site; returns its exit code and all it said. What it measures, if anything, is no matter here.
fn limit(script: &str, requests: &str) -> (Option<i32>, String) {
    limit_of(among_others(), script, requests, &[])
}

/// The same with files beside the script, which are as they were afterwards, and at a place among other tests.
pub(super) fn limit_of(
    _place: Place,
    script: &str,
    requests: &str,
    files: &[(&str, &str)],
) -> (Option<i32>, String) {
    let directory = tempfile::tempdir().expect("temp dir");
    let scenario = site(directory.path(), script, requests);
    for (name, text) in files {
        std::fs::write(directory.path().join(name), text).expect("file written");
    }
    let output = wait(
        start(
            kneepoint()
                .arg("limit")
                .arg(&scenario)
                .args(["--loopback", "--budget", "5s", "--runs"])
                .arg(directory.path().join("runs")),
        ),
        Duration::from_secs(120),
    );
    let said = format!("{}\n{}", text(&output.stderr), text(&output.stdout));
    assert!(!said.contains("panicked"), "{said}");
    for (name, text) in files {
        let now = std::fs::read_to_string(directory.path().join(name)).expect("the file");
        assert_eq!(now, *text, "{name}");
    }
    (output.status.code(), said)
}

/// A site that must not be loaded, and what is said of it.
fn refused(script: &str, requests: &str, expected: &[&str]) {
    let (code, said) = limit_of(briefly_among_others(), script, requests, &[]);
    assert_eq!(code, Some(2), "{said}");
    for words in expected {
        assert!(said.contains(words), "expected `{words}` in:\n{said}");
    }
    assert!(said.contains("Nothing has been measured"), "{said}");
}

pub(super) const EXPECTS_200: &str = "[[request]]\npath = \"/\"\nexpect = { status = 200 }\n";

#[test]
fn one_sentence_with_status_200_about_a_directory_is_not_loaded() {
    refused(
        "<?php if (getenv('SITE_IS_READY') === false) { echo 'The directory \"data/\" must be writeable by the web server'; \
         exit; } echo 'Welcome';",
        EXPECTS_200,
        &[
            "what looks like an error page",
            "It says: The directory \"data/\" must be writeable by the web server",
            "body_contains",
        ],
    );
}

#[test]
fn an_error_behind_its_styles_is_quoted_with_the_log() {
    refused(
        "<?php http_response_code(500); error_log('WordPress database error: gone'); ?><!DOCTYPE html><html><head>\
         <title>Database Error</title><style type=\"text/css\"><?= str_repeat('html { color: #444; } ', 100) ?></style>\
         </head><body id=\"error-page\"><h1>Error establishing a database connection</h1></body></html>",
        EXPECTS_200,
        &[
            "status 500 before any load",
            "It says: Error establishing a database connection",
            "php log: ",
            "WordPress database error: gone",
        ],
    );
}

#[test]
fn a_redirect_tells_where_it_leads_and_what_to_write() {
    refused(
        "<?php header('Location: /wiki/Main_Page', true, 301);",
        EXPECTS_200,
        &[
            "status 301 before any load",
            "it redirects to /wiki/Main_Page",
            "Write path = \"/wiki/Main_Page\"",
        ],
    );
    refused(
        "<?php header('Location: /wp-admin/install.php', true, 302);",
        "[[request]]\npath = \"/\"\n",
        &["the application is not installed"],
    );
}

#[test]
fn a_page_that_the_scenario_vouches_for_is_loaded_and_told() {
    let (code, said) = limit(
        "<?php ?><title>Fatal error: a chronicle</title><p>The shore is not writable. <?php \
         for ($i = 0, $x = 0; $i < 200000; $i++) { $x += $i; }",
        "[[request]]\npath = \"/\"\nexpect = { status = 200, body_contains = \"a chronicle\" }\n",
    );
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("R*"), "{said}");
    assert!(
        said.contains("GET /: `Fatal error: a chronicle`, "),
        "{said}"
    );
}

/// The page is right nine times, and another one ever after.
#[test]
fn a_page_that_becomes_another_under_load_counts_as_failed() {
    let (code, said) = limit(
        "<?php file_put_contents('count', 'x', FILE_APPEND); $n = filesize('count'); if ($n > 9) { usleep(20000); } ?>\
         <title><?= $n <= 9 ? 'My shop' : 'Sorry' ?></title><p>Words.",
        EXPECTS_200,
    );
    // No request succeeds, so there is no limit.
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("GET / `<title>My shop</title>`"), "{said}");
    assert!(
        said.contains("expected a body with \\\"<title>My shop</title>\\\"")
            || said.contains("expected a body with \"<title>My shop</title>\""),
        "{said}"
    );
}
