//! What every server program must be able to say.

use crate::{ConfigText, Program, RenderedTier, StackError, TierContext};
use kneepoint_model::{CommandOutput, CommandSpec, Commands, Layer, Tunable};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A server program Kneepoint can configure.
pub trait Server: Sync {
    /// The name in scenario files: `nginx`.
    fn kind(&self) -> &'static str;

    /// The tiers it can serve.
    fn layers(&self) -> &'static [Layer];

    /// Whether it answers HTTP: a PHP runtime that does is a web server, too, and its chain has none before it.
    fn speaks_http(&self) -> bool {
        false
    }

    /// Finds the program on this machine.
    ///
    /// # Errors
    /// It is not installed (the error names the package), or does not answer.
    fn find(&self, commands: &dyn Commands) -> Result<Program, StackError>;

    /// Everything that can be set at a layer, with the defaults of a version (empty: of the newest known).
    fn tunables(&self, layer: Layer, version: &str) -> Vec<Tunable>;

    /// What an existing configuration sets, by tunable name. What it leaves to defaults is not in the map.
    ///
    /// # Errors
    /// The text is not in the program's format.
    fn read(
        &self,
        layer: Layer,
        config: &str,
        ini: Option<&str>,
    ) -> Result<BTreeMap<String, String>, StackError>;

    /// The user's configuration with all that it takes from other files of this machine, so that rendering sees it.
    ///
    /// # Errors
    /// One of those files is missing, cannot be read, or is not in the program's format.
    fn gathered(&self, config: ConfigText, _program: &Program) -> Result<ConfigText, StackError> {
        Ok(config)
    }

    /// The whole tier as text: a pure function.
    ///
    /// # Errors
    /// A setting is unknown, out of bounds or contradicts another; the user's configuration cannot be used.
    fn render(&self, context: &TierContext) -> Result<RenderedTier, StackError>;

    /// The program's own check of an installed tier (and, where it has none, ours). The commands must run on
    /// the tier's host, because a check may bind its addresses, and after [`RenderedTier::prepare`].
    ///
    /// # Errors
    /// The program refuses the configuration; the error quotes its words.
    fn check(&self, tier: &RenderedTier, commands: &dyn Commands) -> Result<(), StackError>;
}

/// Refuses a layer the server cannot serve.
pub(crate) fn check_layer(server: &dyn Server, layer: Layer) -> Result<(), StackError> {
    if server.layers().contains(&layer) {
        return Ok(());
    }
    let names: Vec<&str> = server.layers().iter().map(|layer| layer.name()).collect();
    Err(StackError::WrongLayer {
        server: server.kind(),
        layer,
        layers: names.join(" and "),
    })
}

/// The first of some paths that exists, of a program that a Debian package brings.
pub(crate) fn find_program(
    program: &'static str,
    package: &'static str,
    paths: &[PathBuf],
) -> Result<PathBuf, StackError> {
    first_of(program, &format!("the Debian package `{package}`"), paths)
}

/// The first of some paths that exists; `how` says how to get the program where none does.
pub(crate) fn first_of(
    program: &'static str,
    how: &str,
    paths: &[PathBuf],
) -> Result<PathBuf, StackError> {
    let found = paths.iter().find(|path| path.is_file());
    found.cloned().ok_or_else(|| StackError::Missing {
        program,
        looked_for: paths
            .iter()
            .map(|path| path.display().to_string())
            .collect::<Vec<_>>()
            .join(", "),
        how: how.to_owned(),
    })
}

/// Entries of a directory whose names start with a prefix, highest version first.
pub(crate) fn newest_first(dir: &Path, prefix: &str) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(dir) else {
        return Vec::new();
    };
    let mut named: Vec<(String, PathBuf)> = entries
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let rest = name.strip_prefix(prefix)?;
            rest.starts_with(|c: char| c.is_ascii_digit())
                .then(|| (rest.to_owned(), entry.path()))
        })
        .collect();
    named.sort_by_key(|(version, _)| std::cmp::Reverse(crate::tunable_spec::version(version)));
    named.into_iter().map(|(_, path)| path).collect()
}

/// Runs a command that must succeed.
pub(crate) fn run(
    commands: &dyn Commands,
    command: &CommandSpec,
) -> Result<CommandOutput, StackError> {
    let output = commands.run(command).map_err(StackError::Command)?;
    if output.success() {
        return Ok(output);
    }
    let mut line = command.program.display().to_string();
    for arg in &command.args {
        line.push(' ');
        line.push_str(arg);
    }
    Err(StackError::CommandFailed {
        command: line,
        words: words(&output),
    })
}

/// What a command said, on one line and of bearable length.
pub(crate) fn words(output: &CommandOutput) -> String {
    let said = match output.stderr.trim() {
        "" => output.stdout.trim(),
        stderr => stderr,
    };
    let lines: Vec<&str> = said.lines().map(str::trim).take(12).collect();
    match lines.join("; ") {
        empty if empty.is_empty() => format!("it said nothing and ended with {:?}", output.code),
        said => said,
    }
}

/// The part of a text after a marker up to the next space.
pub(crate) fn word_after(text: &str, marker: &str) -> Option<String> {
    let rest = &text[text.find(marker)? + marker.len()..];
    let word = rest.split_whitespace().next()?;
    Some(word.trim_end_matches(',').to_owned())
}
