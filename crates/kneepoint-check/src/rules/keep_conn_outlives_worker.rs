//! FPM-11: kept connections outlive their workers.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "FPM-11",
    name: "keep-conn-outlives-worker",
    title: "Connections that nginx keeps end with the worker behind them",
    what_it_is: "A worker of PHP-FPM ends after pm.max_requests requests, and the connection that nginx keeps to it ends \
        with it. Where nginx may use a connection for more requests than that, its next request meets a closed connection: \
        it fails, or nginx has to try again.",
    how_it_shows: "`recv() failed (104: Connection reset by peer)` in the error log of nginx, at a steady small rate.",
    unless: "All requests are GET or HEAD: nginx tries these again by itself, unless a response had begun.",
    what_to_write: "keepalive_requests in the upstream equal to pm.max_requests, or pm.max_requests = 0.",
    check,
};

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    let askers = Askers::of(snapshot);
    for (link, web, _, pool) in snapshot.links_to_pools() {
        let Some(nginx) = &web.nginx else { continue };
        let ends = pool.settings.or("pm.max_requests", "0");
        let Some(after) = ends.number().filter(|count| *count > 0.0) else {
            continue;
        };
        let kept = askers.passes(link).iter().find_map(|pass| {
            let keeps = pass.settings.get("fastcgi_keep_conn")?.is_on() == Some(true);
            let upstream = nginx.upstream_of(pass)?;
            web.keepalive_of(upstream).filter(|_| keeps)?;
            web.keepalive_requests_of(upstream)
        });
        let Some(kept) = kept.filter(|value| value.number() > Some(after)) else {
            continue;
        };
        RULE.at(snapshot, link.from, Severity::Risk)
            .value("pm.max_requests", &ends)
            .value("keepalive_requests", &kept)
            .cost(format!(
                "an error or a second try once in {after:.0} requests of each worker"
            ))
            .fix(Fix::line(
                web,
                &kept,
                &format!("keepalive_requests {after:.0}; (in the upstream)"),
            ))
            .weight(0.08)
            .tell(found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sick_and_healthy() {
        let text = "events {\n}\nhttp {\n upstream php {\n server unix:/run/php.sock;\n keepalive 4;\n }\n server {\n location / {\n \
            fastcgi_keep_conn on;\n fastcgi_pass php;\n }\n }\n}\n";
        let kept = |version: &str| {
            let case = Case::healthy().nginx(text);
            let case = case.with(|all| all.services[0].version = version.into());
            case.pool_with("pm.max_requests = 500", "")
        };
        verify(&RULE, &[(kept("1.22.1"), Severity::Risk, "once in 500")]);
        // It closes the connection itself, after 100 requests.
        assert!(super::super::tests_of(&RULE, &kept("1.18.0")).is_empty());
    }
}
