//! NGX-24: responses are not taken up before the client reads them.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "NGX-24",
    name: "buffering-off",
    title: "A slow client holds a worker of PHP",
    what_it_is: "nginx takes up what PHP or the next tier answers, so that a worker is free after milliseconds, and \
        hands it to the client at the client's speed. With fastcgi_buffering or proxy_buffering off the worker waits \
        until the client has read all of it: a phone on a slow line holds a worker for seconds.",
    how_it_shows: "All workers are busy in write while the CPU is idle; the more, the slower the clients.",
    unless: "The location streams (server-sent events, long downloads) and has a pool of its own.",
    what_to_write: "fastcgi_buffering on; proxy_buffering on; and off only in the one location that streams.",
    check,
};

const FASTCGI: Directive = Directive {
    home: Home::Site,
    name: "fastcgi_buffering",
    usual: "on",
    beside: &[],
    severity: Severity::Risk,
    costs: held,
    better: |_| "fastcgi_buffering on;".into(),
    weight: 0.2,
};

const PROXY: Directive = Directive {
    home: Home::Site,
    name: "proxy_buffering",
    usual: "on",
    beside: &[],
    severity: Severity::Risk,
    costs: held,
    better: |_| "proxy_buffering on;".into(),
    weight: 0.2,
};

fn held(value: &SettingValue, around: &Around<'_>) -> Option<String> {
    let links = around.snapshot.links.iter();
    let behind = links.filter(|link| link.from == around.at);
    let pools = behind.filter_map(|link| around.snapshot.services.get(link.to));
    let workers: u64 = pools
        .flat_map(|service| &service.pools)
        .filter_map(FpmPool::max_children)
        .sum();
    (value.is_on() == Some(false)).then(|| match workers {
        0 => "a worker of the next tier for as long as a client reads".to_owned(),
        count => format!("{count} clients on slow lines hold all {count} workers of PHP behind it"),
    })
}

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    FASTCGI.check(&RULE, snapshot, found);
    PROXY.check(&RULE, snapshot, found);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sick_and_healthy() {
        verify(
            &RULE,
            &[
                (
                    Case::healthy().nginx_with(
                        "fastcgi_pass unix",
                        "fastcgi_buffering off;\n   fastcgi_pass unix",
                    ),
                    Severity::Risk,
                    "20 clients",
                ),
                (
                    Case::healthy()
                        .nginx_with("sendfile on;", "sendfile on;\n proxy_buffering off;"),
                    Severity::Risk,
                    "proxy_buffering",
                ),
            ],
        );
    }
}
