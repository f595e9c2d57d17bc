//! The lossless documents: what is parsed prints back, what is set is read, and nothing else changes.

use kneepoint_stack::text::ini::{self, Section};
use kneepoint_stack::text::lines::{self, Dialect};
use kneepoint_stack::text::nginx;
use proptest::prelude::*;

/// Text with everything that means something to one of the formats.
fn any_text() -> impl Strategy<Value = String> {
    let pieces = prop::sample::select(vec![
        " ",
        "\n",
        "\t",
        "\r\n",
        ";",
        "{",
        "}",
        "\"",
        "'",
        "\\",
        "#",
        "$",
        "${",
        "=",
        "[",
        "]",
        "a",
        "b",
        "é",
        "http",
        "server",
        "listen",
        "x_by_lua_block",
        "--",
        "key",
        "value",
        "[www]",
        "\0",
        "include",
    ]);
    prop_oneof![
        prop::collection::vec(pieces, 0..60).prop_map(|pieces| pieces.concat()),
        ".{0,60}",
    ]
}

/// A well-formed nginx configuration.
fn nginx_text() -> impl Strategy<Value = String> {
    let word = prop_oneof![
        "[a-z_/.$~^]{1,8}",
        Just("\"a b;{}\\\"#\"".to_owned()),
        Just("'x y'".to_owned()),
        Just("${v}b".to_owned()),
    ];
    let gap = prop::sample::select(vec![" ", "\n  ", "\t", " # note; {\n"]);
    let plain = (prop::collection::vec(word, 1..4), gap.clone(), gap)
        .prop_map(|(words, gap, end)| format!("{};{end}", words.join(gap)));
    plain.prop_recursive(4, 40, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner, 0..5)
                .prop_map(|items| format!("block a {{\n{}}}\n", items.concat())),
            Just("content_by_lua_block { local t = { \"}\" } -- }\n }\n".to_owned()),
        ]
    })
}

fn changed_lines(before: &str, after: &str) -> usize {
    let (before, after): (Vec<_>, Vec<_>) = (before.lines().collect(), after.lines().collect());
    let head = before
        .iter()
        .zip(&after)
        .take_while(|(a, b)| a == b)
        .count();
    let rest = before.len().min(after.len()) - head;
    let tail = before
        .iter()
        .rev()
        .zip(after.iter().rev())
        .take(rest)
        .take_while(|(a, b)| a == b)
        .count();
    after.len() - head - tail
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn what_is_parsed_prints_back(text in any_text()) {
        if let Ok(block) = nginx::parse(&text) {
            prop_assert_eq!(block.to_string(), text.clone());
        }
        if let Ok(document) = ini::parse(&text) {
            prop_assert_eq!(document.to_string(), text.clone());
        }
        for dialect in [Dialect::Redis, Dialect::Postgresql] {
            prop_assert_eq!(lines::parse(dialect, &text).to_string(), text.clone());
        }
    }

    #[test]
    fn well_formed_nginx_is_accepted_and_prints_back(text in nginx_text()) {
        let block = nginx::parse(&text).map_err(|error| TestCaseError::fail(format!("{error}: {text}")))?;
        prop_assert_eq!(block.to_string(), text);
    }

    #[test]
    fn nginx_reads_what_was_set(text in nginx_text(), args in prop::collection::vec(".{0,12}", 1..3)) {
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let mut block = nginx::parse(&text).expect("well formed");
        block.set("new_directive", &args);
        let before = block.to_string();
        prop_assert_eq!(changed_lines(&text, &before).saturating_sub(args.concat().matches('\n').count()) <= 2, true);
        let mut back = nginx::parse(&before).map_err(|error| TestCaseError::fail(format!("{error}: {before}")))?;
        prop_assert_eq!(back.find("new_directive").expect("is there").args(), args);
        back.set("new_directive", &["2"]);
        let mut again = nginx::parse(&back.to_string()).expect("still well formed");
        prop_assert_eq!(again.find("new_directive").expect("is there").args(), vec!["2"]);
        again.remove("new_directive");
        nginx::parse(&again.to_string()).map_err(|error| TestCaseError::fail(error.to_string()))?;
    }

    #[test]
    fn ini_reads_what_was_set(text in any_text(), value in ".{0,16}") {
        for section in [Section::Any, Section::Named("pool")] {
            let Ok(mut document) = ini::parse(&text) else { continue };
            document.set(section, "pm.max_children", &value);
            let after = document.to_string();
            let read = ini::parse(&after).expect("still well formed").get(section, "pm.max_children");
            prop_assert_eq!(read, Some(value.clone()), "{}", after);
            let mut twice = ini::parse(&after).expect("still well formed");
            twice.set(section, "pm.max_children", "7");
            prop_assert_eq!(changed_lines(&after, &twice.to_string()) <= 1, true);
            prop_assert_eq!(twice.get(section, "pm.max_children"), Some("7".into()));
        }
    }

    #[test]
    fn lines_read_what_was_set(text in any_text(), value in ".{0,16}") {
        for dialect in [Dialect::Redis, Dialect::Postgresql] {
            let mut document = lines::parse(dialect, &text);
            document.set("maxclients", &value);
            let after = document.to_string();
            let read = lines::parse(dialect, &after).get("maxclients");
            prop_assert_eq!(read, Some(value.clone()), "{}", after);
            let mut twice = lines::parse(dialect, &after);
            twice.set("MaxClients", "7");
            prop_assert_eq!(changed_lines(&after, &twice.to_string()) <= 1, true);
        }
    }
}

#[test]
fn broken_nginx_is_refused_with_its_line() {
    let check = |text: &str, line: usize| {
        let error = nginx::parse(text).expect_err(text);
        assert_eq!(error.line, line, "{text:?}: {error}");
    };
    check("a;\nb", 2);
    check("http {\n a;\n", 3);
    check("a;\n}\n", 2);
    check("a \"b;\n", 1);
    check("a {\n b }\n", 2);
    check(";", 1);
    check(&"a{".repeat(5000), 1);
}

#[test]
fn an_ini_quote_that_is_never_closed_is_refused() {
    let error = ini::parse("a = 1\nb = \"x\ny\"\nc = \"\n").expect_err("not closed");
    assert_eq!(error.line, 4, "{error}");
}

#[test]
fn a_dollar_before_a_block_is_no_variable() {
    let mut block = nginx::parse("location /{}\n").expect("it reads");
    block.set("location", &["~", "php$"]);
    let printed = block.to_string();
    let read = nginx::parse(&printed).unwrap_or_else(|error| panic!("{error}: {printed}"));
    let args = read.find("location").map(|directive| directive.args());
    assert_eq!(args, Some(vec!["~".into(), "php$".into()]), "{printed}");
}

#[test]
fn an_edit_keeps_comments_and_formatting() {
    let text = "# ours\nhttp {\n\tsendfile  on ; # fast\n\t# how long\n\tkeepalive_timeout\t65s; # seconds\n}\n";
    let mut root = nginx::parse(text).expect("parses");
    let http = root
        .find_mut("http")
        .and_then(|http| http.block_mut())
        .expect("a block");
    http.set("keepalive_timeout", &["5s"]);
    http.set("gzip", &["on"]);
    http.remove("sendfile");
    let expected = "# ours\nhttp {\n\t # fast\n\t# how long\n\tkeepalive_timeout\t5s; # seconds\n\tgzip on;\n}\n";
    assert_eq!(root.to_string(), expected);
}

#[test]
fn an_ini_edit_keeps_comments_duplicates_and_quotes() {
    let text = "; ours\n[www]\n pm = dynamic ; why\npm.max_children=5\npm.max_children = 9   ;last wins\nenv[A] = \"x;y\"\n\n[other]\npm = static\n";
    let mut document = ini::parse(text).expect("parses");
    let www = Section::Named("www");
    assert_eq!(document.get(www, "pm.max_children").as_deref(), Some("9"));
    assert_eq!(document.get(www, "env[A]").as_deref(), Some("x;y"));
    document.set(www, "pm.max_children", "40");
    document.set(www, "pm", "static");
    document.set(www, "env[A]", "x;y");
    document.set(www, "listen.backlog", "511");
    document.disable(Section::Named("other"), "pm", |_| true);
    let expected = "; ours\n[www]\n pm = static ; why\npm.max_children=5\npm.max_children = 40   ;last wins\nenv[A] = \"x;y\"\nlisten.backlog = 511\n\n[other]\n;pm = static\n";
    assert_eq!(document.to_string(), expected);
}

#[test]
fn sections_of_php_ini_are_decoration_but_for_paths() {
    let mut document = ini::parse(
        "[PHP]\nmemory_limit = 128M\n[opcache]\nopcache.enable=1\n[PATH=/srv]\nmemory_limit = 1G\n",
    )
    .expect("parses");
    assert_eq!(
        document.get(Section::Any, "memory_limit").as_deref(),
        Some("128M")
    );
    document.set(Section::Any, "realpath_cache_ttl", "600");
    assert_eq!(
        document.to_string(),
        "[PHP]\nmemory_limit = 128M\n[opcache]\nopcache.enable=1\nrealpath_cache_ttl = 600\n[PATH=/srv]\nmemory_limit = 1G\n"
    );
}

/// Found by the fuzz target `conf_lines`.
#[test]
fn text_behind_a_quoted_value_does_not_stay_behind_the_next_value() {
    let text = "max_connections 'a''b'mm # c\nport = 'x'#y\n";
    let mut conf = lines::parse(Dialect::Postgresql, text);
    assert_eq!(conf.to_string(), text);
    conf.set("max_connections", "100");
    conf.set("port", "5433");
    assert_eq!(conf.to_string(), "max_connections 100 # c\nport = 5433#y\n");
}

#[test]
fn values_of_postgresql_and_redis_are_read_as_written() {
    let conf = lines::parse(
        Dialect::Postgresql,
        "# x\nmax_connections = 100\t# (change requires restart)\nPort 5433\nlisten_addresses = 'a''b' # c\n",
    );
    for (key, value) in [
        ("max_connections", "100"),
        ("port", "5433"),
        ("listen_addresses", "a'b"),
    ] {
        assert_eq!(conf.get(key).as_deref(), Some(value));
    }
    let mut conf = lines::parse(
        Dialect::Redis,
        "save 900 1\nsave 300 10\n# save 60 1\nrequirepass \"a b\"\n",
    );
    assert_eq!(conf.get("requirepass").as_deref(), Some("a b"));
    conf.set_only("save", "");
    assert_eq!(
        conf.to_string(),
        "save \"\"\n# save 60 1\nrequirepass \"a b\"\n"
    );
}
