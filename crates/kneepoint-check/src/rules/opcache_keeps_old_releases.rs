//! OPC-07: OPcache keeps scripts of releases that are served no more.

use super::opcache_memory_small::{bytes, is_nearly_full};
use crate::rule::prelude::*;
use crate::snapshot::CachedRelease;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "OPC-07",
    name: "opcache-keeps-old-releases",
    title: "OPcache still keeps the scripts of old releases",
    what_it_is: "A deployment into a new directory gives every script a new path. OPcache keeps those of the old paths, \
        and does not count them as wasted: nothing tells it that nobody asks for them. Each deployment takes as much of \
        its memory and of its keys as a whole application. When OPcache is full, PHP compiles new files again on every \
        request. `$realpath_root` in nginx leads requests to the new release at once, and frees nothing.",
    how_it_shows: "opcache_get_status()['scripts'] has paths of older releases (named from 20 such scripts on); \
        used_memory grows with each deployment, and wasted_memory stays 0.",
    unless: "PHP-FPM is restarted often for another reason, or several releases are served on purpose.",
    what_to_write: "A reload of PHP-FPM at the end of each deployment, such as `systemctl reload php8.2-fpm`: it starts with \
        an empty OPcache.",
    check,
};

/// Fewer scripts take little room, and may be of anything \[ours\].
const FEW: u64 = 20;
/// Directories that are named.
const NAMED: usize = 3;
const REMEDY: &str = "Have each deployment end with a reload of PHP-FPM: it starts with an empty OPcache. Requests may go on \
    for process_control_timeout, and are cut then (at once by default). Reload it once now as well.";
const FULL: &str = "OPcache is full or nearly so, in part with what nobody asks for: what does not fit is compiled for every \
    request";

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    for (at, service) in snapshot.with_opcache() {
        let Some(php) = &service.php else { continue };
        let old = php.releases.iter().filter(|one| one.is_old);
        let old: Vec<&CachedRelease> = old.collect();
        let scripts: u64 = old.iter().map(|one| one.scripts).sum();
        if scripts < FEW {
            continue;
        }
        let value = php.ini.or("opcache.memory_consumption", "128");
        let full = php.opcache.filter(|state| {
            let near = bytes(&value).is_some_and(|bytes| is_nearly_full(*state, bytes));
            near || state.exhausted || state.keys >= state.most_keys
        });
        let all = php.opcache.map(|state| format!(" of {}", state.scripts));
        let all = all.unwrap_or_default();
        let releases = counted(old.len() as u64, "old release");
        let said = format!("{scripts}{all} scripts are of {releases}");
        let draft = RULE.at(snapshot, at, Severity::Note);
        let mut draft = draft.seen(said, names(&old));
        if let Some(state) = full {
            let (free, keys) = (format_bytes(state.free_bytes), state.keys);
            let said = format!("{free} free, {keys} of {} keys taken", state.most_keys);
            let source = format!("OPcache's memory, of process {}", service.pid);
            draft = draft.severity(Severity::Risk).seen(said, source);
        }
        draft
            .cost(match full.is_some() {
                true => FULL,
                false => "each deployment takes as much again, until OPcache is full and the rest is compiled for every request",
            })
            .fix(Fix::reload(service, REMEDY.into()))
            .weight(if full.is_some() { 0.3 } else { 0.05 })
            .tell(found);
    }
}

/// The directories of releases, or the first of them.
fn names(old: &[&CachedRelease]) -> String {
    let first = old.iter().take(NAMED).map(|one| one.dir.as_str());
    let first: Vec<&str> = first.collect();
    match old.len().saturating_sub(NAMED) {
        0 => first.join(", "),
        more => format!("{} and {more} more", first.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// OPcache with these releases of a shop, and how much of each.
    fn with(case: Case, releases: &[(&str, u64, bool)]) -> Case {
        let of = |(name, scripts, is_old): &(&str, u64, bool)| CachedRelease {
            dir: format!("/srv/shop/releases/{name}"),
            scripts: *scripts,
            is_old: *is_old,
        };
        case.with(|all| {
            let php = all.services[1].php.as_mut().expect("PHP");
            php.releases = releases.iter().map(of).collect();
        })
    }

    #[test]
    fn sick_and_healthy() {
        let roomy = || Case::healthy().opcache(|state| state.scripts = 1000);
        let full = Case::healthy().opcache(|state| state.free_bytes = 1 << 20);
        let two = [("7", 300, true), ("8", 200, true), ("9", 400, false)];
        let said = "500 of 1000 scripts are of 2 old releases";
        verify(
            &RULE,
            &[
                (with(roomy(), &two), Severity::Note, said),
                (with(roomy(), &two), Severity::Note, "kill -USR2 13"),
                (with(full.clone(), &two), Severity::Risk, "1.0 MiB free"),
                (with(full, &two), Severity::Risk, "full or nearly so"),
                (with(Case::healthy(), &two), Severity::Note, "500 scripts"),
            ],
        );
        assert!(RULE.how_it_shows.contains(&format!("from {FEW} such")));
        let many = ["1", "2", "3", "4", "5"].map(|name| (name, 9, true));
        let found = super::super::tests_of(&RULE, &with(roomy(), &many));
        assert!(found[0].seen[0].source.ends_with("/3 and 2 more"));
        for healthy in [
            [("7", 0, true), ("8", 500, false)],
            [("7", 500, false), ("8", 500, false)],
            [("7", 19, true), ("8", 500, false)],
        ] {
            let case = with(roomy(), &healthy);
            assert!(super::super::tests_of(&RULE, &case).is_empty());
        }
    }
}
