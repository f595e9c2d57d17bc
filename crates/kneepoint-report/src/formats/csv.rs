//! CSV: one line a measured step.

use crate::subjects::conditions::steps;
use crate::{Format, Options};

/// For spreadsheets and plots of one's own.
pub(super) static FORMAT: Format = Format {
    name: "csv",
    extension: "csv",
    about: "one line a measured step, for spreadsheets",
    render: |run, _: &Options| steps::csv(run),
};
