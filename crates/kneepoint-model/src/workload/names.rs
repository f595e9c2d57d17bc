//! What the names of variables mean in a workload.

use super::Workload;

/// Where a variable's value comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueSource {
    /// What the user captured last, by its number.
    Captured(usize),
    /// A column of the row that the visitor has of a feeder.
    Column {
        /// The feeder's number.
        feeder: usize,
        /// The column's number.
        column: usize,
    },
    /// What no other request of the load has.
    RequestId,
}

/// The variable that is another for each request of a load, unless a feeder is called `request`.
pub const REQUEST_ID: &str = "request.id";

/// What the names of variables mean in a workload.
#[derive(Debug, Default)]
pub struct VariableNames {
    captured: Vec<String>,
    /// Per feeder its name and columns.
    feeders: Vec<(String, Vec<String>)>,
}

impl VariableNames {
    /// The names of a workload's captured values and feeders.
    #[must_use]
    pub fn new(workload: &Workload) -> Self {
        let mut captured: Vec<String> = Vec::new();
        for capture in workload.requests.iter().flat_map(|r| &r.captures) {
            if !captured.contains(&capture.name) {
                captured.push(capture.name.clone());
            }
        }
        let feeders = workload.feeders.iter();
        Self {
            captured,
            feeders: feeders
                .map(|feeder| (feeder.name.clone(), feeder.columns.clone()))
                .collect(),
        }
    }

    /// The number of a captured value.
    #[must_use]
    pub fn captured(&self, name: &str) -> Option<usize> {
        self.captured.iter().position(|known| known == name)
    }

    /// Where the value of a name comes from; `None` for a name that nobody knows.
    #[must_use]
    pub fn source(&self, name: &str) -> Option<ValueSource> {
        let Some((feeder, column)) = name.split_once('.') else {
            return self.captured(name).map(ValueSource::Captured);
        };
        let Some(feeder) = self.feeders.iter().position(|(known, _)| known == feeder) else {
            return (name == REQUEST_ID).then_some(ValueSource::RequestId);
        };
        let columns = &self.feeders[feeder].1;
        let column = columns.iter().position(|known| known == column)?;
        Some(ValueSource::Column { feeder, column })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Capture, CaptureFrom, Feeder, Request, RowOrder};

    fn names() -> VariableNames {
        let mut workload = Workload::single("/");
        let mut request = Request::get("/");
        request.captures = vec![Capture {
            name: "csrf".into(),
            from: CaptureFrom::Header("X".into()),
        }];
        workload.requests.push(request);
        workload.feeders = vec![Feeder {
            name: "users".into(),
            columns: vec!["id".into(), "name".into()],
            order: RowOrder::InTurn,
            rows: [vec!["1".into(), "ann".into()]].into(),
        }];
        VariableNames::new(&workload)
    }

    #[test]
    fn names_mean_captures_and_columns() {
        let names = names();
        assert_eq!(names.source("csrf"), Some(ValueSource::Captured(0)));
        let column = ValueSource::Column {
            feeder: 0,
            column: 1,
        };
        assert_eq!(names.source("users.name"), Some(column));
        assert_eq!(names.source(REQUEST_ID), Some(ValueSource::RequestId));
        for unknown in ["users", "users.age", "crsf", "other.id"] {
            assert_eq!(names.source(unknown), None, "{unknown}");
        }
    }
}
