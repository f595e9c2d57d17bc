//! Two copies of the frames of a worker, taken in one call, and what such a call is to copy.

use crate::abi::constant::{EG_BYTES, PAGE_HEADER};
use crate::memory::{Gathered, Memory, Range, ReadError};
use crate::stack::pointers::StackPointers;

/// What is copied beyond the top of a page: the stack may have grown since it was last seen, in bytes.
const SLACK: u64 = 1024;
/// Most that is copied of one page, in bytes. A page has 256 KiB, unless one function needs more (zend_execute.c).
const PAGE_BYTES: u64 = 1 << 20;
/// Most pages that are copied: a recursion of 8 MiB.
const PAGES: usize = 32;
/// Most frames off these pages that are copied.
const PARTS: usize = 128;
/// Largest page that is believed, in bytes.
pub(crate) const LARGEST_PAGE: u64 = 64 << 20;
/// A page of memory, as the kernel looks it up, in bytes.
const MEMORY_PAGE: u64 = 4096;
/// Samples after which what no stack has needed is copied no more. The longer a copy takes, the more often a stack
/// moves meanwhile.
const FORGOTTEN: u32 = 8;
/// The same of frames off these pages: a generator that is asked for moments only is gone before its place is learnt,
/// and found when its place is known from the last time.
const PARTS_FORGOTTEN: u32 = 256;
/// What is copied of a page for that long, in bytes; of one that no stack has needed since the last sample, no more.
const SMALL: u64 = 16 << 10;

/// A page of frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Page {
    pub(crate) start: u64,
    /// First byte behind it.
    pub(crate) end: u64,
    /// How far it is copied.
    until: u64,
    needed: u32,
}

impl Page {
    pub(crate) fn holds(&self, at: u64) -> bool {
        (self.start..self.end).contains(&at)
    }
}

/// What the next call copies, predicted from the stacks before.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    pages: Vec<Page>,
    /// Start of the page the stack was on last.
    current: u64,
    /// Frames that lie elsewhere (generators, the engine's own), with when they were last needed.
    parts: Vec<(Range, u32)>,
    now: u32,
}

impl Plan {
    /// Nothing is known yet.
    pub(crate) fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }

    pub(crate) fn pages(&self) -> &[Page] {
        &self.pages
    }

    /// Begins another sample, and forgets what was of no use for long.
    pub(crate) fn begin(&mut self) {
        self.now = self.now.wrapping_add(1);
        let now = self.now;
        let fresh = |needed: u32| now.wrapping_sub(needed) < FORGOTTEN;
        let small = |page: &Page| page.until - page.start <= SMALL;
        self.pages.retain(|page| {
            now.wrapping_sub(page.needed) < 2 || (fresh(page.needed) && small(page))
        });
        self.parts
            .retain(|(_, needed)| now.wrapping_sub(*needed) < PARTS_FORGOTTEN);
    }

    /// Copies the current page up to its top.
    pub(crate) fn follow(&mut self, stack: &StackPointers) {
        self.current = stack.page;
        self.add_page(stack.page, stack.end, stack.top.saturating_add(SLACK));
    }

    /// Copies a page up to a place.
    pub(crate) fn add_page(&mut self, start: u64, end: u64, until: u64) {
        if start == 0 || end <= start || end - start > LARGEST_PAGE || until <= start {
            return;
        }
        let page = Page {
            start,
            end,
            until: until.min(end).min(start.saturating_add(PAGE_BYTES)),
            needed: self.now,
        };
        match self.pages.iter_mut().find(|known| known.start == start) {
            Some(known) => *known = page,
            None => {
                if self.pages.len() >= PAGES {
                    self.pages.remove(0);
                }
                self.pages.push(page);
            }
        }
    }

    /// Copies a part of memory from now on.
    pub(crate) fn add(&mut self, range: Range) {
        let now = self.now;
        if let Some(page) = self.pages.iter_mut().find(|page| page.holds(range.at)) {
            let until = range.at.saturating_add(range.len as u64 + SLACK);
            page.until = page
                .until
                .max(until)
                .min(page.end)
                .min(page.start.saturating_add(PAGE_BYTES));
            page.needed = now;
        } else if let Some(known) = self.parts.iter_mut().find(|(known, _)| *known == range) {
            known.1 = now;
        } else {
            if self.parts.len() >= PARTS {
                self.forget_oldest();
            }
            self.parts.push((range, now));
        }
    }

    fn forget_oldest(&mut self) {
        let age = |(_, (_, needed)): &(usize, &(Range, u32))| self.now.wrapping_sub(*needed);
        if let Some((oldest, _)) = self.parts.iter().enumerate().max_by_key(age) {
            self.parts.swap_remove(oldest);
        }
    }

    /// A stack needed what lies at this address.
    pub(crate) fn needed(&mut self, at: u64) {
        let now = self.now;
        if let Some(page) = self.pages.iter_mut().find(|page| page.holds(at)) {
            page.needed = now;
        }
        let holds = |range: &Range| {
            at.checked_sub(range.at)
                .is_some_and(|offset| offset < range.len as u64)
        };
        for (_, needed) in self.parts.iter_mut().filter(|(range, _)| holds(range)) {
            *needed = now;
        }
    }

    /// What to copy: at first only the current page, since each range takes time in which the stack moves on.
    fn ranges(&self, all: bool) -> Vec<Range> {
        let pages = self
            .pages
            .iter()
            .filter(|page| all || self.current == page.start);
        let mut ranges: Vec<Range> = pages
            .map(|page| Range {
                at: page.start,
                len: usize::try_from(page.until - page.start).unwrap_or(0),
            })
            .collect();
        if all {
            ranges.extend(together(
                self.parts.iter().map(|(range, _)| *range).collect(),
            ));
        }
        ranges
    }
}

/// Ranges on one page of memory, as one: the kernel looks up each range by itself.
fn together(mut ranges: Vec<Range>) -> Vec<Range> {
    ranges.sort_unstable_by_key(|range| range.at);
    let mut merged: Vec<Range> = Vec::new();
    for range in ranges {
        match merged.last_mut() {
            Some(last) if last.at / MEMORY_PAGE == range.at / MEMORY_PAGE => {
                let offset = usize::try_from(range.at - last.at).unwrap_or(0);
                last.len = last.len.max(offset + range.len);
            }
            _ => merged.push(range),
        }
    }
    merged
}

/// The pointers into the stack before, between and after two copies of what a plan names.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(crate) pointers: [StackPointers; 3],
    ranges: Vec<Range>,
    gathered: Gathered,
}

impl Snapshot {
    /// Copies in one call. `globals` is the address of the pointers; `all` is whether more than the current page is
    /// wanted.
    pub(crate) fn take(
        memory: &impl Memory,
        globals: u64,
        plan: &Plan,
        all: bool,
    ) -> Result<Self, ReadError> {
        let ranges = plan.ranges(all);
        let pointers = Range {
            at: globals,
            len: EG_BYTES,
        };
        let mut order = Vec::with_capacity(2 * ranges.len() + 3);
        for _ in 0..2 {
            order.push(pointers);
            order.extend(&ranges);
        }
        order.push(pointers);
        let gathered = memory.gather(&order)?;
        let again = ranges.len() + 1;
        Ok(Self {
            pointers: [0, again, 2 * again].map(|at| StackPointers::parse(gathered.part(at))),
            ranges,
            gathered,
        })
    }

    /// What lies at a range, in both copies.
    pub(crate) fn look(&self, wanted: Range) -> Option<(&[u8], &[u8])> {
        self.ranges.iter().enumerate().find_map(|(index, range)| {
            let offset = usize::try_from(wanted.at.checked_sub(range.at)?).ok()?;
            let within = offset..offset.checked_add(wanted.len)?;
            let first = self.gathered.part(index + 1).get(within.clone())?;
            let second = self
                .gathered
                .part(index + 2 + self.ranges.len())
                .get(within)?;
            Some((first, second))
        })
    }
}

/// Where the header of the page is whose first frame is at an address.
pub(crate) fn header_of(first_frame: u64) -> Range {
    Range {
        at: first_frame.wrapping_sub(PAGE_HEADER),
        len: 24,
    }
}
