//! Bodies of requests, before they are encoded for the wire.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::path::PathBuf;
use std::sync::Arc;

/// What a request carries. The load engine encodes it once before the load; only values of variables are put in later,
/// encoded as their place asks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Body {
    /// Fields of a form, name and value, sent as `application/x-www-form-urlencoded`. Values may hold variables.
    Form(Vec<(String, String)>),
    /// Parts of a form, sent as `multipart/form-data`.
    Multipart(Vec<Part>),
    /// A JSON text. The value of a variable in it is escaped as within a JSON string.
    Json(String),
    /// A file, sent as it is.
    File(FileContent),
    /// Bytes, sent as they are; stored as Base64.
    Bytes(#[serde(serialize_with = "to_base64", deserialize_with = "from_base64")] Vec<u8>),
    /// Text, sent as it is; values of variables are put in as they are. It counts as a form when the request names
    /// no content type, as curl has it.
    #[serde(untagged)]
    Text(String),
}

impl From<&str> for Body {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Body {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

/// One part of a multipart body.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// Name of the field.
    pub name: String,
    /// What it holds.
    pub content: PartContent,
    /// The file's name as the server is told; `None` for a plain field.
    pub filename: Option<String>,
    /// Its content type; `None` says nothing for a plain field and `application/octet-stream` for a file.
    pub content_type: Option<String>,
}

/// What a part holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PartContent {
    /// Text that may hold variables, put in as they are.
    Value(String),
    /// A file.
    File(FileContent),
}

/// A file as it was when the scenario was read. A stored run keeps its path alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileContent {
    /// Where it was read from.
    pub path: PathBuf,
    /// What it holds.
    #[serde(skip)]
    pub bytes: Arc<[u8]>,
}

fn to_base64<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&STANDARD.encode(bytes))
}

fn from_base64<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    let text = String::deserialize(deserializer)?;
    STANDARD.decode(text).map_err(serde::de::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_are_stored_by_kind_and_old_ones_are_text() {
        let check = |body: Body, json: &str| {
            assert_eq!(serde_json::to_string(&body).expect("stored"), json);
            let read: Body = serde_json::from_str(json).expect("read");
            assert_eq!(read, body);
        };
        check("a=1".into(), r#""a=1""#);
        check(
            Body::Form(vec![("a".into(), "{{b}}".into())]),
            r#"{"form":[["a","{{b}}"]]}"#,
        );
        check(Body::Bytes(vec![0, 255]), r#"{"bytes":"AP8="}"#);
        let file = FileContent {
            path: "/a".into(),
            bytes: Arc::from(&b"secret"[..]),
        };
        let stored = serde_json::to_string(&Body::File(file)).expect("stored");
        assert_eq!(stored, r#"{"file":{"path":"/a"}}"#);
    }
}
