//! Changes beyond settings: a page shows what the database and the private copy became.

use super::pages::{EXPECTS_200, limit_of};
use crate::support::company::{among_others, briefly_among_others};

/// What a person keeps: a line of PHP with a switch, in a file of settings.
const SETTINGS: &str = "<?php\n$cache = 'off';\nreturn $cache;\n";
const PAGE: &str = "<?php for ($i = 0, $x = 0; $i < 200000; $i++) { $x += $i; } \
    $db = new PDO('pgsql:host=' . getenv('DB_HOST') . ';port=' . getenv('DB_PORT') . ';dbname=' . getenv('DB_DATABASE'), \
        getenv('DB_USERNAME'), getenv('DB_PASSWORD')); \
    $indexes = $db->query(\"SELECT string_agg(indexname, ',') FROM pg_indexes WHERE tablename = 'orders'\")->fetchColumn(); \
    echo 'cache ', require __DIR__ . '/settings.php', ', index ', $indexes ?: 'none', ', ', \
        @file_get_contents(__DIR__ . '/made.txt') ?: 'nothing made';";
const TABLE: &str = "CREATE TABLE orders (id int, customer int);";

/// What WordPress expects of an object cache. `begin` is another request: it knows nothing but what is in Redis.
const CACHED: &str = r#"<?php
for ($i = 0, $x = 0; $i < 200000; $i++) { $x += $i; }
define('WP_CACHE_KEY_SALT', uniqid('', true));
require __DIR__ . '/object-cache.php';
function begin() { wp_cache_init(); wp_cache_add_non_persistent_groups(['counts']); }
begin();
$object = (object) ['a' => 1];
wp_cache_set('array', ['a' => 1], 'options', 60);
wp_cache_set('false', false, 'options', 60);
wp_cache_set('number', 5, 'options', 60);
wp_cache_set('object', $object, '', 60);
wp_cache_set('short', 'x', 'counts');
$object->a = 2;
$same = wp_cache_get('short', 'counts') === 'x' && wp_cache_get('object')->a === 1;
begin();
$holds = [
    'request' => $same,
    'value' => wp_cache_get('array', 'options') === ['a' => 1],
    'object' => wp_cache_get('object') == (object) ['a' => 1],
    'group' => wp_cache_get('array') === false,
    'passing' => wp_cache_get('short', 'counts', false, $found) === false && !$found,
    'found' => wp_cache_get('false', 'options', false, $found) === false && $found,
    'several' => wp_cache_get_multiple(['array', 'none'], 'options') === ['array' => ['a' => 1], 'none' => false],
    'add' => !wp_cache_add('array', 1, 'options') && wp_cache_add('new', '7', 'options', 60),
    'replace' => !wp_cache_replace('none', 1, 'options') && wp_cache_replace('new', '8', 'options', 60),
    'text' => wp_cache_get('new', 'options', true) === '8',
    'number' => wp_cache_incr('number', 2, 'options') === 7 && wp_cache_decr('number', 9, 'options') === 0,
    'delete' => wp_cache_delete('array', 'options') && !wp_cache_delete('array', 'options'),
    'flush' => wp_cache_flush() && wp_cache_get('new', 'options') === false,
];
echo 'object cache: ', implode(', ', array_keys($holds, false, true)) ?: 'all of it holds';
"#;

/// What the page says of a stack with these changes, and the user's own files afterwards.
fn check(changes: &str, expected: &str) {
    let files = [("settings.php", SETTINGS), ("seed.sql", TABLE)];
    let requests = format!(
        "db = {{ server = \"postgresql\", seed = \"seed.sql\" }}\n\n{changes}\n{}",
        EXPECTS_200.replace("200 }", &format!("200, body_contains = \"{expected}\" }}"))
    );
    let (code, said) = limit_of(among_others(), PAGE, &requests, &files);
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
        let (code, said) = limit_of(briefly_among_others(), PAGE, &requests, &files);
        assert_eq!(code, Some(2), "{said}");
        assert!(said.contains(words), "expected `{words}` in:\n{said}");
    }
}

#[test]
fn an_object_cache_of_wordpress_keeps_things_in_the_labs_redis() {
    let requests = format!(
        "cache = {{ server = \"redis\" }}\n\n[changes]\n\
         \"app.run.object-cache\" = 'printf %s \"${{KNEEPOINT_OBJECT_CACHE:?}}\" > object-cache.php'\n\n{}",
        EXPECTS_200.replace(
            "200 }",
            "200, body_contains = \"object cache: all of it holds\" }"
        )
    );
    let (code, said) = limit_of(among_others(), CACHED, &requests, &[]);
    assert_eq!(code, Some(0), "{said}");
}
