//! Writes what a user's `postgresql.conf` or `redis.conf` includes into it: the lab's addresses, logs and directories then
//! hold wherever the user set others.

use super::{Dialect, Lines, parse};
use crate::{ConfigText, StackError};
use std::path::{Path, PathBuf};

/// Most files that a configuration may be made of: more of them include one another without end.
const MOST_FILES: usize = 1000;
/// How deep files may include one another.
const MOST_NESTED: usize = 10;

/// The configuration with every file that it includes in the place where it includes it. A path is relative to the file that
/// names it.
///
/// # Errors
/// A file that is included is not there, cannot be read, or includes itself.
pub(crate) fn written_out(dialect: Dialect, config: &ConfigText) -> Result<ConfigText, StackError> {
    let mut reader = Reader {
        dialect,
        open: vec![config.path.clone()],
        files: 0,
    };
    Ok(ConfigText {
        path: config.path.clone(),
        text: reader.text(&config.text)?,
    })
}

struct Reader {
    dialect: Dialect,
    /// The files that are being read, each included by the one before.
    open: Vec<PathBuf>,
    files: usize,
}

impl Reader {
    fn text(&mut self, text: &str) -> Result<String, StackError> {
        let mut out = String::with_capacity(text.len());
        for line in text.split_inclusive('\n') {
            let parsed = parse(self.dialect, line);
            match included(self.dialect, &parsed) {
                Some((key, value)) => {
                    // So that a reader finds where the lines came from.
                    out.push_str(&format!("# {}\n", line.trim()));
                    for path in self.named(&key, &value)? {
                        let text = self.file(&path)?;
                        out.push_str(&text);
                        if !text.is_empty() && !text.ends_with('\n') {
                            out.push('\n');
                        }
                    }
                }
                None => out.push_str(line),
            }
        }
        Ok(out)
    }

    fn file(&mut self, path: &Path) -> Result<String, StackError> {
        self.files += 1;
        if self.open.iter().any(|open| open == path) {
            return Err(self.unusable(format!("it includes itself by {}", path.display())));
        }
        if self.open.len() > MOST_NESTED || self.files > MOST_FILES {
            return Err(self.unusable(format!(
                "its includes name more than {MOST_FILES} files, or nest deeper than {MOST_NESTED}"
            )));
        }
        let bytes = std::fs::read(path).map_err(|error| StackError::io("read", path, &error))?;
        self.open.push(path.to_owned());
        let text = self.text(&String::from_utf8_lossy(&bytes));
        self.open.pop();
        text
    }

    /// The files that a directive names, in the order in which the server reads them.
    fn named(&self, key: &str, value: &str) -> Result<Vec<PathBuf>, StackError> {
        let own = self.open.last().and_then(|path| path.parent());
        let path = own.unwrap_or(Path::new("")).join(value);
        if key == "include_dir" {
            return directory(&path);
        }
        if self.dialect == Dialect::Redis && value.contains(['*', '?', '[']) {
            let pattern = path.to_string_lossy();
            let found = glob::glob(&pattern)
                .map_err(|why| self.unusable(format!("`include {value}` is no pattern: {why}")))?;
            return Ok(found.flatten().collect());
        }
        if key == "include_if_exists" && !path.exists() {
            return Ok(Vec::new());
        }
        Ok(vec![path])
    }

    fn unusable(&self, what: String) -> StackError {
        let file = self.open.last().map(|path| path.display().to_string());
        StackError::Unusable {
            file: file.unwrap_or_default(),
            what,
        }
    }
}

/// The directive and the value of a line that includes other files.
fn included(dialect: Dialect, line: &Lines) -> Option<(String, String)> {
    let keys: &[&str] = match dialect {
        Dialect::Postgresql => &["include", "include_dir", "include_if_exists"],
        Dialect::Redis => &["include"],
    };
    keys.iter()
        .find_map(|key| Some(((*key).to_owned(), line.get(key)?)))
}

/// The files of PostgreSQL's `include_dir`: those that end in `.conf` and do not begin with a dot, by name.
fn directory(path: &Path) -> Result<Vec<PathBuf>, StackError> {
    let entries = std::fs::read_dir(path).map_err(|error| StackError::io("read", path, &error))?;
    let mut files: Vec<PathBuf> = entries
        .flatten()
        .filter(|entry| {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            name.ends_with(".conf") && !name.starts_with('.')
        })
        .map(|entry| entry.path())
        .collect();
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(dialect: Dialect, files: &[(&str, &str)], expected: &str) {
        let dir = tempfile::tempdir().expect("a directory");
        for (name, text) in files {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
            std::fs::write(path, text).expect("a file");
        }
        let config = ConfigText {
            path: dir.path().join(files[0].0),
            text: files[0].1.to_owned(),
        };
        let said = match written_out(dialect, &config) {
            Ok(config) => config.text,
            Err(error) => error.to_string(),
        };
        let said = said.replace(&dir.path().display().to_string(), "DIR");
        assert_eq!(said, expected);
    }

    #[test]
    fn what_is_included_stands_where_it_was_included() {
        check(
            Dialect::Postgresql,
            &[
                (
                    "main.conf",
                    "a = 1\ninclude_dir 'conf.d'\ninclude_if_exists = 'none.conf'\nb = 2\n",
                ),
                ("conf.d/2.conf", "archive_command = 'cp %p /prod'"),
                ("conf.d/1.conf", "include '../more.conf'\n"),
                ("conf.d/.3.conf", "hidden = 1\n"),
                ("more.conf", "data_directory = '/prod'\n"),
            ],
            "a = 1\n# include_dir 'conf.d'\n# include '../more.conf'\ndata_directory = '/prod'\n\
             archive_command = 'cp %p /prod'\n# include_if_exists = 'none.conf'\nb = 2\n",
        );
        check(
            Dialect::Redis,
            &[
                ("redis.conf", "include more*.conf\n"),
                ("more1.conf", "dir /prod\n"),
            ],
            "# include more*.conf\ndir /prod\n",
        );
    }

    #[test]
    fn a_file_that_includes_itself_or_is_not_there_is_named() {
        check(
            Dialect::Redis,
            &[
                ("a.conf", "include b.conf\n"),
                ("b.conf", "include a.conf\n"),
            ],
            "`DIR/b.conf` cannot be used: it includes itself by DIR/a.conf",
        );
    }
}
