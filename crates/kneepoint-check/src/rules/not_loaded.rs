//! What is written is not what runs.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "CHK-01",
    name: "not-loaded",
    title: "Configuration was changed since it was loaded",
    what_it_is: "A program reads its files when it is started and when it is told to reload. What was changed since holds only \
        after the next reload: by then nobody remembers the change, and it may be wrong.",
    how_it_shows: "What is written in the file is not what the site does; the next reload or reboot changes it, at any hour.",
    unless: "Somebody is at it right now.",
    what_to_write: "Reload the program now, while somebody looks.",
    check,
};

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    for (at, service) in snapshot.services.iter().enumerate() {
        let newer: Vec<_> = service.files.iter().filter(|file| file.newer).collect();
        let Some(first) = newer.first() else { continue };
        // Redis reads it at its start only, and CONFIG SET may have said the same meanwhile.
        let is_redis = service.kind == ServiceKind::Redis;
        let severity = if is_redis {
            Severity::Note
        } else {
            Severity::Risk
        };
        let mut draft = RULE.at(snapshot, at, severity);
        for file in newer.iter().take(4) {
            let minutes = (file.modified_s - service.loaded_s) / 60.0;
            draft = draft.seen(
                format!("changed {minutes:.0} min after it was loaded"),
                &file.path,
            );
        }
        draft
            .cost(match is_redis {
                true => "the findings here are of what is written; what runs is older, or what CONFIG SET made of it",
                false => "the findings here are of what is written; what runs is older, until a reload",
            })
            .fix(Fix::reload(
                service,
                format!("Read {} once more, then have it loaded.", first.path),
            ))
            .weight(0.05)
            .tell(found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sick_and_healthy() {
        let newer = |snapshot: &mut Snapshot| snapshot.services[0].files[0].newer = true;
        verify(
            &RULE,
            &[(
                Case::healthy().with(newer),
                Severity::Risk,
                "/etc/nginx/nginx.conf",
            )],
        );
    }
}
