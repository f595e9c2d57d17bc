//! `-F`: the fields and files of a form.

use anyhow::{Context as _, Result, bail};
use kneepoint_model::{Body, FileContent, Part, PartContent};
use std::path::PathBuf;

/// The body of a form: with a file among its fields sent in parts, as browsers do.
pub(super) fn body(fields: &[String]) -> Result<Option<Body>> {
    if fields.is_empty() {
        return Ok(None);
    }
    let fields = fields
        .iter()
        .map(|field| match field.split_once('=') {
            Some((name, value)) if !name.is_empty() => Ok((name, value)),
            _ => bail!("-F {field}: write name=value, or name=@FILE"),
        })
        .collect::<Result<Vec<_>>>()?;
    if !fields.iter().any(|(_, value)| value.starts_with('@')) {
        let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        return Ok(Some(Body::Form(fields.into_iter().map(owned).collect())));
    }
    let parts = fields.into_iter().map(part).collect::<Result<_>>()?;
    Ok(Some(Body::Multipart(parts)))
}

fn part((name, value): (&str, &str)) -> Result<Part> {
    let (content, filename) = match value.strip_prefix('@') {
        None => (PartContent::Value(value.to_owned()), None),
        Some(file) => {
            let path = PathBuf::from(file);
            let bytes = std::fs::read(&path)
                .with_context(|| format!("-F {name}={value}: cannot read the file"))?;
            let filename = path.file_name().map(|name| name.to_string_lossy().into());
            let bytes = bytes.into();
            (PartContent::File(FileContent { path, bytes }), filename)
        }
    };
    Ok(Part {
        name: name.to_owned(),
        content,
        filename,
        content_type: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(fields: &[&str], expected: &str) {
        let fields: Vec<String> = fields.iter().map(|field| (*field).to_owned()).collect();
        let said = match body(&fields) {
            Ok(None) => "nothing".to_owned(),
            Ok(Some(Body::Form(fields))) => format!("{fields:?}"),
            Ok(Some(Body::Multipart(parts))) => {
                let shown = parts.iter().map(|part| match &part.content {
                    PartContent::Value(text) => format!("{}={text}", part.name),
                    PartContent::File(file) => {
                        format!(
                            "{}={} bytes of {:?}",
                            part.name,
                            file.bytes.len(),
                            part.filename
                        )
                    }
                });
                shown.collect::<Vec<_>>().join(", ")
            }
            Ok(Some(other)) => format!("{other:?}"),
            Err(error) => format!("{error:#}"),
        };
        assert!(said.starts_with(expected), "{said}");
    }

    #[test]
    fn fields_make_a_form_and_files_make_it_one_of_parts() {
        check(&[], "nothing");
        check(&["a=1", "b=x=y"], r#"[("a", "1"), ("b", "x=y")]"#);
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), "hello").expect("written");
        let field = format!("up=@{}", file.path().display());
        check(&["a=1", &field], "a=1, up=5 bytes of Some(");
        check(&["nothing"], "-F nothing: write name=value");
        check(
            &["a=@/nonexistent"],
            "-F a=@/nonexistent: cannot read the file",
        );
    }
}
