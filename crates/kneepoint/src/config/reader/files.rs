//! `[[app.file]]`: changes to the application's files, made in a private copy.

use crate::config::reader::tree::{Node, Span};
use crate::config::reader::{Reader, Section};
use kneepoint_model::scenario::FilePatch;
use std::path::{Component, Path, PathBuf};

/// Largest file in which `find` is looked for, in bytes: source files are far smaller.
const LARGEST_PATCHED_BYTES: u64 = 4 << 20;

/// A path that stays within the application, without `.` parts; `None` when it leads out of it.
pub(in crate::config) fn within_app(written: &str) -> Option<PathBuf> {
    let parts = Path::new(written).components();
    parts
        .filter(|part| *part != Component::CurDir)
        .map(|part| matches!(part, Component::Normal(_)).then_some(part))
        .collect()
}

/// Reads the list of changes.
pub(in crate::config) fn read(reader: &mut Reader<'_>, node: &Node, root: &Path) -> Vec<FilePatch> {
    let expected = "[[app.file]] tables with path, and find and replace or content";
    let items = reader.array(node, expected);
    items
        .iter()
        .filter_map(|item| {
            let section = reader.section(item, "app.file")?;
            patch(reader, &section, root)
        })
        .collect()
}

fn patch(reader: &mut Reader<'_>, section: &Section<'_>, root: &Path) -> Option<FilePatch> {
    let path = match section.get("path") {
        Some(node) => path(reader, node),
        None => {
            let wanted = "a file of the application, such as \"src/App.php\"";
            reader.missing(Some(section.at), "app.file.path", wanted);
            None
        }
    };
    let mut text = |key| match section.get(key) {
        Some(node) => reader.any_text(node).map(|text| Some((text, node.at))),
        None => Some(None),
    };
    let (find, replace, content) = (text("find")?, text("replace")?, text("content")?);
    match (find, replace, content) {
        (Some((find, at)), Some((replace, _)), None) => {
            let path = path?;
            occurs(reader, &root.join(&path), find, at).then(|| FilePatch {
                path,
                find: Some(find.to_owned()),
                text: replace.to_owned(),
            })
        }
        (None, None, Some((content, _))) => Some(FilePatch {
            path: path?,
            find: None,
            text: content.to_owned(),
        }),
        _ => {
            let message = "it is not clear what to change";
            reader.wrong(
                section.at,
                message,
                "`find` and `replace`, or `content` alone",
            );
            None
        }
    }
}

fn path(reader: &mut Reader<'_>, node: &Node) -> Option<PathBuf> {
    const EXPECTED: &str = "a path relative to app.root and within it";
    let written = reader.text(node, EXPECTED)?;
    let path = within_app(written);
    if path.is_none() {
        reader.wrong(
            node.at,
            format!("`{written}` leads out of app.root"),
            EXPECTED,
        );
    }
    path
}

/// A replacement of what is not there would change nothing, and nobody would notice.
fn occurs(reader: &mut Reader<'_>, file: &Path, find: &str, at: Span) -> bool {
    let small = std::fs::metadata(file).is_ok_and(|file| file.len() <= LARGEST_PATCHED_BYTES);
    let content = small.then(|| std::fs::read(file).ok()).flatten();
    let problem = match content {
        None => "there is no such file to look into",
        Some(_) if find.is_empty() => "nothing to look for",
        Some(content) => {
            let mut windows = content.windows(find.len());
            if windows.any(|window| window == find.as_bytes()) {
                return true;
            }
            "this text is not in the file"
        }
    };
    reader.wrong(
        at,
        problem,
        "text that the file of `path` contains, to the letter",
    );
    false
}
