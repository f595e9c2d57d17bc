//! APA-01: connections of browsers hold processes that execute PHP.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "APA-01",
    name: "apache-keep-alive",
    title: "Kept connections hold Apache's processes",
    what_it_is: "With mod_php every connection holds a process with PHP in it, for KeepAliveTimeout seconds after its last \
        request. Some hundred browsers that read a page use up MaxRequestWorkers while the CPU is idle.",
    how_it_shows: "The status page shows most processes as K (keepalive), the CPU is idle, and new visitors wait.",
    unless: "A proxy in front keeps the connections of browsers, or Apache runs the event MPM with PHP-FPM.",
    what_to_write: "KeepAliveTimeout 2; better: the event MPM with PHP-FPM, where an idle connection holds no process.",
    check,
};

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    for (at, service) in snapshot.of(ServiceKind::Apache) {
        let with_php = service.has_mod_php();
        let keeps = service.settings.or("keepalive", "On");
        let time = service.settings.or("keepalivetimeout", "5");
        if !with_php
            || keeps.is_on() == Some(false)
            || time.seconds().is_none_or(|seconds| seconds <= 2.0)
        {
            continue;
        }
        let most = service.settings.or("maxrequestworkers", "256");
        RULE.at(snapshot, at, Severity::Risk)
            .value("KeepAliveTimeout", &time)
            .value("MaxRequestWorkers", &most)
            .cost(format!(
                "about {:.0} browsers that read use up all processes",
                service.apache_workers().unwrap_or(256.0)
            ))
            .fix(Fix::line(service, &time, "KeepAliveTimeout 2"))
            .weight(0.2)
            .tell(found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sick_and_healthy() {
        let apache = |snapshot: &mut Snapshot| {
            let mut service = Service::new(ServiceKind::Apache, 9);
            let loaded = [(
                "libphp8.2".to_owned(),
                "/usr/lib/apache2/modules/libphp8.2.so".to_owned(),
            )]
            .into();
            service.php = Some(crate::snapshot::PhpService {
                loaded,
                ..Default::default()
            });
            snapshot.services.push(service);
        };
        verify(
            &RULE,
            &[(
                Case::healthy().with(apache),
                Severity::Risk,
                "about 256 browsers",
            )],
        );
    }
}
