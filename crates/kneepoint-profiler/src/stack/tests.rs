use super::*;
use crate::testing::{Fake, Stack};
use proptest::prelude::*;

const ABI: fn() -> &'static PhpAbi = || PhpAbi::of(20_220_829).expect("PHP 8.2");

fn read(memory: &Fake) -> Reading {
    Reader::new(Fake::GLOBALS, ABI())
        .read(memory)
        .expect("it can be read")
}

/// The functions of a stack that was read, innermost first.
#[track_caller]
fn functions(reading: Reading) -> Vec<u64> {
    match reading {
        Reading::Stack {
            links,
            salvaged: false,
        } => links.iter().map(|link| link.func).collect(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_plain_stack_is_read_to_its_root() {
    let mut stack = Stack::new(ABI());
    for func in [0x10, 0x20, 0x30] {
        stack.call(func);
    }
    assert_eq!(functions(read(&stack.memory())), [0x30, 0x20, 0x10]);
}

#[test]
fn a_chain_that_ends_early_is_refused() {
    let mut stack = Stack::new(ABI());
    stack.call(0x10);
    let second = stack.call(0x20);
    stack.put(second + EX_PREV as u64, 0);
    let expected = Reading::Failed("the chain does not end at its root");
    assert_eq!(read(&stack.memory()), expected);
}

#[test]
fn no_code_is_no_error() {
    let mut stack = Stack::new(ABI());
    stack.call(0x10);
    stack.current(0);
    assert_eq!(read(&stack.memory()), Reading::NoCode);
}

#[test]
fn generators_that_delegate_are_put_back_in_their_order() {
    let places = ABI().generator.expect("known");
    let mut stack = Stack::new(ABI());
    stack.call(0x10);
    // 0x20 was asked; it delegates to 0x30, which delegates to 0x40, which runs.
    let objects = [0x20, 0x30, 0x40].map(|func| {
        let object = stack.allocate(264);
        let frame = stack.frame_at(func);
        stack.put(object + places.execute_data as u64, frame);
        (object, frame)
    });
    let stands_for = objects[0].0 + 184;
    stack.put(stands_for + EX_THIS as u64, objects[0].0);
    stack.put(stands_for + EX_THIS_TYPE as u64, 0x0308);
    stack.put(stands_for + EX_PREV as u64, stack.innermost());
    for pair in objects.windows(2) {
        stack.put(pair[0].0 + places.parent as u64, pair[1].0);
    }
    stack.put(objects[2].1 + EX_PREV as u64, stands_for);
    stack.current(objects[2].1);
    assert_eq!(functions(read(&stack.memory())), [0x40, 0x30, 0x20, 0x10]);
}

#[test]
fn generators_between_two_states_are_left_out() {
    let places = ABI().generator.expect("known");
    let mut stack = Stack::new(ABI());
    stack.call(0x10);
    let asked = stack.allocate(264);
    let runs = stack.frame_at(0x30);
    // Its tree says that another generator runs than the one that does.
    let other = stack.frame_at(0x40);
    stack.put(asked + places.execute_data as u64, other);
    let stands_for = asked + 184;
    stack.put(stands_for + EX_THIS as u64, asked);
    stack.put(stands_for + EX_THIS_TYPE as u64, 0x0308);
    stack.put(stands_for + EX_PREV as u64, stack.innermost());
    stack.put(runs + EX_PREV as u64, stands_for);
    stack.current(runs);
    let Reading::Outer(links) = read(&stack.memory()) else {
        panic!("the generators are not known");
    };
    assert_eq!(
        links.iter().map(|link| link.func).collect::<Vec<_>>(),
        [0x10]
    );
}

#[test]
fn a_recursion_over_several_pages_is_read_whole() {
    let mut stack = Stack::new(ABI());
    for page in 0..5 {
        for depth in 0..100 {
            stack.call(1000 * page + depth + 8);
        }
        stack.next_page();
    }
    let functions = functions(read(&stack.memory()));
    assert_eq!(functions.len(), 500);
    assert_eq!((functions[0], functions[499]), (4107, 8));
}

#[test]
fn only_what_all_chains_share_counts() {
    let mut stack = Stack::new(ABI());
    let outer = stack.call(0x10);
    let inner = stack.call(0x20);
    let memory = stack.memory();
    memory.move_current([inner, outer, inner]);
    let mut reader = Reader::new(Fake::GLOBALS, ABI());
    // The plan is made by one read of its own.
    let reading = reader.read(&memory).expect("it can be read");
    let Reading::Stack {
        links,
        salvaged: true,
    } = reading
    else {
        panic!("{reading:?}");
    };
    assert_eq!(
        links.iter().map(|link| link.func).collect::<Vec<_>>(),
        [0x10]
    );
}

#[test]
fn an_inner_frame_that_changes_between_the_copies_is_left_out() {
    let mut stack = Stack::new(ABI());
    stack.call(0x10);
    let inner = stack.call(0x20);
    let memory = stack.memory();
    memory.flicker(inner + EX_FUNC as u64);
    let Reading::Outer(links) = Reader::new(Fake::GLOBALS, ABI())
        .read(&memory)
        .expect("it can be read")
    else {
        panic!("the inner frame is not stable");
    };
    assert_eq!(
        links.iter().map(|link| link.func).collect::<Vec<_>>(),
        [0x10]
    );
}

proptest! {
    /// Random memory whose words often point into it: no panic, and an end.
    #[test]
    fn no_memory_panics_or_loops(
        words in proptest::collection::vec(prop_oneof![
            2 => Just(0_u64), 4 => (0_u64..512).prop_map(|n| n * 8), 1 => any::<u64>(), 1 => 0_u64..4096,
        ], 512),
        abi in 0_usize..7,
    ) {
        let memory = Fake::flat(&words);
        let mut reader = Reader::new(8, crate::PHP_ABIS[abi]);
        for _ in 0..4 {
            let _ = reader.read(&memory);
        }
    }
}
