//! KRN-06: a container is stopped for want of quota.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "KRN-06",
    name: "cpu-throttled",
    title: "The container is stopped again and again for want of CPU quota",
    what_it_is: "A quota is an amount of CPU time for each period of 100 ms. When all threads together have used it, all of \
        them stand still until the next period begins, even where the average is below the limit: response times step by 100 \
        ms.",
    how_it_shows: "Response times step by about 100 ms although the average use of the CPU is below the limit; nr_throttled in cpu.stat counts up.",
    unless: "It was throttled only while it started.",
    what_to_write: "A larger quota (`cpus:` in a compose file, `limits.cpu` in a pod), and no more processes of nginx than cores of the quota.",
    check,
};

const OFTEN: f64 = 0.05;

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    let mut groups: Vec<String> = Vec::new();
    for (at, service) in snapshot.services.iter().enumerate() {
        let Some(share) = service
            .limits
            .throttled
            .as_ref()
            .filter(|share| share.value >= OFTEN)
        else {
            continue;
        };
        let source = share.source.to_string();
        if groups.contains(&source) {
            continue;
        }
        let quota = service
            .limits
            .cpus
            .as_ref()
            .map_or(0.0, |limit| limit.value);
        RULE.at(snapshot, at, if share.value > 0.2 { Severity::Problem } else { Severity::Risk })
            .seen(format!("stopped in {:.0} % of its periods, at a quota of {quota:.2} cores", share.value * 100.0), &source)
            .cost("pauses of up to 100 ms in those periods, for everybody")
            .fix(Fix::words("Raise the container's CPU limit, or give it fewer processes: no more workers at once than the quota has cores."))
            .weight(share.value.min(0.6))
            .tell(found);
        groups.push(source);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::ResourceLimit;

    #[test]
    fn sick_and_healthy() {
        let throttled = |snapshot: &mut Snapshot| {
            let source = SettingSource::Kernel {
                path: "/sys/fs/cgroup/x/cpu.stat".into(),
            };
            snapshot.services[1].limits.throttled = Some(ResourceLimit { value: 0.4, source });
        };
        verify(
            &RULE,
            &[(Case::healthy().with(throttled), Severity::Problem, "40 %")],
        );
    }
}
