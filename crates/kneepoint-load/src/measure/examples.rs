//! A few examples of what went wrong, for people.

use crate::response::printable;
use kneepoint_model::Outcome;

/// Most examples a load point carries.
const MOST: usize = 5;

/// Up to five different things that went wrong.
#[derive(Debug, Default)]
pub(crate) struct Examples {
    /// What each example is of, so that a thousand 502s are one example and cost nothing.
    kinds: Vec<(Outcome, u16, u32)>,
    texts: Vec<String>,
}

impl Examples {
    /// Keeps an example of an outcome with a status of a request, unless there is one already.
    pub(crate) fn add(
        &mut self,
        outcome: Outcome,
        status: u16,
        request: u32,
        text: impl FnOnce() -> String,
    ) {
        let kind = (outcome, status, request);
        if self.kinds.len() < MOST && !self.kinds.contains(&kind) {
            self.kinds.push(kind);
            self.add_text(text());
        }
    }

    /// Keeps what the PHP runtime wrote to its error stream, unless it is known.
    pub(crate) fn add_stderr(&mut self, request_name: &str, stderr: &[u8]) {
        if self.texts.len() < MOST && !stderr.is_empty() {
            self.add_text(format!(
                "{request_name}: FastCGI stderr: {}",
                printable(stderr)
            ));
        }
    }

    fn add_text(&mut self, text: String) {
        if self.texts.len() < MOST && !self.texts.contains(&text) {
            self.texts.push(text);
        }
    }

    /// Takes over another thread's examples as far as there is room.
    pub(crate) fn merge(&mut self, other: Self) {
        other.texts.into_iter().for_each(|text| self.add_text(text));
    }

    pub(crate) fn into_texts(self) -> Vec<String> {
        self.texts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_shown_once_and_five_are_enough() {
        let mut examples = Examples::default();
        for n in 0..100 {
            examples.add(Outcome::HttpError, 502, n % 2, || format!("number {n}"));
            examples.add_stderr("GET /", b"PHP message:\r\n  oh");
        }
        assert_eq!(
            examples.into_texts(),
            [
                "number 0",
                "GET /: FastCGI stderr: PHP message: oh",
                "number 1"
            ]
        );
        let mut many = Examples::default();
        (0..9).for_each(|n| many.add(Outcome::HttpError, 500 + n, 0, || n.to_string()));
        assert_eq!(many.into_texts().len(), MOST);
    }
}
