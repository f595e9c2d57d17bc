//! A few lines at the end of the terminal that are written anew while something runs.
//!
//! No mode of the terminal is changed (no alternate screen, no raw input, no hidden cursor), so nothing needs to be put
//! back, whatever ends the program; where the program ends by itself the lines are removed.

use console::{Term, measure_text_width};

/// The lines that stand at the end of the terminal. They are removed with it, also when something panics.
pub(crate) struct Screen {
    term: Term,
    /// Widths of the lines that are there.
    drawn: Vec<usize>,
}

impl Screen {
    /// With nothing on it yet.
    pub(crate) fn new() -> Self {
        Self {
            term: Term::stderr(),
            drawn: Vec::new(),
        }
    }

    /// Its width now.
    pub(crate) fn columns(&self) -> usize {
        self.term.size().1.into()
    }

    /// Shows lines, none of them wider than it is, in place of those before.
    pub(crate) fn draw(&mut self, lines: &[String]) {
        let (rows, columns) = self.term.size();
        let (rows, columns) = (usize::from(rows), usize::from(columns));
        // What scrolled out of the terminal could not be written over.
        let shown = &lines[..lines.len().min(rows.saturating_sub(1))];
        let mut text = back(&self.drawn, columns);
        for line in shown {
            text.push_str("\u{1b}[2K");
            text.push_str(line);
            text.push('\n');
        }
        text.push_str("\u{1b}[J");
        // A terminal that is gone shows nothing; the work goes on and its result is written.
        let _ = self.term.write_str(&text);
        self.drawn = shown.iter().map(|line| measure_text_width(line)).collect();
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        if !self.drawn.is_empty() {
            let (_, columns) = self.term.size();
            let _ = self.term.write_str(&erased(&self.drawn, columns.into()));
        }
    }
}

/// The rows that lines take. Where the terminal became narrower, they have wrapped meanwhile.
fn rows(drawn: &[usize], columns: usize) -> usize {
    let rows = |width: &usize| width.div_ceil(columns.max(1)).max(1);
    drawn.iter().map(rows).sum()
}

/// The way back to the first line.
fn back(drawn: &[usize], columns: usize) -> String {
    match rows(drawn, columns) {
        0 => "\r".to_owned(),
        rows => format!("\r\u{1b}[{rows}A"),
    }
}

/// Removes the lines and the one the cursor is on, where the terminal may have echoed `^C`. Line by line: tmux keeps
/// what is cleared as a whole screen in its history.
fn erased(drawn: &[usize], columns: usize) -> String {
    let back = back(drawn, columns);
    let blank = "\u{1b}[2K\n".repeat(rows(drawn, columns));
    format!("{back}{blank}\u{1b}[2K{back}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_back_counts_lines_that_wrapped_when_the_terminal_shrank() {
        assert_eq!(back(&[], 80), "\r");
        assert_eq!(back(&[79, 0, 40], 80), "\r\u{1b}[3A");
        assert_eq!(back(&[79, 0, 40], 40), "\r\u{1b}[4A");
        assert_eq!(
            erased(&[79], 40),
            "\r\u{1b}[2A\u{1b}[2K\n\u{1b}[2K\n\u{1b}[2K\r\u{1b}[2A"
        );
    }
}
