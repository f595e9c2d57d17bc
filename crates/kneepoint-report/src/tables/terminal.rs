//! Tables and lists of several configurations.

use crate::tables::Table;
use crate::text::{Page, Style};

/// Columns between two cells.
const GAP: usize = 2;
/// Columns before a row.
const INDENT: usize = 2;
/// Cells that say nothing on a line of their own.
const NOTHING: [&str; 2] = ["0", "-"];

/// Least columns that a text in the last cell is wrapped to; with less room it has lines of its own.
const LEAST_TEXT: usize = 24;

/// Its heading and its rows.
pub(crate) fn rows(page: &mut Page, table: &Table) {
    page.heading(&table.title);
    let Some(last) = table.columns.len().checked_sub(1) else {
        return;
    };
    let widths: Vec<usize> = (0..=last).map(|at| widest(table, at)).collect();
    let room = page.width().saturating_sub(
        INDENT
            + widths[..last]
                .iter()
                .map(|width| width + GAP)
                .sum::<usize>(),
    );
    let apart = last > 0 && room < LEAST_TEXT.min(widths[last]);
    let shown = if apart { last } else { last + 1 };
    line(page, &table.columns[..shown], &widths, Some(Style::Faint));
    for row in &table.rows {
        line(page, &row[..shown.min(row.len())], &widths, None);
        let text = row
            .get(last)
            .filter(|text| apart && !NOTHING.contains(&text.as_str()));
        if let Some(text) = text {
            let name = format!("{}:", table.columns[last]);
            page.columns(
                &[("", 2 * INDENT, None), (&name, name.len() + 1, None)],
                text,
                None,
            );
        }
    }
}

fn widest(table: &Table, at: usize) -> usize {
    let cells = table.rows.iter().chain([&table.columns]);
    let widest = cells.map(|row| row.get(at).map_or(0, |cell| cell.chars().count()));
    widest.max().unwrap_or(0)
}

fn line(page: &mut Page, row: &[String], widths: &[usize], style: Option<Style>) {
    let Some((last, before)) = row.split_last() else {
        return;
    };
    let before = before.iter().zip(widths);
    let cells = before.map(|(cell, width)| (cell.as_str(), width + GAP, style));
    let cells: Vec<_> = [("", INDENT, None)].into_iter().chain(cells).collect();
    page.columns(&cells, last, style);
}

/// A heading, and a text for each name.
pub(crate) fn named(page: &mut Page, title: &str, items: &[(String, String)]) {
    page.heading(title);
    let widest = items.iter().map(|(name, _)| name.chars().count());
    let widest = widest.max().unwrap_or(0) + GAP;
    for (name, text) in items {
        page.columns(
            &[("", 2, None), (name, widest, Some(Style::Strong))],
            text,
            None,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Styles;
    use expect_test::{Expect, expect};

    fn check(width: usize, expect: &Expect) {
        let row = |cells: [&str; 3]| cells.map(str::to_owned).to_vec();
        let table = Table {
            title: "Ramps".to_owned(),
            columns: row(["", "within SLO", "failed"]),
            rows: vec![
                row(["kept", "2500/s", "0"]),
                row([
                    "none",
                    "416/s",
                    "6694 http error, 14 675 timeout, 45 386 no local port",
                ]),
            ],
        };
        let mut page = Page::new(width, Styles::Plain);
        rows(&mut page, &table);
        expect.assert_eq(&page.finish());
    }

    #[test]
    fn a_text_is_wrapped_where_there_is_room_for_it() {
        check(
            50,
            &expect![[r#"
            Ramps
                    within SLO  failed
              kept  2500/s      0
              none  416/s       6694 http error, 14 675
                                timeout, 45 386 no local port
        "#]],
        );
    }

    #[test]
    fn a_text_without_room_has_lines_of_its_own() {
        check(
            40,
            &expect![[r#"
            Ramps
                    within SLO
              kept  2500/s
              none  416/s
                failed: 6694 http error, 14 675
                        timeout, 45 386 no local
                        port
        "#]],
        );
    }
}
