//! NGX-03: processes of nginx and cores do not fit.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "NGX-03",
    name: "nginx-workers-and-cores",
    title: "The number of nginx's processes does not fit its cores",
    what_it_is: "One process of nginx uses one core. With one only, TLS, compression and everything else of all clients share \
        it. `auto` counts the machine's cores, also in a container that may use a part of them: then many processes take \
        turns within a small quota.",
    how_it_shows: "One process of nginx at 100 % of a core while others idle; or many processes that are stopped by the quota in turns.",
    unless: "nginx needs little CPU: plain HTTP, no compression, a few hundred requests a second.",
    what_to_write: "worker_processes auto; in a container with a quota the number of its cores.",
    check,
};

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    for (at, service) in snapshot.of(ServiceKind::Nginx) {
        if service
            .nginx
            .as_ref()
            .is_none_or(|nginx| nginx.servers.is_empty())
        {
            continue;
        }
        let value = service.settings.or("worker_processes", "1");
        let workers = super::nginx_workers(snapshot, service);
        let cores = service.cores(&snapshot.machine);
        let single = workers <= 1.0 && cores >= 2.0;
        let crowd = service.limits.cpus.is_some() && workers > 2.0 * cores.ceil();
        if !single && !crowd {
            continue;
        }
        let mut draft = RULE
            .at(snapshot, at, Severity::Risk)
            .value("worker_processes", &value);
        if let Some(limit) = &service.limits.cpus {
            draft = draft.seen(
                format!("{:.2} cores by quota", limit.value),
                limit.source.to_string(),
            );
        } else {
            draft = draft.seen(format!("{cores:.0} cores may be used"), "");
        }
        let right = if crowd {
            format!("worker_processes {:.0};", cores.ceil())
        } else {
            "worker_processes auto;".to_owned()
        };
        draft
            .title(if crowd {
                "nginx has many processes for a small quota of CPU"
            } else {
                "nginx has one process for all cores"
            })
            .cost(if crowd {
                "processes that take turns: response times step by the length of the quota's period"
            } else {
                "all of nginx's work is done by one core"
            })
            .fix(Fix::line(service, &value, &right))
            .weight(0.15)
            .tell(found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::ResourceLimit;

    #[test]
    fn sick_and_healthy() {
        let quota = |snapshot: &mut Snapshot| {
            let source = SettingSource::Kernel {
                path: "/sys/fs/cgroup/cpu.max".into(),
            };
            snapshot.services[0].limits.cpus = Some(ResourceLimit { value: 0.5, source });
        };
        verify(
            &RULE,
            &[
                (
                    Case::healthy().nginx_with("worker_processes auto;", "worker_processes 1;"),
                    Severity::Risk,
                    "nginx.conf:1",
                ),
                (Case::healthy().with(quota), Severity::Risk, "cpu.max"),
            ],
        );
    }
}
