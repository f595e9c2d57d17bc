//! A comparison of several configurations.

use crate::contest::{self, Table};
use crate::text::{Page, Style};
use kneepoint_model::Run;

/// Columns between two cells.
const GAP: usize = 2;

/// The tables; nothing where nothing was compared.
pub(super) fn contest(page: &mut Page, run: &Run) {
    let Some(contest) = &run.contest else { return };
    for table in contest::tables(contest) {
        rows(page, &table);
    }
    page.heading("Who was compared");
    let widest = contest.contestants.iter().map(|it| it.name.chars().count());
    let widest = widest.max().unwrap_or(0) + GAP;
    for (name, text) in contest::notes(contest) {
        page.columns(
            &[("", 2, None), (&name, widest, Some(Style::Strong))],
            &text,
            None,
        );
    }
}

fn rows(page: &mut Page, table: &Table) {
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
