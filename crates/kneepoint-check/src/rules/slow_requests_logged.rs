//! FPM-33: the slow log has entries.

use crate::rule::Draft;
use crate::rule::prelude::*;
use crate::snapshot::{SlowLog, SlowPeer};
use kneepoint_model::units::format_share;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "FPM-33",
    name: "slow-requests-logged",
    title: "The slow log has entries: requests take longer than its limit",
    what_it_is: "Each entry is one request that took longer than request_slowlog_timeout, with the line of code at \
        which it was at that moment. The same line again and again is the cause of the wait: a query, a call to \
        another site, a lock.",
    how_it_shows: "`executing too slow (N sec), logging` in PHP-FPM's log, and a stack for each in the file that \
        `slowlog` names: its first line is the innermost call, with the line of code that made it.",
    unless: "They are jobs that are meant to be long.",
    what_to_write: "Count the innermost calls of the stacks, the most frequent first: `grep -A1 script_filename SLOWLOG \
        | grep '^\\[0x' | cut -d' ' -f2- | sort | uniq -c | sort -rn`, where SLOWLOG is the file that `slowlog` of the \
        pool names.",
    check,
};

const LINES: Logged = Logged {
    kinds: &[ServiceKind::Fpm],
    line: LogKind::RequestSlow,
    least: 3,
    severity: Severity::Risk,
    costs: |count| {
        format!(
            "{} that held a worker longer than the limit of the slow log",
            counted(count, "request")
        )
    },
    remedy: "Read the stacks in the file that `slowlog` names: the line that is there most often is what to mend.",
    weight: 0.15,
};

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    let mut read: Vec<CheckFinding> = Vec::new();
    for (at, service, pool) in snapshot.pools() {
        let slow = pool.slow.as_ref();
        if let Some(slow) = slow.filter(|slow| slow.hits.count >= LINES.least) {
            let severity = graded(LINES.severity, service, &slow.hits);
            let draft = RULE.at(snapshot, at, severity).pool(pool);
            of_stacks(draft, slow).tell(&mut read);
        }
    }
    // Of other pools, what PHP-FPM's own log counts.
    let mut lines: Vec<CheckFinding> = Vec::new();
    LINES.check(&RULE, snapshot, &mut lines);
    let is_read = |line: &CheckFinding| {
        let mut same = read.iter().filter(|one| one.service == line.service);
        same.any(|one| one.place == line.place)
    };
    lines.retain(|line| !is_read(line));
    found.extend(read.into_iter().chain(lines));
}

/// What the stacks of a slow log tell.
fn of_stacks(draft: Draft, slow: &SlowLog) -> Draft {
    let path = slow.hits.path.as_str();
    let all = slow.hits.count;
    let of = |count: u64| {
        let share = format_share(count as f64 / all as f64);
        format!("{count} of {all} requests ({share})")
    };
    let mut draft = draft.seen(often(&slow.hits), path);
    for (call, count) in &slow.calls {
        let what = format!("{} were at that moment in {call}", of(*count));
        draft = draft.seen(what, path);
    }
    // What the calls do not say by themselves.
    let own = slow.own.first();
    let is_told = |line: &String| {
        let mut calls = slow.calls.iter();
        calls.any(|(call, _)| call.ends_with(&format!(" at {line}")))
    };
    if let Some((line, count)) = own.filter(|(line, _)| !is_told(line)) {
        let what = format!(
            "{} were then below the application's own line {line}",
            of(*count)
        );
        draft = draft.seen(what, path);
    }
    if let Some((script, count)) = slow.scripts.first() {
        draft = draft.seen(format!("{} were of {script}", of(*count)), path);
    }
    let cost = (LINES.costs)(all);
    let most = slow.peer_of_most();
    let draft = match most {
        Some((peer, count)) => {
            let peer = peer.name();
            let title = format!("Requests are slow: in the slow log most waited for {peer}");
            let waited = format!("{count} of them waited for {peer}, as names in the stacks tell");
            draft.title(title).cost(format!("{cost}; {waited}"))
        }
        None => draft.cost(cost),
    };
    let first = "Mend the line that is there most often.";
    let fix = match most {
        Some((peer, _)) => format!("{first} {}", remedy(peer)),
        None => first.to_owned(),
    };
    draft.fix(Fix::words(fix)).weight(LINES.weight)
}

/// What to look at where requests wait for somebody.
fn remedy(peer: SlowPeer) -> &'static str {
    match peer {
        SlowPeer::Redis => {
            "Keep its connections open (RDS-01), and see what it did then: SLOWLOG GET."
        }
        SlowPeer::Memcached => "Keep its connections open, and ask it less often for one page.",
        SlowPeer::Database => {
            "Look for the query in the database's own slow log, and for locks at that time."
        }
        SlowPeer::Server => {
            "Give the call a time limit, and leave it to a job where the page can do without."
        }
        SlowPeer::Names => "Keep connections open, and let a resolver on this host remember names.",
        SlowPeer::Lock => "Let go of it early: session_write_close() once nothing more is written.",
        SlowPeer::Pause => "Take the pause out of the page, or leave that work to a job.",
        SlowPeer::Program => "Leave what the program does to a job, outside of the page.",
        SlowPeer::Disk => "See what else writes there, and whether each request must wait for it.",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn logged(count: u64) -> Case {
        crate::rule::case::logged(1, LogKind::RequestSlow, 60.0)
            .with(|all| all.services[1].logs[0].count = count)
    }

    #[test]
    fn sick_and_healthy() {
        verify(&RULE, &[(logged(9), Severity::Risk, "9 requests")]);
        assert!(super::super::tests_of(&RULE, &logged(2)).is_empty());
    }

    /// PHP-FPM's log counts nine of the pool; its slow log has this many stacks, of which all but one wait for Redis.
    fn stacks(count: u64) -> Case {
        logged(9).with(|all| {
            let service = &mut all.services[1];
            service.logs[0].pool = Some("www".into());
            let mut hits = service.logs[0].clone();
            hits.count = count;
            hits.path = "/var/log/www.slow".into();
            let call = |name: &str| format!("{name}() at /srv/app/vendor/acme/kit/Client.php:7");
            service.pools[0].slow = Some(SlowLog {
                hits,
                calls: vec![(call("connect"), count - 1), (call("render"), 1)],
                own: vec![("/srv/app/Visits.php:31".into(), count)],
                scripts: vec![("/srv/app/index.php".into(), count)],
                peers: vec![(SlowPeer::Redis, count - 1)],
            });
        })
    }

    #[test]
    fn stacks_tell_the_call_the_line_and_whom_they_waited_for() {
        for words in [
            "7 of 8 requests (88 %) were at that moment in connect() at /srv/app/vendor",
            "8 of 8 requests (100 %) were then below the application's own line /srv/app/Visits.php:31",
            "were of /srv/app/index.php",
            "most waited for Redis",
            "7 of them waited for Redis",
            "RDS-01",
            "/var/log/www.slow",
        ] {
            verify(&RULE, &[(stacks(8), Severity::Risk, words)]);
        }
        let found = |case: Case| super::super::tests_of(&RULE, &case);
        // Of a pool once, though PHP-FPM's own log tells of it, too.
        assert_eq!(found(stacks(8)).len(), 1);
        // A slow log that began anew tells of few: then that other log counts.
        let few = found(stacks(2));
        assert!(few[0].cost.contains("9 requests"), "{few:?}");
        // Nobody is named for whom half did not wait; a line that is told is not told again.
        let other = stacks(8).with(|all| {
            let slow = all.services[1].pools[0].slow.as_mut().expect("a slow log");
            slow.peers[0].1 = 4;
            slow.own[0].0 = "/srv/app/vendor/acme/kit/Client.php:7".into();
        });
        let found = found(other);
        assert_eq!(found[0].title, RULE.title);
        let text = format!("{found:?}");
        assert!(!text.contains("Redis"), "{text}");
        assert!(!text.contains("own line"), "{text}");
    }
}
