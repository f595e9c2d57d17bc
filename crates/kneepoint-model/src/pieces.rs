//! Texts made of pieces like `name(values)`: schedules, stop conditions, injection steps.

/// One `name(values)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextPiece<'t> {
    /// All of it, as written.
    pub whole: &'t str,
    /// What stands before the parenthesis.
    pub name: &'t str,
    /// What stands between the outer parentheses.
    pub inside: &'t str,
}

impl<'t> TextPiece<'t> {
    /// The values between the parentheses, at its commas.
    #[must_use]
    pub fn values(&self) -> Vec<&'t str> {
        self.inside.split(',').map(str::trim).collect()
    }
}

/// What may stand between two pieces.
pub const BETWEEN: &[char] = &[' ', '\t', '\r', '\n', ',', ';'];

/// The pieces of a text, with blanks, commas and semicolons between them.
///
/// # Errors
/// What begins no piece.
pub fn pieces(text: &str) -> Result<Vec<TextPiece<'_>>, String> {
    let mut found = Vec::new();
    let mut rest = text.trim_matches(BETWEEN);
    while !rest.is_empty() {
        let piece = first(rest).map_err(excerpt)?;
        found.push(piece);
        rest = rest[piece.whole.len()..].trim_start_matches(BETWEEN);
    }
    Ok(found)
}

/// The piece that a text begins with.
///
/// # Errors
/// What stands there instead.
pub fn first(text: &str) -> Result<TextPiece<'_>, &str> {
    let whole = &text[..end_of_piece(text).ok_or(text)?];
    let open = whole
        .strip_suffix(')')
        .and_then(|open| open.split_once('('));
    let (name, inside) = open.ok_or(whole)?;
    Ok(TextPiece {
        whole,
        name: name.trim(),
        inside: inside.trim(),
    })
}

/// Where the parenthesis that the text opens first is closed again.
fn end_of_piece(text: &str) -> Option<usize> {
    let mut depth = 0u32;
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.checked_sub(1)?,
            _ => continue,
        }
        if depth == 0 {
            return Some(at + 1);
        }
    }
    None
}

/// The beginning of a text, short enough for a message.
#[must_use]
pub fn excerpt(text: &str) -> String {
    const LONGEST: usize = 60;
    let mut short: String = text.chars().take(LONGEST).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    fn check(text: &str, expected: Expect) {
        let shown = match pieces(text) {
            Ok(found) => found
                .iter()
                .map(|piece| format!("{}:{}", piece.name, piece.values().join("|")))
                .collect::<Vec<_>>()
                .join(" "),
            Err(piece) => format!("not a piece: {piece}"),
        };
        expected.assert_eq(&shown);
    }

    #[test]
    fn pieces_are_cut_at_their_own_parentheses() {
        check("a(1, 2)b(f(3)) , .c() ", expect!["a:1|2 b:f(3) .c:"]);
        check("a(1) b", expect!["not a piece: b"]);
        check("a(1)) b", expect!["not a piece: ) b"]);
        check("a((1)", expect!["not a piece: a((1)"]);
        check(" ,; ", expect![""]);
    }
}
