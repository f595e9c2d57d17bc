//! Tables and lists of several configurations.

use crate::tables::Table;
use crate::text::{Page, Style};

/// Columns between two cells.
const GAP: usize = 2;

/// Its heading and its rows.
pub(super) fn rows(page: &mut Page, table: &Table) {
    page.heading(&table.title);
    let width = |at: usize| {
        let cells = table.rows.iter().chain([&table.columns]);
        let widest = cells.map(|row| row.get(at).map_or(0, |cell| cell.chars().count()));
        widest.max().unwrap_or(0) + GAP
    };
    let mut line = |row: &[String], style: Option<Style>| {
        let Some((last, before)) = row.split_last() else {
            return;
        };
        let mut cells = vec![("", 2, None)];
        cells.extend(
            before
                .iter()
                .enumerate()
                .map(|(at, cell)| (cell.as_str(), width(at), style)),
        );
        page.columns(&cells, last, style);
    };
    line(&table.columns, Some(Style::Faint));
    for row in &table.rows {
        line(row, None);
    }
}

/// A heading, and a text for each name.
pub(super) fn named(page: &mut Page, title: &str, items: &[(String, String)]) {
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
