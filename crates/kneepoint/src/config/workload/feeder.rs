//! `[feeder.NAME]`: values from a table.

use crate::config::reader::{Reader, Section};
use crate::config::workload::content::contents;
use crate::table;
use kneepoint_model::variables::is_name;
use kneepoint_model::{Feeder, RowOrder};

/// Largest table, in bytes: a million rows of names and passwords fit in.
const LARGEST_TABLE_BYTES: u64 = 64 << 20;

/// Reads all feeders.
pub(in crate::config) fn read(reader: &mut Reader<'_>, top: &Section<'_>) -> Vec<Feeder> {
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
    let (columns, rows) = match table::parse(&bytes) {
        Ok(table) => table,
        Err(all) => {
            for wrong in all {
                reader.wrong(node.at, wrong.message, wrong.expected);
            }
            return None;
        }
    };
    Some(Feeder {
        name: name.to_owned(),
        columns,
        order: order.flatten().unwrap_or_default(),
        rows: rows.into(),
    })
}
