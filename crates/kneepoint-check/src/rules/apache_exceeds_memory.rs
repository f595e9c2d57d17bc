//! APA-07: MaxRequestWorkers times the size of a process.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "APA-07",
    name: "apache-exceeds-memory",
    title: "All processes of Apache together would take more memory than there is",
    what_it_is: "With mod_php each process of Apache holds PHP with all its extensions and what its largest request \
        needed. MaxRequestWorkers of them must fit the memory; else the kernel kills one, or the database beside it, \
        in the moment of the highest load. Counted by proportional size (PSS), in which shared memory counts once.",
    how_it_shows: "The host swaps or a process is killed when many visitors come.",
    unless: "MaxRequestWorkers is never reached.",
    what_to_write: "MaxRequestWorkers = memory for Apache divided by the proportional size of a process under load.",
    check,
};

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    for (at, service) in snapshot.of(ServiceKind::Apache) {
        let with_php = service.has_mod_php();
        let sizes: Vec<f64> = service.processes.iter().filter_map(|one| one.pss).collect();
        let most = service.settings.or("maxrequestworkers", "256");
        let count = service.apache_workers();
        let Some(count) = count.filter(|_| with_php && !sizes.is_empty()) else {
            continue;
        };
        let mean = sizes.iter().sum::<f64>() / sizes.len() as f64;
        let place = Around::service(snapshot, at, service);
        let (needed, all) = (mean * count, place.memory_bytes());
        if needed <= all * 0.9 {
            continue;
        }
        RULE.at(snapshot, at, Severity::Risk)
            .value("MaxRequestWorkers", &most)
            .seen(
                format!("{} a process", format_bytes(mean as u64)),
                "PSS of the processes there are",
            )
            .seen(
                format!("{} may be used", format_bytes(all as u64)),
                place.memory_source(),
            )
            .cost(format!(
                "{} when all are taken: the kernel kills one, or the database",
                format_bytes(needed as u64)
            ))
            .fix(Fix::line(
                service,
                &most,
                &format!("MaxRequestWorkers {:.0}", (all * 0.6 / mean).floor()),
            ))
            .weight(0.4)
            .tell(found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sick_and_healthy() {
        let large = apache(&[]).with(|all| {
            let loaded = [(
                "libphp8.2".to_owned(),
                "/usr/lib/apache2/modules/libphp8.2.so".to_owned(),
            )];
            all.services[5].php = Some(crate::snapshot::PhpService {
                loaded: loaded.into(),
                ..Default::default()
            });
            all.services[5].processes = vec![crate::snapshot::ServiceProcess {
                pss: Some(1e8),
                ..Default::default()
            }];
        });
        verify(&RULE, &[(large, Severity::Risk, "23.8 GiB")]);
    }
}
