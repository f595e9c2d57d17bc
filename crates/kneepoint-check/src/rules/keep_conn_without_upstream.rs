//! NGX-07: a directive without effect.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "NGX-07",
    name: "keep-conn-without-upstream",
    title: "fastcgi_keep_conn has no effect here",
    what_it_is: "nginx keeps connections of an `upstream` block that has `keepalive`; since 1.29.7 of every such block that \
        does not say `keepalive 0`. Where fastcgi_pass names a socket or an \
        address itself, fastcgi_keep_conn asks PHP to keep a connection open that nginx then closes.",
    how_it_shows: "A new connection to PHP for each request, although fastcgi_keep_conn is on.",
    unless: "Nobody expects connections to be kept.",
    what_to_write: "An upstream block with `keepalive`, or leave fastcgi_keep_conn out: on a local socket a connection costs little.",
    check,
};

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    for (at, service) in snapshot.of(ServiceKind::Nginx) {
        let Some(nginx) = &service.nginx else {
            continue;
        };
        let pass = nginx.passes.iter().find(|pass| {
            let keep = pass
                .settings
                .get("fastcgi_keep_conn")
                .and_then(SettingValue::is_on);
            let upstream = nginx.upstream_of(pass);
            pass.directive == "fastcgi_pass"
                && keep == Some(true)
                && upstream.is_none_or(|one| service.keepalive_of(one).is_none())
        });
        let Some(pass) = pass else { continue };
        let Some(keep) = pass.settings.get("fastcgi_keep_conn") else {
            continue;
        };
        RULE.at(snapshot, at, Severity::Note)
            .value("fastcgi_keep_conn", keep)
            .value("fastcgi_pass", &pass.target)
            .cost("nothing, but what one expects of it does not happen")
            .fix(Fix::without(service, keep, ""))
            .tell(found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sick_and_healthy() {
        let case = Case::healthy().nginx_with(
            "   fastcgi_pass",
            "   fastcgi_keep_conn on;\n   fastcgi_pass",
        );
        verify(&RULE, &[(case, Severity::Note, "nginx.conf:25")]);
        // A block keeps connections by itself since 1.29.7.
        let block = |version: &str| {
            let case = Case::healthy().nginx(
                "http { upstream php { server unix:/run/php.sock; }\n server {\n fastcgi_keep_conn on;\n location / {\n \
                 fastcgi_pass php; } } }",
            );
            let case = case.with(|all| all.services[0].version = version.into());
            super::super::tests_of(&RULE, &case).len()
        };
        assert_eq!((block("1.28.0"), block("1.29.7")), (1, 0));
    }
}
