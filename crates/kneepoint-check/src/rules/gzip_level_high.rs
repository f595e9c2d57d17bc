//! NGX-12: compression that costs more than it saves.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "NGX-12",
    name: "gzip-level-high",
    title: "nginx uses too high a gzip level",
    what_it_is: "Above level 5 gzip makes pages hardly smaller and takes several times the CPU. A field report had 9, and nginx shared its cores with PHP.",
    how_it_shows: "Most of nginx's CPU time in deflate, and pages that are hardly smaller than at level 4.",
    unless: "The network is the limit and nginx has CPU to spare.",
    what_to_write: "gzip_comp_level 4; and gzip_static on; for files that the build compresses once.",
    check,
};

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    for (at, service) in snapshot.of(ServiceKind::Nginx) {
        let Some(nginx) = &service.nginx else {
            continue;
        };
        let servers = nginx.servers.iter().map(|one| &one.settings);
        let settings = std::iter::once(&service.settings).chain(servers);
        let high = settings
            .filter(|settings| settings.get("gzip").and_then(SettingValue::is_on) == Some(true));
        let mut values = high.filter_map(|settings| settings.get("gzip_comp_level"));
        // One is enough: the servers of a site mostly share theirs.
        if let Some(value) = values.find(|value| value.number() > Some(6.0)) {
            RULE.at(snapshot, at, Severity::Risk)
                .value("gzip_comp_level", value)
                .cost("several times the CPU of level 5 for a page that is one or two per cent smaller")
                .fix(Fix::line(service, value, "gzip_comp_level 5;"))
                .weight(0.1)
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
                Case::healthy().nginx_with("gzip_comp_level 5;", "gzip_comp_level 9;"),
                Severity::Risk,
                "nginx.conf:12",
            )],
        );
    }
}
