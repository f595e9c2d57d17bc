//! Names, files and lines, of frames as they lie in memory.

use super::*;
use crate::testing::{Fake, Words};
use proptest::prelude::*;

const GLOBALS: Symbol = Symbol {
    at: 0x100,
    size: 64,
};
const MAIN: u64 = 0x1000;
const METHOD: u64 = 0x2000;
const INTERNAL_FUNCTION: u64 = 0x3000;
const INCLUDED: u64 = 0x4000;

fn abi() -> &'static PhpAbi {
    PhpAbi::of(20_220_829).expect("PHP 8.2")
}

/// A function with two opcodes, on lines 11 and 12, the second of which includes a file.
fn function(words: &mut Words, at: u64, kind: u8) {
    words.put(at, kind.into());
    words.put(at + abi().filename as u64, at + 0x200);
    words.put(at + abi().opcodes as u64, at + 0x400);
    words.put(at + abi().last as u64, 2);
    words.put(at + abi().line_start as u64, 10);
    words.string(at + 0x200, "/srv/a.php");
    words.put(at + 0x400 + 24, 11);
    words.put(at + 0x420 + 16, 16 << 32);
    words.put(at + 0x420 + 24, u64::from(INCLUDE_OR_EVAL) << 32 | 12);
}

fn php() -> Words {
    let mut words = Words::default();
    for (at, kind) in [(MAIN, USER), (METHOD, USER), (INCLUDED, USER)] {
        function(&mut words, at, kind);
    }
    words.put(INTERNAL_FUNCTION, INTERNAL.into());
    for (at, name) in [(METHOD, "handle"), (INTERNAL_FUNCTION, "usleep")] {
        words.put(at + 8, at + 0x300);
        words.string(at + 0x300, name);
    }
    words.put(METHOD + 16, 0x5000);
    words.put(0x5000 + CLASS_NAME, 0x5100);
    words.string(0x5100, "App\\Kernel@anonymous\0/srv/a.php:3");
    words
}

/// The same with these marks on all its strings.
fn php_with_strings(marks: u32) -> Words {
    let mut words = php();
    let files = [MAIN, METHOD, INCLUDED].map(|at| at + 0x200);
    for at in files.into_iter().chain([METHOD + 0x300, 0x5100]) {
        words.put(at, u64::from(IS_STRING | marks) << 32);
    }
    words
}

fn link(func: u64, opline: u64) -> Link {
    Link {
        at: 0x9000,
        func,
        opline,
    }
}

/// Innermost first: usleep, called by a method, called by a file that the main file requires.
fn links() -> [Link; 4] {
    [
        link(INTERNAL_FUNCTION, 0),
        link(METHOD, METHOD + 0x400),
        link(INCLUDED, INCLUDED + 0x420),
        link(MAIN, MAIN + 0x420),
    ]
}

fn named(words: &Words, links: &[Link]) -> Result<Vec<Place>, &'static str> {
    name(
        &words.memory(),
        abi(),
        GLOBALS,
        links,
        &mut Known::default(),
    )
    .expect("it can be read")
}

#[test]
fn frames_have_names_files_and_lines() {
    let frames = named(&php(), &links()).expect("frames");
    let told: Vec<_> = frames
        .iter()
        .map(|frame| (frame.function.as_str(), frame.file.as_deref(), frame.line))
        .collect();
    let file = Some("/srv/a.php");
    let expected = [
        ("main /srv/a.php", file, Some(12)),
        ("require_once /srv/a.php", file, Some(12)),
        ("App\\Kernel@anonymous::handle", file, Some(11)),
        ("usleep", None, None),
    ];
    assert_eq!(told, expected);
}

#[test]
fn the_innermost_frame_may_not_have_said_where_it_is() {
    let mut links = links();
    links[1].opline = 0x77;
    assert_eq!(
        named(&php(), &links),
        Err("an opcode is not in its function")
    );
    let frames = named(&php(), &links[1..]).expect("frames");
    assert_eq!(frames[2].line, Some(10), "its first line");
}

#[test]
fn an_exception_on_its_way_calls_destructors_only() {
    let mut links = links();
    links[1].opline = GLOBALS.at + 32;
    assert_eq!(
        named(&php(), &links),
        Err("a caller was left by an exception")
    );
    let frames = named(&php(), &links[1..]).expect("it is where it is");
    assert_eq!(frames[2].line, Some(10), "its first line");
    let mut words = php();
    words.string(INTERNAL_FUNCTION + 0x300, DESTRUCTOR);
    let frames = named(&words, &links).expect("a destructor");
    assert_eq!(frames[2].line, Some(10));
}

#[test]
fn a_caller_is_where_something_can_be_called() {
    let mut words = php();
    words.put(METHOD + 0x400 + 24, u64::from(CALLS_NOTHING[0]) << 32 | 11);
    assert_eq!(named(&words, &links()), Err("a caller calls nothing"));
    assert!(
        named(&words, &links()[1..]).is_ok(),
        "it may just have begun"
    );
}

#[test]
fn what_was_overwritten_is_no_name() {
    let mut words = php();
    words.put(METHOD + 0x300, 7 << 32);
    assert_eq!(named(&words, &links()), Err("a name is no string"));
    let mut words = php();
    words.put(MAIN, 99);
    assert_eq!(named(&words, &links()), Err("a function is none"));
}

/// What OPcache keeps is read once; what it does not, each time.
#[test]
fn only_what_is_permanent_is_remembered() {
    let again = |marks| {
        let mut words = php_with_strings(marks);
        let mut known = Known::default();
        let mut named = |words: &Words| {
            let frames = name(&words.memory(), abi(), GLOBALS, &links(), &mut known);
            frames.expect("it can be read").expect("frames")[2]
                .function
                .clone()
        };
        let before = named(&words);
        words.string(METHOD + 0x300, "other");
        (before, named(&words))
    };
    let method = |name: &str| format!("App\\Kernel@anonymous::{name}");
    assert_eq!(again(0), (method("handle"), method("other")));
    assert_eq!(again(PERMANENT), (method("handle"), method("handle")));
}

/// A function that is another one now is no longer what it was, permanent or not.
#[test]
fn a_function_that_changed_is_read_again() {
    let mut words = php_with_strings(PERMANENT);
    let mut known = Known::default();
    let mut named = |words: &Words| {
        name(&words.memory(), abi(), GLOBALS, &links(), &mut known).expect("it can be read")
    };
    named(&words).expect("frames");
    words.put(METHOD + 8, METHOD + 0x380);
    words.string(METHOD + 0x380, "other");
    assert!(
        named(&words).is_err(),
        "what was remembered of it is in doubt"
    );
    let frames = named(&words).expect("frames");
    assert_eq!(frames[2].function, "App\\Kernel@anonymous::other");
}

#[test]
fn long_strings_are_read_to_their_end() {
    let mut words = php();
    let path = format!("/srv/{}.php", "x".repeat(700));
    words.string(MAIN + 0x600, &path);
    words.put(MAIN + abi().filename as u64, MAIN + 0x600);
    let frames = named(&words, &links()).expect("frames");
    assert_eq!(frames[0].file.as_deref(), Some(path.as_str()));
}

proptest! {
    #[test]
    fn no_memory_panics(
        words in proptest::collection::vec(prop_oneof![
            (0_u64..256).prop_map(|n| n * 8), any::<u64>(), 0_u64..8, Just(6 << 32),
        ], 256),
        links in proptest::collection::vec((0_u64..2048, 0_u64..2048), 0..20),
        list in 0_u64..2048,
    ) {
        let memory = Fake::flat(&words);
        let links: Vec<Link> = links.into_iter().map(|(func, opline)| link(func, opline)).collect();
        for abi in crate::PHP_ABIS {
            let _ = name(&memory, abi, GLOBALS, &links, &mut Known::default());
        }
        let _ = crate::sampler::request::request(&memory, list);
        let _ = crate::sampler::request::busy(&memory, list);
    }
}
