//! What is wrong with a scenario, said so that the person who wrote it can repair it at once.

use std::fmt;

/// Widest quoted line, in characters; a longer one is cut around the marked part.
const QUOTE_WIDTH: usize = 100;

/// The marked part of a line in the user's file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextPosition {
    /// Line, counted from 1.
    pub line: usize,
    /// Column in characters, counted from 1.
    pub column: usize,
    /// The line as written, control characters replaced.
    pub quoted: String,
    /// How many characters of the line are meant, at least 1.
    pub width: usize,
}

impl TextPosition {
    /// The place of a byte range in a text. Offsets beyond the text or within a character are moved
    /// to the nearest place that exists.
    #[must_use]
    pub fn of(text: &str, start: usize, end: usize) -> Self {
        let start = text.floor_char_boundary(start);
        let end = text.floor_char_boundary(end.max(start));
        let line_start = text[..start].rfind('\n').map_or(0, |newline| newline + 1);
        let line_end = text[start..]
            .find('\n')
            .map_or(text.len(), |newline| start + newline);
        let line = text[line_start..line_end].trim_end_matches('\r');
        let before = text[line_start..start].chars().count();
        let marked = text[start..end.min(line_end)].chars().count();
        Self {
            line: text[..start].matches('\n').count() + 1,
            column: before + 1,
            quoted: line.chars().map(printable).collect(),
            width: marked.max(1),
        }
    }

    /// The quoted line and, under it, the carets: at most [`QUOTE_WIDTH`] characters of either.
    fn quote(&self) -> (String, String) {
        let caret = self.column - 1;
        let skipped = (caret + self.width.min(QUOTE_WIDTH / 2) + 10).saturating_sub(QUOTE_WIDTH);
        let mut line: String = self
            .quoted
            .chars()
            .skip(skipped)
            .take(QUOTE_WIDTH)
            .collect();
        if skipped > 0 {
            line = format!("…{}", line.chars().skip(1).collect::<String>());
        }
        if self.quoted.chars().count() > skipped + QUOTE_WIDTH {
            line.push('…');
        }
        let at = caret - skipped;
        let width = self.width.min(QUOTE_WIDTH.saturating_sub(at)).max(1);
        (line, format!("{}{}", " ".repeat(at), "^".repeat(width)))
    }
}

/// A tab takes one column, and what could steer a terminal is not repeated.
fn printable(c: char) -> char {
    match c {
        '\t' => ' ',
        c if c.is_control() => '\u{fffd}',
        c => c,
    }
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    /// The file, as the person named it.
    pub file: String,
    /// Where in the file; `None` when something is missing or the file cannot be read.
    pub place: Option<TextPosition>,
    /// What is wrong, with names quoted.
    pub message: String,
    /// What would have been accepted.
    pub expected: Option<String>,
    /// What was probably meant, or what to do next.
    pub help: Option<String>,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Some(place) => {
                let TextPosition { line, column, .. } = place;
                writeln!(f, "{}:{line}:{column}: {}", self.file, self.message)?;
                let (quoted, carets) = place.quote();
                writeln!(f, "{line:>4} | {}", quoted.trim_end())?;
                write!(f, "     | {carets}")?;
            }
            None => write!(f, "{}: {}", self.file, self.message)?,
        }
        if let Some(expected) = &self.expected {
            write!(f, "\n     expected {expected}")?;
        }
        if let Some(help) = &self.help {
            write!(f, "\n     {help}")?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigError {}

/// Everything that is wrong with a scenario, in the order of the file; never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigErrors(pub Vec<ConfigError>);

impl ConfigErrors {
    /// The one error of a file that cannot be read at all.
    #[must_use]
    pub(super) fn unreadable(file: &str, message: String, help: &str) -> Self {
        Self(vec![ConfigError {
            file: file.to_owned(),
            place: None,
            message,
            expected: None,
            help: Some(help.to_owned()),
        }])
    }
}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.0.iter().enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            write!(f, "{error}")?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigErrors {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_line_is_cut_around_what_is_meant() {
        let text = format!("a = \"{}\" # end", "x".repeat(400));
        let place = TextPosition::of(&text, 300, 304);
        let (quoted, carets) = place.quote();
        assert!(quoted.starts_with('…') && quoted.ends_with('…'));
        assert!(quoted.chars().count() <= QUOTE_WIDTH + 1);
        assert!(carets.ends_with("^^^^") && carets.chars().count() <= QUOTE_WIDTH);
    }

    #[test]
    fn columns_count_characters_and_offsets_are_forgiven() {
        let text = "x = 1\r\nü = \u{1b}2\n";
        let place = TextPosition::of(text, text.find('2').expect("2"), text.len());
        assert_eq!((place.line, place.column, place.width), (2, 6, 1));
        assert_eq!(place.quoted, "ü = \u{fffd}2");
        assert_eq!(TextPosition::of(text, 9999, 3).line, 3);
    }
}
