//! What is read from the text of a query.

/// The table that a query changes or locks.
pub(crate) fn table_of(query: &str) -> Option<&str> {
    let mut words = query.split_whitespace();
    let before = ["update", "into", "from", "replace"];
    words.find(|word| before.contains(&word.to_ascii_lowercase().as_str()))?;
    let skipped = ["into", "low_priority", "ignore", "only"];
    let table = words.find(|word| !skipped.contains(&word.to_ascii_lowercase().as_str()))?;
    let end = table.find('(').unwrap_or(table.len());
    Some(table[..end].trim_matches(['`', '"'])).filter(|table| !table.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_read_from_the_query() {
        for (query, table) in [
            (
                "UPDATE wp_page_hits SET hits = hits + ? WHERE day = ?",
                Some("wp_page_hits"),
            ),
            ("insert into `hits`(page) values (?)", Some("hits")),
            ("REPLACE INTO hits VALUES (?)", Some("hits")),
            ("select * from stock where id = ? for update", Some("stock")),
            ("COMMIT", None),
            ("update", None),
        ] {
            assert_eq!(table_of(query), table, "{query}");
        }
    }
}
