//! `.env` files: which names they give a value, and to which.

/// Name and value of each line, in their order; quotes are taken off, `export` too. References stay as they are.
pub fn values(text: &str) -> Vec<(String, String)> {
    text.lines().filter_map(line).collect()
}

fn line(line: &str) -> Option<(String, String)> {
    let line = line.trim();
    let line = line.strip_prefix("export ").unwrap_or(line);
    let (name, value) = line.split_once('=')?;
    let name = name.trim();
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if name.is_empty() || !name.chars().all(is_name) {
        return None;
    }
    Some((name.to_owned(), unquoted(value.trim()).to_owned()))
}

/// A value without its quotes, or without the comment behind it.
fn unquoted(value: &str) -> &str {
    for quote in ['"', '\''] {
        if let Some(rest) = value.strip_prefix(quote) {
            return rest.split_once(quote).map_or(rest, |(inside, _)| inside);
        }
    }
    match value.find(" #") {
        _ if value.starts_with('#') => "",
        Some(comment) => value[..comment].trim_end(),
        None => value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_without_quotes_comments_and_export() {
        let text = "# A=1\nDB_HOST=127.0.0.1 # here\nexport B=\"x y\" # z\nC='a#b'\nD=\n=1\nnot a line\nE=#";
        let pairs = values(text);
        let pairs: Vec<(&str, &str)> = pairs
            .iter()
            .map(|(n, v)| (n.as_str(), v.as_str()))
            .collect();
        let expected = [
            ("DB_HOST", "127.0.0.1"),
            ("B", "x y"),
            ("C", "a#b"),
            ("D", ""),
            ("E", ""),
        ];
        assert_eq!(pairs, expected);
    }
}
