//! What is wrong, since when, and what no longer is.

use super::moment::Watched;
use crate::rule::CheckFinding;

/// How long something that is no longer so is told, in seconds.
const GONE_S: f64 = 60.0;

/// Findings that come and go.
#[derive(Debug, Default)]
pub(super) struct Findings(Vec<Watched>);

impl Findings {
    /// These are so now, worst first.
    pub(super) fn are(&mut self, now: Vec<CheckFinding>, at_s: f64) {
        let mut before = std::mem::take(&mut self.0);
        for finding in now {
            let same = |one: &Watched| key(&one.finding) == key(&finding);
            // What comes back within a minute never left.
            let since_s = match before.iter().position(same) {
                Some(at) => before.remove(at).since_s,
                None => at_s,
            };
            self.0.push(Watched {
                finding,
                since_s,
                gone_s: None,
            });
        }
        for mut gone in before {
            let since = *gone.gone_s.get_or_insert(at_s);
            if at_s - since < GONE_S {
                self.0.push(gone);
            }
        }
    }

    /// Those of now, and behind them those that are gone.
    pub(super) fn all(&self) -> Vec<Watched> {
        self.0.clone()
    }
}

/// What makes a finding the same from look to look: its figures change.
fn key(finding: &CheckFinding) -> (&str, &str, &str) {
    (finding.rule, &finding.title, &finding.place)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::case::Case;

    #[test]
    fn findings_come_and_go() {
        let sick = Case::healthy().pool_with("", "opcache.enable=0");
        let found = crate::report::judge(&sick.0).findings;
        assert_eq!(found.len(), 1);
        let mut findings = Findings::default();
        let mut told = |now: Vec<CheckFinding>, at_s| {
            findings.are(now, at_s);
            let all = findings.all().into_iter();
            all.map(|one| (one.since_s, one.gone_s)).collect::<Vec<_>>()
        };
        assert_eq!(told(found.clone(), 5.0), [(5.0, None)]);
        assert_eq!(told(found.clone(), 10.0), [(5.0, None)]);
        assert_eq!(told(Vec::new(), 15.0), [(5.0, Some(15.0))]);
        // It comes back.
        assert_eq!(told(found, 20.0), [(5.0, None)]);
        assert_eq!(told(Vec::new(), 30.0), [(5.0, Some(30.0))]);
        assert_eq!(told(Vec::new(), 89.0), [(5.0, Some(30.0))]);
        assert!(told(Vec::new(), 90.0).is_empty());
    }
}
