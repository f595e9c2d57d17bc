//! NGX-11: proxy_* before PHP, or fastcgi_* before HTTP.

use crate::rule::prelude::*;
use crate::snapshot::{Nginx, Pass};
use std::collections::HashSet;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "NGX-11",
    name: "directives-of-another-protocol",
    title: "Directives of nginx have no effect: they are of another protocol",
    what_it_is: "proxy_buffers, proxy_read_timeout and the other proxy_ directives act on proxy_pass. Requests for PHP-FPM \
        go by fastcgi_pass, which has directives of its own with the same endings: fastcgi_buffers, fastcgi_read_timeout. \
        Advice often names the wrong one: nginx accepts it, and nothing changes. A field report tuned proxy_buffers before \
        PHP-FPM.",
    how_it_shows: "A timeout or a buffer was raised, and the same errors come after the same time.",
    unless: "The directive is meant for a location that somebody has yet to write.",
    what_to_write: "The directive of the same ending for the protocol that is spoken: fastcgi_read_timeout, \
        fastcgi_buffers.",
    check,
};

/// Endings that both protocols have.
const SHARED: [&str; 6] = [
    "read_timeout",
    "send_timeout",
    "connect_timeout",
    "buffers",
    "buffer_size",
    "buffering",
];

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    for (at, service) in snapshot.of(ServiceKind::Nginx) {
        let Some(nginx) = &service.nginx else {
            continue;
        };
        for (spoken, other) in [("fastcgi", "proxy"), ("proxy", "fastcgi")] {
            for ending in SHARED {
                let name = format!("{other}_{ending}");
                for (pass, value) in without_effect(nginx, spoken, &name) {
                    let right = format!("{spoken}_{ending}");
                    // nginx refuses a second one of a name in a block.
                    let fix = match pass.settings.get(&right) {
                        Some(_) => Fix::without(service, value, ""),
                        None => Fix::line(service, value, &format!("{right} {};", value.text)),
                    };
                    RULE.at(snapshot, at, Severity::Note)
                        .title(format!("{name} has no effect: requests are handed on by {spoken}_pass"))
                        .value(&name, value)
                        .cost(format!("what it was meant to mend: {right} is as nginx comes, or as another line says"))
                        .fix(fix)
                        .weight(0.03)
                        .tell(found);
                }
            }
        }
    }
}

/// The lines of a directive that hold only where requests are handed on by a protocol that is not the directive's, each with
/// the first such place.
fn without_effect<'a>(
    nginx: &'a Nginx,
    spoken: &str,
    name: &str,
) -> Vec<(&'a Pass, &'a SettingValue)> {
    let is_spoken = |pass: &&Pass| pass.directive == format!("{spoken}_pass");
    let set = |pass: &'a Pass| pass.settings.get(name).map(|value| (pass, value));
    let others = nginx.passes.iter().filter(|pass| !is_spoken(pass));
    let others = others.filter_map(set).map(|(_, value)| &value.source);
    let mut known: HashSet<&SettingSource> = others.collect();
    let spoken = nginx.passes.iter().filter(is_spoken);
    spoken
        .filter_map(set)
        .filter(|(_, value)| known.insert(&value.source))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sick_and_healthy() {
        let text = "events {\n}\nhttp {\n proxy_read_timeout 300s;\n server {\n location / {\n fastcgi_pass unix:/run/php.sock;\n }\n }\n}\n";
        let both = "events {}\nhttp {\n server {\n location / {\n fastcgi_read_timeout 300;\n proxy_read_timeout 300;\n \
            fastcgi_pass unix:/b;\n }\n }\n}\n";
        verify(
            &RULE,
            &[
                (
                    Case::healthy().nginx(text),
                    Severity::Note,
                    "fastcgi_read_timeout 300s",
                ),
                // The right one stands beside it.
                (
                    Case::healthy().nginx(both),
                    Severity::Note,
                    "remove this setting",
                ),
            ],
        );
        // What another place needs is right there; of the others every line is told.
        let mixed = "events {}\nhttp {\n proxy_read_timeout 300s;\n server {\n location /a {\n proxy_pass http://h;\n }\n \
            location /b {\n proxy_read_timeout 90s;\n fastcgi_pass unix:/b;\n }\n location /c {\n proxy_read_timeout 80s;\n \
            fastcgi_pass unix:/c;\n }\n location /d {\n fastcgi_pass unix:/d;\n }\n }\n}\n";
        let told = super::super::tests_of(&RULE, &Case::healthy().nginx(mixed));
        let lines: Vec<&str> = told.iter().map(|one| one.seen[0].source.as_str()).collect();
        assert_eq!(
            lines,
            ["/etc/nginx/nginx.conf:9", "/etc/nginx/nginx.conf:13"]
        );
    }
}
