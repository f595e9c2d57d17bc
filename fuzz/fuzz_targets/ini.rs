//! `php.ini` and FPM's pool files: what is read prints back byte for byte, and what is set is read.

#![no_main]

use kneepoint_stack::text::ini::{Section, parse};

libfuzzer_sys::fuzz_target!(|text: &str| {
    let Ok(mut ini) = parse(text) else {
        return;
    };
    assert_eq!(ini.to_string(), text);
    for section in ini.sections() {
        for key in ini.keys(Section::Named(section)) {
            let last = ini.all(Section::Named(section), &key).pop();
            assert_eq!(ini.get(Section::Named(section), &key), last, "{key}");
        }
    }
    for section in [Section::Any, Section::Named("www")] {
        ini.set(section, "pm.max_children", "12");
        let printed = ini.to_string();
        let read = parse(&printed).unwrap_or_else(|error| panic!("{error}: {printed}"));
        assert_eq!(
            read.get(section, "pm.max_children").as_deref(),
            Some("12"),
            "{printed}"
        );
    }
});
