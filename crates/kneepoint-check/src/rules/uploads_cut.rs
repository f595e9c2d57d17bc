//! NGX-29: nginx refuses what PHP would take.

use crate::rule::prelude::*;
use std::collections::BTreeSet;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "NGX-29",
    name: "uploads-cut",
    title: "nginx refuses uploads that PHP was told to take",
    what_it_is: "An upload must fit three limits: client_max_body_size of nginx (1 MB where nobody writes it), and post_max_size \
        and upload_max_filesize of PHP. The smallest counts. Where only PHP's are raised, nginx answers 413 before PHP sees the \
        request, and no log of PHP says anything.",
    how_it_shows: "`client intended to send too large body` in nginx's error log, status 413 in the access log, and people who say \
        that large pictures do not arrive.",
    unless: "Nobody uploads anything through this server.",
    what_to_write: "client_max_body_size as large as post_max_size, in the server or the location that takes uploads.",
    check,
};

/// What PHP takes of a file where nobody writes it, in bytes. That it is more than nginx's own limit is nobody's wish.
const STOCK: f64 = 2.0 * 1_048_576.0;

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    let askers = Askers::of(snapshot);
    // Several pools behind one line, with the same limits of PHP, are one matter.
    let mut told: BTreeSet<(usize, String, u64)> = BTreeSet::new();
    for (link, web, _, pool) in snapshot.links_to_pools() {
        let passes = askers.passes(link).iter();
        let limits = passes.map(|pass| pass.settings.or("client_max_body_size", "1m"));
        // The place that takes uploads is the one that lets most in.
        let Some(limit) = limits.reduce(|a, b| if bytes(&a) < bytes(&b) { b } else { a }) else {
            continue;
        };
        let file = pool.php.or("upload_max_filesize", "2M");
        let post = pool.php.or("post_max_size", "8M");
        let takes = bytes(&file).min(bytes(&post));
        if bytes(&file) <= STOCK || bytes(&limit) >= takes {
            continue;
        }
        let limited = format!("{} {}", limit.text, limit.source);
        if !told.insert((link.from, limited, takes.to_bits())) {
            continue;
        }
        // Where PHP has no limit at all, a larger one is for its owner to choose.
        let right = match form_bytes(bytes(&file), bytes(&post)) {
            form if form.is_finite() => format!("{:.0}m", (form / 1_048_576.0).ceil()),
            _ => "64m".to_owned(),
        };
        RULE.at(snapshot, link.from, Severity::Risk)
            .value("client_max_body_size", &limit)
            .value("upload_max_filesize", &file)
            .value("post_max_size", &post)
            .seen(format!("it asks pool {}", pool.name), &link.how)
            .cost(format!(
                "a visitor who sends a file of more than {} gets the error 413, although PHP would take it",
                format_bytes(bytes(&limit) as u64)
            ))
            .fix(Fix::line(web, &limit, &format!("client_max_body_size {right};")))
            .weight(0.05)
            .tell(found);
    }
}

/// A whole form with the largest file: what PHP takes, or has to take where that is less than the file (APP-27).
fn form_bytes(file: f64, post: f64) -> f64 {
    if post.is_finite() && post >= file {
        post
    } else {
        file * super::post_smaller_than_upload::FORM
    }
}

/// A limit in bytes; 0 is none.
fn bytes(value: &SettingValue) -> f64 {
    match value.size() {
        Some(0.0) | None => f64::INFINITY,
        Some(bytes) => bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sick_and_healthy() {
        let php = |ini: &str| Case::healthy().pool_with("", ini);
        let raised = || php("upload_max_filesize=64M\npost_max_size=80M");
        let limited = |line: &str| {
            raised().nginx_with(
                "fastcgi_pass unix",
                &format!("{line}\n   fastcgi_pass unix"),
            )
        };
        verify(
            &RULE,
            &[
                (raised(), Severity::Risk, "more than 1.0 MiB"),
                (raised(), Severity::Risk, "client_max_body_size 80m;"),
                (
                    limited("client_max_body_size 10m;"),
                    Severity::Risk,
                    "more than 10.0 MiB",
                ),
            ],
        );
        for well in [
            limited("client_max_body_size 64m;"),
            limited("client_max_body_size 0;"),
            php("upload_max_filesize=2M"),
            // It is PHP that refuses these.
            php("upload_max_filesize=64M\npost_max_size=512K"),
        ] {
            assert!(super::super::tests_of(&RULE, &well).is_empty());
        }
    }
}
