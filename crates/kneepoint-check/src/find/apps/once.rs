//! What is found out of a directory, once: it may be served under many names.

use crate::files::Files;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// What is found out by whoever comes first.
type Shared<T> = Arc<OnceLock<T>>;

/// What was found, by device and inode. Who comes while it is being found out waits for it.
pub(super) struct Once<T>(Mutex<HashMap<(u64, u64), Shared<T>>>);

impl<T> Default for Once<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T: Clone> Once<T> {
    /// What was found in a directory, or is found now. One that cannot be told from others is looked at every time.
    pub(super) fn of(&self, files: &dyn Files, root: &str, find: impl FnOnce() -> T) -> T {
        let Some(identity) = files.identity(root) else {
            return find();
        };
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let one = Arc::clone(known.entry(identity).or_default());
        drop(known);
        one.get_or_init(find).clone()
    }
}
