//! Findings that say the same of several places: told once, with all of them.

use crate::rule::{CheckFinding, Severity};
use std::collections::{BTreeMap, HashMap, HashSet};

/// Places of findings that differ in what was seen, and are told one by one.
const PLACES: usize = 3;

/// One finding instead of many that say the same of many places: of one service, where the very same was seen; of more than
/// [`PLACES`] places whatever was seen.
pub(super) fn grouped(findings: Vec<CheckFinding>) -> Vec<CheckFinding> {
    let mut counts: BTreeMap<_, usize> = BTreeMap::new();
    findings
        .iter()
        .for_each(|one| *counts.entry(key(one)).or_default() += 1);
    let many: Vec<bool> = findings
        .iter()
        .map(|one| counts[&key(one)] > PLACES)
        .collect();
    let mut kept = Kept::default();
    for (finding, many) in findings.into_iter().zip(many) {
        kept.take(finding, many);
    }
    kept.all
}

/// Findings that are told, and those among them that others may join: looked up, as there may be thousands of a kind.
#[derive(Default)]
struct Kept {
    all: Vec<CheckFinding>,
    /// By what they say: of each place the first.
    like: HashMap<Key, Vec<usize>>,
    /// What each of them holds already: places, and pieces of its file.
    held: HashMap<usize, (HashSet<String>, HashSet<String>)>,
}

type Key = (&'static str, Severity, String);

impl Kept {
    fn take(&mut self, finding: CheckFinding, many: bool) {
        let key = (finding.rule, finding.severity, finding.title.clone());
        let like = self.like.entry(key).or_default();
        let first = like.iter().copied().find(|at| {
            let one = &self.all[*at];
            (many || is_same(one, &finding)) && one.place != finding.place
        });
        if let Some(at) = first {
            let held = self.held.entry(at).or_default();
            return join(&mut self.all[at], finding, held);
        }
        let at = self.all.len();
        // Of many, one of any other place than the first takes all that the first cannot.
        let is_new = |at: &usize| self.all[*at].place != finding.place;
        if !many || like.iter().all(is_new) {
            like.push(at);
        }
        self.all.push(finding);
    }
}

/// What findings say the same by.
fn key(one: &CheckFinding) -> (&str, Severity, &str) {
    (one.rule, one.severity, &one.title)
}

/// Whether the same was seen of the same service, and the same is to be done: in one file, where there is one.
fn is_same(one: &CheckFinding, other: &CheckFinding) -> bool {
    one.service == other.service
        && one.cost == other.cost
        && seen(one).eq(seen(other))
        && path(one) == path(other)
        && remedy(one) == remedy(other)
}

fn seen(finding: &CheckFinding) -> impl Iterator<Item = &str> {
    finding.seen.iter().map(|seen| seen.what.as_str())
}

/// The file that is to be written.
fn path(finding: &CheckFinding) -> Option<&str> {
    finding.fix.file.as_ref().map(|file| file.path.as_str())
}

/// What to do, whatever the pool is called.
fn remedy(finding: &CheckFinding) -> String {
    let pool = finding.place.strip_prefix("pool ");
    let pool = pool.and_then(|rest| rest.split(" of ").next());
    pool.map_or_else(
        || finding.fix.text.clone(),
        |pool| finding.fix.text.replace(&format!("[{pool}]"), "[]"),
    )
}

/// Adds a place to a finding, and to its file what that place needs of it.
fn join(
    first: &mut CheckFinding,
    other: CheckFinding,
    (places, pieces): &mut (HashSet<String>, HashSet<String>),
) {
    const SAME: &str = " (the same for each of the others)";
    if first.fix.text != other.fix.text && !first.fix.text.ends_with(SAME) {
        first.fix.text.push_str(SAME);
    }
    if places.insert(other.place.clone()) {
        first.also.push(other.place);
    }
    if let (Some(file), Some(more)) = (&mut first.fix.file, other.fix.file)
        && file.path == more.path
    {
        if pieces.is_empty() {
            pieces.insert(file.content.clone());
        }
        if pieces.insert(more.content.clone()) {
            file.content.push_str(&more.content);
        }
    }
}

impl CheckFinding {
    /// Its place, and the others of which it is true: `pool a of php-fpm; also: pool b of php-fpm`.
    pub(super) fn places(&self) -> String {
        match self.also.as_slice() {
            [] => self.place.clone(),
            also => format!("{}; also: {}", self.place, also.join("; ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::judge;
    use super::*;
    use crate::rule::case::Case;

    #[test]
    fn the_same_of_many_pools_is_one_finding() {
        let mut pools = String::new();
        for at in 0..10 {
            pools.push_str(&format!("[p{at}]\npm = ondemand\npm.max_children = 20\nrequest_terminate_timeout = 9s\nrequest_slowlog_timeout = 1s\n"));
        }
        let report = judge(&Case::healthy().pool_with(&pools, "").0);
        let found: Vec<&CheckFinding> = report
            .findings
            .iter()
            .filter(|one| one.code == "FPM-05")
            .collect();
        assert_eq!((found.len(), found[0].also.len()), (1, 9));
    }

    #[test]
    fn one_file_holds_what_all_places_of_a_finding_need() {
        let report = judge(&Case::healthy().pool_with("pm.max_children = 5", "").0);
        let of = |pool: &str, seen: &str| {
            let mut finding = report.findings[0].clone();
            finding.place = format!("pool {pool} of php-fpm (process 13)");
            finding.seen[0].what = seen.to_owned();
            finding.fix.text = "Write /p.conf:".into();
            finding.fix.file = Some(crate::rule::FixFile::new(
                "/p.conf",
                format!("[{pool}]\npm.max_children = 40\n"),
            ));
            finding
        };
        let all = vec![of("a", "5"), of("b", "5"), of("c", "4")];
        let kept = grouped(all);
        assert_eq!(kept.len(), 2, "another value is another finding: {kept:#?}");
        assert_eq!(kept[0].also, ["pool b of php-fpm (process 13)"]);
        let file = kept[0].fix.file.as_ref().expect("a file");
        assert_eq!(
            file.content,
            "[a]\npm.max_children = 40\n[b]\npm.max_children = 40\n"
        );
    }
}
