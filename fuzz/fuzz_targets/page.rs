//! Response bodies, HTML or not: what is shown is short, links are paths, and a page is known again by its marks.

#![no_main]

use kneepoint_load::Page;

libfuzzer_sys::fuzz_target!(|body: &[u8]| {
    for content_type in [None, Some("text/html"), Some("text/plain")] {
        let page = Page::read(body, content_type);
        assert!(page.text.chars().count() <= 401);
        assert_eq!(page.size_bytes, body.len());
        for link in page.links("/a/b?c", "example.org") {
            assert!(link.starts_with('/'), "{link}");
        }
        for mark in page.marks(body) {
            let found = body
                .windows(mark.len())
                .any(|piece| piece == mark.as_bytes());
            assert!(found, "{mark}");
        }
        if let Some(error) = page.error_page() {
            assert!(error.sentence.chars().count() <= 241);
        }
    }
});
