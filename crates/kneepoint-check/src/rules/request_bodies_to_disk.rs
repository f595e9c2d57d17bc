//! NGX-10: bodies of requests go through files.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "NGX-10",
    name: "request-bodies-to-disk",
    title: "nginx writes request bodies to disk before PHP sees them",
    what_it_is: "nginx keeps the body of a request in client_body_buffer_size, 16 kB as it comes, and writes larger \
        ones to a file before PHP sees them. A smaller buffer, or client_body_in_file_only, sends every form and \
        every call of an interface through the disk.",
    how_it_shows: "Writes below client_body_temp for each POST, and `a client request body is buffered to a \
        temporary file` in the error log.",
    unless: "Hardly anything is sent to the site but large uploads.",
    what_to_write: "client_body_buffer_size 128k; client_body_in_file_only off;",
    check,
};

const FILE: Directive = Directive {
    home: Home::Site,
    name: "client_body_in_file_only",
    usual: "off",
    beside: &[],
    severity: Severity::Risk,
    costs: |value, _| {
        let written = value.text == "on" || value.text == "clean";
        written.then(|| "a file is made, written and read for every POST, however small".to_owned())
    },
    better: |_| "client_body_in_file_only off;".into(),
    weight: 0.06,
};

const SIZE: Directive = Directive {
    home: Home::Site,
    name: "client_body_buffer_size",
    usual: "16k",
    beside: &[],
    severity: Severity::Risk,
    costs: |value, _| {
        /// One page of memory twice: what nginx has at the least.
        const LITTLE: f64 = 8192.0;
        let bytes = value.size().filter(|bytes| *bytes < LITTLE)?;
        Some(format!(
            "a file is made, written and read for every body above {}",
            format_bytes(bytes as u64)
        ))
    },
    better: |_| "client_body_buffer_size 128k;".into(),
    weight: 0.06,
};

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    FILE.check(&RULE, snapshot, found);
    SIZE.check(&RULE, snapshot, found);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sick_and_healthy() {
        verify(
            &RULE,
            &[
                (
                    Case::healthy().nginx_with(
                        "sendfile on;",
                        "sendfile on;\n client_body_in_file_only clean;",
                    ),
                    Severity::Risk,
                    "every POST",
                ),
                (
                    Case::healthy()
                        .nginx_with("sendfile on;", "sendfile on;\n client_body_buffer_size 1k;"),
                    Severity::Risk,
                    "above 1.0 KiB",
                ),
            ],
        );
    }
}
