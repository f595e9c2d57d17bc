//! NGX-28: the next tier closes kept connections first.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "NGX-28",
    name: "kept-longer-than-peer",
    title: "nginx keeps connections longer than the server behind it",
    what_it_is: "nginx keeps idle connections to the next tier for the keepalive_timeout of its upstream, 60 s as it \
        comes. The server there closes an idle connection after a time of its own: 5 s for Apache. In between, nginx \
        sends a request into a connection that is being closed: an error, or a second try.",
    how_it_shows: "`upstream prematurely closed connection` or `(104: Connection reset by peer)` in the error log at \
        low load, at random.",
    unless: "All requests are GET or HEAD: nginx then tries again by itself.",
    what_to_write: "keepalive_timeout 4s; in the upstream: less than the server behind it waits.",
    check,
};

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    for link in &snapshot.links {
        let (Some(web), Some(next)) = (
            snapshot.services.get(link.from),
            snapshot.services.get(link.to),
        ) else {
            continue;
        };
        let (directive, usual) = match next.kind {
            ServiceKind::Apache => ("keepalivetimeout", "5"),
            ServiceKind::Nginx => ("keepalive_timeout", "75s"),
            _ => continue,
        };
        let to = link.by.to_string();
        let mut upstreams = web.nginx.iter().flat_map(|nginx| &nginx.upstreams);
        let upstream = upstreams.find(|one| {
            let named = |server: &SettingValue| server.text.split(' ').next() == Some(to.as_str());
            web.keepalive_of(one).is_some() && one.servers.iter().any(named)
        });
        let Some(upstream) = upstream else { continue };
        let kept = upstream.settings.or("keepalive_timeout", "60s");
        let closed = next.settings.or(directive, usual);
        let first = |value: &SettingValue| {
            let word = value.text.split(' ').next().unwrap_or_default();
            SettingValue::new(word, SettingSource::Default).seconds()
        };
        let (Some(kept_s), Some(closed_s)) = (first(&kept), first(&closed)) else {
            continue;
        };
        if kept_s <= closed_s {
            continue;
        }
        RULE.at(snapshot, link.from, Severity::Risk)
            .value("keepalive_timeout", &kept)
            .value(&format!("{directive} of {}", next.kind), &closed)
            .cost(format!("errors of requests that meet a connection between {closed_s:.0} and {kept_s:.0} s of idleness"))
            .fix(Fix::line(web, &kept, &format!("keepalive_timeout {:.0}s; (in upstream {})", (closed_s * 0.8).max(1.0), upstream.name)))
            .weight(0.07)
            .tell(found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sick_and_healthy() {
        let apache = |case: Case| {
            case.with(|all| {
                all.services.push(Service::new(ServiceKind::Apache, 9));
                let mut link = all.links[0].clone();
                link.to = 5;
                link.by = crate::snapshot::ListenEndpoint::Tcp("10.0.0.2".into(), 80);
                all.links.push(link);
            })
        };
        // nginx keeps connections by itself since 1.29.7.
        let newer = Case::healthy().nginx_with("  keepalive 64;\n", "");
        let newer = newer.with(|all| all.services[0].version = "1.29.7".into());
        verify(
            &RULE,
            &[
                (
                    apache(Case::healthy()),
                    Severity::Risk,
                    "between 5 and 60 s",
                ),
                (apache(newer), Severity::Risk, "between 5 and 60 s"),
            ],
        );
    }
}
