//! `kneepoint check ssh://user@host`: the program copies itself there, looks, brings back what it found and leaves
//! nothing.
//!
//! One `ssh` does all of it, with the program on its standard input, so that a host that asks for nothing but a key is
//! asked once. What is needed there is `sh`, `mktemp` and `base64`.

use anyhow::{Context as _, Result, bail, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kneepoint_lab::SystemCommands;
use kneepoint_model::{CommandSpec, Commands as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What the program may take there beyond the time that it is given: copying it over a slow line.
const COPYING: Duration = Duration::from_secs(240);
/// Exit codes of the script, beyond those of the check.
const NO_PLACE: i32 = 90;
const CANNOT_RUN: i32 = 91;
/// That of ssh itself.
const NO_CONNECTION: i32 = 255;
/// Variables that ssh needs to find its keys.
const VARIABLES: [&str; 4] = ["HOME", "USER", "SSH_AUTH_SOCK", "LANG"];

/// Takes a directory in which programs may run, puts the program there, lets it look, and prints each of its files behind
/// its length. The directory goes however it ends.
const SCRIPT: &str = r#"for at in "${TMPDIR:-/tmp}" /var/tmp "$HOME"; do
  d=$(mktemp -d "$at/kneepoint.XXXXXXXXXX" 2>/dev/null) || continue
  trap 'rm -rf "$d"' EXIT
  trap 'exit 129' HUP INT TERM PIPE
  printf '#!/bin/sh\n' > "$d/try" && chmod 700 "$d/try" && "$d/try" 2>/dev/null && break
  rm -rf "$d"; d=
done
[ -n "$d" ] || exit 90
base64 -d > "$d/kneepoint" && chmod 700 "$d/kneepoint" || exit 90
"$d/kneepoint" --version > /dev/null || exit 91
cd "$d" && "$d/kneepoint" check "$@" > "$d/0"
code=$?
for file in 0 1 2 3 4; do
  [ -f "$d/$file" ] || : > "$d/$file"
  wc -c < "$d/$file"
  cat "$d/$file"
done
exit $code"#;

/// Where to look, and how.
pub(super) struct Remote<'a> {
    /// `ssh://user@host`, with a port behind it where it is not 22.
    pub(super) url: &'a str,
    /// ssh's own file of settings; the user's where there is none.
    pub(super) ssh_config: Option<&'a Path>,
    /// Arguments of the check there, with files named 1 to 4.
    pub(super) args: Vec<String>,
    /// How long the check there may take.
    pub(super) budget: Duration,
}

/// What came back.
pub(super) struct Found {
    /// The exit code.
    pub(super) code: u8,
    /// What it printed, then the files 1 to 4 that it wrote.
    pub(super) files: Vec<String>,
}

impl Remote<'_> {
    /// Looks there.
    ///
    /// # Errors
    /// There is no connection, the program cannot run there, or what came back is no answer.
    pub(super) fn look(&self) -> Result<Found> {
        ensure!(
            is_address(self.url),
            "`{}` is no address: write ssh://user@host, or ssh://user@host:22",
            self.url
        );
        let program =
            std::fs::read("/proc/self/exe").context("cannot read this program's own file")?;
        let mut command = CommandSpec::new(ssh()?);
        command.args = vec![
            "-T".into(),
            "-o".into(),
            "BatchMode=yes".into(),
            "-o".into(),
            "ConnectTimeout=10".into(),
        ];
        if let Some(config) = self.ssh_config {
            command
                .args
                .extend(["-F".to_owned(), config.display().to_string()]);
        }
        command
            .args
            .extend(["--".to_owned(), self.url.to_owned(), there(&self.args)]);
        command.env = VARIABLES
            .iter()
            .filter_map(|name| Some(((*name).to_owned(), std::env::var(name).ok()?)))
            .collect();
        // A relative --ssh-config is relative to where the person is.
        command.dir = std::env::current_dir().ok();
        command.stdin = Some(STANDARD.encode(program));
        command.timeout = self.budget + COPYING;
        let output = SystemCommands
            .run(&command)
            .map_err(|why| anyhow::anyhow!("{why}"))?;
        let said = output.stderr.trim();
        match output.code {
            Some(NO_CONNECTION) => bail!(
                "no connection to {}: {said}. It logs in by key only: `ssh-add` offers one",
                self.url
            ),
            Some(NO_PLACE) => bail!(
                "{} has no directory in which a program may run: /tmp, /var/tmp and the home directory were tried. {said}",
                self.url
            ),
            Some(CANNOT_RUN) => bail!(
                "this program does not run on {}: {said}. It needs {} with the C library of this machine (glibc) or a newer one; \
                build it there, or on a host as old as that one",
                self.url,
                std::env::consts::ARCH
            ),
            Some(code @ 0..=2) => Ok(Found {
                code: code as u8,
                files: taken_apart(&output.stdout)
                    .with_context(|| format!("{} did not answer as expected: {said}", self.url))?,
            }),
            _ => bail!("the check on {} ended early: {said}", self.url),
        }
    }
}

/// Whether a text is an address. A user or a host that begins with a dash would be an option of `ssh`, or of what its
/// settings start with it.
fn is_address(url: &str) -> bool {
    let Some(rest) = url.strip_prefix("ssh://") else {
        return false;
    };
    let (user, host) = rest.rsplit_once('@').unwrap_or(("user", rest));
    let is_name = |name: &str| {
        let plain = |letter: char| !letter.is_whitespace() && !letter.is_control();
        !name.is_empty() && !name.starts_with('-') && name.chars().all(plain)
    };
    is_name(user) && is_name(host)
}

/// The command line that is run there.
fn there(args: &[String]) -> String {
    let mut line = format!("sh -c {} kneepoint", quoted(SCRIPT));
    for arg in args {
        line.push(' ');
        line.push_str(&quoted(arg));
    }
    line
}

/// As one word of any shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// The files, each behind its length.
fn taken_apart(mut text: &str) -> Option<Vec<String>> {
    let mut files = Vec::new();
    while !text.is_empty() {
        let (length, rest) = text.split_once('\n')?;
        let length: usize = length.trim().parse().ok()?;
        files.push(rest.get(..length)?.to_owned());
        text = &rest[length..];
    }
    (files.len() == 5).then_some(files)
}

/// The system's ssh.
fn ssh() -> Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into());
    let found = std::env::split_paths(&path)
        .map(|dir| dir.join("ssh"))
        .find(|file| file.is_file());
    found.context("there is no `ssh` on this machine: install openssh-client")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_taken_apart_by_their_lengths() {
        let files = taken_apart("3\na\nb0\n0\n 2\nxy1\n7").expect("five files");
        assert_eq!(files, ["a\nb", "", "", "xy", "7"]);
        assert_eq!(taken_apart("3\nab"), None);
        assert_eq!(taken_apart("motd\n"), None);
    }

    #[test]
    fn an_address_is_never_an_option() {
        for url in ["ssh://host", "ssh://me@host:2222", "ssh://me@[::1]:22"] {
            assert!(is_address(url), "{url}");
        }
        for url in [
            "-oProxyCommand=x",
            "ssh://",
            "ssh://-oProxyCommand=x",
            "ssh://me@-oProxyCommand=x",
            "ssh://-l@host",
            "ssh://me@",
            "ssh://@host",
            "ssh://a b",
            "ssh://a\nb",
            "host",
        ] {
            assert!(!is_address(url), "{url}");
        }
    }

    #[test]
    fn arguments_stay_words_whatever_they_hold() {
        assert_eq!(quoted("a'b $(x)"), r"'a'\''b $(x)'");
        let line = there(&["--pool".into(), "a b".into()]);
        assert!(line.starts_with("sh -c 'for at in") && line.ends_with("kneepoint '--pool' 'a b'"));
    }
}
