//! Variables whose values stand in the configuration: `set $pool unix:/run/a.sock;` and tables (`map`).

use super::Placed;
use super::syntax::Directive;
use std::collections::BTreeMap;

/// Most lines of a table that are read, and most values of a variable that are kept: a host has no more pools.
const LINES: usize = 10_000;
const VALUES: usize = 1000;

/// The values that each variable may have, by its name with the dollar sign.
#[derive(Debug, Clone, Default)]
pub(super) struct Variables(BTreeMap<String, Vec<String>>);

/// The values of a table that are texts, each once.
pub(super) fn of_map(lines: &[Directive]) -> Vec<String> {
    let special = ["include", "hostnames", "volatile"];
    let lines = lines.iter().take(LINES);
    let lines = lines.filter(|line| !special.contains(&line.name.as_str()));
    let mut values: Vec<String> = lines
        .filter_map(|line| line.args.first().cloned())
        .collect();
    values.sort();
    values.dedup();
    values
}

impl Variables {
    /// Those of tables.
    pub(super) fn of(http: &[Placed]) -> Self {
        let mut all = Self::default();
        for table in http.iter().filter(|one| one.directive.name == "map") {
            if let Some((name, values)) = table.directive.args.get(1..).and_then(<[_]>::split_first)
            {
                values.iter().for_each(|value| all.may_be(name, value));
            }
        }
        all
    }

    /// Those that are set in a server as well, wherever in it: a variable belongs to the request.
    pub(super) fn with(&self, server: &[Placed]) -> Self {
        let mut all = self.clone();
        all.set(server);
        all
    }

    fn set(&mut self, inside: &[Placed]) {
        for placed in inside {
            if let ("set", [name, value]) = (
                placed.directive.name.as_str(),
                placed.directive.args.as_slice(),
            ) {
                self.may_be(name, value);
            }
            self.set(&placed.inside);
        }
    }

    fn may_be(&mut self, name: &str, value: &str) {
        let values = self.0.entry(name.to_owned()).or_default();
        let is_text = !value.is_empty() && !value.contains('$');
        if is_text && values.len() < VALUES && !values.iter().any(|known| known == value) {
            values.push(value.to_owned());
        }
    }

    /// What a target may be: itself, or with each value of the variable in it. One that nothing here tells stays.
    pub(super) fn targets(&self, target: &str) -> Vec<String> {
        let Some(at) = target.find('$') else {
            return vec![target.to_owned()];
        };
        let (before, rest) = target.split_at(at);
        let (name, behind) = match rest[1..]
            .strip_prefix('{')
            .and_then(|rest| rest.split_once('}'))
        {
            Some(pair) => pair,
            None => {
                let is_end = |letter: char| !letter.is_ascii_alphanumeric() && letter != '_';
                rest[1..].split_at(rest[1..].find(is_end).unwrap_or(rest.len() - 1))
            }
        };
        let values = self
            .0
            .get(&format!("${name}"))
            .filter(|_| !behind.contains('$'));
        match values.map_or(&[][..], Vec::as_slice) {
            [] => vec![target.to_owned()],
            values => values
                .iter()
                .map(|value| format!("{before}{value}{behind}"))
                .collect(),
        }
    }
}
