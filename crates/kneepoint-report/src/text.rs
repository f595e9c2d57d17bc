//! Plain text of a fixed width: wrapping, alignment, and what may reach a terminal.

use crate::Styles;
use crate::words::plain;
use kneepoint_model::redact::shown::is_unseen;

/// Width of the labels before facts.
pub(crate) const LABEL: usize = 11;

/// How a piece of text stands out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// Headings and verdicts.
    Strong,
    /// What went well.
    Good,
    /// What needs attention.
    Alert,
    /// What is said on the side.
    Faint,
}

impl Style {
    fn sequence(self) -> &'static str {
        match self {
            Self::Strong => "\u{1b}[1m",
            Self::Good => "\u{1b}[32m",
            Self::Alert => "\u{1b}[33m",
            Self::Faint => "\u{1b}[2m",
        }
    }
}

/// Builds text no wider than its width, with or without escape sequences.
#[derive(Debug)]
pub(crate) struct Page {
    out: String,
    width: usize,
    styles: Styles,
}

impl Page {
    /// An empty page of `width` columns.
    pub(crate) fn new(width: usize, styles: Styles) -> Self {
        Self {
            out: String::new(),
            width,
            styles,
        }
    }

    /// Columns that there are.
    pub(crate) fn width(&self) -> usize {
        self.width
    }

    /// A heading after an empty line.
    pub(crate) fn heading(&mut self, text: &str) {
        self.blank();
        self.columns(&[], text, Some(Style::Strong));
    }

    /// An empty line.
    pub(crate) fn blank(&mut self) {
        if !self.out.is_empty() {
            self.out.push('\n');
        }
    }

    /// One wrapped paragraph behind cells of fixed width, `(text, width, style)`; further lines are indented
    /// to where the paragraph begins. A cell longer than its width is cut.
    pub(crate) fn columns(
        &mut self,
        cells: &[(&str, usize, Option<Style>)],
        text: &str,
        style: Option<Style>,
    ) {
        let indent: usize = cells.iter().map(|cell| cell.1).sum();
        for (text, width, style) in cells {
            let cell = cut(&visible(text), width.saturating_sub(1));
            let padding = width.saturating_sub(cell.chars().count());
            self.styled(&cell, *style);
            self.out.extend(std::iter::repeat_n(' ', padding));
        }
        let lines = wrap(&visible(text), self.width.saturating_sub(indent));
        for (i, line) in lines.iter().enumerate() {
            if i > 0 {
                self.out.extend(std::iter::repeat_n(' ', indent));
            }
            self.styled(line, style);
            self.trim_line();
            self.out.push('\n');
        }
    }

    /// The text.
    pub(crate) fn finish(self) -> String {
        plain(&self.out)
    }

    fn styled(&mut self, text: &str, style: Option<Style>) {
        match style.filter(|_| self.styles == Styles::Ansi && !text.is_empty()) {
            Some(style) => {
                self.out.push_str(style.sequence());
                self.out.push_str(text);
                self.out.push_str("\u{1b}[0m");
            }
            None => self.out.push_str(text),
        }
    }

    fn trim_line(&mut self) {
        let end = self.out.trim_end_matches(' ').len();
        self.out.truncate(end);
    }
}

/// The text without what a terminal would obey: control characters and escape sequences become blanks, so
/// that a log line in an evidence cannot move the cursor.
pub(crate) fn visible(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            // It is seen as the blank that it is, and keeps a number beside its unit.
            '\u{a0}' => c,
            c if is_unseen(c) => ' ',
            c => c,
        })
        .collect()
}

fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    text.chars()
        .take(width.saturating_sub(1))
        .chain(['…'])
        .collect()
}

/// Lines of at most `width` characters, broken at blanks; a longer word is broken where the line ends. At
/// least one line, and at least one character in each.
pub(crate) fn wrap(text: &str, width: usize) -> Vec<String> {
    let width = width.max(1);
    let mut lines = vec![String::new()];
    let mut used = 0;
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        let mut word: Vec<char> = word.chars().collect();
        if used > 0 && used + 1 + word.len() > width {
            lines.push(String::new());
            used = 0;
        }
        while word.len() > width {
            let tail = word.split_off(width);
            push(&mut lines, &word, &mut used);
            lines.push(String::new());
            used = 0;
            word = tail;
        }
        push(&mut lines, &word, &mut used);
    }
    lines
}

fn push(lines: &mut [String], word: &[char], used: &mut usize) {
    let Some(line) = lines.last_mut() else { return };
    if *used > 0 {
        line.push(' ');
        *used += 1;
    }
    line.extend(word);
    *used += word.len();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_keep_the_width_whatever_the_words() {
        assert_eq!(wrap("aa bb cc", 5), ["aa bb", "cc"]);
        assert_eq!(wrap("aaaaaaa b", 3), ["aaa", "aaa", "a b"]);
        assert_eq!(wrap("", 10), [""]);
        assert_eq!(wrap("ab", 0), ["a", "b"]);
    }

    #[test]
    fn columns_align_and_cut() {
        let mut page = Page::new(20, Styles::Plain);
        page.columns(&[("long name", 6, None)], "one two three four", None);
        assert_eq!(page.finish(), "long… one two three\n      four\n");
    }

    #[test]
    fn colour_adds_sequences_and_nothing_else() {
        let write = |styles| {
            let mut page = Page::new(20, styles);
            page.columns(&[("x", 4, Some(Style::Good))], "text", Some(Style::Strong));
            page.finish()
        };
        assert_eq!(write(Styles::Plain), "x   text\n");
        assert_eq!(
            write(Styles::Ansi),
            "\u{1b}[32mx\u{1b}[0m   \u{1b}[1mtext\u{1b}[0m\n"
        );
    }

    #[test]
    fn escape_sequences_in_data_do_not_reach_the_terminal() {
        assert_eq!(visible("a\u{1b}[2Jb\r\nc\u{9b}d"), "a [2Jb  c d");
    }
}
