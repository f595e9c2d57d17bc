//! From the innermost frame to the root: the frames of a worker, and which of them can be trusted.

pub(crate) mod labels;
pub(crate) mod pointers;
pub(crate) mod snapshot;
#[cfg(test)]
mod tests;

use crate::abi::PhpAbi;
use crate::abi::constant::{
    EG_BYTES, EX_BYTES, EX_FUNC, EX_OPLINE, EX_PREV, EX_THIS, EX_THIS_TYPE,
};
use crate::memory::{Memory, Range, ReadError, half, word};
use crate::stack::pointers::StackPointers;
use crate::stack::snapshot::{LARGEST_PAGE, Page, Plan, Snapshot, header_of};

/// Most frames of one stack.
const FRAMES: usize = 20_000;
/// Most generators that delegate to one another.
const DELEGATES: usize = 1000;
/// Type of a zval that holds an object (Zend/zend_types.h: IS_OBJECT).
const IS_OBJECT: u32 = 8;
/// A generator holds the frame that stands for it within its first bytes.
const GENERATOR_BYTES: u64 = 512;
/// Frames off the known pages that are searched for one by one, in one sample.
const LIVE_READS: usize = 256;
/// Times a sample is taken again because it needs parts that were not copied.
const LEARNED: usize = 7;
/// Of these, how often before the outer frames alone will do.
const PATIENCE: usize = 4;

/// A frame of a stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Link {
    /// Where it is.
    pub(crate) at: u64,
    /// The function it executes.
    pub(crate) func: u64,
    /// Where in the function it was when it last said so.
    pub(crate) opline: u64,
}

/// What became of an attempt to read a stack.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    /// A stack, innermost frame first.
    Stack {
        links: Vec<Link>,
        /// It moved while it was read.
        salvaged: bool,
    },
    /// A stack whose inner frames changed between the copies and were left out.
    Outer(Vec<Link>),
    /// No PHP code runs.
    NoCode,
    /// The frames did not fit together.
    Failed(&'static str),
}

/// Why a chain could not be followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Broken {
    /// It leads to what was not copied.
    Unknown,
    /// It makes no sense.
    Torn(&'static str),
}

/// Where frames are looked at: each place gives its bytes of both copies.
trait Source {
    fn look(&mut self, range: Range) -> Option<(&[u8], &[u8])>;
}

impl Source for &Snapshot {
    fn look(&mut self, range: Range) -> Option<(&[u8], &[u8])> {
        Snapshot::look(self, range)
    }
}

/// Looks into the live process for what was not copied, and notes it for the next time.
struct Live<'a, M> {
    memory: &'a M,
    snapshot: &'a Snapshot,
    plan: &'a mut Plan,
    reads: usize,
    buffer: Vec<u8>,
}

impl<M: Memory> Source for Live<'_, M> {
    fn look(&mut self, range: Range) -> Option<(&[u8], &[u8])> {
        self.plan.add(range);
        if let Some((_, second)) = self.snapshot.look(range) {
            return Some((second, second));
        }
        self.reads += 1;
        if self.reads > LIVE_READS {
            return None;
        }
        self.buffer = self.memory.bytes(range.at, range.len).ok()?;
        Some((&self.buffer, &self.buffer))
    }
}

/// A chain that ended at its root.
struct Walked {
    links: Vec<Link>,
    /// From here on outwards all frames are the same in both copies.
    stable: usize,
    /// Where it was looked at, besides the header of its page.
    touched: Vec<u64>,
    /// Inner frames were left out: generators were between two states.
    cut: bool,
}

impl Walked {
    /// Without the frames whose place was given back: one that was left stays current for a moment.
    fn without_free(mut self, stack: &StackPointers) -> Self {
        let free = self.links.iter().take_while(|link| stack.is_free(link.at));
        let free = free.count();
        self.links.drain(..free);
        self.stable = self.stable.saturating_sub(free);
        self.cut |= free > 0;
        self
    }
}

/// The words of a frame.
struct Frame {
    link: Link,
    this: u64,
    this_type: u32,
    prev: u64,
    /// Both copies agree on its function and its caller.
    stable: bool,
    /// Both copies agree on where in its function it is.
    still: bool,
}

fn frame(source: &mut impl Source, at: u64) -> Result<Frame, Broken> {
    if at == 0 || !at.is_multiple_of(8) {
        return Err(Broken::Torn("a frame is at no address"));
    }
    let range = Range { at, len: EX_BYTES };
    let (first, second) = source.look(range).ok_or(Broken::Unknown)?;
    let same = |offset| word(first, offset) == word(second, offset);
    let value = |offset| word(second, offset).unwrap_or(0);
    Ok(Frame {
        link: Link {
            at,
            func: value(EX_FUNC),
            opline: value(EX_OPLINE),
        },
        this: value(EX_THIS),
        this_type: half(second, EX_THIS_TYPE).unwrap_or(0),
        prev: value(EX_PREV),
        still: same(EX_OPLINE),
        stable: same(EX_FUNC) && same(EX_PREV) && (value(EX_FUNC) != 0 || same(EX_THIS)),
    })
}

/// Follows a chain from a frame outwards to its root: the first frame of the first page. A chain that ends
/// elsewhere was torn.
fn walk(start: u64, abi: &PhpAbi, source: &mut impl Source) -> Result<Walked, Broken> {
    let mut links: Vec<Link> = Vec::new();
    let mut touched = Vec::new();
    let mut stable = 0;
    let mut cut = false;
    let mut at = start;
    while at != 0 {
        touched.push(at);
        if touched.len().max(links.len()) > FRAMES {
            return Err(Broken::Torn("there are too many frames"));
        }
        let frame = frame(source, at)?;
        if frame.link.func != 0 {
            if !links.is_empty() && !frame.still {
                // It went on meanwhile: what it calls now is not what it called.
                stable = links.len();
            }
            links.push(frame.link);
        } else if stands_for_generator(&frame) {
            match delegates(frame.this, abi, source, &mut links, &mut touched) {
                Ok(true) => {}
                Ok(false) => stable = links.len(),
                Err(Broken::Unknown) => return Err(Broken::Unknown),
                // Whoever asked the generators is known all the same.
                Err(Broken::Torn(_)) => {
                    links.clear();
                    (stable, cut) = (0, true);
                }
            }
        }
        if !frame.stable {
            stable = links.len();
        }
        at = frame.prev;
    }
    let root = links.last().ok_or(Broken::Torn("there are no frames"))?.at;
    let (_, header) = source.look(header_of(root)).ok_or(Broken::Unknown)?;
    let header = [0, 8, 16].map(|offset| word(header, offset).unwrap_or(u64::MAX));
    match header {
        [top, end, 0] if (root..=end).contains(&top) && end - root <= LARGEST_PAGE => Ok(Walked {
            links,
            stable,
            touched,
            cut,
        }),
        _ => Err(Broken::Torn("the chain does not end at its root")),
    }
}

/// A frame without a function stands for a generator that delegates: it is part of that generator
/// (zend_generators.c, zend_generator_resume). Others without a function are the engine's own and hold nothing.
fn stands_for_generator(frame: &Frame) -> bool {
    let offset = frame.link.at.checked_sub(frame.this);
    frame.this_type & 0xff == IS_OBJECT && offset.is_some_and(|offset| offset < GENERATOR_BYTES)
}

/// The generators between the one that runs, whose frame was met already, and the one it was asked through,
/// innermost first (zend_generators.c, zend_generator_check_placeholder_frame). Tells whether both copies agree.
fn delegates(
    outermost: u64,
    abi: &PhpAbi,
    source: &mut impl Source,
    links: &mut Vec<Link>,
    touched: &mut Vec<u64>,
) -> Result<bool, Broken> {
    let unknown = Broken::Torn("yield from, in a PHP whose generators are not known");
    let places = abi.generator.ok_or(unknown)?;
    let mut frames = Vec::new();
    let mut stable = true;
    let mut generator = outermost;
    loop {
        touched.push(generator);
        let range = Range {
            at: generator,
            len: places.parent + 8,
        };
        let (first, second) = source.look(range).ok_or(Broken::Unknown)?;
        let value = |offset| word(second, offset).unwrap_or(0);
        let same = |offset| word(first, offset) == word(second, offset);
        stable &= same(places.parent) && same(places.execute_data);
        let (parent, own) = (value(places.parent), value(places.execute_data));
        if parent == 0 {
            // This one runs.
            let expected = links.last().map(|link| link.at);
            if expected != Some(own) {
                return Err(Broken::Torn("a generator runs that was not met"));
            }
            break;
        }
        if frames.len() >= DELEGATES {
            return Err(Broken::Torn("there are too many generators"));
        }
        frames.push(own);
        generator = parent;
    }
    for at in frames.into_iter().rev() {
        touched.push(at);
        let frame = frame(source, at)?;
        stable &= frame.stable;
        links.push(frame.link);
    }
    Ok(stable)
}

/// The highest frame of a chain on a page.
fn highest(links: &[Link], page: &Page) -> Option<u64> {
    links
        .iter()
        .map(|link| link.at)
        .filter(|at| page.holds(*at))
        .max()
}

/// What the chains of a snapshot come to.
enum Verdict {
    Taken {
        links: Vec<Link>,
        /// Where it was looked at, besides the header of its page.
        touched: Vec<u64>,
        salvaged: bool,
    },
    Outer(Vec<Link>),
    Failed(Broken),
}

/// Takes what the chains from all that were current have in common: a frame that was left between two of these
/// moments may have been overwritten before it was copied, and what it leads to then may be left over from other
/// calls. What they share was live all the time.
fn judge(snapshot: &Snapshot, abi: &PhpAbi, pages: &[Page], patient: bool) -> Verdict {
    let mut walked = Vec::with_capacity(snapshot.pointers.len());
    let mut broken = Broken::Torn("the stack moved on");
    let mut lost = Vec::new();
    let mut starts = snapshot.pointers.to_vec();
    starts.dedup_by_key(|stack| stack.current);
    let moved = starts.len() > 1;
    for stack in &starts {
        let start = &stack.current;
        match walk(*start, abi, &mut &*snapshot) {
            Ok(one) => walked.push(one.without_free(stack)),
            Err(Broken::Unknown) if patient => return Verdict::Failed(Broken::Unknown),
            Err(error) => {
                broken = error;
                lost.push(*start);
            }
        }
    }
    let Some(shortest) = walked.iter().min_by_key(|one| one.links.len()) else {
        return Verdict::Failed(broken);
    };
    let shared = walked
        .iter()
        .map(|one| shared(&one.links, &shortest.links))
        .min()
        .unwrap_or(0);
    let stable = walked
        .iter()
        .map(|one| one.links.len() - one.stable)
        .min()
        .unwrap_or(0);
    let links = &shortest.links[shortest.links.len() - shared..];
    // Where a chain could not be followed, what lies above its start may have been left at that moment.
    let reaches_no_higher = |start: &u64| {
        let page = pages.iter().find(|page| page.holds(*start));
        page.and_then(|page| highest(links, page))
            .is_none_or(|top| top <= *start)
    };
    if links.is_empty() || !lost.iter().all(reaches_no_higher) {
        return Verdict::Failed(broken);
    }
    if stable >= shared && !walked.iter().any(|one| one.cut) {
        return Verdict::Taken {
            links: links.to_vec(),
            touched: walked.into_iter().flat_map(|one| one.touched).collect(),
            salvaged: moved,
        };
    }
    let outer = &links[shared - shared.min(stable)..];
    if outer.is_empty() {
        Verdict::Failed(broken)
    } else {
        Verdict::Outer(outer.to_vec())
    }
}

/// How many of the outer frames of two chains are the same, at the same places.
fn shared(one: &[Link], other: &[Link]) -> usize {
    let pairs = one.iter().rev().zip(other.iter().rev());
    pairs
        .take_while(|(one, other)| one.at == other.at && one.func == other.func)
        .count()
}

/// Reads stacks of one worker, and remembers where its frames were.
#[derive(Debug)]
pub(crate) struct Reader {
    /// Address of the pointers into the stack.
    pointers: u64,
    abi: &'static PhpAbi,
    plan: Plan,
}

impl Reader {
    /// Of a PHP whose executor globals are at an address.
    pub(crate) fn new(executor_globals: u64, abi: &'static PhpAbi) -> Self {
        Self {
            pointers: executor_globals.wrapping_add(abi.vm_stack_top),
            abi,
            plan: Plan::default(),
        }
    }

    /// One attempt. It takes one call when the frames lie where they lay before.
    pub(crate) fn read(&mut self, memory: &impl Memory) -> Result<Reading, ReadError> {
        self.plan.begin();
        if self.plan.is_empty() {
            let bytes = memory.bytes(self.pointers, EG_BYTES)?;
            self.plan.follow(&StackPointers::parse(&bytes));
        }
        let mut verdict = Broken::Unknown;
        for round in 0..LEARNED {
            let snapshot = Snapshot::take(memory, self.pointers, &self.plan, round > 0)?;
            if snapshot.pointers.iter().any(|stack| stack.current == 0) {
                return Ok(Reading::NoCode);
            }
            match judge(&snapshot, self.abi, self.plan.pages(), round < PATIENCE) {
                Verdict::Taken {
                    links,
                    touched,
                    salvaged,
                } => {
                    self.plan.follow(&snapshot.pointers[2]);
                    touched.iter().for_each(|at| self.plan.needed(*at));
                    return Ok(Reading::Stack { links, salvaged });
                }
                Verdict::Outer(links) => return Ok(Reading::Outer(links)),
                // What it needed before may do.
                Verdict::Failed(Broken::Unknown) if round == 0 => {
                    self.plan.follow(&snapshot.pointers[2]);
                }
                Verdict::Failed(Broken::Unknown) => self.learn(memory, &snapshot)?,
                Verdict::Failed(broken) => {
                    self.plan.follow(&snapshot.pointers[2]);
                    verdict = broken;
                    break;
                }
            }
        }
        Ok(Reading::Failed(match verdict {
            Broken::Unknown => "frames came and went",
            Broken::Torn(why) => why,
        }))
    }

    /// Finds out what a stack needs that was not copied: the page it is on now, older pages of a deep recursion, and
    /// frames elsewhere.
    fn learn(&mut self, memory: &impl Memory, snapshot: &Snapshot) -> Result<(), ReadError> {
        let stack = StackPointers::parse(&memory.bytes(self.pointers, EG_BYTES)?);
        self.plan.follow(&stack);
        let mut page = stack.page;
        for _ in 0..self.plan.pages().len() + 8 {
            let Ok(header) = memory.bytes(page, 24) else {
                break;
            };
            let value = |offset| word(&header, offset).unwrap_or(0);
            if page != stack.page {
                self.plan.add_page(page, value(8), value(0));
            }
            page = value(16);
            if page == 0 {
                break;
            }
        }
        let mut live = Live {
            memory,
            snapshot,
            plan: &mut self.plan,
            reads: 0,
            buffer: Vec::new(),
        };
        // Its frames come from different moments: only the places it went to count.
        let _ = walk(stack.current, self.abi, &mut live);
        Ok(())
    }
}
