//! The applications' table, for people and for programs.

use super::visit::Row;
use crate::faults::write_columns;
use serde_json::{Value, json};
use std::fmt;
use std::time::Duration;

/// Share of the CPU that an account has to explain (the catalogue's own aim for saying that nothing is wrong is more).
const EXPLAINED: f64 = 0.85;

/// The rows in the order they ran.
pub(super) struct Table<'a>(pub(super) &'a [Row]);

/// The same for programs, schema `kneepoint.apps/1`.
pub(super) fn to_json(rows: &[Row]) -> Value {
    let rows: Vec<Value> = rows
        .iter()
        .map(|row| {
            json!({
                "name": row.name,
                "skipped": row.skipped,
                "failed": row.failed,
                "changed": row.changed,
                "first_limit_s": row.first_limit.map(|time| time.as_secs_f64()),
                "limit_hz": row.limit,
                "pages": row.pages,
                "explained_share": row.explained,
                "named": row.named.as_ref().map(|named| &named.code),
                "title": row.named.as_ref().map(|named| &named.title),
                "elapsed_s": row.elapsed.as_secs_f64(),
            })
        })
        .collect();
    json!({ "schema": "kneepoint.apps/1", "rows": rows })
}

fn cells(row: &Row) -> Vec<String> {
    let mut cells = vec![row.name.to_owned()];
    if let Some(why) = &row.skipped {
        cells.push(format!("skipped: {why}"));
        return cells;
    }
    let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".into());
    cells.push(or_none(row.first_limit.map(minutes)));
    cells.push(or_none(row.limit.map(|[low, estimate, high]| {
        format!("{estimate:.1}/s ({low:.1} to {high:.1})")
    })));
    cells.push(match &row.changed {
        None => "as it was".into(),
        Some(_) => "CHANGED".into(),
    });
    cells.push(or_none(row.explained.map(|share| {
        let doubt = if share < EXPLAINED {
            " (too little)"
        } else {
            ""
        };
        format!("{:.0} %{doubt}", share * 100.0)
    })));
    cells.push(minutes(row.elapsed));
    cells.push(match (&row.failed, &row.named) {
        (Some(_), _) => "failed".into(),
        (None, Some(named)) => format!("{}: {}", named.code, named.title),
        (None, None) => "nothing".into(),
    });
    cells
}

fn minutes(time: Duration) -> String {
    format!("{:.1} min", time.as_secs_f64() / 60.0)
}

impl fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let head = [
            "application",
            "first R* after",
            "R*",
            "files",
            "explained",
            "time",
            "named first",
        ];
        write_columns(f, &head, self.0.iter().map(cells).collect())?;
        for row in self.0 {
            let said = row.failed.iter().chain(&row.changed);
            for words in said {
                writeln!(f, "{}: {words}", row.name)?;
            }
            if !row.pages.is_empty() {
                writeln!(f, "{} was measured by {}", row.name, row.pages.join(", "))?;
            }
        }
        let tried = self.0.iter().filter(|row| row.skipped.is_none());
        let corrected = tried.clone().filter(|row| row.failed.is_some()).count();
        writeln!(
            f,
            "corrections needed: {corrected} of {} applications (0 asked)",
            tried.count()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apps::record::Named;

    #[test]
    fn the_table_tells_what_was_measured_named_skipped_and_what_failed() {
        let rows = [
            Row {
                name: "wordpress",
                first_limit: Some(Duration::from_secs(90)),
                limit: Some([9.0, 10.0, 11.0]),
                pages: vec!["/ \"Home\"".into()],
                explained: Some(0.5),
                named: Some(Named {
                    code: "CAP-02".into(),
                    title: "the CPU".into(),
                    text: String::new(),
                }),
                ..Row::default()
            },
            Row {
                name: "dokuwiki",
                failed: Some("init: no kind".into()),
                ..Row::default()
            },
            Row {
                name: "laravel",
                skipped: Some("nobody brought it".into()),
                ..Row::default()
            },
        ];
        let said = Table(&rows).to_string();
        for part in [
            "1.5 min",
            "10.0/s (9.0 to 11.0)",
            "50 % (too little)",
            "CAP-02: the CPU",
            "dokuwiki: init: no kind",
            "skipped: nobody brought it",
            "wordpress was measured by / \"Home\"",
            "corrections needed: 1 of 2 applications",
        ] {
            assert!(said.contains(part), "{part} is missing in\n{said}");
        }
        assert_eq!(to_json(&rows)["rows"][0]["limit_hz"][1], 10.0);
    }
}
