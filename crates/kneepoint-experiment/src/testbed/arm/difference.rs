//! How the configuration of one arm differs from another's, as a person would write it.

use super::Arm;
use crate::testbed::app::ReplacedLine;
use kneepoint_model::redact::HIDDEN;
use kneepoint_model::run::FileDiff;
use kneepoint_model::{Address, Layer};
use kneepoint_stack::application::is_switch_word;
use std::path::Path;

/// Changes of the files a user knows, and of what is not in files.
pub(in crate::testbed) fn diff(from: &Arm, to: &Arm) -> Vec<FileDiff> {
    let mut diffs = Vec::new();
    for (layer, file) in &to.files {
        let Some(name) = &file.user_name else {
            continue;
        };
        let before = from
            .files
            .iter()
            .find(|(at, other)| at == layer && other.user_name.as_ref() == Some(name));
        let before = before.map_or("", |(_, file)| file.text.as_str());
        let (before, after) = (neutral(before, from), neutral(&file.text, to));
        push_diff(&mut diffs, &format!("{layer}: {name}"), &before, &after);
    }
    let mut groups: Vec<&String> = from
        .settings
        .iter()
        .chain(&to.settings)
        .map(|(file, _)| file)
        .collect();
    groups.sort();
    groups.dedup();
    for group in groups {
        let text = |arm: &Arm| {
            arm.settings
                .iter()
                .filter(|(file, _)| file == group)
                .map(|(_, line)| format!("{line}\n"))
                .collect::<String>()
        };
        push_diff(&mut diffs, group, &text(from), &text(to));
    }
    push_lines(&mut diffs, &from.replaced, &to.replaced);
    diffs
}

/// Lines of the application's files that stand otherwise in one arm than in the other.
fn push_lines(diffs: &mut Vec<FileDiff>, from: &[ReplacedLine], to: &[ReplacedLine]) {
    let mut places: Vec<&(String, usize)> = from.iter().chain(to).map(|line| &line.at).collect();
    places.sort();
    places.dedup();
    for place in places {
        let of = |lines: &[ReplacedLine]| lines.iter().find(|line| line.at == *place).cloned();
        let (from, to) = (of(from), of(to));
        let untouched = from.as_ref().or(to.as_ref()).map(told);
        let text = |line: Option<ReplacedLine>| {
            let text = line.map(|line| line.after).or(untouched.clone());
            format!("{}\n", text.unwrap_or_default())
        };
        let (file, line) = place;
        let mut changed = Vec::new();
        let name = format!("{file}, line {line}");
        push_diff(&mut changed, &name, &text(from), &text(to));
        // Only the line itself was compared; in the file it has another number.
        for diff in &mut changed {
            let there = format!("@@ -{line} +{line} @@");
            diff.diff = diff.diff.replacen("@@ -1 +1 @@", &there, 1);
        }
        diffs.append(&mut changed);
    }
}

/// What stood on a line, as it may be told: what is there still, and what was replaced where that is a word of a switch. A file of
/// settings holds passwords.
fn told(line: &ReplacedLine) -> String {
    let ReplacedLine { before, after, .. } = line;
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let same = |a: &mut dyn Iterator<Item = char>, b: &mut dyn Iterator<Item = char>| {
        let both = a.zip(b).take_while(|(a, b)| a == b);
        both.map(|(a, _)| a).collect::<Vec<char>>()
    };
    // A word is told whole or not at all.
    let whole = |mut part: Vec<char>| {
        while part.last().copied().is_some_and(is_word) {
            part.pop();
        }
        part
    };
    let head = whole(same(&mut before.chars(), &mut after.chars()));
    let head: String = head.into_iter().collect();
    let (old, new) = (&before[head.len()..], &after[head.len()..]);
    let tail = whole(same(&mut old.chars().rev(), &mut new.chars().rev()));
    let tail: String = tail.into_iter().rev().collect();
    let middle = &old[..old.len() - tail.len()];
    match middle.trim().is_empty() || is_switch_word(middle) {
        true => before.clone(),
        false => format!("{head}{HIDDEN}{tail}"),
    }
}

/// A file's text without what differs between any two arms: private directories, addresses, the nonce.
fn neutral(text: &str, arm: &Arm) -> String {
    let mut text = text.replace(&arm.nonce, "NONCE");
    for tier in &arm.running {
        for address in &tier.listen {
            let (found, name) = match address {
                Address::Tcp(tcp) => (tcp.ip().to_string(), format!("{}.lab", tier.layer)),
                Address::Unix(path) => (
                    path.display().to_string(),
                    format!("/run/{}.sock", tier.layer),
                ),
            };
            if found != "127.0.0.1" {
                text = text.replace(&found, &name);
            }
        }
    }
    let files = arm.files.iter();
    outside_the_lab(
        text,
        files.map(|(layer, file)| (*layer, file.path.as_path())),
    )
}

/// A text with `/LAB/php` where it names the directory that the lab made for a tier, which the tier's files lie in.
fn outside_the_lab<'p>(text: String, files: impl Iterator<Item = (Layer, &'p Path)>) -> String {
    let mut dirs: Vec<(String, Layer)> = files
        .filter_map(|(layer, file)| Some((host_dir(layer, file)?.display().to_string(), layer)))
        .collect();
    dirs.sort_by_key(|(dir, _)| std::cmp::Reverse(dir.len()));
    dirs.dedup();
    dirs.iter().fold(text, |text, (dir, layer)| {
        text.replace(dir.as_str(), &format!("/LAB/{layer}"))
    })
}

/// The directory of a tier's host, which is called after the arm and the tier.
fn host_dir(layer: Layer, file: &Path) -> Option<&Path> {
    let end = format!("-{layer}");
    file.ancestors().skip(1).find(|path| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| name.ends_with(&end))
    })
}

fn push_diff(diffs: &mut Vec<FileDiff>, name: &str, before: &str, after: &str) {
    if before == after {
        return;
    }
    let diff = similar::TextDiff::from_lines(before, after)
        .unified_diff()
        .context_radius(2)
        .header(&format!("{name} (before)"), &format!("{name} (after)"))
        .to_string();
    diffs.push(FileDiff {
        file: name.to_owned(),
        diff,
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testbed::arm::host_name;
    use std::path::PathBuf;

    fn replaced(before: &str, after: &str) -> Vec<ReplacedLine> {
        vec![ReplacedLine {
            at: ("wp-config.php".to_owned(), 80),
            before: before.to_owned(),
            after: after.to_owned(),
        }]
    }

    fn check(from: &[ReplacedLine], to: &[ReplacedLine], expected: &[&str]) {
        let mut diffs = Vec::new();
        push_lines(&mut diffs, from, to);
        let changed = |line: &&str| {
            let sign = line.starts_with(['+', '-']);
            sign && !line.starts_with("+++") && !line.starts_with("---")
        };
        let lines = diffs
            .iter()
            .flat_map(|diff| diff.diff.lines().filter(changed));
        assert_eq!(lines.collect::<Vec<_>>(), expected);
        let named = diffs.iter().all(|diff| {
            diff.file == "wp-config.php, line 80" && diff.diff.contains("@@ -80 +80 @@")
        });
        assert!(named, "{diffs:?}");
    }

    #[test]
    fn what_stood_there_is_told_where_it_is_a_word_of_a_switch() {
        let is = |before: &str, after: &str, expected: &str| {
            assert_eq!(told(&replaced(before, after)[0]), expected);
        };
        is("APP_DEBUG=true", "APP_DEBUG=false", "APP_DEBUG=true");
        let cache = "$conf['cachetime'] = -1;";
        is(cache, "$conf['cachetime'] = 86400;", cache);
        is(
            "APP_DEBUG=sk_live_4eC39Hq",
            "APP_DEBUG=false",
            "APP_DEBUG=•••",
        );
        is(
            "APP_DEBUG=true # pw hunter2",
            "APP_DEBUG=false",
            "APP_DEBUG=•••",
        );
        let log = "$wgDebugLogFile = '/srv/acme/x';";
        is(log, "$wgDebugLogFile = '';", "$wgDebugLogFile = '•••';");
        is("    'hunter2',", "// gone", "•••");
    }

    #[test]
    fn directories_of_the_lab_are_no_difference() {
        let text = |arm: &str| {
            let path = |layer: Layer, name: &str| {
                let host = host_name(arm, layer);
                PathBuf::from(format!("/tmp/kneepoint-7-a/lab/{host}/{name}"))
            };
            let files = [
                (Layer::Web, path(Layer::Web, "nginx.conf")),
                (Layer::Php, path(Layer::Php, "conf.d/php.ini")),
            ];
            let (pid, root) = (path(Layer::Web, "run/nginx.pid"), path(Layer::Php, "app"));
            let text = format!("pid {};\nroot {};\n", pid.display(), root.display());
            outside_the_lab(
                text,
                files.iter().map(|(layer, path)| (*layer, path.as_path())),
            )
        };
        assert_eq!(
            text("base"),
            "pid /LAB/web/run/nginx.pid;\nroot /LAB/php/app;\n"
        );
        assert_eq!(text("best"), text("base"));
    }

    #[test]
    fn a_replaced_line_is_told_with_what_stood_there() {
        let (on, off) = ("define('WP_DEBUG', true);", "define('WP_DEBUG', false);");
        let changed = replaced(on, off);
        check(&[], &changed, &[&format!("-{on}"), &format!("+{off}")]);
        check(&changed, &[], &[&format!("-{off}"), &format!("+{on}")]);
        check(&changed, &changed, &[]);
        let otherwise = replaced(on, "// gone");
        check(&changed, &otherwise, &[&format!("-{off}"), "+// gone"]);
    }
}
