//! How the configuration of one arm differs from another's, as a person would write it.

use super::Arm;
use kneepoint_model::Address;
use kneepoint_model::run::FileDiff;
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
    diffs
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
    for dir in arm.private_dirs() {
        text = text.replace(&dir, "/LAB");
    }
    text
}

impl Arm {
    fn private_dirs(&self) -> Vec<String> {
        let dirs = self.files.iter().filter_map(|(_, file)| {
            // The private directory of a tier is the parent of its `etc`.
            file.path
                .ancestors()
                .find(|path| path.file_name().is_some_and(|name| name == "etc"))
                .and_then(Path::parent)
        });
        let mut dirs: Vec<String> = dirs.map(|path| path.display().to_string()).collect();
        dirs.sort_by_key(|dir| std::cmp::Reverse(dir.len()));
        dirs.dedup();
        dirs
    }
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
