//! RDS-12: snapshots with huge pages.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "RDS-12",
    name: "redis-snapshots-huge-pages",
    title: "Redis copies huge pages while it writes a snapshot",
    what_it_is: "For a snapshot (save) Redis forks, and the kernel copies each page that is changed meanwhile: 4 kB usually, 2 MB \
        where transparent huge pages are always on. Redis turns them off for itself since 6.2, unless its file says disable-thp no.",
    how_it_shows: "Requests of everybody are slow for a moment, once for each snapshot; the memory of Redis grows to twice its size.",
    unless: "Its data is small, or nothing is written while a snapshot is.",
    what_to_write: "disable-thp yes, or no such line; or `madvise` in /sys/kernel/mm/transparent_hugepage/enabled.",
    check,
};

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    for (at, service) in snapshot.of(ServiceKind::Redis) {
        // Of an older one the version is not known, and nothing is said.
        let Some(kept) = service
            .settings
            .get("disable-thp")
            .filter(|value| value.is_on() == Some(false))
        else {
            continue;
        };
        let save = service.settings.or("save", "3600 1 300 100 60 10000");
        let pages = service.kernel.get("transparent_hugepage");
        let Some(pages) =
            pages.filter(|value| value.text == "always" && !save.text.trim().is_empty())
        else {
            continue;
        };
        RULE.at(snapshot, at, Severity::Note)
            .value("disable-thp", kept)
            .value("transparent_hugepage", pages)
            .value("save", &save)
            .cost("a pause of everybody after each fork, by the size of the instance")
            .fix(Fix::line(service, kept, "disable-thp yes"))
            .tell(found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sick_and_healthy() {
        let always = || {
            Case::healthy()
                .set(2, "save", "900 1")
                .kernel(2, "transparent_hugepage", "always")
        };
        verify(
            &RULE,
            &[(
                always().set(2, "disable-thp", "no"),
                Severity::Note,
                "disable-thp yes",
            )],
        );
        // Redis itself turns them off.
        assert!(super::super::tests_of(&RULE, &always()).is_empty());
    }
}
