//! NGX-15: the accept queue of a server is short or filling.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "NGX-15",
    name: "listener-queue-short",
    title: "The queue before a server is short",
    what_it_is: "A connection waits in the listener's queue until the server accepts it. Each server asks for a \
        length (nginx and Apache for 511, Redis by tcp-backlog for 511, MariaDB by back_log), and the kernel cuts it to \
        net.core.somaxconn: 128 on older kernels and in some images. When the queue is full, connections are dropped \
        without a line in a log.",
    how_it_shows: "`ss -ltn` shows a small Send-Q, and Recv-Q near it under load; some clients wait for one or three \
        seconds.",
    unless: "Connections come from a proxy that keeps a few open.",
    what_to_write: "net.core.somaxconn = 4096 in that network namespace where the kernel cuts it; tcp-backlog 511 for \
        Redis, ListenBacklog 511 for Apache, back_log = 512 for MariaDB, listen_backlog = 511 for PgBouncer where they ask for \
        less; then restart the server.",
    check,
};

/// What nginx, Apache and Redis ask for.
const ASKED: u64 = 511;

/// The directive by which a server asks for the length of its queue, what it asks for where none is written, and a line
/// that asks for enough. MariaDB and PostgreSQL ask for less by themselves, by max_connections.
fn asked(kind: ServiceKind) -> Option<(&'static str, &'static str, &'static str)> {
    match kind {
        ServiceKind::Redis => Some(("tcp-backlog", "511", "tcp-backlog 511")),
        ServiceKind::Apache => Some(("listenbacklog", "511", "ListenBacklog 511")),
        ServiceKind::Mysql => Some(("back_log", "0", "back_log = 512")),
        ServiceKind::Pgbouncer => Some(("listen_backlog", "128", "listen_backlog = 511")),
        _ => None,
    }
}

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    for (at, service) in snapshot.services.iter().enumerate() {
        // Of pools of PHP another rule tells, with their own directive.
        if service.kind == ServiceKind::Fpm {
            continue;
        }
        // Workers of PHP connect to a database, and hardly more than half of them at once [ours].
        let needed = match service.kind {
            ServiceKind::Mysql | ServiceKind::Postgresql | ServiceKind::Pgbouncer => {
                (snapshot.workers_behind(at).unwrap_or(0) / 2).min(ASKED)
            }
            // It asks for as many as it takes connections: of few of those another rule tells.
            ServiceKind::Haproxy => {
                let most = service.settings.get("global maxconn");
                let most = most.and_then(SettingValue::number);
                most.map_or(ASKED, |most| ASKED.min(most as u64))
            }
            _ => ASKED,
        };
        // Both open Unix sockets for little: `stats socket` of HAProxy asks for 10, mod_cgid of Apache for 100.
        let is_tcp_only = matches!(service.kind, ServiceKind::Haproxy | ServiceKind::Apache);
        let listens = service.listens.iter();
        let queues = listens.filter_map(|one| Some((one, one.queue?)));
        let worst = queues
            .filter(|(one, (length, limit))| {
                let is_judged = one.endpoint.is_tcp() || !is_tcp_only;
                (is_judged && *limit < needed) || length * 2 > *limit
            })
            .max_by(|a, b| (a.1.0 * b.1.1.max(1)).cmp(&(b.1.0 * a.1.1.max(1))));
        let Some((listener, (length, limit))) = worst else {
            continue;
        };
        let filling = length * 2 > limit;
        let somaxconn = service.kernel.or("net.core.somaxconn", "4096");
        let mut draft = RULE
            .at(
                snapshot,
                at,
                if filling {
                    Severity::Problem
                } else {
                    Severity::Risk
                },
            )
            .seen(
                format!(
                    "{length} of {limit} connections wait at {}",
                    listener.endpoint
                ),
                "the kernel's accept queue",
            )
            .value("net.core.somaxconn", &somaxconn);
        if let Some((name, _, _)) = asked(service.kind)
            && let Some(value) = service.settings.get(name)
        {
            draft = draft.value(name, value);
        }
        draft
            .cost(cost(length, limit, listener.endpoint.is_tcp()))
            .fix(longer(service, limit, &somaxconn))
            .weight(if filling { 0.5 } else { 0.1 })
            .tell(found);
    }
}

fn cost(length: u64, limit: u64, is_tcp: bool) -> String {
    let beyond = match is_tcp {
        true => "connections are dropped, and come again after 1 s and 3 s",
        false => "a connection waits, or fails at once where its client does not wait",
    };
    match length * 2 > limit {
        true => format!("{length} clients wait right now, and above {limit} {beyond}"),
        false => format!("in a burst above {limit} {beyond}"),
    }
}

/// The kernel cuts what a server asks for; where the queue is shorter than the kernel allows, the server asked for that.
fn longer(service: &Service, limit: u64, somaxconn: &SettingValue) -> Fix {
    let most = somaxconn.number().unwrap_or(0.0);
    if limit as f64 >= most {
        return super::larger_sysctl(
            service,
            "net.core.somaxconn",
            4096,
            "A longer queue lets clients wait longer, and helps none: `kneepoint watch` shows what PHP waits for.",
        );
    }
    if limit >= ASKED {
        return Fix::words(
            "See why it does not accept: `kneepoint watch` shows what PHP waits for. A longer queue lets clients wait longer, and helps none.",
        );
    }
    let wanted = asked(service.kind).map(|(name, usual, _)| service.settings.or(name, usual));
    // What it was started with is not known: it may ask for as little as that.
    if let (true, Some((name, _, line))) = (service.settings_hidden, asked(service.kind)) {
        return Fix::words(format!(
            "Nothing here tells what it was started with. Look for {name} in its file and on its command line: where it is less, \
             write {line}, and start it anew. Where it is not, start it anew: a queue keeps the length with which it was opened."
        ));
    }
    if wanted
        .and_then(|value| value.number())
        .is_some_and(|wanted| wanted > limit as f64)
    {
        return Fix::restarted(
            service,
            "The kernel would give it more by now, but a queue keeps the length with which it was opened.",
        );
    }
    match (asked(service.kind), service.kind) {
        (Some((name, usual, line)), _) => {
            Fix::line(service, &service.settings.or(name, usual), line)
        }
        (None, ServiceKind::Nginx) => Fix::reload(
            service,
            "At its `listen`, take `backlog=` away, or write backlog=511.".into(),
        ),
        (None, ServiceKind::Haproxy) => {
            Fix::words("In its frontend or in defaults: backlog 511; then restart HAProxy.")
        }
        (None, ServiceKind::Postgresql) => Fix::words(format!(
            "Put PgBouncer before it, which takes bursts: PostgreSQL asks for a queue of {limit} by itself."
        )),
        (None, _) => Fix::words("Raise its own setting for the backlog to 511; then restart it."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A service with so many connections in the queue of its port, of so many that may be.
    fn queued(case: Case, service: usize, queue: (u64, u64)) -> Case {
        case.with(|all| {
            all.services[service].listens = vec![crate::snapshot::Listener {
                endpoint: crate::snapshot::ListenEndpoint::Tcp("*".into(), 80),
                queue: Some(queue),
            }];
        })
    }

    #[test]
    fn pgbouncer_asks_for_few_and_is_told_how_to_ask_for_more() {
        let pooler = crate::rule::case::pgbouncer(&[("listen_backlog", "8")]);
        let case = queued(pooler, 5, (0, 8));
        let line = "change this setting to: listen_backlog = 511";
        verify(&RULE, &[(case.clone(), Severity::Risk, line)]);
        verify(&RULE, &[(case, Severity::Risk, "Restart PgBouncer")]);
    }

    #[test]
    fn sick_and_healthy() {
        let of = |service, length, limit| queued(Case::healthy(), service, (length, limit));
        let queue = |length, limit| of(0, length, limit);
        let redis = |limit| of(2, 0, limit);
        verify(
            &RULE,
            &[
                (queue(0, 128), Severity::Risk, "above 128"),
                (
                    queue(0, 128).kernel(0, "net.core.somaxconn", "128"),
                    Severity::Risk,
                    "Run `sysctl -p /etc/sysctl.d/zz-kneepoint.conf`, then restart nginx",
                ),
                (queue(400, 511), Severity::Problem, "400 of 511"),
                // The kernel cuts what Redis asks for, or Redis asks for little.
                (
                    redis(128).kernel(2, "net.core.somaxconn", "128"),
                    Severity::Risk,
                    "sysctl.d/zz-kneepoint.conf",
                ),
                (
                    redis(64).set(2, "tcp-backlog", "64"),
                    Severity::Risk,
                    "change this setting to: tcp-backlog 511",
                ),
                // Nobody wrote less, and the kernel allows more: it was opened before.
                (
                    redis(128),
                    Severity::Risk,
                    "keeps the length with which it was opened",
                ),
                // MariaDB asks for 80 by itself; that is short where more workers may come at once.
                (
                    of(3, 0, 8).set(3, "back_log", "8"),
                    Severity::Risk,
                    "back_log = 512",
                ),
            ],
        );
        assert!(super::super::tests_of(&RULE, &of(3, 0, 80)).is_empty());
        let haproxy = |limit| {
            let queue = of(0, 0, limit).with(|all| all.services[0].kind = ServiceKind::Haproxy);
            queue.set(0, "global maxconn", "500")
        };
        assert!(super::super::tests_of(&RULE, &haproxy(500)).is_empty());
        assert_eq!(super::super::tests_of(&RULE, &haproxy(128)).len(), 1);
        // Sockets of their own are short on purpose, and told when they fill.
        let own = |kind, length| {
            let socket = crate::snapshot::ListenEndpoint::Unix("/run/own.sock".into());
            let case = of(0, length, 10).with(|all| {
                all.services[0].kind = kind;
                all.services[0].listens[0].endpoint = socket;
            });
            super::super::tests_of(&RULE, &case).len()
        };
        assert_eq!(own(ServiceKind::Haproxy, 0), 0);
        assert_eq!(own(ServiceKind::Apache, 0), 0);
        assert_eq!(own(ServiceKind::Haproxy, 8), 1);
        assert!(super::super::tests_of(&RULE, &of(4, 0, 200)).is_empty());
        assert!(super::super::tests_of(&RULE, &queue(3, 511)).is_empty());
    }
}
