//! The last lines of the tiers' logs, for an error that they may explain.

use kneepoint_linux::file::open_untrusted;
use kneepoint_model::{Layer, RunningTier};
use std::path::Path;

/// Most lines that are told of one log.
const LINES: usize = 3;
/// Most characters of a line.
const CHARS: usize = 300;
/// Most bytes at the end of a log that are looked at.
const TAIL_BYTES: u64 = 64 << 10;

/// The last lines of all logs, each behind a line feed; empty when they say nothing.
pub(super) fn last_words(tiers: &[RunningTier]) -> String {
    let logs = tiers.iter().flat_map(|tier| {
        let logs = tier.logs.iter();
        logs.map(move |log| (tier.layer, tail(&log.path)))
    });
    logs.map(|(layer, text)| lines(layer, &text)).collect()
}

fn lines(layer: Layer, text: &str) -> String {
    let told = text.lines().rev().filter(|line| tells(layer, line));
    let last: Vec<&str> = told.take(LINES).collect();
    let cut = |line: &str| line.chars().take(CHARS).collect::<String>();
    last.iter()
        .rev()
        .map(|line| format!("\n  {layer} log: {}", cut(line.trim())))
        .collect()
}

/// Whether a line may be the cause of something. A database writes much about its own start.
fn tells(layer: Layer, line: &str) -> bool {
    let line = line.trim().to_ascii_lowercase();
    let chatter = ["notice", "[note]", "[info]"];
    let trouble = [
        "error", "fatal", "denied", "refused", "failed", "panic", "abort",
    ];
    let has = |words: &[&str]| words.iter().any(|word| line.contains(word));
    match layer {
        _ if line.is_empty() || is_trace(&line) => false,
        Layer::Php | Layer::Web | Layer::Proxy => !has(&chatter),
        _ => has(&trouble) && !has(&chatter),
    }
}

/// Whether a line is one of a trace: what happened stands before it.
fn is_trace(line: &str) -> bool {
    let line = line.trim_start_matches("php message:").trim_start();
    let number = line
        .strip_prefix('#')
        .map(|rest| rest.trim_start_matches(|c: char| c.is_ascii_digit()));
    let is_frame = number.is_some_and(|rest| rest.starts_with(' '));
    is_frame || line.starts_with("stack trace:") || line.starts_with("thrown in ")
}

/// The last lines that a command said, as far as a person reads them; of errors these alone. (MariaDB's client says the statement
/// between rules before, and PostgreSQL's the row behind.)
pub(super) fn of_command(text: &str) -> String {
    const LINES: usize = 6;
    const CHARS: usize = 200;
    let says = |line: &&str| line.contains(|c: char| c != '-' && !c.is_whitespace());
    let mut lines: Vec<&str> = text.lines().filter(says).collect();
    // A statement, and the details of an error, hold rows; what is wrong is told without them.
    let is_error = |line: &&str| line.starts_with("ERROR") || line.contains("ERROR:");
    if lines.iter().any(is_error) {
        lines.retain(is_error);
    }
    let last = &lines[lines.len().saturating_sub(LINES)..];
    let cut = |line: &&str| line.trim().chars().take(CHARS).collect::<String>();
    last.iter().map(cut).collect::<Vec<_>>().join("\n  ")
}

/// The end of a file; empty when it cannot be read. Servers' users own these files.
fn tail(path: &Path) -> String {
    use std::io::{Read as _, Seek as _, SeekFrom};
    let mut bytes = Vec::new();
    if let Ok(mut file) = open_untrusted(path)
        && let Ok(about) = file.metadata()
    {
        let from = SeekFrom::Start(about.len().saturating_sub(TAIL_BYTES));
        // What cannot be read is not told.
        let _ = file
            .seek(from)
            .and_then(|_| file.take(TAIL_BYTES).read_to_end(&mut bytes));
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(layer: Layer, text: &str, expected: &str) {
        assert_eq!(lines(layer, text), expected);
    }

    #[test]
    fn the_last_lines_that_tell_something_are_told() {
        check(
            Layer::Php,
            "[1] NOTICE: fpm is running\none\ntwo\nthree\n\nfour\n[2] NOTICE: ready\n",
            "\n  php log: two\n  php log: three\n  php log: four",
        );
        check(
            Layer::Db,
            "1 [Note] ready\n2 [ERROR] Access denied for user 'x'\n3 something\n",
            "\n  db log: 2 [ERROR] Access denied for user 'x'",
        );
        check(Layer::Web, "\n\n", "");
    }

    #[test]
    fn what_happened_is_told_and_not_where_it_was_called_from() {
        check(
            Layer::Php,
            "[29-Nov-2026] PHP Fatal error:  Uncaught RuntimeException: no licence in /app/a.php:1\nStack trace:\n#0 /app/b.php(2): f()\n\
             #1 {main}\n  thrown in /app/a.php on line 1\n",
            "\n  php log: [29-Nov-2026] PHP Fatal error:  Uncaught RuntimeException: no licence in /app/a.php:1",
        );
    }

    #[test]
    fn a_command_is_told_by_what_went_wrong_and_without_rows() {
        let said = format!(
            "--------------\nINSERT INTO a VALUES ({})\n--------------\n\nERROR 1146 (42S02) at line 2: no such table\n",
            "1,".repeat(900)
        );
        let told = of_command(&said);
        assert_eq!(told, "ERROR 1146 (42S02) at line 2: no such table");
        let said = "psql:seed.sql:2: ERROR:  null value in column \"a\"\nDETAIL:  Failing row contains (x@y.test).\n";
        assert_eq!(
            of_command(said),
            "psql:seed.sql:2: ERROR:  null value in column \"a\""
        );
        assert_eq!(of_command("one\ntwo\n"), "one\n  two");
        assert_eq!(of_command("--\n\n"), "");
    }

    #[test]
    fn what_cannot_be_read_is_not_told() {
        let dir = tempfile::tempdir().expect("a directory");
        let (link, pipe) = (dir.path().join("link.log"), dir.path().join("pipe.log"));
        std::os::unix::fs::symlink("/etc/passwd", &link).expect("a link");
        let (kind, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR);
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, kind, mode, 0).expect("a pipe");
        for path in [
            Path::new("/nowhere/at.log"),
            Path::new("/dev/zero"),
            &link,
            &pipe,
        ] {
            assert_eq!(tail(path), "", "{}", path.display());
        }
    }
}
