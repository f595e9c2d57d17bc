//! NGX-18: a request that times out is tried again everywhere.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "NGX-18",
    name: "slow-requests-retried",
    title: "A slow request is sent to every server in turn",
    what_it_is: "When a server of an upstream does not answer in time, nginx asks the next one the same. It does so \
        for as many servers as there are, unless proxy_next_upstream_tries or _timeout says otherwise. A page that \
        is slow everywhere is then computed everywhere, at the moment when there is no time for it once.",
    how_it_shows: "One slow page in the access log of each server behind, one after the other; `no live upstreams` \
        in the end.",
    unless: "Requests are slow because one server is, and not because of what they ask.",
    what_to_write: "proxy_next_upstream error; (without timeout), or proxy_next_upstream_tries 2; \
        proxy_next_upstream_timeout 10s;",
    check,
};

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    for (at, service) in snapshot.of(ServiceKind::Nginx) {
        let Some(nginx) = &service.nginx else {
            continue;
        };
        let mut told: Vec<&str> = Vec::new();
        for pass in &nginx.passes {
            let family = if pass.directive == "fastcgi_pass" {
                "fastcgi"
            } else {
                "proxy"
            };
            let upstream = nginx.upstream_of(pass);
            let Some(upstream) = upstream.filter(|one| one.servers.len() >= 3) else {
                continue;
            };
            let setting = |name: &str, usual: &str| {
                pass.settings
                    .or(&format!("{family}_next_upstream{name}"), usual)
            };
            let when = setting("", "error timeout");
            let bounded = setting("_tries", "0").number() != Some(0.0)
                || setting("_timeout", "0").seconds() != Some(0.0);
            if bounded
                || !when.text.split(' ').any(|word| word == "timeout")
                || told.contains(&upstream.name.as_str())
            {
                continue;
            }
            told.push(&upstream.name);
            let waits = pass.settings.or(&format!("{family}_read_timeout"), "60s");
            let servers = upstream.servers.len();
            let seconds = waits.seconds().unwrap_or(60.0);
            RULE.at(snapshot, at, Severity::Note)
                .value(&format!("{family}_next_upstream"), &when)
                .value(&format!("{family}_read_timeout"), &waits)
                .seen(format!("upstream {} has {servers} servers", upstream.name), String::new())
                .cost(format!(
                    "a page that is slow everywhere is computed {servers} times, for {:.0} s in all",
                    seconds * servers as f64
                ))
                .fix(Fix::beside(service, &when, &format!("{family}_next_upstream_tries 2;\n{family}_next_upstream_timeout 10s;")))
                .weight(0.05)
                .tell(found);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sick_and_healthy() {
        verify(
            &RULE,
            &[(
                Case::healthy().nginx_with(
                    "  server 10.0.0.2:80;\n",
                    "  server 10.0.0.2:80;\n  server 10.0.0.3:80;\n  server 10.0.0.4:80;\n",
                ),
                Severity::Note,
                "for 180 s",
            )],
        );
    }
}
