//! `redis.conf` and `postgresql.conf`: what is read prints back byte for byte, and what is set is read.

#![no_main]

use kneepoint_stack::text::lines::{Dialect, parse};

libfuzzer_sys::fuzz_target!(|text: &str| {
    for dialect in [Dialect::Redis, Dialect::Postgresql] {
        let mut lines = parse(dialect, text);
        assert_eq!(lines.to_string(), text);
        lines.set("max_connections", "100");
        let printed = lines.to_string();
        let read = parse(dialect, &printed).get("max_connections");
        assert_eq!(read.as_deref(), Some("100"), "{printed}");
    }
});
