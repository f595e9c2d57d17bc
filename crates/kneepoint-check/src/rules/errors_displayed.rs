//! GEN-04: errors are shown, with status 200.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "GEN-04",
    name: "errors-displayed",
    title: "PHP shows its errors to visitors, with status 200",
    what_it_is: "With display_errors on, a fatal error is printed into a page that counts as good: monitoring and load tests see \
        200 (83 000 in a lab, all of them errors), and visitors see paths and queries.",
    how_it_shows: "Text such as `Fatal error: ...` in pages that count as good; a load test that is suddenly very fast.",
    unless: "It is a developer's machine.",
    what_to_write: "display_errors = Off and log_errors = On.",
    check,
};

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    for (at, service, pool) in snapshot.pools() {
        let value = pool.php.or("display_errors", "1");
        let on = value.is_on() == Some(true) || value.text.eq_ignore_ascii_case("stdout");
        if on {
            RULE.at(snapshot, at, Severity::Risk)
                .pool(pool)
                .value("display_errors", &value)
                .cost("no time; but nobody sees when pages fail, except visitors")
                .fix(Fix::php(
                    service,
                    pool,
                    &[
                        ("display_errors", "Off".into()),
                        ("log_errors", "On".into()),
                    ],
                ))
                .weight(0.05)
                .tell(found);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sick_and_healthy() {
        verify(
            &RULE,
            &[(
                Case::healthy().pool_with("", "display_errors=On"),
                Severity::Risk,
                "a.ini:9",
            )],
        );
    }
}
