//! Names that are replaced as a whole, found in one pass over a text, however many they are.

use super::usual::words;
use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::ops::Range;

/// Names in small letters, with what stands in their place.
#[derive(Debug, Default)]
pub(super) struct Wholes {
    instead: HashMap<String, String>,
    /// By the first word of names: their lengths, the longest first, since a name may be a part of another; and how much
    /// stands before that word. A text is compared with lengths, which are few, and not with names.
    forms: HashMap<String, BTreeSet<(Reverse<usize>, usize)>>,
}

impl Wholes {
    pub(super) fn has(&self, name: &str) -> bool {
        self.instead.contains_key(name)
    }

    pub(super) fn insert(&mut self, name: String, instead: String) {
        let Some(first) = words(&name).next() else {
            return;
        };
        let form = (Reverse(name.len()), name.find(first).unwrap_or(0));
        self.forms.entry(first.to_owned()).or_default().insert(form);
        self.instead.insert(name, instead);
    }

    /// The name whose first word is this part of a text, in small letters, where it is not a part of a longer one: where it
    /// stands, and what stands in its place. It begins no sooner than at `from`.
    pub(super) fn at(
        &self,
        text: &str,
        word: &Range<usize>,
        from: usize,
    ) -> Option<(Range<usize>, &str)> {
        let is_part = |letter: char| letter.is_alphanumeric() || letter == '_';
        let forms = self.forms.get(&text[word.clone()])?;
        forms.iter().find_map(|(Reverse(length), before)| {
            let start = word.start.checked_sub(*before)?;
            let name = text.get(start..start + length)?;
            let apart =
                !text[..start].ends_with(is_part) && !text[start + length..].starts_with(is_part);
            let instead = self.instead.get(name).filter(|_| apart && start >= from)?;
            Some((start..start + length, instead.as_str()))
        })
    }
}
