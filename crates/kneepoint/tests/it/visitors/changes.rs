//! Changes beyond settings: a page shows what the database and the private copy became.

use super::pages::{EXPECTS_200, limit_of};

/// What a person keeps: a line of PHP with a switch, in a file of settings.
const SETTINGS: &str = "<?php\n$cache = 'off';\nreturn $cache;\n";
const PAGE: &str = "<?php for ($i = 0, $x = 0; $i < 200000; $i++) { $x += $i; } \
    $db = new PDO('pgsql:host=' . getenv('DB_HOST') . ';port=' . getenv('DB_PORT') . ';dbname=' . getenv('DB_DATABASE'), \
        getenv('DB_USERNAME'), getenv('DB_PASSWORD')); \
    $indexes = $db->query(\"SELECT string_agg(indexname, ',') FROM pg_indexes WHERE tablename = 'orders'\")->fetchColumn(); \
    echo 'cache ', require __DIR__ . '/settings.php', ', index ', $indexes ?: 'none', ', ', \
        @file_get_contents(__DIR__ . '/made.txt') ?: 'nothing made';";
const TABLE: &str = "CREATE TABLE orders (id int, customer int);";

/// What the page says of a stack with these changes, and the user's own files afterwards.
fn check(changes: &str, expected: &str) {
    let files = [("settings.php", SETTINGS), ("seed.sql", TABLE)];
    let requests = format!(
        "db = {{ server = \"postgresql\", seed = \"seed.sql\" }}\n\n{changes}\n{}",
        EXPECTS_200.replace("200 }", &format!("200, body_contains = \"{expected}\" }}"))
    );
    let (code, said) = limit_of(PAGE, &requests, &files);
    assert_eq!(code, Some(0), "{said}");
}

#[test]
fn statements_lines_and_commands_are_made_in_the_lab_alone() {
    let changes = r#"[changes]
"db.sql.by_customer" = "CREATE INDEX by_customer ON orders (customer)"
"app.line.settings.php:2" = "$cache = 'on';"
"app.run.make" = '''
address="postgresql://$DB_USERNAME:$DB_PASSWORD@$DB_HOST:$DB_PORT/$DB_DATABASE"
rows=$(psql -Atc "SELECT count(*) FROM orders" "$address")
echo -n "made by $DB_DATABASE at ${HOME:+home}, $rows rows" > made.txt'''
"#;
    check(
        changes,
        "cache on, index by_customer, made by app at home, 0 rows",
    );
}

#[test]
fn a_change_that_does_not_fit_ends_the_run_before_any_load() {
    let files = [("settings.php", SETTINGS), ("seed.sql", TABLE)];
    for (change, words) in [
        (
            "\"app.line.settings.php:9\" = \"\"",
            "the change of settings.php:9 does not fit",
        ),
        (
            "\"app.run.no\" = \"echo no such thing >&2; exit 3\"",
            "no such thing",
        ),
        (
            "\"db.sql.no\" = \"CREATE INDEX ON nothing (x)\"",
            "\"nothing\" does not exist",
        ),
    ] {
        let requests = format!(
            "db = {{ server = \"postgresql\", seed = \"seed.sql\" }}\n\n[changes]\n{change}\n\n{EXPECTS_200}"
        );
        let (code, said) = limit_of(PAGE, &requests, &files);
        assert_eq!(code, Some(2), "{said}");
        assert!(said.contains(words), "expected `{words}` in:\n{said}");
    }
}
