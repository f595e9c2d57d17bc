//! Lists of PHP with names for their entries, as files of settings have them: `return ['db' => ['host' => 'x']];`. Found
//! without executing anything.

use super::code::{Reader, is_word};

/// A list, and what stands in it by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct List<'t> {
    /// The names of the entries it stands in, the outermost first, behind what it is assigned to: `$db['default'] =`.
    pub path: Vec<&'t str>,
    /// Where its bracket begins in the text: `[`, or `array(`.
    pub opens_at: usize,
    /// Whether no call of a function may stand in it: it is the value of a constant, of a property, of a parameter.
    pub fixed: bool,
    /// Name and value of each entry that is no list itself, to the letter.
    pub entries: Vec<(&'t str, &'t str)>,
}

/// All lists of a file of PHP, in the order in which they begin.
#[must_use]
pub fn lists(text: &str) -> Vec<List<'_>> {
    let mut found: Vec<List<'_>> = Vec::new();
    // The brackets that are open: of a list with its number, or another.
    let mut open: Vec<Option<usize>> = Vec::new();
    let mut reader = Reader::new(text);
    let mut name = None;
    let mut statement_at = 0;
    while let Some(at) = reader.code() {
        let rest = &text[at..];
        if let Some(opens) = bracket(text, at) {
            if opens.is_list {
                let outer = open.iter().rev().find_map(|list| *list);
                let fixed = match outer {
                    Some(outer) => found[outer].fixed,
                    None => is_fixed(&text[statement_at..at]),
                };
                open.push(Some(found.len()));
                found.push(List {
                    path: path_of(outer.map(|outer| &found[outer]), name.take(), &text[..at]),
                    opens_at: at,
                    fixed,
                    entries: Vec::new(),
                });
            } else {
                open.push(None);
            }
            reader.go_to(at + opens.length);
            if rest.starts_with('{') {
                statement_at = at + 1;
            }
        } else if rest.starts_with([')', ']', '}']) {
            open.pop();
            reader.go_to(at + 1);
            if rest.starts_with('}') {
                statement_at = at + 1;
            }
        } else if let Some(entry) = reader.entry(at) {
            // The value of an entry that is a list is read as one.
            let (key, value_at) = (entry.name, entry.value_at);
            name = Some(key);
            let is_list = bracket(text, value_at).is_some_and(|opens| opens.is_list);
            if let (false, Some(Some(list)), Some(value)) =
                (is_list, open.last(), reader.value(value_at))
            {
                found[*list].entries.push((key, value));
            }
            reader.go_to(value_at);
        } else {
            reader.step(at);
            if rest.starts_with([',', ';']) {
                name = None;
            }
            if rest.starts_with(';') {
                statement_at = at + 1;
            }
        }
    }
    found
}

/// Whether a statement up to its list is one whose value is made before anything runs.
fn is_fixed(statement: &str) -> bool {
    const WORDS: [&str; 8] = [
        "const",
        "public",
        "protected",
        "private",
        "static",
        "var",
        "readonly",
        "function",
    ];
    let mut words = statement.split(|c: char| !is_word(c));
    words.any(|word| WORDS.contains(&word.to_ascii_lowercase().as_str()))
}

struct Opens {
    is_list: bool,
    length: usize,
}

/// The bracket that opens here: that of a list, or of a call, an index or a block.
fn bracket(text: &str, at: usize) -> Option<Opens> {
    let rest = &text[at..];
    let first = rest.chars().next()?;
    if rest
        .get(..5)
        .is_some_and(|word| word.eq_ignore_ascii_case("array"))
        && !text[..at].ends_with(is_word)
    {
        let space = rest[5..].len() - rest[5..].trim_start().len();
        return rest[5 + space..].starts_with('(').then_some(Opens {
            is_list: true,
            length: 6 + space,
        });
    }
    // Behind a name, an index or a call it is an index.
    let is_index = || {
        text[..at]
            .trim_end()
            .ends_with(|c: char| is_word(c) || "])'\"".contains(c))
    };
    let returns = || text[..at].trim_end().ends_with("return");
    "([{".contains(first).then(|| Opens {
        is_list: first == '[' && (!is_index() || returns()),
        length: 1,
    })
}

/// The path of a list that stands in another, or behind this text.
fn path_of<'t>(outer: Option<&List<'t>>, name: Option<&'t str>, before: &'t str) -> Vec<&'t str> {
    let mut path = match outer {
        Some(outer) => outer.path.clone(),
        None => {
            let line = before.rsplit('\n').next().unwrap_or_default();
            vec![line.trim()]
        }
    };
    path.extend(name);
    path
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Its path, and its entries.
    type Found<'f> = (&'f [&'f str], &'f [(&'f str, &'f str)]);

    #[track_caller]
    fn check(text: &str, expected: &[Found<'_>]) {
        let found = lists(text);
        let found: Vec<_> = found
            .iter()
            .map(|list| (list.path.as_slice(), list.entries.as_slice()))
            .collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn entries_are_found_in_lists_of_lists() {
        check(
            "<?php\nreturn [\n 'a' => 1, // 'x' => 2\n 'db' => array( 'host' => 'h', \"port\" => 3306 ),\n 'end' => f('x', ['y' => 2]) ];",
            &[
                (&["return"], &[("a", "1"), ("end", "f('x', ['y' => 2])")]),
                (&["return", "db"], &[("host", "'h'"), ("port", "3306")]),
                (&["return"], &[("y", "2")]),
            ],
        );
        check(
            "<?php\n$db['default'] = array(\n 'hostname' => 'h',\n);\n$c = ['b' => ['c' => 1]];",
            &[
                (&["$db['default'] ="], &[("hostname", "'h'")]),
                (&["$c ="], &[]),
                (&["$c =", "b"], &[("c", "1")]),
            ],
        );
    }

    #[test]
    fn an_index_is_no_list() {
        check("<?php $a['b'] = $c[1]; f()[2]; if ($x) { $y; }", &[]);
        check("no code ['a' => 1]", &[]);
    }

    #[test]
    fn a_list_that_is_made_before_anything_runs_is_marked() {
        let fixed = |text: &str| {
            lists(text)
                .iter()
                .map(|list| list.fixed)
                .collect::<Vec<_>>()
        };
        assert_eq!(
            fixed("<?php class A {\n final public const DB = [\n 'a' => ['b' => 1]];"),
            [true, true]
        );
        assert_eq!(
            fixed("<?php class A { public ?array $db =\n array('a' => 1); }"),
            [true]
        );
        assert_eq!(
            fixed("<?php function f($c = ['a' => 1]) { return ['b' => 2]; }"),
            [true, false]
        );
        assert_eq!(
            fixed("<?php return ['v' => 'public', 'dsn' => 'a;b', 'x' => ['a' => 1]];"),
            [false, false]
        );
    }

    #[test]
    fn a_list_begins_at_its_bracket() {
        let text = "<?php return array (\n'a' => 1);";
        assert!(text[lists(text)[0].opens_at..].starts_with("array ("));
    }

    proptest! {
        #[test]
        fn no_text_is_too_strange(text in "(<\\?php |\\[|\\]|array\\(|\\)|'|\"|=>|=|,|;|/\\*|//|'k'|é|\\n| |x){0,40}") {
            for found in lists(&text) {
                prop_assert!(text.is_char_boundary(found.opens_at));
            }
        }
    }
}
