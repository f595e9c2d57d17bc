//! `.env` files: which names they give a value, and to which.

/// Name and value of each line, in their order; quotes are taken off, `export` too. References stay as they are.
pub fn values(text: &str) -> Vec<(String, String)> {
    text.lines().filter_map(line).collect()
}

/// What a line gives a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Set {
    /// The name.
    pub name: String,
    /// The value, in which names of lines above stand no longer; `None` where it is not known: it names a variable that
    /// no line above sets, which the process may have been given.
    pub value: Option<String>,
    /// The line, counted from 1.
    pub line: usize,
}

/// Every line that sets something, in their order, with references to lines above replaced as readers of such files do.
#[must_use]
pub fn known(text: &str) -> Vec<Set> {
    let mut found: Vec<Set> = Vec::new();
    for (nth, text) in text.lines().enumerate() {
        let Some((name, value)) = line(text) else {
            continue;
        };
        // In single quotes a dollar is one.
        let literal = text
            .split_once('=')
            .is_some_and(|(_, value)| value.trim_start().starts_with('\''));
        let value = match literal {
            true => Some(value),
            false => expanded(&value, &found),
        };
        found.push(Set {
            name,
            value,
            line: nth + 1,
        });
    }
    found
}

/// A value with `$NAME` and `${NAME}` replaced by what the lines above give them.
fn expanded(value: &str, above: &[Set]) -> Option<String> {
    let mut out = String::new();
    let mut rest = value;
    while let Some(at) = rest.find('$') {
        if rest[..at].ends_with('\\') {
            out.push_str(&rest[..at - 1]);
            out.push('$');
            rest = &rest[at + 1..];
            continue;
        }
        out.push_str(&rest[..at]);
        let behind = &rest[at + 1..];
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let (name, left) = match behind.strip_prefix('{') {
            Some(inside) => inside.split_once('}')?,
            None => behind.split_at(behind.find(|c| !is_name(c)).unwrap_or(behind.len())),
        };
        // `$(command)`, `${NAME:-other}`, a dollar of a password.
        if name.is_empty() || !name.chars().all(is_name) {
            return None;
        }
        let set = above.iter().rev().find(|set| set.name == name)?;
        out.push_str(set.value.as_ref()?);
        rest = left;
    }
    Some(out + rest)
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

    #[test]
    fn references_to_lines_above_are_replaced_and_others_are_not_known() {
        let text = "DBG=false\nA=${DBG}\nB=\"x$DBG-y\"\nC='${DBG}'\n\nD=${NONE}\nE=${D}\nF=${DBG:-1}\nG=a\\$DBG\nH=$(id)\n";
        let found = known(text);
        let pairs: Vec<(&str, Option<&str>, usize)> = found
            .iter()
            .map(|set| (set.name.as_str(), set.value.as_deref(), set.line))
            .collect();
        let expected = [
            ("DBG", Some("false"), 1),
            ("A", Some("false"), 2),
            ("B", Some("xfalse-y"), 3),
            ("C", Some("${DBG}"), 4),
            ("D", None, 6),
            ("E", None, 7),
            ("F", None, 8),
            ("G", Some("a$DBG"), 9),
            ("H", None, 10),
        ];
        assert_eq!(pairs, expected);
    }
}
