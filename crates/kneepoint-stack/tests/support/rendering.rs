//! Renders without a machine: the tiers of a chain, and what a setting changes in them.

use super::{context, program, settings};
use kneepoint_model::Layer;
use kneepoint_stack::{RenderedTier, TierContext, server};

pub(crate) fn render(kind: &str, context: &TierContext) -> RenderedTier {
    server(kind)
        .expect("a known server")
        .render(context)
        .unwrap_or_else(|error| panic!("{error}"))
}

pub(crate) fn refused(kind: &str, context: &TierContext) -> String {
    server(kind)
        .expect("a known server")
        .render(context)
        .expect_err("it is refused")
        .to_string()
}

pub(crate) fn text<'a>(tier: &'a RenderedTier, name: &str) -> &'a str {
    let file = tier.files.iter().find(|file| file.path.ends_with(name));
    &file.unwrap_or_else(|| panic!("no file {name}")).text
}

/// A text with one word for every password: each rendering draws its own, 32 hexadecimal digits.
fn without_passwords(text: &str) -> String {
    let is_part = |c: char| c.is_ascii_alphanumeric();
    let is_password = |word: &&str| word.len() == 32 && word.bytes().all(|b| b.is_ascii_hexdigit());
    let words = text.split(|c: char| !is_part(c)).filter(is_password);
    words.fold(text.to_owned(), |text, password| {
        text.replace(password, "PASSWORD")
    })
}

/// What differs between two texts, as a diff without context.
fn diff(before: &str, after: &str) -> String {
    let (before, after): (Vec<_>, Vec<_>) = (before.lines().collect(), after.lines().collect());
    let lines = |mark: char, of: &[&str], other: &[&str]| -> String {
        let missing = of.iter().filter(|line| !other.contains(line));
        missing
            .map(|line| format!("    {mark}{}\n", line.trim()))
            .collect()
    };
    lines('-', &before, &after) + &lines('+', &after, &before)
}

/// What settings change in the files of a tier, after a line that names them. The tier says what was set.
pub(crate) fn change(kind: &str, context: &TierContext, set: &[(&str, &str)]) -> String {
    let before = render(kind, context);
    let mut changed = context.clone();
    changed.settings.extend(settings(set));
    let after = render(kind, &changed);
    let mut text = format!("{} {set:?}\n", context.layer);
    for (old, new) in before.files.iter().zip(&after.files) {
        assert_eq!(old.path, new.path, "a setting makes no file come or go");
        let (old_text, new_text) = (without_passwords(&old.text), without_passwords(&new.text));
        if old_text != new_text {
            let name = old.path.strip_prefix(&context.dir).expect("it is private");
            text.push_str(&format!(
                "  {}\n{}",
                name.display(),
                diff(&old_text, &new_text)
            ));
        }
    }
    for (name, value) in set {
        let seen = after.tier.settings.get(*name).map(String::as_str);
        assert_eq!(seen, Some(*value), "{name}");
    }
    text
}

pub(crate) fn web() -> TierContext {
    TierContext {
        upstream: Some("10.9.0.3:9000".parse().expect("an address")),
        ..context(Layer::Web, program("/usr/sbin/nginx", "1.22.1"))
    }
}

pub(crate) fn proxy() -> TierContext {
    TierContext {
        upstream: Some("10.9.0.2:80".parse().expect("an address")),
        ..context(Layer::Proxy, program("/usr/sbin/nginx", "1.22.1"))
    }
}

pub(crate) fn php() -> TierContext {
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

pub(crate) fn haproxy() -> TierContext {
    TierContext {
        program: program("/usr/sbin/haproxy", "2.6.12"),
        ..proxy()
    }
}

pub(crate) fn apache() -> TierContext {
    let mut program = program("/usr/sbin/apache2", "8.2");
    program.facts = [(
        "php_module".to_owned(),
        "/usr/lib/apache2/modules/libphp8.2.so".to_owned(),
    )]
    .into();
    program.files = php().program.files;
    context(Layer::Php, program)
}

/// A runtime that answers HTTP itself, with these facts and settings.
fn runtime(path: &str, facts: &[(&str, &str)], set: &[(&str, &str)]) -> TierContext {
    let mut program = program(path, "8.2.35");
    program.facts = settings(facts);
    program.files = php().program.files;
    let mut context = context(Layer::Php, program);
    context.settings = settings(set);
    context
}

pub(crate) fn unit() -> TierContext {
    let modules = [("modules", "/usr/lib/unit/modules")];
    runtime("/usr/sbin/unitd", &modules, &[])
}

pub(crate) fn frankenphp() -> TierContext {
    runtime("/usr/local/bin/frankenphp", &[], &[])
}

pub(crate) fn swoole() -> TierContext {
    runtime("/usr/bin/php8.2", &[], &[("worker", "worker.php")])
}

pub(crate) fn roadrunner() -> TierContext {
    let php = [("php", "/usr/bin/php8.2")];
    runtime("/usr/local/bin/rr", &php, &[("worker", "worker.php")])
}

pub(crate) fn cache() -> TierContext {
    context(Layer::Cache, program("/usr/bin/redis-server", "7.0.15"))
}

pub(crate) fn mariadb() -> TierContext {
    context(Layer::Db, program("/usr/sbin/mariadbd", "10.11.14"))
}

pub(crate) fn db() -> TierContext {
    context(
        Layer::Db,
        program("/usr/lib/postgresql/15/bin/postgres", "15.18"),
    )
}
