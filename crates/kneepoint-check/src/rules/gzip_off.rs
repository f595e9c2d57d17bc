//! NGX-22: text is sent uncompressed.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "NGX-22",
    name: "gzip-off",
    title: "nginx sends text uncompressed",
    what_it_is: "gzip is off unless it is switched on. HTML, CSS, scripts and JSON are three to five times larger \
        without it. On a slow line that is most of the time a page takes; at the peak it fills the line of the host; \
        and as long as a page is under way its buffers are held.",
    how_it_shows: "Responses without `Content-Encoding`, and megabytes a second for few requests.",
    unless: "A proxy or CDN in front compresses, or all clients are on the same fast network.",
    what_to_write: "gzip on; gzip_comp_level 4; gzip_types text/css application/javascript application/json \
        image/svg+xml;",
    check,
};

const GZIP: Directive = Directive {
    home: Home::Site,
    name: "gzip",
    usual: "off",
    beside: &[],
    severity: Severity::Note,
    costs: |value, around| {
        let nginx = around.service.nginx.as_ref()?;
        (value.is_on() == Some(false) && !nginx.servers.is_empty())
            .then(|| "text of three to five times its size, on every line to a client".to_owned())
    },
    better: |around| {
        // Of what stands there already a second line would keep nginx from starting.
        let beside = [
            ("gzip_comp_level", "4"),
            ("gzip_types", super::gzip_html_only::COMPRESSED),
        ];
        let missing = beside
            .iter()
            .filter(|(name, _)| around.settings.get(name).is_none());
        let lines = missing.map(|(name, value)| format!("\n{name} {value};"));
        "gzip on;".to_owned() + &lines.collect::<String>()
    },
    weight: 0.05,
};

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    GZIP.check(&RULE, snapshot, found);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sick_and_healthy() {
        verify(
            &RULE,
            &[(
                Case::healthy().nginx_with("gzip on;", "gzip off;"),
                Severity::Note,
                "nginx.conf:11",
            )],
        );
    }
}
