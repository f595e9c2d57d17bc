//! The list of syntaxes. A new one is a file beside these and a line here.

use crate::Syntax;

/// Declares the modules of the syntaxes and lists them in the same order.
macro_rules! syntaxes {
    ($($module:ident,)*) => {
        $(mod $module;)*
        /// Every syntax, in the order in which they are asked whether a text is theirs.
        pub static SYNTAXES: &[&Syntax] = &[$(&$module::SYNTAX),*];
    };
}

syntaxes! {
    kneepoint,
    ab,
    wrk,
    vegeta,
    oha,
    k6_run,
    jmeter_threads,
    k6_stages,
    jmeter_open,
    tank_instances,
    tank,
}
