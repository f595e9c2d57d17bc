//! Where PHP code says a name is to have a value: `define('DB_HOST', 'x');`, `const DB_HOST = 'x';`,
//! `$wgDBserver = 'x';`, `$config['db_dsnw'] = 'x';`. Found without executing anything.

/// How often each byte may be looked at again as part of a value: brackets that are never closed make much of a text the
/// value of everything before. Real files need it once or twice; of others, what is known by then is told.
const AGAIN: usize = 16;

/// One such place. The three texts are pieces of the file, to the letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Assignment<'t> {
    /// What gets the value: `DB_HOST`, `$wgDBserver`, `$config['db_dsnw']`.
    pub target: &'t str,
    /// The whole statement with its semicolon.
    pub whole: &'t str,
    /// The statement up to its value.
    pub before: &'t str,
    /// The value as it is written.
    pub value: &'t str,
    /// Whether it can be no call of a function: that of a `const`, or of a property where it is declared.
    pub fixed: bool,
}

impl<'t> Assignment<'t> {
    /// What the value is where it is one piece of quoted text; escapes stay as they are.
    pub fn text(&self) -> Option<&'t str> {
        let quote = self.value.chars().next().filter(|c| "'\"".contains(*c))?;
        let inside = self.value.get(1..)?.strip_suffix(quote)?;
        let end = end_of_string(self.value, 0)?;
        (end == self.value.len()).then_some(inside)
    }

    /// The value where it is a number, a word, or a text that certainly holds something or nothing: what PHP makes of any
    /// other is not known before it runs.
    #[must_use]
    pub fn plain(&self) -> Option<&'t str> {
        let is_word =
            !self.value.is_empty() && self.value.chars().all(|c| is_word(c) || "-.\\".contains(c));
        let is_text = || {
            // A name in it may stand for nothing, but a slash beside it is none.
            let inside = self.text()?;
            let whole = self.value.starts_with('\'') || !inside.contains('$');
            (whole || inside.contains('/')).then_some(())
        };
        (is_word || is_text().is_some()).then_some(self.value)
    }

    /// Whether the first of several counts: a constant keeps its value.
    #[must_use]
    pub fn is_constant(&self) -> bool {
        !self.target.starts_with('$')
    }
}

/// Reads a text piece by piece, as far as it is code: neither HTML nor a comment.
#[derive(Debug)]
pub(super) struct Reader<'t> {
    text: &'t str,
    at: usize,
    in_php: bool,
    left: usize,
}

/// An entry of a list with a name.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry<'t> {
    /// Its name, without the quotes.
    pub(super) name: &'t str,
    /// Where its value begins.
    pub(super) value_at: usize,
}

impl<'t> Reader<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        Self {
            text,
            at: 0,
            in_php: false,
            left: text.len().saturating_mul(AGAIN),
        }
    }

    /// Where the next piece of code begins; `None` at the end.
    pub(super) fn code(&mut self) -> Option<usize> {
        while self.at < self.text.len() {
            let rest = &self.text[self.at..];
            if !self.in_php {
                self.at += rest.find("<?")? + 2;
                self.in_php = true;
            } else if rest.starts_with("?>") {
                self.in_php = false;
                self.at += 2;
            } else if let Some(end) = end_of_comment(self.text, self.at) {
                self.at = end;
            } else {
                return Some(self.at);
            }
        }
        None
    }

    /// Goes on from there.
    pub(super) fn go_to(&mut self, at: usize) {
        self.at = at;
    }

    /// Goes on behind the quoted text, the word or the character that begins there.
    pub(super) fn step(&mut self, at: usize) {
        self.at = end_of_string(self.text, at).unwrap_or_else(|| next(self.text, at));
    }

    /// The entry with a quoted name that begins there: `'name' => value`.
    pub(super) fn entry(&self, at: usize) -> Option<Entry<'t>> {
        let end = end_of_string(self.text, at)?;
        let name = self.text.get(at + 1..end.checked_sub(1)?)?;
        let arrow = skip_space(self.text, end);
        self.text[arrow..].starts_with("=>").then(|| Entry {
            name,
            value_at: skip_space(self.text, arrow + 2),
        })
    }

    /// The value of an entry, up to the comma or the bracket behind it.
    pub(super) fn value(&mut self, at: usize) -> Option<&'t str> {
        let end = end_of_any(self.text, at, &[',', ')', ']'], &mut self.left)?;
        Some(self.text[at..end].trim_end())
    }
}

/// Everything that gets a value in a file of PHP, in its order. What is in comments is not there.
pub fn assignments(text: &str) -> Vec<Assignment<'_>> {
    let mut found = Vec::new();
    let mut reader = Reader::new(text);
    while let Some(at) = reader.code() {
        match assignment_at(text, at, &mut reader.left) {
            Some(assignment) => {
                reader.go_to(at + assignment.whole.len());
                found.push(assignment);
            }
            None => reader.step(at),
        }
    }
    found
}

/// The line of the first call of a function of PHP's own, by its name. A method of that name is none, nor is what is in quotes
/// or in a comment.
#[must_use]
pub fn line_of_call(text: &str, name: &str) -> Option<usize> {
    // Most files do not even hold the word.
    text.contains(name).then_some(())?;
    let mut reader = Reader::new(text);
    while let Some(at) = reader.code() {
        reader.step(at);
        if text.get(at..reader.at) == Some(name) && is_call(text, at, reader.at) {
            return Some(text[..at].matches('\n').count() + 1);
        }
    }
    None
}

/// Whether the name that stands there is called: with a bracket behind it, and nothing before it that makes it a method, a
/// variable, a name of another namespace, or a function that is declared.
fn is_call(text: &str, at: usize, end: usize) -> bool {
    let before = &text[..at];
    let (before, of_namespace) = match before.strip_suffix('\\') {
        Some(before) => (before, before.ends_with(is_word)),
        None => (before, false),
    };
    let before = before.trim_end();
    let other = ["->", "::", "$", "function"];
    let is_other = other.iter().any(|sign| before.ends_with(*sign));
    !of_namespace && !is_other && text[skip_space(text, end)..].starts_with('(')
}

/// The byte behind the character, or behind the whole word, that begins at `at`.
fn next(text: &str, at: usize) -> usize {
    let rest = &text[at..];
    let word = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
    at + word.max(rest.chars().next().map_or(1, char::len_utf8))
}

pub(super) fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The end of a comment or of quoted text that begins here.
fn end_of_passage(text: &str, at: usize) -> Option<usize> {
    end_of_comment(text, at).or_else(|| end_of_string(text, at))
}

fn end_of_comment(text: &str, at: usize) -> Option<usize> {
    let rest = &text[at..];
    if rest.starts_with("/*") {
        return Some(
            rest.get(2..)
                .and_then(|rest| rest.find("*/"))
                .map_or(text.len(), |end| at + end + 4),
        );
    }
    let is_line = rest.starts_with("//") || (rest.starts_with('#') && !rest.starts_with("#["));
    if !is_line {
        return None;
    }
    // The end of PHP ends a comment, too.
    let line = rest.split('\n').next().unwrap_or_default();
    Some(at + line.find("?>").unwrap_or(line.len()))
}

/// The end of the quoted text that begins at `at`; the file's end where it is not closed.
fn end_of_string(text: &str, at: usize) -> Option<usize> {
    let quote = text[at..].chars().next().filter(|c| "'\"`".contains(*c))? as u8;
    let bytes = text.as_bytes();
    let mut at = at + 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            byte if byte == quote => return Some(at + 1),
            _ => at += 1,
        }
    }
    Some(text.len())
}

fn skip_space(text: &str, mut at: usize) -> usize {
    loop {
        let rest = &text[at..];
        let space = rest.len() - rest.trim_start().len();
        at += space;
        match end_of_comment(text, at) {
            Some(end) => at = end,
            None => return at,
        }
    }
}

fn assignment_at<'t>(text: &'t str, at: usize, left: &mut usize) -> Option<Assignment<'t>> {
    let rest = &text[at..];
    let begins_word = !text[..at].ends_with(is_word);
    let keyword = |word: &str| {
        let same = rest
            .get(..word.len())
            .is_some_and(|r| r.eq_ignore_ascii_case(word));
        same && begins_word && !rest[word.len()..].starts_with(is_word)
    };
    if keyword("define") {
        return define_at(text, at, left);
    }
    if keyword("const") {
        let name = skip_space(text, at + "const".len());
        let found = with_equals(text, at, (name, next(text, name)), left)?;
        return Some(Assignment {
            fixed: true,
            ..found
        });
    }
    match rest.starts_with('$') {
        true => {
            let end = end_of_variable(text, at, left)?;
            with_equals(text, at, (at, end), left)
        }
        false => None,
    }
}

/// Whether what stands before a variable declares it as a property: `public`, `private ?string`.
fn declares_property(before: &str) -> bool {
    const MODIFIERS: &[&str] = &["public", "private", "protected", "var", "readonly"];
    let statement = before
        .rsplit([';', '{', '}', '(', ','])
        .next()
        .unwrap_or_default();
    statement
        .split_whitespace()
        .any(|word| MODIFIERS.contains(&word))
}

fn define_at<'t>(text: &'t str, at: usize, left: &mut usize) -> Option<Assignment<'t>> {
    let open = skip_space(text, at + "define".len());
    text[open..].starts_with('(').then_some(())?;
    let name = skip_space(text, open + 1);
    let name_end = end_of_string(text, name)?;
    let target = text.get(name + 1..name_end.checked_sub(1)?)?;
    let comma = skip_space(text, name_end);
    text[comma..].starts_with(',').then_some(())?;
    let value = skip_space(text, comma + 1);
    let close = end_of_value(text, value, ')', left)?;
    let semicolon = skip_space(text, close + 1);
    text[semicolon..].starts_with(';').then_some(())?;
    Some(Assignment {
        target,
        whole: &text[at..=semicolon],
        before: &text[at..value],
        value: text[value..close].trim_end(),
        fixed: false,
    })
}

/// `$name`, with what follows of it: `->name`, `['key']`, `[$key]`.
fn end_of_variable(text: &str, at: usize, left: &mut usize) -> Option<usize> {
    let name = at + 1;
    text[name..].starts_with(is_word).then_some(())?;
    let mut end = next(text, name);
    loop {
        let rest = &text[end..];
        if rest.starts_with("->") && rest[2..].starts_with(is_word) {
            end = next(text, end + 2);
        } else if rest.starts_with('[') {
            end = end_of_value(text, end + 1, ']', left)? + 1;
        } else {
            return Some(end);
        }
    }
}

/// What stands between `at` and a semicolon, with `= value` behind its name.
fn with_equals<'t>(
    text: &'t str,
    at: usize,
    (name, name_end): (usize, usize),
    left: &mut usize,
) -> Option<Assignment<'t>> {
    let equals = skip_space(text, name_end);
    let rest = text[equals..].strip_prefix('=')?;
    if rest.starts_with(['=', '>']) {
        return None;
    }
    let value = skip_space(text, equals + 1);
    let close = end_of_value(text, value, ';', left)?;
    Some(Assignment {
        target: &text[name..name_end],
        whole: &text[at..=close],
        before: &text[at..value],
        value: text[value..close].trim_end(),
        fixed: declares_property(&text[..at]),
    })
}

/// Where the character `end` stands behind a value, outside of its brackets, quoted texts and comments. So many bytes are
/// `left` that may be looked at for this.
fn end_of_value(text: &str, at: usize, end: char, left: &mut usize) -> Option<usize> {
    end_of_any(text, at, &[end], left)
}

/// The same with several characters that may stand behind it.
fn end_of_any(text: &str, mut at: usize, ends: &[char], left: &mut usize) -> Option<usize> {
    let mut depth = 0_u32;
    while at < text.len() {
        *left = left.checked_sub(1)?;
        if let Some(end) = end_of_passage(text, at) {
            *left = left.checked_sub(end - at)?;
            at = end;
            continue;
        }
        let c = text[at..].chars().next()?;
        if depth == 0 && ends.contains(&c) {
            return Some(at);
        }
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.checked_sub(1)?,
            _ => {}
        }
        at += c.len_utf8();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(text: &str, expected: &[(&str, &str)]) {
        let found = assignments(text);
        let pairs: Vec<_> = found.iter().map(|f| (f.target, f.value)).collect();
        assert_eq!(pairs, expected);
        for found in found {
            assert!(text.contains(found.whole) && found.whole.starts_with(found.before));
            assert!(found.whole[found.before.len()..].starts_with(found.value));
        }
    }

    #[test]
    fn what_gets_a_value_is_found_in_every_way_of_writing_it() {
        check("<?php define( 'DB_HOST', 'x' );", &[("DB_HOST", "'x'")]);
        check(
            "<?php DEFINE(\"A\" , f('b', [1]) ) ;\nconst B = 2;",
            &[("A", "f('b', [1])"), ("B", "2")],
        );
        check(
            "<?php\n$wgDBserver = \"db;1\";\n$CFG->dbhost='h';$c['db']['host'] = 'i';",
            &[
                ("$wgDBserver", "\"db;1\""),
                ("$CFG->dbhost", "'h'"),
                ("$c['db']['host']", "'i'"),
            ],
        );
        check(
            "<?php $databases['default']['default'] = [\n  'host' => 'x', // it's\n];",
            &[(
                "$databases['default']['default']",
                "[\n  'host' => 'x', // it's\n]",
            )],
        );
    }

    #[test]
    fn comments_html_comparisons_and_other_words_are_not_taken_for_it() {
        check("<?php // define('A', 1);\n# $a = 1;\n/* $b = 2; */", &[]);
        check("it's $a = 1; <?php if ($a == 1) {} ?> $b = 2;", &[]);
        check(
            "<?php undefine('A', 1); $a .= 'x'; 'define(\"A\", 1);';",
            &[],
        );
        check("<?php // done ?> don't <?php $a = 1;", &[("$a", "1")]);
    }

    #[test]
    fn a_call_is_known_by_its_line_and_nothing_else_is_taken_for_it() {
        let line = |text: &str| line_of_call(text, "done");
        let guarded = "<?php\nif (function_exists('done')) {\n  done ();\n}";
        assert_eq!(line(guarded), Some(3));
        assert_eq!(line("it's <?php \\done();"), Some(1));
        assert_eq!(line("<?php $a ? b() : done();"), Some(1));
        for text in [
            "done();",
            "<?php // done();",
            "<?php /* done(); */ 'done()'; done;",
            "<?php function done() {}",
            "<?php $x->done(); $x?->done(); X::done(); $done();",
            "<?php X\\done(); undone();",
        ] {
            assert_eq!(line(text), None, "{text}");
        }
    }

    #[test]
    fn what_can_be_no_call_is_marked() {
        let fixed = |text: &str| assignments(text).first().map(|found| found.fixed);
        assert_eq!(
            fixed("<?php class A { public ?string $db = 'x'; }"),
            Some(true)
        );
        assert_eq!(fixed("<?php const DB = 'x';"), Some(true));
        assert_eq!(
            fixed("<?php /* public */ $db = 'x';"),
            Some(true),
            "said rather than broken"
        );
        assert_eq!(fixed("<?php f(); $db = 'x';"), Some(false));
        assert_eq!(fixed("<?php define('DB', 'x');"), Some(false));
    }

    #[test]
    fn a_value_is_text_only_where_it_is_nothing_else() {
        let text = |value: &str| {
            let code = format!("<?php $a = {value};");
            let found = assignments(&code);
            found.first().and_then(Assignment::text).map(str::to_owned)
        };
        assert_eq!(text("'x'").as_deref(), Some("x"));
        assert_eq!(text("'a' . 'b'"), None);
        assert_eq!(text("getenv('A')"), None);
        assert_eq!(text("''").as_deref(), Some(""));
    }

    #[test]
    fn a_value_is_plain_only_where_nothing_is_computed() {
        let plain = |value: &str| {
            let code = format!("<?php $a = {value};");
            assignments(&code)[0].plain().is_some()
        };
        for value in [
            "true",
            "-1",
            "CACHE_NONE",
            "\\A\\B",
            "'x'",
            "'$x'",
            "\"x\"",
            "\"$IP/x.log\"",
        ] {
            assert!(plain(value), "{value}");
        }
        for value in [
            "!!f('A', '')",
            "getenv('A')",
            "!empty($_ENV['A'])",
            "$x",
            "\"$x\"",
            "'a' . $b",
            "!1",
            "A::B",
            "1 - 1",
        ] {
            assert!(!plain(value), "{value}");
        }
    }

    proptest! {
        #[test]
        fn no_text_is_too_strange(text in "(<\\?php |\\$a|define\\(|'|\"|=|;|/\\*|//|\\[|\\)|,|é|\\n|->|x| ){0,40}") {
            for found in assignments(&text) {
                prop_assert!(text.contains(found.whole));
            }
            prop_assert!(line_of_call(&text, "x").is_none_or(|line| line <= text.lines().count()));
        }
    }
}
