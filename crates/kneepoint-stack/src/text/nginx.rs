//! nginx configuration as a tree that keeps every byte: spaces, comments, quotes, and Lua blocks.
//!
//! The tokens follow nginx's own reader: a word ends at a space, `;` or `{`; `${` does not open a block; a
//! quote opens a quoted word only at the start of a word; `#` opens a comment only between words. Bodies of
//! `*_by_lua_block` are kept as one piece of code.

use super::SyntaxError;
use std::fmt;

/// Deeper nesting than any real configuration; it bounds the recursion on hostile input.
const MAX_DEPTH: usize = 64;

/// A whole configuration file, or the inside of a block.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Block {
    items: Vec<Directive>,
    /// Spaces and comments before the closing brace or the end of the file.
    tail: String,
}

/// One directive: `worker_processes 2;` or `server { ... }`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Directive {
    words: Vec<Word>,
    body: Body,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Word {
    /// Spaces and comments before the word.
    lead: String,
    /// The word as written, with its quotes.
    raw: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Body {
    Plain { lead: String },
    Block { lead: String, block: Block },
    Code { lead: String, code: String },
}

/// Parses a configuration.
///
/// # Errors
/// An unclosed block, quote or directive, a stray `}` or `;`, or nesting deeper than 64.
pub fn parse(text: &str) -> Result<Block, SyntaxError> {
    let mut reader = Reader { text, at: 0 };
    let block = reader.block(0)?;
    match reader.peek() {
        None => Ok(block),
        Some(_) => Err(reader.error("a `}` closes no block")),
    }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl Reader<'_> {
    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn bump(&mut self) -> Option<char> {
        let next = self.peek()?;
        self.at += next.len_utf8();
        Some(next)
    }

    fn error(&self, what: &str) -> SyntaxError {
        SyntaxError {
            line: 1 + self.text[..self.at].matches('\n').count(),
            what: what.to_owned(),
        }
    }

    fn since(&self, start: usize) -> String {
        self.text[start..self.at].to_owned()
    }

    fn trivia(&mut self) -> String {
        let start = self.at;
        while let Some(next) = self.peek() {
            if next == '#' {
                let rest = self.rest();
                self.at += rest.find('\n').unwrap_or(rest.len());
            } else if is_space(next) {
                self.bump();
            } else {
                break;
            }
        }
        self.since(start)
    }

    fn block(&mut self, depth: usize) -> Result<Block, SyntaxError> {
        if depth > MAX_DEPTH {
            return Err(self.error("blocks are nested too deeply"));
        }
        let mut items = Vec::new();
        loop {
            let lead = self.trivia();
            match self.peek() {
                None | Some('}') => return Ok(Block { items, tail: lead }),
                Some(';') => return Err(self.error("a `;` ends no directive")),
                Some('{') => return Err(self.error("a `{` opens a block without a name")),
                Some(_) => items.push(self.directive(lead, depth)?),
            }
        }
    }

    fn directive(&mut self, lead: String, depth: usize) -> Result<Directive, SyntaxError> {
        let mut words = vec![Word {
            lead,
            raw: self.word()?,
        }];
        loop {
            let lead = self.trivia();
            let body = match self.peek() {
                None => return Err(self.error("the last directive has no `;`")),
                Some('}') => {
                    return Err(self.error("a directive has no `;` before the closing `}`"));
                }
                Some(';') => {
                    self.bump();
                    Body::Plain { lead }
                }
                Some('{') => {
                    self.bump();
                    self.body(lead, &words, depth)?
                }
                Some(_) => {
                    let raw = self.word()?;
                    words.push(Word { lead, raw });
                    continue;
                }
            };
            return Ok(Directive { words, body });
        }
    }

    fn body(&mut self, lead: String, words: &[Word], depth: usize) -> Result<Body, SyntaxError> {
        let body = if words[0].raw.ends_with("_by_lua_block") {
            Body::Code {
                lead,
                code: self.code()?,
            }
        } else {
            Body::Block {
                lead,
                block: self.block(depth + 1)?,
            }
        };
        match self.bump() {
            Some('}') => Ok(body),
            _ => Err(self.error(&format!("the block `{}` is never closed", words[0].raw))),
        }
    }

    fn word(&mut self) -> Result<String, SyntaxError> {
        let start = self.at;
        match self.peek() {
            Some(quote @ ('"' | '\'')) => {
                self.bump();
                self.quoted(quote)?;
            }
            _ => self.bare(),
        }
        Ok(self.since(start))
    }

    fn quoted(&mut self, quote: char) -> Result<(), SyntaxError> {
        let opened = self.error("a quote is never closed");
        loop {
            match self.bump() {
                None => return Err(opened),
                Some('\\') => {
                    self.bump();
                }
                Some(next) if next == quote => return Ok(()),
                Some(_) => {}
            }
        }
    }

    fn bare(&mut self) {
        while let Some(next) = self.peek() {
            if is_space(next) || next == ';' || next == '{' {
                return;
            }
            self.bump();
            match (next, self.peek()) {
                ('\\', Some(_)) | ('$', Some('{')) => {
                    self.bump();
                }
                _ => {}
            }
        }
    }

    /// Lua up to the brace that closes its block; braces in strings and comments do not count.
    fn code(&mut self) -> Result<String, SyntaxError> {
        let start = self.at;
        let mut depth = 0usize;
        while let Some(next) = self.peek() {
            match next {
                '}' if depth == 0 => return Ok(self.since(start)),
                '}' => depth -= 1,
                '{' => depth += 1,
                '-' if self.rest().starts_with("--") => {
                    let rest = self.rest();
                    self.at += rest.find('\n').unwrap_or(rest.len());
                    continue;
                }
                '"' | '\'' => {
                    self.bump();
                    self.quoted(next)?;
                    continue;
                }
                _ => {}
            }
            self.bump();
        }
        Err(self.error("a Lua block is never closed"))
    }
}

fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n')
}

/// A word without its quotes and escapes, as nginx reads it.
fn unquote(raw: &str) -> String {
    let inner = match raw.chars().next() {
        Some(quote @ ('"' | '\'')) if raw.len() >= 2 && raw.ends_with(quote) => {
            &raw[1..raw.len() - 1]
        }
        _ => raw,
    };
    let mut value = String::with_capacity(inner.len());
    let mut chars = inner.chars().peekable();
    while let Some(next) = chars.next() {
        let plain = match (next, chars.peek()) {
            ('\\', Some('"')) => '"',
            ('\\', Some('\'')) => '\'',
            ('\\', Some('\\')) => '\\',
            ('\\', Some('t')) => '\t',
            ('\\', Some('r')) => '\r',
            ('\\', Some('n')) => '\n',
            _ => {
                value.push(next);
                continue;
            }
        };
        chars.next();
        value.push(plain);
    }
    value
}

/// A value as a word: quoted only when it has to be.
pub(crate) fn quote(value: &str) -> String {
    let special = |c: char| is_space(c) || matches!(c, ';' | '{' | '}' | '"' | '\'' | '\\' | '#');
    // A block may follow at once, and `${` opens the name of a variable.
    if !value.is_empty() && !value.contains(special) && !value.ends_with('$') {
        return value.to_owned();
    }
    format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\""))
}

impl Directive {
    fn new(indent: &str, name: &str, args: &[&str]) -> Self {
        let mut words = vec![Word {
            lead: format!("\n{indent}"),
            raw: quote(name),
        }];
        words.extend(args.iter().map(|arg| Word {
            lead: " ".into(),
            raw: quote(arg),
        }));
        Self {
            words,
            body: Body::Plain {
                lead: String::new(),
            },
        }
    }

    /// The directive's name.
    #[must_use]
    pub fn name(&self) -> String {
        unquote(&self.words[0].raw)
    }

    /// The arguments, without quotes.
    #[must_use]
    pub fn args(&self) -> Vec<String> {
        self.words[1..]
            .iter()
            .map(|word| unquote(&word.raw))
            .collect()
    }

    /// The inside of the directive, when it is a block.
    #[must_use]
    pub fn block(&self) -> Option<&Block> {
        match &self.body {
            Body::Block { block, .. } => Some(block),
            _ => None,
        }
    }

    /// The inside of the directive, to edit.
    pub fn block_mut(&mut self) -> Option<&mut Block> {
        match &mut self.body {
            Body::Block { block, .. } => Some(block),
            _ => None,
        }
    }

    /// Replaces the arguments. Words that stay the same keep their spelling.
    pub fn set_args(&mut self, args: &[&str]) {
        self.words.truncate(1 + args.len());
        for (at, arg) in args.iter().enumerate() {
            match self.words.get_mut(at + 1) {
                Some(word) if unquote(&word.raw) == *arg => {}
                Some(word) => word.raw = quote(arg),
                None => self.words.push(Word {
                    lead: " ".into(),
                    raw: quote(arg),
                }),
            }
        }
    }

    fn lead(&mut self) -> &mut String {
        &mut self.words[0].lead
    }
}

impl Block {
    /// The directives in order.
    #[must_use]
    pub fn items(&self) -> &[Directive] {
        &self.items
    }

    /// The directives in order, to edit.
    pub fn items_mut(&mut self) -> &mut [Directive] {
        &mut self.items
    }

    /// The last directive of a name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&Directive> {
        self.items.iter().rev().find(|item| item.name() == name)
    }

    /// The last directive of a name, to edit.
    pub fn find_mut(&mut self, name: &str) -> Option<&mut Directive> {
        self.items.iter_mut().rev().find(|item| item.name() == name)
    }

    /// Sets the last directive of a name, or appends one.
    pub fn set(&mut self, name: &str, args: &[&str]) {
        match self.find_mut(name) {
            Some(directive) => directive.set_args(args),
            None => self.push(name, args),
        }
    }

    /// Appends a directive, indented like its neighbours.
    pub fn push(&mut self, name: &str, args: &[&str]) {
        let directive = Directive::new(&self.indent(), name, args);
        self.insert(self.items.len(), directive);
    }

    /// Sets the last directive of a name, or puts one after the plain directives the block begins with.
    pub fn set_first(&mut self, name: &str, args: &[&str]) {
        if let Some(directive) = self.find_mut(name) {
            return directive.set_args(args);
        }
        let plain = |item: &&Directive| matches!(item.body, Body::Plain { .. });
        let at = self.items.iter().take_while(plain).count();
        let directive = Directive::new(&self.indent(), name, args);
        self.insert(at, directive);
    }

    /// Puts a block before the first directive of a name (or at the end), and returns its inside.
    pub fn insert_block(&mut self, before: &str, name: &str, args: &[&str]) -> Option<&mut Block> {
        let indent = self.indent();
        let mut directive = Directive::new(&indent, name, args);
        directive.body = Body::Block {
            lead: " ".into(),
            block: Self {
                items: Vec::new(),
                tail: format!("\n{indent}"),
            },
        };
        let at = self.items.iter().position(|item| item.name() == before);
        let at = at.unwrap_or(self.items.len());
        self.insert(at, directive);
        self.items[at].block_mut()
    }

    /// Appends all of another block, as it is written there.
    pub fn adopt(&mut self, mut other: Self) {
        if let Some(first) = other.items.first_mut() {
            first.lead().insert(0, '\n');
        }
        self.items.append(&mut other.items);
        self.tail = other.tail;
        if !self.tail.ends_with('\n') {
            self.tail.push('\n');
        }
    }

    /// Puts the directives of other blocks in place of the one at a position, below a comment that tells what stood there
    /// and indented like it. Returns how many they are.
    pub fn replace(&mut self, at: usize, by: Vec<Self>) -> usize {
        let mut removed = self.items.remove(at);
        let lead = std::mem::take(removed.lead());
        let indent = lead[lead.rfind('\n').map_or(0, |at| at + 1)..].to_owned();
        let stood_there = removed.to_string().replace('\n', " ");
        // What is still to be put before the next directive.
        let mut between = format!("{lead}# {stood_there}");
        let mut added = 0;
        for mut block in by {
            block.indent_by(&indent);
            for (nth, mut item) in block.items.into_iter().enumerate() {
                let own = item.lead();
                if nth == 0 && !own.starts_with('\n') {
                    own.insert_str(0, &format!("\n{indent}"));
                }
                own.insert_str(0, &std::mem::take(&mut between));
                self.items.insert(at + added, item);
                added += 1;
            }
            let tail = block.tail.trim_end();
            if !tail.is_empty() && !tail.starts_with('\n') {
                between.push('\n');
            }
            between.push_str(tail);
        }
        let next = match self.items.get_mut(at + added) {
            Some(item) => item.lead(),
            None => &mut self.tail,
        };
        if !between.is_empty() && !next.starts_with('\n') {
            between.push('\n');
        }
        next.insert_str(0, &between);
        added
    }

    /// Removes every directive of a name but the first.
    pub fn keep_first(&mut self, name: &str) {
        let is_named = |item: &Directive| item.name() == name;
        while let Some(first) = self.items.iter().position(is_named)
            && let Some(last) = self.items.iter().rposition(is_named)
            && first < last
        {
            self.remove_at(last);
        }
    }

    /// Removes every directive of a name; comments before them stay. True when there was one.
    pub fn remove(&mut self, name: &str) -> bool {
        let mut found = false;
        while let Some(at) = self.items.iter().position(|item| item.name() == name) {
            self.remove_at(at);
            found = true;
        }
        found
    }

    /// Removes the directive at a position; comments before it stay.
    pub fn remove_at(&mut self, at: usize) {
        let mut removed = self.items.remove(at);
        let lead = std::mem::take(removed.lead());
        let next = match self.items.get_mut(at) {
            Some(item) => item.lead(),
            None => &mut self.tail,
        };
        let starts_a_line = next.trim_start_matches([' ', '\t', '\r']).starts_with('\n');
        let kept = match lead.rfind('\n') {
            Some(end) if starts_a_line => &lead[..end],
            _ => lead.as_str(),
        };
        next.insert_str(0, kept);
    }

    fn insert(&mut self, at: usize, mut directive: Directive) {
        let next = match self.items.get_mut(at) {
            Some(item) => item.lead(),
            None => &mut self.tail,
        };
        let line_end = next.find('\n').unwrap_or(next.len());
        if at > 0 {
            // A comment on the line of the directive before stays there.
            let same_line: String = next.drain(..line_end).collect();
            directive.lead().insert_str(0, &same_line);
        } else if !next[..line_end].trim().is_empty() || next.is_empty() {
            // The start of a file.
            directive.lead().clear();
        }
        if !next.starts_with('\n') {
            next.insert(0, '\n');
        }
        self.items.insert(at, directive);
    }

    /// Moves everything to the right, empty lines excepted.
    fn indent_by(&mut self, indent: &str) {
        let deeper = |text: &mut String| {
            let lines = text.split('\n').enumerate();
            let last = text.matches('\n').count();
            let moved = lines.map(|(at, line)| match at {
                0 => line.to_owned(),
                _ if at < last && line.trim().is_empty() => "\n".to_owned(),
                _ => format!("\n{indent}{line}"),
            });
            *text = moved.collect();
        };
        for item in &mut self.items {
            for word in &mut item.words {
                deeper(&mut word.lead);
            }
            match &mut item.body {
                Body::Plain { lead } | Body::Code { lead, .. } => deeper(lead),
                Body::Block { lead, block } => {
                    deeper(lead);
                    block.indent_by(indent);
                }
            }
        }
        deeper(&mut self.tail);
    }

    /// The spaces before the directives of this block.
    fn indent(&self) -> String {
        let after_newline = |text: &str| {
            text.rfind('\n')
                .map(|at| text[at + 1..].to_owned())
                .filter(|indent| indent.chars().all(|c| c == ' ' || c == '\t'))
        };
        let of_item = self
            .items
            .iter()
            .rev()
            .find_map(|item| after_newline(&item.words[0].lead));
        of_item
            .or_else(|| {
                let outer = after_newline(&self.tail).filter(|_| self.items.is_empty())?;
                Some(outer + "    ")
            })
            .unwrap_or_default()
    }

    /// Visits every directive in the block and below it.
    pub fn visit_mut(&mut self, visit: &mut impl FnMut(&mut Directive)) {
        for item in &mut self.items {
            visit(item);
            if let Some(block) = item.block_mut() {
                block.visit_mut(visit);
            }
        }
    }
}

impl fmt::Display for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for item in &self.items {
            write!(f, "{item}")?;
        }
        f.write_str(&self.tail)
    }
}

impl fmt::Display for Directive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Word { lead, raw } in &self.words {
            write!(f, "{lead}{raw}")?;
        }
        match &self.body {
            Body::Plain { lead } => write!(f, "{lead};"),
            Body::Block { lead, block } => write!(f, "{lead}{{{block}}}"),
            Body::Code { lead, code } => write!(f, "{lead}{{{code}}}"),
        }
    }
}
