//! What could not be looked at, and what would let it be seen.

use super::{CheckOptions, Master};
use crate::snapshot::{Blind, Container, ServiceKind, Snapshot};
use kneepoint_model::units::format_ms;
use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

/// Most names that a sentence lists.
const NAMES: usize = 20;
const AS_ROOT: &str = "run the check as root: sudo kneepoint check";

/// Whether a process is there and its files may not be seen: it is another user's.
pub(super) fn is_foreign(pid: u32) -> bool {
    let root = std::fs::read_link(format!("/proc/{pid}/root"));
    root.is_err_and(|error| error.kind() == ErrorKind::PermissionDenied)
}

/// The services of other users, in one sentence.
pub(super) fn of_others(mut foreign: Vec<(ServiceKind, u32)>) -> Option<Blind> {
    foreign.sort_unstable();
    let names = called(&foreign);
    let why = match names.as_slice() {
        [] => return None,
        [_] => "it runs as another user: its settings, files and sockets may not be read",
        _ => "they run as other users: their settings, files and sockets may not be read",
    };
    Some(Blind::new(listed(&names), why, AS_ROOT).weighing())
}

/// That `/proc` shows no process of others at all.
pub(super) fn hidden() -> Option<Blind> {
    let is_hidden = !rustix::process::geteuid().is_root() && !Path::new("/proc/1").exists();
    is_hidden.then(|| {
        let why = "/proc does not show them (hidepid)";
        Blind::new("services of other users", why, AS_ROOT).weighing()
    })
}

/// The services that took longer than there was time.
pub(super) fn too_late(services: &[(ServiceKind, u32)], budget: Duration) -> Option<Blind> {
    /// What is enough for most, in seconds.
    const LONG_S: u64 = 30;
    let said = format_ms(budget.as_secs_f64() * 1000.0);
    let why = match services.len() {
        0 => return None,
        1 => format!("it could not be read within {said}, or ended meanwhile"),
        _ => format!("they could not be read within {said}, or ended meanwhile"),
    };
    let more = LONG_S.max(budget.as_secs().saturating_mul(2));
    let remedy = format!("ask again with --budget {more}s");
    Some(Blind::new(listed(&called(services)), why, remedy).weighing())
}

/// Directories of which no answer came in time.
pub(super) fn silent(what: &str, dirs: BTreeSet<String>, budget: Duration) -> Option<Blind> {
    let dirs: Vec<String> = dirs.into_iter().collect();
    let said = format_ms(budget.as_secs_f64() * 1000.0);
    let (what, why) = match dirs.as_slice() {
        [] => return None,
        [dir] => (format!("the {what} in {dir}"), "it did not answer"),
        _ => (
            format!("what is in {} ({what})", listed(&dirs)),
            "these did not answer",
        ),
    };
    let remedy = "see whether its file system answers: `stat` on it by hand; or give the check more time: --budget";
    Some(Blind::new(what, format!("{why} within {said}"), remedy).weighing())
}

/// The services that are more than are looked at at once.
pub(super) fn beyond(services: &[Master], most: usize) -> Option<Blind> {
    let services: Vec<(ServiceKind, u32)> =
        services.iter().map(|one| (one.kind, one.pid())).collect();
    let first = services.first()?;
    let why = format!(
        "there are {} services, and only {most} are looked at in one check",
        most + services.len()
    );
    let remedy = format!(
        "narrow the check: --container NAME, or --pid {} for this one",
        first.1
    );
    Some(Blind::new(listed(&called(&services)), why, remedy).weighing())
}

/// A process that is called like a server program and runs another.
pub(super) fn stranger(kind: ServiceKind, pid: u32) -> Blind {
    Blind::new(
        format!("process {pid}"),
        format!("it is called like {kind}, and its program is another: it is not judged"),
        "none, where that is meant; else see what it runs: `ls -l /proc/PID/exe`"
            .replace("PID", &pid.to_string()),
    )
}

fn called(services: &[(ServiceKind, u32)]) -> Vec<String> {
    let names = services.iter();
    names
        .map(|(kind, pid)| format!("{kind} (process {pid})"))
        .collect()
}

/// What the options name and nobody has, with what there is instead.
pub(super) fn missing(snapshot: &Snapshot, options: &CheckOptions) -> Vec<Blind> {
    let mut found = Vec::new();
    if let Some(name) = &options.pool {
        let names: Vec<String> = snapshot
            .pools()
            .map(|(_, _, pool)| pool.name.clone())
            .collect();
        if !names.contains(name) {
            found.push(lacks("pool", name, "--pool", names));
        }
    }
    if let Some(name) = &options.container {
        let places = snapshot.services.iter().map(|service| &service.place);
        let containers = || places.clone().filter_map(|place| place.container.as_ref());
        if !containers().any(|container| container.is_named(name)) {
            let names = containers().flat_map(Container::names);
            let names = names.map(str::to_owned).collect();
            found.push(lacks("container", name, "--container", names));
        }
    }
    if let Some(dir) = &options.app
        && !snapshot.apps.iter().any(|app| app.is_around(dir))
    {
        let roots = snapshot.apps.iter().map(|app| app.root.clone());
        let dir = dir.trim_end_matches('/');
        found.push(lacks("application", dir, "--app", roots.collect()));
    }
    found
}

fn lacks(what: &str, name: &str, option: &str, mut known: Vec<String>) -> Blind {
    known.sort();
    known.dedup();
    let (why, remedy) = match known.first() {
        None => (
            format!("no {what} was found at all"),
            format!("leave {option} out"),
        ),
        Some(first) => (
            format!("there is none of that name; there are: {}", listed(&known)),
            format!("name one of them: {option} {first}"),
        ),
    };
    Blind::new(format!("{what} {name}"), why, remedy).weighing()
}

fn listed(names: &[String]) -> String {
    let told: Vec<&str> = names.iter().take(NAMES).map(String::as_str).collect();
    match names.len().saturating_sub(NAMES) {
        0 => told.join(", "),
        more => format!("{} and {more} more", told.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::case::Case;

    #[test]
    fn services_of_others_are_one_sentence() {
        let foreign = vec![(ServiceKind::Redis, 9), (ServiceKind::Nginx, 7)];
        let blind = of_others(foreign).expect("two");
        assert_eq!(blind.what, "nginx (process 7), redis (process 9)");
        assert!(blind.weighs && blind.remedy.contains("sudo"), "{blind:?}");
        assert_eq!(of_others(Vec::new()), None);
        // One's own files may be seen, and who is gone is nobody's.
        assert!(!is_foreign(std::process::id()) && !is_foreign(u32::MAX));
    }

    #[test]
    fn services_beyond_a_bound_are_counted() {
        let master = |pid| Master {
            kind: ServiceKind::Redis,
            process: crate::process::ServiceProcess {
                pid,
                ..Default::default()
            },
            workers: Vec::new(),
            parent: None,
        };
        let many: Vec<Master> = (1..=40).map(master).collect();
        let blind = beyond(&many, 500).expect("many");
        assert!(blind.what.ends_with("redis (process 20) and 20 more"));
        assert!(
            blind.why.contains("540 services, and only 500"),
            "{blind:?}"
        );
        assert!(blind.remedy.contains("--container") && blind.remedy.contains("--pid 1 "));
        assert_eq!(beyond(&[], 500), None);
    }

    #[test]
    fn directories_that_do_not_answer_are_one_sentence() {
        let told = |dirs: &[&str]| {
            let dirs = dirs.iter().map(|dir| (*dir).to_owned());
            silent("application", dirs.collect(), Duration::from_secs(5))
        };
        assert_eq!(told(&[]), None);
        let one = told(&["/srv/a"]).expect("one");
        assert_eq!(one.what, "the application in /srv/a");
        assert_eq!(one.why, "it did not answer within 5 s");
        assert!(told(&["/a", "/b"]).expect("two").what.contains("/a, /b"));
    }

    #[test]
    fn a_time_is_told_as_it_was_given() {
        let one = [(ServiceKind::Nginx, 7)];
        let blind = too_late(&one, Duration::from_millis(1)).expect("one");
        assert!(blind.why.contains("within 1.00 ms,"), "{}", blind.why);
        assert_eq!(blind.remedy, "ask again with --budget 30s");
        let blind = too_late(&one, Duration::from_secs(40)).expect("one");
        assert!(blind.why.contains("within 40 s,"), "{}", blind.why);
        assert_eq!(blind.remedy, "ask again with --budget 80s");
    }

    #[test]
    fn who_asks_for_what_is_not_there_is_told_what_is() {
        let asked = |change: fn(&mut CheckOptions)| {
            let mut options = CheckOptions::default();
            change(&mut options);
            missing(&Case::healthy().0, &options)
        };
        let found = asked(|options| options.pool = Some("nosuch".into()));
        assert_eq!(found[0].what, "pool nosuch");
        assert_eq!(found[0].why, "there is none of that name; there are: www");
        assert_eq!(found[0].remedy, "name one of them: --pool www");
        assert_eq!(asked(|options| options.pool = Some("www".into())), []);
        let found = asked(|options| options.container = Some("shop".into()));
        assert_eq!(found[0].why, "no container was found at all");
        let mut case = Case::healthy().0;
        case.services[0].place.container = Some(Container {
            id: "0123456789abcdef".into(),
            runtime: crate::snapshot::Runtime::Docker,
            name: Some("/shop".into()),
            compose_service: None,
            in_pod: false,
        });
        for (name, is_there) in [("sho", true), ("0123456789abcd", true), ("shop2", false)] {
            let options = CheckOptions {
                container: Some(name.into()),
                ..CheckOptions::default()
            };
            assert_eq!(missing(&case, &options).is_empty(), is_there, "{name}");
        }
        let found = asked(|options| options.app = Some("/nowhere".into()));
        assert!(found[0].why.contains("/srv/app"), "{found:?}");
        assert_eq!(asked(|options| options.app = Some("/srv/app/".into())), []);
        let many: Vec<String> = (0..30).map(|at| at.to_string()).collect();
        assert!(listed(&many).ends_with("19 and 10 more"));
    }
}
