//! NGX-11: proxy_* before PHP, or fastcgi_* before HTTP.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "NGX-11",
    name: "directives-of-another-protocol",
    title: "Directives of nginx have no effect: they are of another protocol",
    what_it_is: "proxy_buffers, proxy_read_timeout and their kin hold for proxy_pass; requests for PHP-FPM go by \
        fastcgi_pass, which has a set of its own with the same endings. Advice from somewhere often names the wrong \
        one: nginx accepts it, and nothing changes. A field report tuned proxy_buffers before PHP-FPM.",
    how_it_shows: "A timeout or a buffer was raised, and the same errors come after the same time.",
    unless: "The directive waits for a location that is still to be written.",
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
            let passes = |family: &str| {
                nginx
                    .passes
                    .iter()
                    .any(|one| one.directive == format!("{family}_pass"))
            };
            if !passes(spoken) || passes(other) {
                continue;
            }
            let servers = nginx.servers.iter().map(|one| &one.settings);
            let all: Vec<&Settings> = servers
                .chain(nginx.passes.iter().map(|one| &one.settings))
                .collect();
            for ending in SHARED {
                let name = format!("{other}_{ending}");
                let Some(value) = all.iter().find_map(|settings| settings.get(&name)) else {
                    continue;
                };
                let right = format!("{spoken}_{ending} {};", value.text);
                RULE.at(snapshot, at, Severity::Note)
                    .title(format!("{name} has no effect: requests are handed on by {spoken}_pass"))
                    .value(&name, value)
                    .cost(format!("what it was meant to mend: {spoken}_{ending} is as nginx comes, or as another line says"))
                    .fix(Fix::line(service, value, &right))
                    .weight(0.03)
                    .tell(found);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sick_and_healthy() {
        let text = "events {\n}\nhttp {\n proxy_read_timeout 300s;\n server {\n location / {\n fastcgi_pass unix:/run/php.sock;\n }\n }\n}\n";
        verify(
            &RULE,
            &[(
                Case::healthy().nginx(text),
                Severity::Note,
                "fastcgi_read_timeout 300s",
            )],
        );
    }
}
