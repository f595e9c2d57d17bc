//! `[feeder.NAME]`: values from a table.

use super::content::contents;
use super::reader::{Reader, Section};
use super::tree::Node;
use kneepoint_model::variables::is_name;
use kneepoint_model::{Feeder, RowOrder};
use std::collections::BTreeSet;

/// Largest table, in bytes: a million rows of names and passwords fit in.
const LARGEST_TABLE_BYTES: u64 = 64 << 20;

/// Reads all feeders.
pub(super) fn read(reader: &mut Reader<'_>, top: &Section<'_>) -> Vec<Feeder> {
    let Some(node) = top.get("feeder") else {
        return Vec::new();
    };
    let mut feeders = Vec::new();
    for entry in reader.entries(node, "tables of feeders, such as [feeder.users]") {
        if !is_name(&entry.key) {
            let message = format!("`{}` cannot be the name of a feeder", entry.key);
            let expected = "a name of letters, digits, `_` and `-`, not beginning with a digit";
            reader.wrong(entry.key_at, message, expected);
        }
        if let Some(section) = reader.section(&entry.node, "feeder") {
            feeders.extend(feeder(reader, &section, &entry.key));
        }
    }
    feeders
}

fn feeder(reader: &mut Reader<'_>, section: &Section<'_>, name: &str) -> Option<Feeder> {
    let order = section.get("order").map(|node| {
        let choices = [("in-turn", RowOrder::InTurn), ("random", RowOrder::Random)];
        reader.choice(node, &choices)
    });
    let Some(node) = section.get("file") else {
        let wanted = "a CSV file, such as file = \"users.csv\"";
        reader.missing(Some(section.at), &format!("feeder.{name}.file"), wanted);
        return None;
    };
    let path = reader.file(node, "a CSV file")?;
    let bytes = contents(reader, node, &path, LARGEST_TABLE_BYTES)?;
    let (columns, rows) = table(reader, node, &bytes)?;
    Some(Feeder {
        name: name.to_owned(),
        columns,
        order: order.flatten().unwrap_or_default(),
        rows: rows.into(),
    })
}

/// The names of the columns, from the first line, and the rows below it.
fn table(
    reader: &mut Reader<'_>,
    node: &Node,
    bytes: &[u8],
) -> Option<(Vec<String>, Vec<Vec<String>>)> {
    const EXPECTED: &str = "a CSV file in UTF-8 whose first line names the columns, with as many values in every other";
    // Spreadsheets begin their files with a mark that is no part of the first name.
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let mut csv = csv::ReaderBuilder::new().from_reader(bytes);
    let read = csv.headers().cloned().and_then(|names| {
        let rows: Result<Vec<Vec<String>>, csv::Error> = csv
            .records()
            .map(|row| Ok(row?.iter().map(str::to_owned).collect()))
            .collect();
        Ok((names, rows?))
    });
    let (names, rows) = match read {
        Ok(read) => read,
        Err(error) => {
            reader.wrong(node.at, format!("this is no table: {error}"), EXPECTED);
            return None;
        }
    };
    let columns: Vec<String> = names.iter().map(|name| name.trim().to_owned()).collect();
    let mut seen = BTreeSet::new();
    for column in &columns {
        if !is_name(column) {
            let message = format!("the column `{column}` cannot be a variable");
            let expected = "names of letters, digits, `_` and `-`, not beginning with a digit";
            reader.wrong(node.at, message, expected);
        }
        reader.distinct(&mut seen, column, node.at);
    }
    if rows.is_empty() {
        reader.wrong(
            node.at,
            "the table has no row below its first line",
            EXPECTED,
        );
        return None;
    }
    Some((columns, rows))
}
