//! NGX-23: only HTML is compressed.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "NGX-23",
    name: "gzip-html-only",
    title: "nginx compresses HTML only",
    what_it_is: "gzip_types is text/html alone unless more is named. Style sheets, scripts, JSON of an interface and \
        pictures in SVG then travel at three to five times their compressed size, although gzip is on.",
    how_it_shows: "Responses of type application/json or text/css without `Content-Encoding`.",
    unless: "nginx serves nothing but HTML, or files that the build compressed (gzip_static).",
    what_to_write: "gzip_types text/css application/javascript application/json image/svg+xml;",
    check,
};

/// Kinds of text that browsers take compressed, beside HTML.
pub(super) const COMPRESSED: &str =
    "text/css application/javascript application/json image/svg+xml";

const TYPES: Directive = Directive {
    home: Home::Site,
    name: "gzip_types",
    usual: "text/html",
    beside: &[("gzip", "off")],
    severity: Severity::Note,
    costs: |value, around| {
        let on = around.settings.or("gzip", "off").is_on() == Some(true);
        let alone = value.text.split(' ').all(|word| word == "text/html");
        let ready = around.settings.or("gzip_static", "off");
        (on && alone && ready.is_on() == Some(false)).then(|| {
            "JSON, style sheets and scripts of three to five times their compressed size".to_owned()
        })
    },
    better: |_| format!("gzip_types {COMPRESSED};"),
    weight: 0.03,
};

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    TYPES.check(&RULE, snapshot, found);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sick_and_healthy() {
        verify(
            &RULE,
            &[(
                Case::healthy().nginx_with("gzip_types application/json;", "gzip_types text/html;"),
                Severity::Note,
                "gzip_types",
            )],
        );
    }
}
