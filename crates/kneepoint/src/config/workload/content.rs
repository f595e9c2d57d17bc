//! The body of a request: `body`, `form`, `multipart`, `json` or `body_file`.

use crate::config::reader::tree::{Node, Value};
use crate::config::reader::{Reader, Section};
use crate::config::workload::uses::Uses;
use kneepoint_model::{Body, FileContent, Part, PartContent};
use std::path::Path;

/// Largest file that is sent, in bytes: it is in memory once for the whole load.
const LARGEST_SENT_BYTES: u64 = 64 << 20;

const KINDS: &[&str] = &["body", "form", "multipart", "json", "body_file"];

/// Reads the body, if there is one. `headers` are those the request names itself.
pub(in crate::config) fn read(
    reader: &mut Reader<'_>,
    section: &Section<'_>,
    headers: &[(String, String)],
    uses: &mut Uses,
) -> Option<Body> {
    let given = |kind: &&'static str| section.get(kind).map(|node| (*kind, node));
    let mut given = KINDS.iter().filter_map(given);
    let (kind, node) = given.next()?;
    if let Some((second, node)) = given.next() {
        let message = format!("`{second}` beside `{kind}`: a request has one body");
        reader.wrong(node.at, message, "one of them");
        return None;
    }
    Some(match kind {
        "form" => Body::Form(form(reader, node, uses)),
        "multipart" => {
            let typed = |(name, _): &&(String, String)| name.eq_ignore_ascii_case("content-type");
            if let Some((name, _)) = headers.iter().find(typed) {
                let message = format!("`multipart` beside the header `{name}`");
                let expected = "no such header: the load engine writes it, with the boundary";
                reader.wrong(node.at, message, expected);
            }
            Body::Multipart(multipart(reader, node, uses))
        }
        "json" => {
            let text = json(reader, node)?.to_string();
            uses.note(reader, &text, node.at);
            Body::Json(text)
        }
        "body_file" => Body::File(file(reader, node)?),
        _ => {
            let text = reader.text(node, "the body as text")?;
            uses.note(reader, text, node.at);
            Body::Text(text.to_owned())
        }
    })
}

fn form(reader: &mut Reader<'_>, node: &Node, uses: &mut Uses) -> Vec<(String, String)> {
    let mut fields = Vec::new();
    for entry in reader.entries(node, "a table of fields, such as { user = \"ann\" }") {
        if let Some(value) = reader.plain(&entry.node) {
            uses.note(reader, &value, entry.node.at);
            fields.push((entry.key.clone(), value));
        }
    }
    fields
}

fn multipart(reader: &mut Reader<'_>, node: &Node, uses: &mut Uses) -> Vec<Part> {
    let expected = "parts, such as [{ name = \"note\", value = \"hi\" }, { name = \"photo\", file = \"a.png\" }]";
    let items = reader.array(node, expected);
    if items.is_empty() && matches!(node.value, Value::Array(_)) {
        reader.wrong(node.at, "found no part", expected);
    }
    items
        .iter()
        .filter_map(|item| {
            let section = reader.section(item, "request.multipart")?;
            part(reader, &section, uses)
        })
        .collect()
}

fn part(reader: &mut Reader<'_>, section: &Section<'_>, uses: &mut Uses) -> Option<Part> {
    let mut text = |key| {
        let node = section.get(key)?;
        let text = reader.text(node, "a text")?;
        if text.chars().any(char::is_control) {
            reader.wrong(node.at, "found a control character", "a text on one line");
        }
        Some(text.to_owned())
    };
    let (name, filename, content_type) = (text("name"), text("filename"), text("type"));
    if section.get("name").is_none() {
        let wanted = "the name of the field, such as name = \"photo\"";
        reader.missing(Some(section.at), "request.multipart.name", wanted);
    }
    let (content, own_name) = match (section.get("value"), section.get("file")) {
        (Some(node), None) => {
            let value = reader.plain(node)?;
            uses.note(reader, &value, node.at);
            (PartContent::Value(value), None)
        }
        (None, Some(node)) => {
            let content = file(reader, node)?;
            let name = content.path.file_name();
            let name = name.map(|name| name.to_string_lossy().into_owned());
            (PartContent::File(content), name)
        }
        _ => {
            let message = "it is not clear what the part holds";
            reader.wrong(section.at, message, "either `value` or `file`");
            return None;
        }
    };
    Some(Part {
        name: name?,
        content,
        filename: filename.or(own_name),
        content_type,
    })
}

fn file(reader: &mut Reader<'_>, node: &Node) -> Option<FileContent> {
    let path = reader.file(node, "a file to send")?;
    let bytes = contents(reader, node, &path, LARGEST_SENT_BYTES)?;
    Some(FileContent {
        path,
        bytes: bytes.into(),
    })
}

/// What a file of the scenario holds, unless it is larger than is sensible.
pub(in crate::config) fn contents(
    reader: &mut Reader<'_>,
    node: &Node,
    path: &Path,
    largest: u64,
) -> Option<Vec<u8>> {
    let size = std::fs::metadata(path).map(|metadata| metadata.len());
    let problem = match size {
        Ok(size) if size > largest => format!("is larger than {} MiB", largest >> 20),
        Ok(_) => match std::fs::read(path) {
            Ok(bytes) => return Some(bytes),
            Err(error) => format!("cannot be read: {error}"),
        },
        Err(error) => format!("cannot be read: {error}"),
    };
    let message = format!("`{}` {problem}", path.display());
    reader.wrong(node.at, message, "a file of ordinary size");
    None
}

/// A value of the scenario as JSON.
fn json(reader: &mut Reader<'_>, node: &Node) -> Option<serde_json::Value> {
    Some(match &node.value {
        Value::Text(text) => text.as_str().into(),
        Value::Integer(number) => (*number).into(),
        Value::Float(number) if number.is_finite() => (*number).into(),
        Value::Bool(value) => (*value).into(),
        Value::Array(items) => {
            let items = items.iter().map(|item| json(reader, item));
            items.collect::<Option<Vec<_>>>()?.into()
        }
        Value::Table(table) => {
            let mut object = serde_json::Map::new();
            for entry in &table.entries {
                object.insert(entry.key.clone(), json(reader, &entry.node)?);
            }
            object.into()
        }
        Value::Float(_) | Value::Other(_) => {
            let found = format!("found {}", node.value.describe());
            reader.wrong(node.at, found, "a value that JSON has");
            return None;
        }
    })
}
