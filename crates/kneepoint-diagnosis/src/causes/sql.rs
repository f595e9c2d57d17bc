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

/// The table all of whose rows a query counts, without a condition.
pub(crate) fn counted_whole(query: &str) -> Option<&str> {
    let lower = query.trim_start().to_ascii_lowercase();
    let counts = lower.starts_with("select count(") && !lower.contains("distinct");
    let narrows = [" where ", " group ", " join ", ",", "select "];
    let rest = lower.strip_prefix("select ")?;
    (counts && !narrows.iter().any(|word| rest.contains(word)))
        .then(|| table_of(query))
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_without_a_condition_counts_the_whole_table() {
        for (query, table) in [
            ("SELECT COUNT(*) FROM visits", Some("visits")),
            ("select count(id) from `visits` v", Some("visits")),
            ("select count(*) from visits where day = ?", None),
            ("select count(distinct visitor) from visits", None),
            ("select count(*) from a, b", None),
            ("select count(*) from (select ?) t", None),
            ("select id from visits", None),
        ] {
            assert_eq!(counted_whole(query), table, "{query}");
        }
    }

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
