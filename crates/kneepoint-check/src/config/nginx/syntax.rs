//! The grammar of nginx: words, `;`, blocks. Lines are counted as the text is read.

/// Deeper nesting than any real configuration.
const DEPTH: usize = 64;

/// One directive.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Directive {
    pub(super) name: String,
    pub(super) args: Vec<String>,
    /// The line of its name, from 1.
    pub(super) line: usize,
    /// Whether it is a block.
    pub(super) is_block: bool,
    pub(super) inside: Vec<Directive>,
}

/// What a text is made of.
enum Token {
    Word(String),
    End,
    Open,
    Close,
}

struct Tokens<'a> {
    rest: std::iter::Peekable<std::str::Chars<'a>>,
    line: usize,
}

impl Tokens<'_> {
    fn bump(&mut self) -> Option<char> {
        let next = self.rest.next()?;
        self.line += usize::from(next == '\n');
        Some(next)
    }

    /// The next token and the line it begins on.
    fn next(&mut self) -> Result<Option<(Token, usize)>, &'static str> {
        while let Some(next) = self.rest.peek().copied() {
            match next {
                '#' => {
                    while self.rest.peek().is_some_and(|c| *c != '\n') {
                        self.bump();
                    }
                }
                c if c.is_whitespace() => drop(self.bump()),
                _ => break,
            }
        }
        let line = self.line;
        let token = match self.rest.peek() {
            None => return Ok(None),
            Some(';') => Token::End,
            Some('{') => Token::Open,
            Some('}') => Token::Close,
            Some(quote @ ('"' | '\'')) => {
                let quote = *quote;
                self.bump();
                return Ok(Some((Token::Word(self.quoted(quote)?), line)));
            }
            Some(_) => return Ok(Some((Token::Word(self.bare()), line))),
        };
        self.bump();
        Ok(Some((token, line)))
    }

    fn quoted(&mut self, quote: char) -> Result<String, &'static str> {
        let mut word = String::new();
        while let Some(next) = self.bump() {
            match next {
                '\\' => word.extend(self.escaped()),
                _ if next == quote => return Ok(word),
                _ => word.push(next),
            }
        }
        Err("a quote is never closed")
    }

    fn escaped(&mut self) -> Vec<char> {
        match self.bump() {
            Some('t') => vec!['\t'],
            Some('r') => vec!['\r'],
            Some('n') => vec!['\n'],
            Some(next @ ('"' | '\'' | '\\')) => vec![next],
            Some(next) => vec!['\\', next],
            None => Vec::new(),
        }
    }

    fn bare(&mut self) -> String {
        let mut word = String::new();
        while let Some(next) = self.rest.peek().copied() {
            // `${name}` does not open a block.
            let is_variable = next == '{' && word.ends_with('$');
            if next.is_whitespace() || next == ';' || (next == '{' && !is_variable) {
                break;
            }
            self.bump();
            match next {
                '\\' => word.extend(self.escaped()),
                _ => word.push(next),
            }
        }
        word
    }

    /// Skips the code of a Lua block up to the brace that closes it.
    fn code(&mut self) -> Result<(), &'static str> {
        let mut depth = 0_usize;
        while let Some(next) = self.bump() {
            match next {
                '{' => depth += 1,
                '}' if depth == 0 => return Ok(()),
                '}' => depth -= 1,
                '"' | '\'' => drop(self.quoted(next)?),
                '-' if self.rest.peek() == Some(&'-') => {
                    while self.rest.peek().is_some_and(|c| *c != '\n') {
                        self.bump();
                    }
                }
                _ => {}
            }
        }
        Err("a Lua block is never closed")
    }
}

/// Parses a text.
pub(super) fn parse(text: &str) -> Result<Vec<Directive>, (usize, &'static str)> {
    let mut tokens = Tokens {
        rest: text.chars().peekable(),
        line: 1,
    };
    // The blocks that are open, the outermost first; each with the directive that opened it.
    let mut open: Vec<(Directive, Vec<Directive>)> = Vec::new();
    let mut items: Vec<Directive> = Vec::new();
    let mut current: Option<Directive> = None;
    loop {
        let token = tokens.next().map_err(|why| (tokens.line, why))?;
        let Some((token, line)) = token else {
            return match (open.is_empty(), current) {
                (true, None) => Ok(items),
                (true, Some(one)) => Err((one.line, "the last directive has no `;`")),
                (false, _) => Err((tokens.line, "a block is never closed")),
            };
        };
        match (token, current.take()) {
            (Token::Word(name), None) => {
                let new = Directive {
                    name,
                    line,
                    ..Directive::default()
                };
                current = Some(new);
            }
            (Token::Word(word), Some(mut one)) => {
                one.args.push(word);
                current = Some(one);
            }
            (Token::End, Some(one)) => items.push(one),
            (Token::Open, Some(mut one)) => {
                one.is_block = true;
                if one.name.ends_with("_by_lua_block") {
                    tokens.code().map_err(|why| (line, why))?;
                    items.push(one);
                    continue;
                }
                if open.len() >= DEPTH {
                    return Err((line, "blocks are nested too deeply"));
                }
                open.push((one, std::mem::take(&mut items)));
            }
            (Token::Close, None) => {
                let (mut block, outer) = open.pop().ok_or((line, "a `}` closes no block"))?;
                block.inside = std::mem::replace(&mut items, outer);
                items.push(block);
            }
            (Token::Close, Some(_)) => return Err((line, "a directive has no `;` before `}`")),
            (Token::End, None) => return Err((line, "a `;` ends no directive")),
            (Token::Open, None) => return Err((line, "a `{` opens a block without a name")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn directives_have_the_line_of_their_name() {
        let text = "# x\nuser a;\nhttp {\n  log_format m '$a'\n    \"b;{\";\n  set $x ${y}z;\n}\n";
        let found = parse(text).expect("parsed");
        assert_eq!((found[0].name.as_str(), found[0].line), ("user", 2));
        let inside = &found[1].inside;
        assert_eq!(
            (inside[0].line, inside[0].args.as_slice()),
            (4, &["m".to_owned(), "$a".into(), "b;{".into()][..])
        );
        assert_eq!((inside[1].line, inside[1].args[1].as_str()), (6, "${y}z"));
    }

    #[test]
    fn what_is_no_configuration_is_refused_with_its_line() {
        assert_eq!(parse("a;\nb {"), Err((2, "a block is never closed")));
        assert_eq!(parse("a;\n}"), Err((2, "a `}` closes no block")));
        assert_eq!(parse("a;\nb"), Err((2, "the last directive has no `;`")));
        assert_eq!(parse("a 'b;"), Err((1, "a quote is never closed")));
        let deep = "a {".repeat(100_000);
        assert_eq!(parse(&deep), Err((1, "blocks are nested too deeply")));
    }

    #[test]
    fn code_of_lua_is_no_configuration() {
        let found = parse("content_by_lua_block { if x then y = { '}' } end -- }\n }\nuser a;")
            .expect("parsed");
        assert_eq!((found.len(), found[1].line), (2, 3));
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "[a-z{};\"'\\\\#$ \n-]{0,200}") {
            let _ = parse(&text);
        }
    }
}
