//! APP-02: switches of the application's own that cost every request.

use crate::rule::prelude::*;
use kneepoint_model::SwitchKind;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "APP-02",
    name: "debug-on",
    title: "Debugging is switched on in the application",
    what_it_is: "In its debug mode an application collects what it does, checks its caches for changes and builds long error \
        pages: up to four times memory and time. It also shows its inside to everybody who causes an error.",
    how_it_shows: "Pages are slow at any load, and an error shows the code, the queries and the environment.",
    unless: "It is a developer's machine.",
    what_to_write: "APP_DEBUG=false and APP_ENV=production (or the application's own switch), then clear its cache of settings.",
    check,
};

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    for app in &snapshot.apps {
        for switch in &app.switches {
            let (title, code) = match switch.kind {
                SwitchKind::DebugOn => (RULE.title, RULE.code),
                SwitchKind::CacheOff => ("A cache of the application is switched off", "APP-08"),
            };
            let mut told = Vec::new();
            RULE.at(snapshot, app.service, Severity::Problem)
                .title(title)
                .seen(format!("{} = {}", switch.name, switch.value), format!("{}/{}:{}", app.root, switch.file, switch.line))
                .cost("time of every request: pages did four times the work in a public report")
                .fix(Fix::words(format!("Switch it off in {}/{}, line {}, and clear the application's own cache of settings.", app.root, switch.file, switch.line)))
                .weight(0.4)
                .tell(&mut told);
            found.extend(
                told.into_iter()
                    .map(|finding| CheckFinding { code, ..finding }),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kneepoint_model::AppSwitch;

    #[test]
    fn sick_and_healthy() {
        let switched = |kind| {
            Case::healthy().with(|snapshot| {
                let (name, value, file) = ("APP_DEBUG".into(), "true".into(), ".env".into());
                snapshot.apps[0].switches.push(AppSwitch {
                    kind,
                    name,
                    value,
                    file,
                    line: 4,
                });
            })
        };
        verify(
            &RULE,
            &[
                (
                    switched(SwitchKind::DebugOn),
                    Severity::Problem,
                    "/srv/app/.env:4",
                ),
                (switched(SwitchKind::CacheOff), Severity::Problem, "APP-08"),
            ],
        );
    }
}
