//! Who kept others waiting for a lock, for the rules that name the first of a chain.

use crate::Evidence;
use crate::evidence::Phase;
use crate::evidence::calls::{LISTED, WORTH_LISTING};
use kneepoint_model::units::format_share;
use kneepoint_model::{Evidenced, LockChain, LockKind};

/// Whether what is locked is the file of a session, as telemetry names it.
pub(crate) fn is_session_file(chain: &LockChain) -> bool {
    chain.kind == LockKind::File && chain.object.ends_with("/sess_*")
}

/// Whether a chain is one of the database.
pub(crate) fn is_of_database(chain: &LockChain) -> bool {
    matches!(chain.kind, LockKind::Row | LockKind::Named)
}

/// Workers that wait for locks of a kind.
pub(crate) struct Queued<'a> {
    /// The phase in which somebody looked.
    pub(crate) phase: &'a Phase,
    /// How many wait on average.
    pub(crate) workers: f64,
    /// Of the busy workers.
    pub(crate) share: f64,
    /// The chain behind whose first most of them wait.
    pub(crate) most: &'a LockChain,
}

impl Evidence {
    /// Workers that wait behind the first of some chains; `None` where nobody does, or nobody looked.
    pub(crate) fn queued_behind(&self, which: impl Fn(&LockChain) -> bool) -> Option<Queued<'_>> {
        let of = &self.chains;
        let mut phases = self.phases.iter();
        let phase = phases.find(|phase| phase.kind.name() == of.phase)?;
        let chains = || of.chains.iter().filter(|chain| which(chain));
        let share: f64 = chains().map(|chain| chain.share).sum();
        let workers = of.waiting * share;
        Some(Queued {
            phase,
            workers,
            share: (workers / phase.busy_workers()?).min(1.0),
            most: chains().next()?,
        })
    }

    /// The first of some chains, by how many wait behind each, as lines of a finding.
    pub(crate) fn seen_first(&self, which: impl Fn(&LockChain) -> bool) -> Vec<Evidenced> {
        let chains: Vec<&LockChain> = self
            .chains
            .chains
            .iter()
            .filter(|chain| which(chain))
            .collect();
        let all: f64 = chains.iter().map(|chain| chain.share).sum();
        let told = chains
            .iter()
            .map(|chain| (chain, chain.share / all.max(f64::MIN_POSITIVE)))
            .filter(|(_, share)| *share >= WORTH_LISTING)
            .take(LISTED);
        told.map(|(chain, share)| Evidenced {
            what: format!(
                "{} of those who waited {}",
                format_share(share),
                behind(chain)
            ),
            conditions: self.looked_under(),
        })
        .collect()
    }

    /// The first of the chain behind which most of some wait, in words: `GET /a, f at a.php:7`.
    pub(crate) fn first_in_words(&self, which: impl Fn(&LockChain) -> bool) -> Option<String> {
        let mut chains = self.chains.chains.iter();
        let chain = chains.find(|chain| which(chain))?;
        let known = chain.place.is_some() || !chain.route.is_empty();
        (known && !chain.circle).then(|| who(chain))
    }

    fn looked_under(&self) -> String {
        let mut phases = self.phases.iter();
        let phase = phases.find(|phase| phase.kind.name() == self.chains.phase);
        let conditions =
            phase.map_or_else(String::new, |phase| format!(", {}", phase.conditions()));
        format!("looked at {} times{conditions}", self.chains.looks)
    }
}

/// `were behind GET /a, f at a.php:7 (in sleep), which holds hits; up to 5 in a row`.
fn behind(chain: &LockChain) -> String {
    let object = match chain.object.as_str() {
        "" => "rows",
        object => object,
    };
    if chain.circle {
        return format!(
            "were in a circle of {}, each waiting for the next, over {object}: {}",
            chain.longest,
            who(chain)
        );
    }
    let row = match chain.longest {
        0 | 1 => String::new(),
        several => format!("; up to {several} in a row"),
    };
    format!("were behind {}, which holds {object}{row}", who(chain))
}

/// The first of a chain: its request, its line and what it did, as far as they are known.
fn who(chain: &LockChain) -> String {
    let place = chain.place.as_ref().map(ToString::to_string);
    let route = Some(chain.route.clone()).filter(|route| !route.is_empty());
    let known: Vec<String> = route.into_iter().chain(place).collect();
    match (known.is_empty(), chain.doing.as_str()) {
        (true, "") => "somebody who could not be seen".to_owned(),
        (true, doing) => format!("a session: {doing}"),
        (false, "") => known.join(", "),
        (false, doing) => format!("{} ({doing})", known.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::place;

    fn chain(route: &str, doing: &str) -> LockChain {
        LockChain {
            kind: LockKind::Row,
            object: "hits".to_owned(),
            doing: doing.to_owned(),
            route: route.to_owned(),
            place: None,
            share: 1.0,
            longest: 1,
            circle: false,
        }
    }

    #[test]
    fn the_first_is_told_with_what_is_known_of_it() {
        assert_eq!(
            behind(&chain("", "update hits set n = ?")),
            "were behind a session: update hits set n = ?, which holds hits"
        );
        let mut known = chain("GET /a", "in sleep");
        known.place = Some(place("Hits::count", "app/Hits.php", 7));
        known.longest = 5;
        assert_eq!(
            behind(&known),
            "were behind GET /a, Hits::count at app/Hits.php:7 (in sleep), which holds hits; up to 5 in a row"
        );
        let mut unknown = chain("", "");
        unknown.object.clear();
        assert_eq!(
            behind(&unknown),
            "were behind somebody who could not be seen, which holds rows"
        );
        unknown.circle = true;
        assert!(behind(&unknown).contains("in a circle of 1, each waiting for the next"));
    }
}
