//! NGX-03: one nginx process does the work of several cores.

use crate::rule::prelude::*;

/// Share of a core at which a process counts as full.
const FULL: f64 = 0.9;
/// CPU of the machine above which more processes would have nothing to run on.
const NO_ROOM: f64 = 0.85;

pub(crate) static RULE: Rule = Rule {
    code: "NGX-03",
    name: "single-nginx-worker",
    since: "0.1.0",
    layers: &[Layer::Proxy, Layer::Web],
    stage: RuleStage::Waits,
    signal: UseSignal::Saturation,
    applies_to: AppliesTo::Server("nginx"),
    requires: &[metric::CPU_HOTTEST, metric::MACHINE_BUSY_S],
    yields_to: &[],
    title: "one nginx process is at its limit while cores are idle",
    doc: RuleDoc {
        what_it_is: "An nginx worker process uses one core at most. With `worker_processes 1`, the default when \
            nothing is written, the second core stays idle however much there is to do.",
        how_it_shows: "One nginx process at 100 % of a core in top, the others absent or idle.",
        how_it_is_confirmed: "Double worker_processes: goodput rises, and a second process shows up in top.",
        what_to_write: "In nginx.conf, one process for each core the host may use (in a container with a quota write \
            the number, since auto counts the cores of the machine):\n\n    worker_processes auto;",
        references: &[
            "https://nginx.org/en/docs/ngx_core_module.html#worker_processes",
            "field report S5",
        ],
    },
    check,
};

fn check(evidence: &Evidence) -> Option<Finding> {
    let phase = evidence.stressed()?;
    let (layer, hottest) = RULE
        .layers
        .iter()
        .filter_map(|layer| Some((*layer, phase.series.mean(*layer, metric::CPU_HOTTEST)?)))
        .max_by(|a, b| a.1.total_cmp(&b.1))?;
    let cpu = evidence.cpu_use(phase)?;
    let cores = evidence.cpus(layer).floor();
    let processes = evidence.stack.number(layer, "worker_processes")?;
    if hottest < FULL || processes >= cores || cpu.share > NO_ROOM {
        return None;
    }
    RULE.finds(layer, RULE.title)
        .configured(evidence.quote(layer, "worker_processes"))
        .measured(
            format!("one process uses {} of a core", format_share(hottest)),
            phase,
        )
        .measured(cpu.describe(), phase)
        .weight(1.0 - cpu.share)
        .refuted_by("the same limit with one process for each core")
        .remedy(
            Advice::new(
                evidence,
                format!("Give the {layer} nginx one process for each of its {cores:.0} cores."),
            )
            .set(layer, "worker_processes", cores)
            .build(),
        )
        .done()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(case: Case, expected: expect_test::Expect) {
        verify(&RULE, case, expected);
    }

    fn hot() -> Case {
        Case::healthy()
            .set(Layer::Proxy, "worker_processes", "1")
            .gauge(PhaseKind::Over, Layer::Proxy, metric::CPU_HOTTEST, "", 0.98)
    }

    #[test]
    fn fires_when_one_process_is_full_and_a_core_is_idle() {
        check(
            hot().machine_at(PhaseKind::Over, 0.6),
            expect![[r#"
                named: NGX-03
                suspected proxy (40 %): one nginx process is at its limit while cores are idle
                  saw proxy.worker_processes = 1
                  saw one process uses 98 % of a core, at 240/s offered for 10 s
                  saw 60 % of the machine's 2 cores used, at 240/s offered for 10 s
                  set proxy.worker_processes = 2
            "#]],
        );
    }

    #[test]
    fn stays_silent_when_no_core_is_idle() {
        stays_silent(&RULE, hot());
        stays_silent(&RULE, Case::healthy());
    }
}
