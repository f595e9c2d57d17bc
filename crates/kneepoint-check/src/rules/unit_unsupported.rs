//! RT-08: a runtime that nobody works on any more.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "RT-08",
    name: "unit-unsupported",
    title: "NGINX Unit is no longer worked on",
    what_it_is: "Its authors have ceased all work on it: bugs stay, also those of security, and new versions of PHP may not \
        build with it.",
    how_it_shows: "Nothing yet; a new version of PHP that cannot be used, or a hole that nobody closes.",
    unless: "Somebody in your house maintains it.",
    what_to_write: "Move to PHP-FPM or FrankenPHP, at a time of your own choice.",
    check,
};

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    for (at, service) in snapshot.of(ServiceKind::Unit) {
        RULE.at(snapshot, at, Severity::Note)
            .seen(format!("Unit {} runs", service.version), format!("process {}", service.pid))
            .cost("nothing today")
            .fix(Fix::words("Plan a move to PHP-FPM or FrankenPHP; `kneepoint compare` measures both on your application."))
            .tell(found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sick_and_healthy() {
        let unit =
            |snapshot: &mut Snapshot| snapshot.services.push(Service::new(ServiceKind::Unit, 9));
        verify(
            &RULE,
            &[(Case::healthy().with(unit), Severity::Note, "process 9")],
        );
    }
}
