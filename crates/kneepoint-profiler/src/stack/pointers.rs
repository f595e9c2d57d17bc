//! Where a worker's stack is, by the globals of its PHP.

use crate::memory::word;

/// The fields of `executor_globals` that a stack is read by (Zend/zend_globals.h).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct StackPointers {
    /// First byte that is free on the page.
    pub(crate) top: u64,
    /// First byte behind the page.
    pub(crate) end: u64,
    /// The page.
    pub(crate) page: u64,
    /// The innermost frame; 0 when no PHP code runs.
    pub(crate) current: u64,
}

impl StackPointers {
    pub(crate) fn parse(bytes: &[u8]) -> Self {
        let at = |offset| word(bytes, offset).unwrap_or(0);
        Self {
            top: at(0),
            end: at(8),
            page: at(16),
            current: at(32),
        }
    }

    /// Whether what lies at an address lies where the page is free.
    pub(crate) fn is_free(&self, at: u64) -> bool {
        (self.page..self.end).contains(&at) && at >= self.top
    }

    /// The first field that cannot be what it should be, with what it holds and what was expected.
    pub(crate) fn oddity(&self) -> Option<(&'static str, u64, &'static str)> {
        let aligned = |address: u64| address.is_multiple_of(8);
        // Before the first request there is no stack.
        if *self == Self::default() {
            return None;
        }
        if self.page == 0 || !aligned(self.page) {
            return Some((
                "executor_globals.vm_stack",
                self.page,
                "the address of a page",
            ));
        }
        if self.top < self.page || !aligned(self.top) {
            let expected = "an address on the page of vm_stack";
            return Some(("executor_globals.vm_stack_top", self.top, expected));
        }
        if self.end < self.top || !aligned(self.end) {
            let expected = "an address at or behind vm_stack_top";
            return Some(("executor_globals.vm_stack_end", self.end, expected));
        }
        let current = (
            "executor_globals.current_execute_data",
            self.current,
            "the address of a frame",
        );
        (!aligned(self.current)).then_some(current)
    }
}
