//! Texts of one setting a line, and `key = value` with sections, each with its line.

/// An entry of an ini text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    /// The section it is in; empty before the first.
    pub(super) section: String,
    pub(super) key: String,
    /// Without quotes; `None` where there is no `=`.
    pub(super) value: Option<String>,
    /// From 1.
    pub(super) line: usize,
}

/// The entries of an ini text as PHP reads it: `;` opens a comment outside quotes, `#` at the start of a line is one, a
/// quoted value ends with its line here.
pub(super) fn ini(text: &str) -> Vec<Entry> {
    let mut section = String::new();
    let mut entries = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with([';', '#', '=']) {
            continue;
        }
        if let Some(inside) = line.strip_prefix('[') {
            section = inside
                .split(']')
                .next()
                .unwrap_or_default()
                .trim()
                .to_owned();
            continue;
        }
        let (key, value) = match line.split_once('=') {
            Some((key, value)) => (key.trim(), Some(unquoted(value.trim(), ';'))),
            None => (line.split(';').next().unwrap_or(line).trim(), None),
        };
        entries.push(Entry {
            section: section.clone(),
            key: key.to_owned(),
            value,
            line: index + 1,
        });
    }
    entries
}

/// A value without its quotes, and without the comment behind it.
pub(super) fn unquoted(value: &str, comment: char) -> String {
    for quote in ['"', '\''] {
        if let Some(rest) = value.strip_prefix(quote)
            && let Some((inside, _)) = rest.split_once(quote)
        {
            return inside.to_owned();
        }
    }
    let end = value.find(comment).unwrap_or(value.len());
    value[..end].trim_end().to_owned()
}

/// Lines of words: `name argument argument`; `#` opens a comment at the start of a line. With the line of each.
pub(super) fn words(text: &str) -> impl Iterator<Item = (usize, &str, &str)> {
    text.lines().enumerate().filter_map(|(index, line)| {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            return None;
        }
        let (name, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        Some((index + 1, name, rest.trim()))
    })
}

/// A text in which `${NAME}` and `$NAME` are replaced. The name of the first that was known comes along, and of the first
/// that was not.
pub(super) fn expanded(
    text: &str,
    known: &dyn Fn(&str) -> Option<String>,
) -> (String, Option<String>, Option<String>) {
    let mut whole = String::new();
    let (mut used, mut missing) = (None, None);
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        whole.push_str(&rest[..at]);
        let Some((inside, after)) = rest[at + 2..].split_once('}') else {
            whole.push_str(&rest[at..]);
            return (whole, used, missing);
        };
        // `${NAME:-value}` since PHP 8.3.
        let (name, default) = match inside.split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (inside, None),
        };
        match known(name).or_else(|| default.map(str::to_owned)) {
            Some(value) => {
                whole.push_str(&value);
                used.get_or_insert_with(|| name.to_owned());
            }
            None => {
                whole.push_str(&rest[at..rest.len() - after.len()]);
                missing.get_or_insert_with(|| name.to_owned());
            }
        }
        rest = after;
    }
    whole.push_str(rest);
    (whole, used, missing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_have_their_section_and_line() {
        let found = ini(
            "; x\n[www]\npm = \"static\" ; why\npm.max_children=${N} ;y\nclear_env\n[b]\n#no=1\na='c;d'\n",
        );
        let shown: Vec<String> = found
            .iter()
            .map(|one| format!("{}:{} {}={:?}", one.line, one.section, one.key, one.value))
            .collect();
        assert_eq!(
            shown,
            [
                "3:www pm=Some(\"static\")",
                "4:www pm.max_children=Some(\"${N}\")",
                "5:www clear_env=None",
                "8:b a=Some(\"c;d\")"
            ]
        );
    }

    #[test]
    fn variables_are_replaced_where_they_are_known() {
        let known = |name: &str| (name == "N").then(|| "7".to_owned());
        assert_eq!(
            expanded("a${N}b", &known),
            ("a7b".into(), Some("N".into()), None)
        );
        assert_eq!(
            expanded("${X}", &known),
            ("${X}".into(), None, Some("X".into()))
        );
        assert_eq!(
            expanded("${X:-5}", &known),
            ("5".into(), Some("X".into()), None)
        );
        assert_eq!(expanded("${N", &known).0, "${N");
    }
}
