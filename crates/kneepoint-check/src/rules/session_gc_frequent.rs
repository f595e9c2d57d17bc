//! SES-03: requests clear old sessions away.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "SES-03",
    name: "session-gc-frequent",
    title: "Requests of visitors clear old sessions away",
    what_it_is: "With files as sessions, one request in session.gc_divisor lists the whole directory of sessions and \
        looks at the time of every file, before its own work. With some hundred thousand files that is seconds for \
        that visitor. Debian and Ubuntu switch it off and have a timer do it.",
    how_it_shows: "Single requests of any page take seconds, one in a hundred or a thousand, in getdents and stat.",
    unless: "Few visitors come, so that the directory is small.",
    what_to_write: "session.gc_probability = 0 and a timer that deletes old files; or sessions in Redis, which \
        forgets by itself.",
    check,
};

/// One request in so many, or more often, clears away: as PHP comes without a php.ini.
const OFTEN: f64 = 0.01;

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    for (at, service) in snapshot.of(ServiceKind::Fpm) {
        let Some(php) = &service.php else { continue };
        let handler = php.ini.or("session.save_handler", "files");
        // Without a value in force nothing is known of it.
        let Some(chance) = php.ini.get("session.gc_probability") else {
            continue;
        };
        let divisor = php.ini.or("session.gc_divisor", "100");
        let part = chance
            .number()
            .zip(divisor.number())
            .map(|(one, of)| one / of.max(1.0));
        let Some(part) = part.filter(|part| *part >= OFTEN && handler.text == "files") else {
            continue;
        };
        let mut fix = Fix::ini(service, &[("session.gc_probability", "0".into())]);
        fix.text = format!(
            "Only with a timer that deletes old files of that directory (Debian's packages have phpsessionclean.timer): without one \
             it grows for ever. {}",
            fix.text
        );
        RULE.at(snapshot, at, Severity::Note)
            .value("session.gc_probability", chance)
            .value("session.gc_divisor", &divisor)
            .cost(format!(
                "one request in {:.0} lists the directory and looks at every session in it",
                1.0 / part
            ))
            .fix(fix)
            .weight(0.03)
            .tell(found);
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
                Case::healthy().pool_with("", "session.gc_probability=1\nsession.gc_divisor=50"),
                Severity::Note,
                "one request in 50",
            )],
        );
    }
}
