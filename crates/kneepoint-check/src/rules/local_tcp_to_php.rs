//! FPM-31: a local pool is asked over TCP.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "FPM-31",
    name: "local-tcp-to-php",
    title: "nginx asks the PHP beside it over TCP",
    what_it_is: "nginx and PHP-FPM on one host can talk over a Unix socket. Over 127.0.0.1 each request is a connection of \
        TCP: a handshake, and a local port. Where net.ipv4.tcp_tw_reuse is 0 the port stays taken for a minute, so that from \
        some hundred requests a second on ports run short; with 2, the default, or 1 it is taken again after a second. And \
        where PHP's queue is full, a Unix socket gives an error at once, while TCP lets the client wait without a word.",
    how_it_shows: "Connections in TIME_WAIT to 127.0.0.1:9000 in `ss -tan`: thousands, where ports are not taken again.",
    unless: "The rate stays below some hundred requests a second.",
    what_to_write: "listen = /run/php/site.sock in the pool, and fastcgi_pass unix:/run/php/site.sock; in nginx.",
    check,
};

const HANDSHAKE: &str = "a handshake and a local port for each request";
const SLOW: &str = "above some 235 a second (half of 28 232 ports in 60 s) connecting becomes slow";

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    let mut told = Vec::new();
    let by_tcp = snapshot
        .links_to_pools()
        .filter(|(link, ..)| link.by.is_tcp());
    for (link, web, php, pool) in by_tcp {
        // A socket needs a directory that both see.
        let apart = web.place.net != php.place.net
            || web.place.container.is_some()
            || php.place.container.is_some();
        let key = (link.to, &pool.name);
        if web.kind != ServiceKind::Nginx || apart || told.contains(&key) {
            continue;
        }
        told.push(key);
        let waiting = web
            .time_wait
            .get(&link.by.to_string())
            .copied()
            .unwrap_or(0);
        let cost = match super::local_ports::is_taken_again(web, &link.by) {
            true => HANDSHAKE.to_owned(),
            false => format!("{HANDSHAKE}: {SLOW}"),
        };
        RULE.at(snapshot, link.to, Severity::Note)
            .pool(pool)
            .value("listen", &pool.settings.or("listen", "127.0.0.1:9000"))
            .seen(format!("nginx asks it at {} ({} in TIME_WAIT)", link.by, counted(waiting, "connection")), link.how.clone())
            .cost(cost)
            .fix(Fix::words(format!(
                "In the pool write listen = /run/php/{}.sock with listen.owner of nginx's user, and in nginx fastcgi_pass unix:/run/php/{}.sock;",
                pool.name, pool.name
            )))
            .weight(0.05)
            .tell(found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sick_and_healthy() {
        let tcp = Case::healthy().with(|all| {
            all.links[0].by = crate::snapshot::ListenEndpoint::Tcp("127.0.0.1".into(), 9000);
        });
        let apart = tcp.clone().with(|all| all.services[1].place.net = 7);
        let kept = tcp.clone().kernel(0, "net.ipv4.tcp_tw_reuse", "0");
        let told = super::super::tests_of(&RULE, &tcp);
        assert_eq!(told[0].cost, HANDSHAKE, "the port is taken again");
        verify(
            &RULE,
            &[
                (tcp, Severity::Note, "127.0.0.1:9000"),
                (kept, Severity::Note, "above some 235 a second"),
            ],
        );
        assert!(super::super::tests_of(&RULE, &apart).is_empty());
    }
}
