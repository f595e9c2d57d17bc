//! The list of formats. A new one is a file beside these and a line here.

use crate::Format;

/// Declares the modules of the formats and lists them in the same order.
macro_rules! formats {
    ($($module:ident,)*) => {
        $(mod $module;)*
        /// Every format, in the order they are offered.
        pub static FORMATS: &[&Format] = &[$(&$module::FORMAT),*];
    };
}

formats! {
    terminal,
    html,
    markdown,
    json,
    csv,
    junit,
}
