//! FastCGI responses: the same result however the bytes are cut, and never more bytes used than given.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| kneepoint_load::fuzzing::fastcgi_response(input));
