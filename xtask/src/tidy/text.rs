//! What is written: documents, words, format.

pub(super) mod architecture;
pub(super) mod documents;
pub(super) mod format;
pub(super) mod machine_paths;
pub(super) mod words;
