//! Names, files and lines of the frames of a stack.
//!
//! They are read after the frames, in three calls at most. Without OPcache the functions of one request are gone at its
//! end, and those of the next lie where they lay: only what never goes is remembered ([`Known`]). What was overwritten
//! since shows itself: a caller's opcode must lie within its function, and a name must be a string.

mod known;
#[cfg(test)]
mod tests;

use crate::abi::PhpAbi;
use crate::abi::constant::{
    CLASS_NAME, FUNCTION_BYTES, FUNCTION_NAME, FUNCTION_SCOPE, OP_BYTES, OP_CODE, OP_EXTENDED,
    OP_LINE,
};
use crate::memory::{Memory, Range, ReadError, half, word};
use crate::process::elf::Symbol;
use crate::stack::Link;
use kneepoint_model::Place;
pub(crate) use known::Known;
use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;

/// Type of a function that is part of the engine (Zend/zend_compile.h: ZEND_INTERNAL_FUNCTION). Code of `eval` has
/// type 4, that of files 2.
const INTERNAL: u8 = 1;
const USER: u8 = 2;
const EVAL: u8 = 4;
/// Opcode of include, require and eval (Zend/zend_vm_opcodes.h: ZEND_INCLUDE_OR_EVAL).
const INCLUDE_OR_EVAL: u8 = 73;
/// Type of a string (Zend/zend_types.h: IS_STRING), in the low bits of its header.
const IS_STRING: u32 = 6;
/// Opcodes that call nothing: a frame that was met as a caller at one of them was another's a moment before
/// (Zend/zend_vm_opcodes.h: ZEND_RECV, ZEND_CATCH). To receive an argument may convert it, which rarely calls code of
/// the application; such a stack is read again, and comes out without its innermost frames.
const CALLS_NOTHING: [u8; 2] = [63, 107];
/// The method that frees what an object holds, as classes declare it.
const DESTRUCTOR: &str = "__destruct";
/// Header of a `zend_string` before its text: reference count, type, hash, length.
const STRING_HEADER: usize = 24;
/// What is read of a string at first, header included; the rest of a longer one costs another call.
const NAME_BYTES: usize = 96;
const PATH_BYTES: usize = 224;
/// Longest string that is believed, in bytes.
const LONGEST: u64 = 16 << 10;

/// What a string is marked with that stays until its process ends, or OPcache is reset (Zend/zend_types.h:
/// IS_STR_PERMANENT).
const PERMANENT: u32 = 1 << 8;

/// An opcode, as it lies in memory.
type Opcode = [u8; OP_BYTES];

/// What is known of one function.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Function {
    kind: u8,
    name: u64,
    scope: u64,
    file: u64,
    opcodes: u64,
    last: u64,
    line_start: u32,
}

/// Names the frames of a stack. `links` begin with the innermost, the result with the outermost.
///
/// # Errors
/// The inner result says which part did not make sense: the stack changed since its frames were read.
pub(crate) fn name(
    memory: &impl Memory,
    abi: &PhpAbi,
    globals: Symbol,
    links: &[Link],
    known: &mut Known,
) -> Result<Result<Vec<Place>, &'static str>, ReadError> {
    known.begin();
    let read = match code(memory, abi, links, known)? {
        Ok(read) => read,
        Err(why) => return Ok(Err(why)),
    };
    let mut frames = Vec::with_capacity(links.len());
    let mut callee = None;
    for (index, link) in links.iter().enumerate() {
        let Some((function, text)) = read.functions.get(&link.func) else {
            return Ok(Err("a function is none"));
        };
        let opcode = read.opcodes.get(&link.opline);
        let Some(line) = line(function, link, opcode, globals, index == 0) else {
            return Ok(Err("an opcode is not in its function"));
        };
        if index > 0 && opcode.is_some_and(|opcode| CALLS_NOTHING.contains(&opcode[OP_CODE])) {
            return Ok(Err("a caller calls nothing"));
        }
        if in_engine(function, link, globals)
            && callee.is_some_and(|name: &str| !name.eq_ignore_ascii_case(DESTRUCTOR))
        {
            return Ok(Err("a caller was left by an exception"));
        }
        callee = Some(text.name.as_deref().unwrap_or_default());
        let outwards = links.get(index + 1);
        let how = outwards.and_then(|link| caller(read.opcodes.get(&link.opline)?));
        if outwards.is_none() && function.kind == INTERNAL && text.name.is_none() {
            return Ok(Err("a fiber is between two runs"));
        }
        if text.name.is_none() && !entered_as_it_is(function, how) {
            return Ok(Err("code was freed"));
        }
        // Without a name it is the bottom of a fiber.
        if let Some(function) = label(function, text, how) {
            frames.push(Place {
                function,
                file: text.file.clone(),
                line,
            });
        }
    }
    frames.reverse();
    Ok(Ok(frames))
}

/// The functions of a stack with their texts, and its opcodes, by their addresses.
struct Code {
    functions: HashMap<u64, (Function, Rc<Text>)>,
    opcodes: HashMap<u64, Opcode>,
}

fn code(
    memory: &impl Memory,
    abi: &PhpAbi,
    links: &[Link],
    known: &mut Known,
) -> Result<Result<Code, &'static str>, ReadError> {
    let mut opcodes = HashMap::new();
    let mut functions = BTreeSet::new();
    // Places of opcodes that are not remembered, each once.
    let mut wanted = BTreeSet::new();
    for link in links {
        functions.insert(link.func);
        if let Some(opcode) = known.opcode(link.func, link.opline) {
            opcodes.insert(link.opline, opcode);
        } else {
            wanted.insert(link.opline);
        }
    }
    let ranges = functions.iter().map(|at| (*at, FUNCTION_BYTES));
    let ranges = ranges.chain(wanted.iter().map(|at| (*at, OP_BYTES)));
    let ranges: Vec<Range> = ranges.map(|(at, len)| Range { at, len }).collect();
    let gathered = memory.gather(&ranges)?;
    let mut read = HashMap::new();
    let mut unknown = Vec::new();
    for (index, at) in functions.iter().enumerate() {
        let Some(function) = parse(abi, gathered.part(index)) else {
            return Ok(Err("a function is none"));
        };
        match known.text(*at, &function) {
            Ok(Some(text)) => drop(read.insert(*at, (function, text))),
            Ok(None) => unknown.push((*at, function)),
            Err(changed) => return Ok(Err(changed)),
        }
    }
    let Some(texts) = texts(memory, &unknown)? else {
        return Ok(Err("a name is no string"));
    };
    for (index, at) in wanted.iter().enumerate() {
        if let Ok(opcode) = Opcode::try_from(gathered.part(functions.len() + index)) {
            opcodes.insert(*at, opcode);
        }
    }
    for ((at, function), (text, permanent)) in unknown.into_iter().zip(texts) {
        let text = Rc::new(text);
        if permanent {
            known.remember(at, &function, &text);
        }
        read.insert(at, (function, text));
    }
    for link in links.iter().skip(1) {
        if let Some(opcode) = opcodes.get(&link.opline) {
            known.remember_opcode(link.func, link.opline, opcode);
        }
    }
    Ok(Ok(Code {
        functions: read,
        opcodes,
    }))
}

fn parse(abi: &PhpAbi, bytes: &[u8]) -> Option<Function> {
    let mut function = Function {
        kind: *bytes.first()?,
        name: word(bytes, FUNCTION_NAME)?,
        scope: word(bytes, FUNCTION_SCOPE)?,
        ..Function::default()
    };
    match function.kind {
        INTERNAL => {}
        USER | EVAL => {
            function.file = word(bytes, abi.filename)?;
            function.opcodes = word(bytes, abi.opcodes)?;
            function.last = half(bytes, abi.last)?.into();
            function.line_start = half(bytes, abi.line_start)?;
        }
        _ => return None,
    }
    Some(function)
}

/// The line a frame is at; the outer option is empty when its opcode cannot belong to it.
///
/// The innermost frame has its opcode in a register, and in memory the last one it had reason to save; before the
/// first, what the frame before it left there. Then the function's own line is the nearest that is known.
fn line(
    function: &Function,
    link: &Link,
    opcode: Option<&Opcode>,
    globals: Symbol,
    innermost: bool,
) -> Option<Option<u32>> {
    if function.kind == INTERNAL {
        return Some(None);
    }
    let offset = link.opline.wrapping_sub(function.opcodes);
    let within =
        offset.is_multiple_of(OP_BYTES as u64) && offset / (OP_BYTES as u64) < function.last;
    if within {
        return Some(Some(half(opcode?, OP_LINE)?));
    }
    (innermost || in_engine(function, link, globals)).then_some(Some(function.line_start))
}

/// Whether an exception is on its way through a frame: its opcodes are the engine's then (EG(exception_op)). They end
/// the frame, and call destructors only: what else lies behind it was called before and is left.
fn in_engine(function: &Function, link: &Link, globals: Symbol) -> bool {
    function.kind != INTERNAL && link.opline.wrapping_sub(globals.at) < globals.size
}

/// How a caller entered a file or a text, by its opcode: `include`, `eval` and so on.
fn caller(opcode: &Opcode) -> Option<&'static str> {
    (opcode[OP_CODE] == INCLUDE_OR_EVAL).then_some(())?;
    // Zend/zend_compile.h: ZEND_EVAL and those behind it.
    Some(match half(opcode, OP_EXTENDED)? {
        1 => "eval",
        2 => "include",
        4 => "include_once",
        8 => "require",
        16 => "require_once",
        _ => return None,
    })
}

/// Whether code without a name is what its caller entered: the code of a text by `eval`, that of a file otherwise.
fn entered_as_it_is(function: &Function, how: Option<&str>) -> bool {
    match how {
        Some(how) => (how == "eval") == (function.kind == EVAL),
        None => true,
    }
}

/// What a frame is called; nothing when it is the engine's own and has no name.
fn label(function: &Function, text: &Text, how: Option<&str>) -> Option<String> {
    match (&text.name, &text.class) {
        (Some(name), Some(class)) => Some(format!("{class}::{name}")),
        (Some(name), None) => Some(name.clone()),
        (None, _) if function.kind == INTERNAL => None,
        (None, _) => {
            let file = text.file.as_deref().unwrap_or("?");
            let how = how.unwrap_or(if function.kind == EVAL {
                "eval"
            } else {
                "main"
            });
            Some(format!("{how} {file}"))
        }
    }
}

/// The strings of a function.
#[derive(Debug, Default)]
struct Text {
    name: Option<String>,
    class: Option<String>,
    file: Option<String>,
}

/// Reads the strings of functions, and tells of which all are permanent; `None` when one of them is no string.
fn texts(
    memory: &impl Memory,
    functions: &[(u64, Function)],
) -> Result<Option<Vec<(Text, bool)>>, ReadError> {
    let ranges = functions.iter().flat_map(|(_, function)| {
        [
            range(function.name, 0, NAME_BYTES),
            range(function.file, 0, PATH_BYTES),
            range(function.scope, CLASS_NAME, 8),
        ]
    });
    let gathered = memory.gather(&ranges.collect::<Vec<_>>())?;
    let class_name = |index: usize| word(gathered.part(3 * index + 2), 0).unwrap_or(0);
    let classes: Vec<Range> = (0..functions.len())
        .map(|index| range(class_name(index), 0, NAME_BYTES))
        .collect();
    let any_class = functions.iter().any(|(_, function)| function.scope != 0);
    let named = memory.gather(if any_class { &classes } else { &[] })?;
    let mut texts = Vec::with_capacity(functions.len());
    for (index, (_, function)) in functions.iter().enumerate() {
        let mut text = Text::default();
        let mut permanent = true;
        let wanted = [
            (&mut text.name, function.name, gathered.part(3 * index)),
            (&mut text.file, function.file, gathered.part(3 * index + 1)),
            (&mut text.class, class_name(index), named.part(index)),
        ];
        for (slot, at, bytes) in wanted {
            if at == 0 {
                continue;
            }
            permanent &= half(bytes, 4).is_some_and(|marks| marks & PERMANENT != 0);
            match string(memory, at, bytes)? {
                Some(found) => *slot = Some(found),
                None => return Ok(None),
            }
        }
        if (function.kind != INTERNAL && text.file.is_none())
            || (function.scope != 0 && text.class.is_none())
        {
            return Ok(None);
        }
        texts.push((text, permanent));
    }
    Ok(Some(texts))
}

/// A range, or nothing of it when there is no pointer to it.
fn range(pointer: u64, offset: u64, len: usize) -> Range {
    Range {
        at: pointer.wrapping_add(offset),
        len: if pointer == 0 { 0 } else { len },
    }
}

/// The text of a `zend_string`, whose first bytes were read already.
pub(crate) fn string(
    memory: &impl Memory,
    at: u64,
    bytes: &[u8],
) -> Result<Option<String>, ReadError> {
    let header = |bytes: &[u8]| Some((half(bytes, 4)? & 0xf, word(bytes, 16)?));
    let own;
    let mut bytes = bytes;
    if bytes.len() < STRING_HEADER {
        // It stands at the end of a mapping.
        own = match memory.bytes(at, STRING_HEADER) {
            Ok(own) => own,
            Err(ReadError::Unmapped) => return Ok(None),
            Err(error) => return Err(error),
        };
        bytes = &own;
    }
    let Some((IS_STRING, length @ ..=LONGEST)) = header(bytes) else {
        return Ok(None);
    };
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    if let Some(text) = bytes
        .get(STRING_HEADER..)
        .and_then(|text| text.get(..length))
    {
        return Ok(Some(readable(text)));
    }
    match memory.bytes(at.wrapping_add(STRING_HEADER as u64), length) {
        Ok(text) => Ok(Some(readable(&text))),
        Err(ReadError::Unmapped) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The part of a name that people know: that of an anonymous class goes on, behind a zero byte, with its place.
fn readable(text: &[u8]) -> String {
    let end = text
        .iter()
        .position(|byte| *byte == 0)
        .unwrap_or(text.len());
    String::from_utf8_lossy(&text[..end]).into_owned()
}
