//! APP-27: a form with a file that PHP would take is thrown away as a whole.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "APP-27",
    name: "post-smaller-than-upload",
    title: "PHP throws whole forms away because of files that it would take",
    what_it_is: "upload_max_filesize is for one file, post_max_size for the whole form with all its files. A form that is larger \
        than post_max_size is dropped: the script runs with no fields and no files, as if nobody had sent any, and answers with \
        status 200. So post_max_size must be the larger of the two.",
    how_it_shows: "`POST Content-Length of N bytes exceeds the limit` in PHP's log, and forms that come back empty after an upload.",
    unless: "Nobody uploads anything.",
    what_to_write: "post_max_size a little larger than upload_max_filesize; and client_max_body_size of nginx like post_max_size.",
    check,
};

/// A form is larger than the file in it.
pub(super) const FORM: f64 = 1.1;

const POST: Directive = Directive {
    home: Home::Ini,
    name: "post_max_size",
    usual: "8M",
    beside: &[("upload_max_filesize", "2M")],
    severity: Severity::Risk,
    costs: |value, around| {
        // 0 is no limit.
        let most = value.size().filter(|bytes| *bytes > 0.0)?;
        let file = largest_file(around)?;
        (file > most).then(|| {
            format!(
                "a visitor who sends a file of {} to {}, which is allowed, loses the whole form, and nobody is told",
                format_bytes(most as u64),
                format_bytes(file as u64)
            )
        })
    },
    better: |around| {
        let file = largest_file(around).unwrap_or(8.0 * 1_048_576.0);
        format!("{:.0}M", (file * FORM / 1_048_576.0).ceil())
    },
    weight: 0.05,
};

fn largest_file(around: &Around<'_>) -> Option<f64> {
    around.settings.or("upload_max_filesize", "2M").size()
}

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    POST.check(&RULE, snapshot, found);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sick_and_healthy() {
        let php = |ini: &str| Case::healthy().pool_with("", ini);
        verify(
            &RULE,
            &[
                (
                    php("upload_max_filesize=64M"),
                    Severity::Risk,
                    "file of 8.0 MiB to 64.0 MiB",
                ),
                (
                    php("upload_max_filesize=64M"),
                    Severity::Risk,
                    "post_max_size = 71M",
                ),
                (php("post_max_size=1M"), Severity::Risk, "a.ini:9"),
            ],
        );
        for well in [
            "upload_max_filesize=8M",
            "upload_max_filesize=64M\npost_max_size=0",
        ] {
            assert!(
                super::super::tests_of(&RULE, &php(well)).is_empty(),
                "{well}"
            );
        }
    }
}
