//! nginx configurations: what is read prints back byte for byte, and what is set is read.

#![no_main]

use kneepoint_stack::text::nginx::parse;

libfuzzer_sys::fuzz_target!(|text: &str| {
    let Ok(mut block) = parse(text) else {
        return;
    };
    assert_eq!(block.to_string(), text);
    // The text is the value as well: it may hold everything that must be quoted.
    let value: String = text.chars().take(20).collect();
    block.set("set_by_fuzzing", &[&value]);
    let printed = block.to_string();
    let read = parse(&printed).unwrap_or_else(|error| panic!("{error}: {printed}"));
    let args = read
        .find("set_by_fuzzing")
        .map(|directive| directive.args());
    assert_eq!(args, Some(vec![value]), "{printed}");
});
