//! By what a page is known again: a piece of its title as it stands in the body, which the load looks for in answers.

use memchr::memmem;

/// Fewest characters of a part of a title that say which page it is \[prop\].
const FEWEST_CHARS: usize = 4;

/// Texts that stand in the body, the most telling first: the title with its tags, its beginning, the title alone. What may
/// change from one minute to the next, a number in it, is in none of them.
pub(super) fn of(title: &str, body: &[u8]) -> Vec<String> {
    let steady: String = title.chars().take_while(|c| !changes(*c)).collect();
    let beginning = steady.trim_end();
    let mut marks = Vec::new();
    if steady.len() == title.len() {
        marks.push(format!("<title>{title}</title>"));
    }
    if beginning.chars().count() >= FEWEST_CHARS {
        marks.push(format!("<title>{beginning}"));
        if steady.len() == title.len() {
            marks.push(title.to_owned());
        }
    }
    marks.retain(|mark| memmem::find(body, mark.as_bytes()).is_some());
    marks
}

/// Whether a character is part of a number, or may stand in the body as something else.
fn changes(c: char) -> bool {
    c.is_numeric() || matches!(c, '&' | '<' | '>' | '"' | '\'')
}

#[cfg(test)]
mod tests {
    use crate::response::page::Page;

    #[track_caller]
    fn check(body: &str, expected: &[&str]) {
        let page = Page::read(body.as_bytes(), Some("text/html"));
        assert_eq!(page.marks(body.as_bytes()), expected, "{body}");
    }

    #[test]
    fn a_page_is_known_by_its_whole_title() {
        check(
            "<title>My blog</title>",
            &["<title>My blog</title>", "<title>My blog", "My blog"],
        );
        check("<title>\n My blog</title>", &["My blog"]);
        check("<title>Hi</title>", &["<title>Hi</title>"]);
        check("<p>no title</p>", &[]);
    }

    #[test]
    fn numbers_and_entities_are_no_part_of_a_mark() {
        check("<title>MediaWiki 1.39</title>", &["<title>MediaWiki"]);
        check("<title>Salt &amp; pepper</title>", &["<title>Salt"]);
        check("<title>12:05</title>", &[]);
        check("<title>No 7</title>", &[]);
    }
}
