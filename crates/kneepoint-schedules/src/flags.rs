//! The command lines of other tools: their flags as they themselves would split them.

use super::Refusal;

/// How a tool splits its flags.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    /// `-kc 10`, `-c10`, `--name value`, `--name=value`.
    Getopt,
    /// `-name value`, `-name=value`, the same with two dashes; a switch is `-name` or `-name=false`.
    Go,
}

/// What becomes of a flag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// It says something about the load.
    Used,
    /// It is about output only.
    Quiet,
    /// It is left out, and a note says so: what is not done.
    Dropped(&'static str),
}

/// A flag of a tool.
#[derive(Debug)]
pub(super) struct Flag {
    /// Its names without dashes, the shortest first; it is known by the first.
    names: &'static [&'static str],
    takes_value: bool,
    role: Role,
}

/// A flag with a value that says something about the load.
pub(super) const fn value(names: &'static [&'static str]) -> Flag {
    flag(names, true, Role::Used)
}

/// A flag without a value that says something about the load.
pub(super) const fn switch(names: &'static [&'static str]) -> Flag {
    flag(names, false, Role::Used)
}

/// Any flag.
pub(super) const fn flag(names: &'static [&'static str], takes_value: bool, role: Role) -> Flag {
    Flag {
        names,
        takes_value,
        role,
    }
}

/// A tool's command line.
#[derive(Debug)]
pub(super) struct Tool {
    pub(super) name: &'static str,
    pub(super) style: Style,
    pub(super) flags: &'static [Flag],
}

/// What a command line said.
#[derive(Debug, Default)]
pub(super) struct Given {
    /// Flags by their first name, with their values, in order. A switch has the value `true`.
    pub(super) flags: Vec<(&'static str, String)>,
    /// What is no flag.
    pub(super) arguments: Vec<String>,
    /// What is left out.
    pub(super) notes: Vec<String>,
}

impl Given {
    /// The value of a flag; the last one, when it is there more than once.
    pub(super) fn last(&self, name: &str) -> Option<&str> {
        self.all(name).last()
    }

    /// Every value of a flag.
    pub(super) fn all<'g>(&'g self, name: &str) -> impl Iterator<Item = &'g str> {
        let flags = self.flags.iter().filter(move |(given, _)| *given == name);
        flags.map(|(_, value)| value.as_str())
    }

    /// Whether a switch is on.
    pub(super) fn is_on(&self, name: &str) -> bool {
        self.last(name).is_some_and(|value| value != "false")
    }

    /// The only argument, the URL; `None` without one.
    pub(super) fn url(&self) -> Result<Option<String>, Refusal> {
        match self.arguments.as_slice() {
            [] => Ok(None),
            [url] => Ok(Some(url.clone())),
            [_, second, ..] => Err(Refusal::new(
                second,
                "this is one argument too many; write the URL once, and quote what has blanks",
            )),
        }
    }
}

/// Splits a command line into words as a shell does: at least one.
pub(super) fn words(text: &str) -> Result<Vec<String>, Refusal> {
    let wrong = |problem: &str| Refusal::new(text, problem);
    let words = shlex::split(text).ok_or_else(|| {
        wrong("a quotation mark or a backslash has no end; close it or take it out")
    })?;
    if words.is_empty() {
        return Err(wrong("there is nothing; write a command"));
    }
    Ok(words)
}

impl Tool {
    /// Reads the words after the program's name.
    pub(super) fn read(&self, words: &[String]) -> Result<Given, Refusal> {
        let mut given = Given::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let dashes = word.bytes().take_while(|b| *b == b'-').count();
            match (dashes, self.style) {
                (2, _) if word.len() == 2 => {
                    given.arguments.extend(words.by_ref().cloned());
                }
                (0, _) => given.arguments.push(word.clone()),
                (1, _) if word.len() == 1 => given.arguments.push(word.clone()),
                (2, _) | (1, Style::Go) => {
                    let (name, attached) = word[dashes..]
                        .split_once('=')
                        .map_or((&word[dashes..], None), |(name, value)| (name, Some(value)));
                    self.take(word, name, attached, &mut words, &mut given)?;
                }
                (1, Style::Getopt) => self.cluster(word, &mut words, &mut given)?,
                _ => return Err(self.unknown(word)),
            }
        }
        Ok(given)
    }

    /// `-kc10`: switches, and at most one value at the end.
    fn cluster<'w>(
        &self,
        word: &str,
        words: &mut impl Iterator<Item = &'w String>,
        given: &mut Given,
    ) -> Result<(), Refusal> {
        let mut rest = &word[1..];
        while let Some(letter) = rest.chars().next() {
            let (name, after) = rest.split_at(letter.len_utf8());
            let flag = self.find(name).ok_or_else(|| self.unknown(word))?;
            if flag.takes_value {
                let attached = (!after.is_empty()).then_some(after);
                return self.take(word, name, attached, words, given);
            }
            self.take(word, name, None, words, given)?;
            rest = after;
        }
        Ok(())
    }

    fn take<'w>(
        &self,
        word: &str,
        name: &str,
        attached: Option<&str>,
        words: &mut impl Iterator<Item = &'w String>,
        given: &mut Given,
    ) -> Result<(), Refusal> {
        let flag = self.find(name).ok_or_else(|| self.unknown(word))?;
        let value = match (flag.takes_value, attached) {
            (_, Some(value)) => value.to_owned(),
            (false, None) => "true".to_owned(),
            (true, None) => words.next().cloned().ok_or_else(|| {
                Refusal::new(word, format!("{} wants a value after it", self.name))
            })?,
        };
        match flag.role {
            Role::Used => given.flags.push((flag.names[0], value)),
            Role::Quiet => {}
            Role::Dropped(what) => given.notes.push(format!(
                "{} of {} is left out: {what}.",
                self.spelled(flag.names[0]),
                self.name
            )),
        }
        Ok(())
    }

    fn find(&self, name: &str) -> Option<&Flag> {
        self.flags.iter().find(|flag| flag.names.contains(&name))
    }

    fn spelled(&self, name: &str) -> String {
        let dashes = if self.style == Style::Go || name.len() == 1 {
            "-"
        } else {
            "--"
        };
        format!("{dashes}{name}")
    }

    fn unknown(&self, word: &str) -> Refusal {
        let used = self.flags.iter().filter(|flag| flag.role == Role::Used);
        let known: Vec<String> = used.map(|flag| self.spelled(flag.names[0])).collect();
        Refusal::new(
            word,
            format!(
                "this flag of {} is not known here; take it out, or write one of {}",
                self.name,
                known.join(" ")
            ),
        )
    }
}
