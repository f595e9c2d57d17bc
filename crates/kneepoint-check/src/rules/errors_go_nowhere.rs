//! APP-14: errors are neither shown nor logged.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "APP-14",
    name: "errors-go-nowhere",
    title: "Errors of PHP are written nowhere",
    what_it_is: "With log_errors off and display_errors off an error of PHP leaves no trace: a page that fails under \
        load is an empty page with status 500, and nobody can say why. In a field report one error in a thousand \
        stayed unexplained for that reason.",
    how_it_shows: "Status 500 in the access log, and nothing in any log beside it.",
    unless: "The application has an error handler of its own that writes everything, also fatal errors.",
    what_to_write: "log_errors = On and error_log = /var/log/php-errors.log in php.ini.",
    check,
};

const LOG: Directive = Directive {
    home: Home::Ini,
    name: "log_errors",
    usual: "1",
    beside: &[("display_errors", "1")],
    severity: Severity::Risk,
    costs: |value, around| {
        let shown = around.settings.or("display_errors", "1");
        let nowhere = value.is_on() == Some(false) && shown.is_on() == Some(false);
        nowhere.then(|| {
            format!(
                "no speed; but an error of any of {} cannot be found again",
                around.who()
            )
        })
    },
    better: |_| "On".into(),
    weight: 0.02,
};

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    LOG.check(&RULE, snapshot, found);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sick_and_healthy() {
        verify(
            &RULE,
            &[(
                Case::healthy().pool_with("", "log_errors=0"),
                Severity::Risk,
                "display_errors",
            )],
        );
    }
}
