//! Who takes PHP's CPU, as it is told to a person.

use crate::Evidence;
use crate::evidence::hot::{ENOUGH, Hot, HotOwner};
use kneepoint_model::Place;
use kneepoint_model::units::format_share;

/// Share of the computing stacks in one function from which on it is where to look first \[ours\].
const MUCH: f64 = 0.2;

/// What takes the CPU: one function itself, or a plugin with all that it calls.
pub(crate) struct Taker<'a> {
    /// What it is called in a sentence: `App\\Tree::find`, `plugin treemenu`.
    pub(crate) name: String,
    /// What it takes, in a sentence.
    pub(crate) title: String,
    /// Of the stacks that computed.
    pub(crate) share: f64,
    /// Where the stacks were met.
    pub(crate) seen: String,
    /// The place that was met most.
    pub(crate) place: &'a Place,
    /// The function of PHP itself in which most of them ended.
    pub(crate) through: Option<&'a str>,
}

impl<'a> Taker<'a> {
    fn function(hot: &Hot<'a>) -> Self {
        let name = hot.place.function.clone();
        let share = format_share(hot.share);
        let mut seen = format!(
            "{share} of {} stacks that computed were in {}{}",
            hot.of,
            hot.place,
            within(hot.through)
        );
        if let Some(caller) = hot.called_from {
            seen.push_str(&format!("; called from {caller}"));
        }
        Self {
            title: format!("one function takes {share} of PHP's CPU: {name}"),
            name,
            share: hot.share,
            seen,
            place: hot.place,
            through: hot.through,
        }
    }

    fn owner(hot: &HotOwner<'a>) -> Self {
        let share = format_share(hot.share);
        Self {
            title: format!(
                "{} takes {share} of PHP's CPU, with all that it calls",
                hot.owner
            ),
            name: hot.owner.to_string(),
            share: hot.share,
            seen: format!(
                "{share} of {} stacks that computed pass through its code, most of all at {}{}",
                hot.of,
                hot.place,
                within(hot.through)
            ),
            place: hot.place,
            through: hot.through,
        }
    }

    /// What takes most: a plugin where one has as much as the hottest function.
    pub(crate) fn find(evidence: &'a Evidence) -> Option<Self> {
        let is_much = |share: f64, of: u64| share >= MUCH && of >= ENOUGH;
        let functions = evidence.hot_functions();
        let function = functions.first().filter(|it| is_much(it.share, it.of));
        let owners = evidence.hot_owners();
        let owner = owners.first().filter(|it| is_much(it.share, it.of));
        match (owner, function) {
            (Some(owner), Some(function)) if owner.share < function.share => {
                Some(Self::function(function))
            }
            (Some(owner), _) => Some(Self::owner(owner)),
            (None, function) => function.map(Self::function),
        }
    }
}

fn within(through: Option<&str>) -> String {
    through.map_or_else(String::new, |through| {
        format!(", most of them in {through}")
    })
}
