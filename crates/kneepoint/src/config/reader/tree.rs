//! A TOML document as values that remember where they were written, and a merge of two of them.
//!
//! Nothing here derives `Debug`: a scenario's environment holds secrets.

use std::ops::Range;
use toml::de::{DeTable, DeValue};

/// A range of bytes in one of the texts a scenario is made of.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::config) struct Span {
    /// Which text: 0 is the scenario, 1 the patch over it.
    pub(in crate::config) source: usize,
    pub(in crate::config) start: usize,
    pub(in crate::config) end: usize,
}

impl Span {
    pub(in crate::config) fn new(source: usize, range: Range<usize>) -> Self {
        Self {
            source,
            start: range.start,
            end: range.end,
        }
    }
}

/// A value and where it stands.
pub(in crate::config) struct Node {
    pub(in crate::config) value: Value,
    pub(in crate::config) at: Span,
}

/// What a value is.
pub(in crate::config) enum Value {
    Text(String),
    Integer(i64),
    Float(f64),
    Bool(bool),
    /// A date, or a number beyond what a machine word holds: never accepted, so only its name is kept.
    Other(&'static str),
    Array(Vec<Node>),
    Table(Table),
}

impl Value {
    /// The kind of value, with its article, for messages. Never the value itself: it may be a secret.
    pub(in crate::config) fn describe(&self) -> &'static str {
        match self {
            Self::Text(_) => "a string",
            Self::Integer(_) => "an integer",
            Self::Float(_) => "a float",
            Self::Bool(_) => "a boolean",
            Self::Other(what) => what,
            Self::Array(_) => "an array",
            Self::Table(_) => "a table",
        }
    }
}

/// A table in the order it was written.
#[derive(Default)]
pub(in crate::config) struct Table {
    pub(in crate::config) entries: Vec<Entry>,
}

/// A key with its value.
pub(in crate::config) struct Entry {
    pub(in crate::config) key: String,
    pub(in crate::config) key_at: Span,
    pub(in crate::config) node: Node,
}

impl Table {
    pub(in crate::config) fn get(&self, key: &str) -> Option<&Node> {
        self.entries
            .iter()
            .find(|entry| entry.key == key)
            .map(|entry| &entry.node)
    }

    fn get_mut(&mut self, key: &str) -> Option<&mut Node> {
        self.entries
            .iter_mut()
            .find(|entry| entry.key == key)
            .map(|entry| &mut entry.node)
    }
}

/// A syntax error: what the parser says and where.
pub(in crate::config) struct SyntaxError {
    pub(in crate::config) message: String,
    pub(in crate::config) at: Option<Span>,
}

/// Reads a text as far as it can be read, with every syntax error in it.
pub(in crate::config) fn parse(source: usize, text: &str) -> (Table, Vec<SyntaxError>) {
    let (document, errors) = DeTable::parse_recoverable(text);
    let errors = errors
        .into_iter()
        .map(|error| SyntaxError {
            message: error.message().to_owned(),
            at: error.span().map(|range| Span::new(source, range)),
        })
        .collect();
    let mut table = table(source, document.into_inner());
    flatten_dotted(&mut table, text);
    (table, errors)
}

fn table(source: usize, from: DeTable<'_>) -> Table {
    let mut entries: Vec<Entry> = from
        .into_iter()
        .map(|(key, value)| Entry {
            key_at: Span::new(source, key.span()),
            key: key.into_inner().into_owned(),
            node: node(source, value.span(), value.into_inner()),
        })
        .collect();
    entries.sort_by_key(|entry| entry.key_at);
    Table { entries }
}

fn node(source: usize, span: Range<usize>, from: DeValue<'_>) -> Node {
    let value = match from {
        DeValue::String(text) => Value::Text(text.into_owned()),
        DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
            .map_or(Value::Other("an integer beyond 64 bits"), Value::Integer),
        DeValue::Float(number) => number
            .as_str()
            .parse()
            .map_or(Value::Other("an unreadable float"), Value::Float),
        DeValue::Boolean(value) => Value::Bool(value),
        DeValue::Datetime(_) => Value::Other("a date"),
        DeValue::Array(items) => Value::Array(
            items
                .into_iter()
                .map(|item| node(source, item.span(), item.into_inner()))
                .collect(),
        ),
        DeValue::Table(inner) => Value::Table(table(source, inner)),
    };
    Node {
        value,
        at: Span::new(source, span),
    }
}

/// Where names hold dots themselves (`pm.max_children`, `net.core.somaxconn`, `p99.9`), an unquoted key is
/// a nest of tables to TOML. Both spellings are made one here, before two documents are merged.
fn flatten_dotted(top: &mut Table, text: &str) {
    for (section, key) in [("stack", "settings"), ("hosts", "sysctl")] {
        let Some(Value::Table(tiers)) = top.get_mut(section).map(|node| &mut node.value) else {
            continue;
        };
        for tier in &mut tiers.entries {
            if let Value::Table(tier) = &mut tier.node.value {
                flatten_at(tier, key, text);
            }
        }
    }
    if let Some(Value::Table(slo)) = top.get_mut("slo").map(|node| &mut node.value) {
        flatten_at(slo, "response_time", text);
    }
}

fn flatten_at(parent: &mut Table, key: &str, text: &str) {
    if let Some(Value::Table(inner)) = parent.get_mut(key).map(|node| &mut node.value) {
        let mut flat = Vec::new();
        flatten(None, std::mem::take(inner), text, &mut flat);
        inner.entries = flat;
    }
}

fn flatten(outer: Option<(&str, Span)>, from: Table, text: &str, into: &mut Vec<Entry>) {
    for mut entry in from.entries {
        if let Some((prefix, prefix_at)) = outer {
            entry.key = format!("{prefix}.{}", entry.key);
            // On one line the whole dotted name is meant; under a header of its own only the last part.
            let between = text.get(prefix_at.start..entry.key_at.end);
            if between.is_some_and(|between| !between.contains(['\n', '='])) {
                entry.key_at.start = prefix_at.start;
            }
        }
        match entry.node.value {
            Value::Table(inner) => {
                flatten(Some((&entry.key, entry.key_at)), inner, text, into);
            }
            value => into.push(Entry {
                node: Node {
                    value,
                    ..entry.node
                },
                ..entry
            }),
        }
    }
}

/// Lays `patch` over `base`: tables are merged key by key, everything else (arrays too) is replaced whole. Two things are said
/// in words of their own: `cache = false` leaves a table out, and `[["+request"]]` adds to an array instead of replacing it.
pub(in crate::config) fn merge(base: &mut Table, patch: Table) {
    for entry in patch.entries {
        let is_table = |known: &Entry| matches!(known.node.value, Value::Table(_));
        if matches!(entry.node.value, Value::Bool(false)) {
            let left_out = |known: &Entry| known.key == entry.key && is_table(known);
            if let Some(at) = base.entries.iter().position(left_out) {
                base.entries.remove(at);
                continue;
            }
        }
        let Some(entry) = added(base, entry) else {
            continue;
        };
        let known = base.entries.iter_mut().find(|known| known.key == entry.key);
        let Some(known) = known else {
            base.entries.push(entry);
            continue;
        };
        match (&mut known.node.value, entry.node.value) {
            (Value::Table(base), Value::Table(patch)) => merge(base, patch),
            (_, value) => {
                known.key_at = entry.key_at;
                known.node = Node {
                    value,
                    at: entry.node.at,
                };
            }
        }
    }
}

/// Adds what `+NAME` holds to the array of that name. Everything else is handed back, an addition to what is no array too: there
/// is no key of that name, and the message says so.
fn added(base: &mut Table, entry: Entry) -> Option<Entry> {
    let name = entry.key.strip_prefix('+').map(str::to_owned);
    let known = name.as_deref().and_then(|name| base.get_mut(name));
    match (known.map(|node| &mut node.value), entry.node.value) {
        (Some(Value::Array(known)), Value::Array(more)) => {
            known.extend(more);
            None
        }
        (known, value) => {
            // Where there is none yet, what is added is all there is.
            let is_first = known.is_none() && matches!(value, Value::Array(_));
            let key = name.filter(|_| is_first).unwrap_or(entry.key);
            let node = Node {
                value,
                ..entry.node
            };
            Some(Entry { key, node, ..entry })
        }
    }
}
