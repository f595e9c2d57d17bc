//! HTML: one self-contained page to read and to send on.

use crate::{Format, Options, html};

/// For people.
pub(super) static FORMAT: Format = Format {
    name: "html",
    extension: "html",
    about: "one self-contained page to read and to send on",
    render: |run, options: &Options| html::page(run, options.against.as_deref()),
};
