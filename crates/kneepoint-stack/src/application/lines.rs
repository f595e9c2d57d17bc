//! On which lines pieces of a text begin.

/// Counts the lines of a text once, for pieces that are asked in their order.
pub(super) struct Lines<'t> {
    text: &'t str,
    at: usize,
    line: usize,
}

impl<'t> Lines<'t> {
    pub(super) fn of(text: &'t str) -> Self {
        Self {
            text,
            at: 0,
            line: 1,
        }
    }

    /// The line on which a piece of the text begins, counted from 1.
    pub(super) fn at(&mut self, piece: &str) -> usize {
        // A part of the text: its place in it is the difference of their addresses.
        let at = piece
            .as_ptr()
            .addr()
            .saturating_sub(self.text.as_ptr().addr());
        if at < self.at {
            (self.at, self.line) = (0, 1);
        }
        let between = self.text.as_bytes().get(self.at..at).unwrap_or_default();
        self.line += between.iter().filter(|byte| **byte == b'\n').count();
        self.at = at;
        self.line
    }

    /// The text of the line on which a piece of the text begins.
    pub(super) fn text_at(&mut self, piece: &str) -> &'t str {
        self.at(piece);
        let (above, below) = self.text.split_at(self.at);
        let begin = above.rfind('\n').map_or(0, |end| end + 1);
        let end = below
            .find('\n')
            .map_or(self.text.len(), |end| self.at + end);
        &self.text[begin..end]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_on_their_lines_in_any_order() {
        let text = "a\nb\n\nc";
        let mut lines = Lines::of(text);
        let found = [0, 2, 5, 2].map(|at| lines.at(&text[at..]));
        assert_eq!(found, [1, 2, 4, 2]);
    }
}
