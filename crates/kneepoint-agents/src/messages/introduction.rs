//! How an agent introduces itself, and what of that is believed.

use super::{clean, is_name};
use serde::{Deserialize, Serialize};

/// Longest tag and longest version that are shown.
const LONGEST_WORD: usize = 64;
/// The most cores of a machine, and the most requests a second of a thread and of a cap, that are believed.
const MOST_CORES: usize = 4096;
const MOST_HZ: f64 = 1e8;

/// How an agent introduces itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Introduction {
    /// Its name, which no other has.
    pub name: String,
    /// A word of this process alone: two agents that were given one name have two.
    pub instance: String,
    /// What its operator says of it: a place, a network.
    pub tag: Option<String>,
    /// The program's version.
    pub version: String,
    /// Cores it may use.
    pub cores: usize,
    /// Requests a second that it reached against a null server, on one thread.
    pub ceiling_hz: f64,
    /// What its operator lets it send, per second.
    pub max_rate_hz: Option<f64>,
    /// Whether it drives a load already.
    pub busy: bool,
}

impl Introduction {
    /// What it can be asked for with so many threads and still be believed: a third of its ceiling, and no more than it
    /// may.
    pub(crate) fn weight(&self, threads: usize) -> f64 {
        let threads = threads.min(self.cores.max(1)) as f64;
        let sound = self.ceiling_hz * threads / 3.0;
        self.max_rate_hz.map_or(sound, |most| sound.min(most))
    }

    /// The same with words that can be shown.
    ///
    /// # Errors
    /// It says of itself what cannot be; why nothing is asked of it.
    pub(crate) fn checked(mut self) -> Result<Self, String> {
        if !is_name(&self.name) || !is_name(&self.instance) {
            return Err("an agent without a fit name answers".into());
        }
        let wrong = |what: &str| {
            Err(format!(
                "agent {} says of itself what cannot be: {what}",
                self.name
            ))
        };
        if !(1..=MOST_CORES).contains(&self.cores) {
            return wrong(&format!("{} cores", self.cores));
        }
        let rates = [Some(self.ceiling_hz), self.max_rate_hz];
        let sane = |hz: &f64| *hz > 0.0 && *hz <= MOST_HZ;
        if let Some(hz) = rates.iter().flatten().find(|hz| !sane(hz)) {
            return wrong(&format!("{hz:e} requests a second"));
        }
        self.tag.iter_mut().for_each(|tag| clean(tag, LONGEST_WORD));
        clean(&mut self.version, LONGEST_WORD);
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn honest() -> Introduction {
        Introduction {
            name: "a".into(),
            instance: "1".into(),
            tag: Some("rack 7".into()),
            version: "1".into(),
            cores: 2,
            ceiling_hz: 1000.0,
            max_rate_hz: None,
            busy: false,
        }
    }

    #[test]
    fn what_cannot_be_is_not_believed_and_words_are_cleaned() {
        assert_eq!(honest().checked(), Ok(honest()));
        let lies: [fn(&mut Introduction); 8] = [
            |it| it.name = "a b".into(),
            |it| it.instance = "*".into(),
            |it| it.cores = usize::MAX,
            |it| it.cores = 0,
            |it| it.ceiling_hz = 1e300,
            |it| it.ceiling_hz = -1.0,
            |it| it.max_rate_hz = Some(0.0),
            |it| it.max_rate_hz = Some(1e300),
        ];
        for lie in lies {
            let mut here = honest();
            lie(&mut here);
            let said = here.checked().expect_err("a lie");
            assert!(said.len() < 200, "{said}");
        }
        let mut here = honest();
        here.tag = Some(format!("\u{1b}]0;x\u{7}{}", "y".repeat(1000)));
        here.version = "\u{9b}2J".into();
        let shown = here.checked().expect("is shown");
        let tag = shown.tag.expect("a tag");
        assert!(!tag.contains(char::is_control) && tag.chars().count() <= 70);
        assert!(!shown.version.contains(char::is_control));
    }
}
