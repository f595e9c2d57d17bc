//! Memory that tests make up.

use crate::abi::PhpAbi;
use crate::abi::constant::{EX_FUNC, EX_PREV, PAGE_HEADER};
use crate::memory::{Memory, Range, ReadError};
use std::cell::Cell;
use std::collections::BTreeMap;

/// Memory in pieces.
#[derive(Debug, Default)]
pub(crate) struct Fake {
    pieces: BTreeMap<u64, Vec<u8>>,
    /// Where the pointer to the current frame is.
    current: Option<u64>,
    /// A word that changes at each read.
    flickering: Cell<Option<u64>>,
    /// What that pointer holds at the next reads.
    moving: Cell<Option<[u64; 3]>>,
    reads: Cell<u64>,
}

impl Fake {
    /// Where executor globals are.
    pub(crate) const GLOBALS: u64 = 0x1_0000;

    /// One piece from address 0 on.
    pub(crate) fn flat(words: &[u64]) -> Self {
        let bytes = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        Self::of([(0, bytes)])
    }

    pub(crate) fn of(pieces: impl IntoIterator<Item = (u64, Vec<u8>)>) -> Self {
        Self {
            pieces: pieces.into_iter().collect(),
            ..Self::default()
        }
    }

    /// From now on the current frame is another each of the three times a snapshot looks.
    pub(crate) fn move_current(&self, currents: [u64; 3]) {
        self.moving.set(Some(currents));
    }

    /// From now on the word here is another each time it is read.
    pub(crate) fn flicker(&self, at: u64) {
        self.flickering.set(Some(at));
    }

    fn range(&self, range: Range) -> Option<Vec<u8>> {
        let (start, piece) = self.pieces.range(..=range.at).next_back()?;
        let offset = usize::try_from(range.at - start).ok()?;
        let bytes = piece.get(offset..offset.checked_add(range.len)?)?;
        let mut bytes = bytes.to_vec();
        let mut put = |at: u64, value: u64| {
            let offset = at
                .checked_sub(range.at)
                .and_then(|offset| usize::try_from(offset).ok());
            if let Some(slot) = offset.and_then(|offset| bytes.get_mut(offset..offset + 8)) {
                slot.copy_from_slice(&value.to_ne_bytes());
                return true;
            }
            false
        };
        if let Some(at) = self.flickering.get() {
            let reads = self.reads.get();
            if put(at, 0x1000 + reads) {
                self.reads.set(reads + 1);
            }
        }
        if let (Some(at), Some([next, after, last])) = (self.current, self.moving.get())
            && put(at, next)
        {
            self.moving.set(Some([after, last, next]));
        }
        Some(bytes)
    }
}

impl Memory for Fake {
    fn copy(&self, ranges: &[Range], into: &mut [u8]) -> Result<usize, ReadError> {
        let mut copied = 0;
        for range in ranges {
            let Some(bytes) = self.range(*range) else {
                break;
            };
            into[copied..copied + range.len].copy_from_slice(&bytes);
            copied += range.len;
        }
        if copied == 0 {
            Err(ReadError::Unmapped)
        } else {
            Ok(copied)
        }
    }
}

/// Builds memory word by word, in one piece from address 0 on.
#[derive(Default)]
pub(crate) struct Words(BTreeMap<u64, u64>);

impl Words {
    pub(crate) fn put(&mut self, at: u64, word: u64) {
        self.0.insert(at, word);
    }

    /// A text that ends in a zero byte.
    pub(crate) fn text(&mut self, at: u64, text: &str) {
        let bytes = [text.as_bytes(), &[0]].concat();
        for (index, piece) in (0..).zip(bytes.chunks(8)) {
            let mut word = [0; 8];
            word[..piece.len()].copy_from_slice(piece);
            self.put(at + 8 * index, u64::from_ne_bytes(word));
        }
    }

    /// A `zend_string`.
    pub(crate) fn string(&mut self, at: u64, text: &str) {
        self.put(at, 6 << 32 | 1);
        self.put(at + 16, text.len() as u64);
        self.text(at + 24, text);
    }

    /// The memory; words that were not put are 0.
    pub(crate) fn memory(&self) -> Fake {
        let words = self.0.keys().next_back().map_or(0, |last| last / 8 + 64);
        let words: Vec<u64> = (0..words)
            .map(|at| self.0.get(&(8 * at)).copied().unwrap_or(0))
            .collect();
        Fake::flat(&words)
    }
}

/// Builds the memory of a PHP that executes something.
pub(crate) struct Stack {
    abi: &'static PhpAbi,
    words: BTreeMap<u64, u64>,
    /// The page, where its next frame goes, and the frame that was called last.
    page: u64,
    top: u64,
    innermost: u64,
    heap: u64,
}

const PAGES: u64 = 0x10_0000;
const PAGE_BYTES: u64 = 0x4_0000;
const HEAP: u64 = 0x80_0000;
const FRAME: u64 = 96;

impl Stack {
    pub(crate) fn new(abi: &'static PhpAbi) -> Self {
        let mut stack = Self {
            abi,
            words: BTreeMap::new(),
            page: PAGES,
            top: PAGES + PAGE_HEADER,
            innermost: 0,
            heap: HEAP,
        };
        stack.header(PAGES, 0);
        stack
    }

    fn header(&mut self, page: u64, before: u64) {
        self.put(page, page + PAGE_HEADER);
        self.put(page + 8, page + PAGE_BYTES);
        self.put(page + 16, before);
    }

    /// Goes on on a new page.
    pub(crate) fn next_page(&mut self) {
        let (before, top) = (self.page, self.top);
        self.put(before, top);
        self.page += PAGE_BYTES;
        self.top = self.page + PAGE_HEADER;
        self.header(self.page, before);
    }

    pub(crate) fn put(&mut self, at: u64, word: u64) {
        self.words.insert(at, word);
    }

    /// Calls a function; gives its frame.
    pub(crate) fn call(&mut self, func: u64) -> u64 {
        let frame = self.top;
        self.top += FRAME;
        self.put(frame + EX_FUNC as u64, func);
        self.put(frame + EX_PREV as u64, self.innermost);
        self.innermost = frame;
        self.current(frame);
        frame
    }

    pub(crate) fn innermost(&self) -> u64 {
        self.innermost
    }

    /// Space off the stack.
    pub(crate) fn allocate(&mut self, bytes: u64) -> u64 {
        let at = self.heap;
        self.heap += bytes.next_multiple_of(512);
        at
    }

    /// A frame off the stack.
    pub(crate) fn frame_at(&mut self, func: u64) -> u64 {
        let frame = self.allocate(FRAME);
        self.put(frame + EX_FUNC as u64, func);
        frame
    }

    pub(crate) fn current(&mut self, frame: u64) {
        self.put(Fake::GLOBALS + self.abi.current_execute_data, frame);
    }

    /// The memory; words that were not put are 0.
    pub(crate) fn memory(mut self) -> Fake {
        let pointers = Fake::GLOBALS + self.abi.vm_stack_top;
        let [top, page] = [self.top, self.page];
        self.put(pointers, top);
        self.put(pointers + 8, page + PAGE_BYTES);
        self.put(pointers + 16, page);
        let pages = usize::try_from(page - PAGES + PAGE_BYTES).expect("some pages");
        let mut pieces = BTreeMap::from([
            (Fake::GLOBALS, vec![0; 4096]),
            (PAGES, vec![0; pages]),
            (HEAP, vec![0; 0x1_0000]),
        ]);
        for (at, word) in self.words {
            let (start, piece) = pieces.range_mut(..=at).next_back().expect("a piece");
            let offset = usize::try_from(at - start).expect("within a piece");
            piece[offset..offset + 8].copy_from_slice(&word.to_ne_bytes());
        }
        Fake {
            pieces,
            current: Some(Fake::GLOBALS + self.abi.current_execute_data),
            ..Fake::default()
        }
    }
}
