//! FPM-27: workers with a lower priority than all others.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "FPM-27",
    name: "workers-niced",
    title: "PHP gives way to every other program",
    what_it_is: "process.priority is the nice value of workers, from -20 to 19. A number above 0 makes the kernel \
        give PHP less of a busy core than it gives any program beside it: at 10 about a tenth of what a program at 0 \
        gets. It is often left over from a host that did something more important.",
    how_it_shows: "Pages are slow while a backup or a compiler runs, and the CPU is full.",
    unless: "The cores are never all busy, or something else on this host must come first.",
    what_to_write: "process.priority = 0, or remove the line, in the pool or in [global].",
    check,
};

const POOL: Directive = Directive {
    home: Home::Pool,
    name: "process.priority",
    usual: "0",
    beside: &[],
    severity: Severity::Risk,
    costs: |value, around| {
        let nice = value.number().filter(|nice| *nice > 0.0)?;
        Some(share(nice, around))
    },
    better: |_| "0".into(),
    weight: 0.1,
};

const GLOBAL: Directive = Directive {
    home: Home::Program(ServiceKind::Fpm),
    name: "process.priority",
    usual: "0",
    beside: &[],
    severity: Severity::Risk,
    costs: |value, around| {
        let nice = value.number().filter(|nice| *nice > 0.0)?;
        Some(share(nice, around))
    },
    better: |_| "0".into(),
    weight: 0.1,
};

/// What is left of a core beside a program that computes: the kernel gives a quarter more with each step.
fn share(nice: f64, around: &Around<'_>) -> String {
    let part = 1.0 / (1.0 + 1.25_f64.powf(nice));
    format!(
        "beside one program that computes, PHP gets {:.0} % of a core instead of half, of {:.0} cores",
        part * 100.0,
        around.service.cores(&around.snapshot.machine)
    )
}

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    POOL.check(&RULE, snapshot, found);
    GLOBAL.check(&RULE, snapshot, found);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sick_and_healthy() {
        verify(
            &RULE,
            &[
                (
                    Case::healthy().pool_with("process.priority = 10", ""),
                    Severity::Risk,
                    "10 %",
                ),
                (
                    Case::healthy().set(1, "process.priority", "5"),
                    Severity::Risk,
                    "25 %",
                ),
            ],
        );
    }
}
