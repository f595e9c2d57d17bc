//! Tables of values for requests: CSV files whose first line names the columns.

use kneepoint_model::variables::is_name;

const EXPECTED: &str =
    "a CSV file in UTF-8 whose first line names the columns, with as many values in every other";

/// The columns' names, and the rows below them.
pub(crate) type Table = (Vec<String>, Vec<Vec<String>>);

/// Something wrong with a table.
#[derive(Debug)]
pub(crate) struct Wrong {
    /// What.
    pub(crate) message: String,
    /// What should be there instead.
    pub(crate) expected: &'static str,
}

impl Wrong {
    fn new(message: impl Into<String>, expected: &'static str) -> Self {
        Self {
            message: message.into(),
            expected,
        }
    }
}

/// Reads a table; all that is wrong with it otherwise.
pub(crate) fn parse(bytes: &[u8]) -> Result<Table, Vec<Wrong>> {
    // Spreadsheets begin their files with a mark that is no part of the first name.
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let mut csv = csv::ReaderBuilder::new().from_reader(bytes);
    let read = csv.headers().cloned().and_then(|names| {
        let rows: Result<Vec<Vec<String>>, csv::Error> = csv
            .records()
            .map(|row| Ok(row?.iter().map(str::to_owned).collect()))
            .collect();
        Ok((names, rows?))
    });
    let (names, rows) = read.map_err(|error| {
        let message = format!("this is no table: {error}");
        vec![Wrong::new(message, EXPECTED)]
    })?;
    let columns: Vec<String> = names.iter().map(|name| name.trim().to_owned()).collect();
    let mut wrong = Vec::new();
    for (index, column) in columns.iter().enumerate() {
        if !is_name(column) {
            wrong.push(Wrong::new(
                format!("the column `{column}` cannot be a variable"),
                "names of letters, digits, `_` and `-`, not beginning with a digit",
            ));
        }
        if columns[..index].contains(column) {
            let message = format!("`{column}` is there twice");
            wrong.push(Wrong::new(message, "each name once"));
        }
    }
    if rows.is_empty() {
        let message = "the table has no row below its first line";
        wrong.push(Wrong::new(message, EXPECTED));
    }
    if wrong.is_empty() {
        Ok((columns, rows))
    } else {
        Err(wrong)
    }
}
