//! Writes what a user's configuration includes into it: the lab's addresses, logs and directories are then set wherever
//! the user set others.
//!
//! nginx looks for a relative path beside its main file. A file with servers only is no main file, so the places are, in
//! order: the user's file's own directory; the one above, where an `nginx.conf` is in it (`sites-enabled` and the like);
//! and the directory of this machine's `nginx.conf`, as the program was built to read it.

use crate::text::nginx::{self, Block};
use crate::{ConfigText, StackError};
use std::path::{Path, PathBuf};

/// Most files that a configuration may be made of: more of them include one another without end.
const MOST_FILES: usize = 1000;
/// How deep files may include one another. With the depth of each it bounds the recursion on hostile input.
const MOST_NESTED: usize = 10;

/// The configuration with every `include` replaced by what it names. `conf_dir` is the directory of this machine's
/// `nginx.conf`.
///
/// # Errors
/// A file that is included is nowhere, cannot be read, is not in nginx's format, or includes itself.
pub(super) fn written_out(config: &ConfigText, conf_dir: &Path) -> Result<ConfigText, StackError> {
    let mut root = nginx::parse(&config.text).map_err(|error| error.of(&config.name()))?;
    let own = config.path.parent().unwrap_or(Path::new(""));
    let above = own.parent().filter(|dir| dir.join("nginx.conf").is_file());
    let homes = [Some(own), above, Some(conf_dir)];
    let mut reader = Reader {
        homes: homes.into_iter().flatten().map(Path::to_owned).collect(),
        open: vec![config.path.clone()],
        files: 0,
    };
    reader.block(&mut root)?;
    Ok(ConfigText {
        path: config.path.clone(),
        text: root.to_string(),
    })
}

struct Reader {
    /// Where relative paths are looked for, the first first.
    homes: Vec<PathBuf>,
    /// The files that are being read, each included by the one before.
    open: Vec<PathBuf>,
    files: usize,
}

impl Reader {
    fn block(&mut self, block: &mut Block) -> Result<(), StackError> {
        let mut at = 0;
        while let Some(item) = block.items_mut().get_mut(at) {
            let args = item.args();
            match args.as_slice() {
                [pattern] if item.name() == "include" => {
                    let paths = self.named(pattern)?;
                    let read: Result<Vec<Block>, StackError> =
                        paths.iter().map(|path| self.file(path)).collect();
                    at += block.replace(at, read?);
                }
                _ => {
                    if let Some(inside) = item.block_mut() {
                        self.block(inside)?;
                    }
                    at += 1;
                }
            }
        }
        Ok(())
    }

    fn file(&mut self, path: &Path) -> Result<Block, StackError> {
        self.files += 1;
        if self.open.contains(&path.to_owned()) {
            return Err(self.unusable("it includes itself".into()));
        }
        if self.open.len() > MOST_NESTED || self.files > MOST_FILES {
            return Err(self.unusable(format!(
                "its includes name more than {MOST_FILES} files, or nest deeper than {MOST_NESTED}"
            )));
        }
        let bytes = std::fs::read(path).map_err(|error| StackError::io("read", path, &error))?;
        let text = String::from_utf8_lossy(&bytes);
        let name = path.display().to_string();
        let mut block = nginx::parse(&text).map_err(|error| error.of(&name))?;
        self.open.push(path.to_owned());
        self.block(&mut block)?;
        self.open.pop();
        Ok(block)
    }

    /// The files that an `include` names. Like nginx: a pattern may name none, a file must be there.
    fn named(&self, pattern: &str) -> Result<Vec<PathBuf>, StackError> {
        // `join` with an absolute path is that path.
        let places = || self.homes.iter().map(|home| home.join(pattern));
        if pattern.contains(['*', '?', '[']) {
            let found = places().map(|place| matches(&place));
            let found = found.collect::<Result<Vec<_>, _>>();
            let found = found.map_err(|why| {
                self.unusable(format!("`include {pattern}` is no pattern: {why}"))
            })?;
            return Ok(found
                .into_iter()
                .find(|paths| !paths.is_empty())
                .unwrap_or_default());
        }
        places().find(|place| place.is_file()).map(|path| vec![path]).ok_or_else(|| {
            let looked: Vec<String> = places().map(|place| place.display().to_string()).collect();
            self.unusable(format!(
                "it includes `{pattern}`, which is not there (looked for {}); put the file beside it or give its absolute path",
                looked.join(", ")
            ))
        })
    }

    fn unusable(&self, what: String) -> StackError {
        let file = self
            .open
            .last()
            .map_or_else(String::new, |path| path.display().to_string());
        StackError::Unusable { file, what }
    }
}

/// What a pattern names, in the order of the names, as the C library's `glob` has it.
fn matches(pattern: &Path) -> Result<Vec<PathBuf>, String> {
    let options = glob::MatchOptions {
        require_literal_separator: true,
        require_literal_leading_dot: true,
        ..glob::MatchOptions::default()
    };
    let pattern = pattern.to_string_lossy();
    let found = glob::glob_with(&pattern, options).map_err(|error| error.msg.to_owned())?;
    Ok(found.flatten().filter(|path| path.is_file()).collect())
}
