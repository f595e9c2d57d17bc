//! APP-28: a job that runs beside the requests takes CPU that they lack.

use crate::rule::prelude::*;

/// Part of the CPU that was used just below the limit from which on it is what binds \[ours\]: as for work that was not prepared,
/// its time is counted exactly.
const BINDS: f64 = 0.1;
/// The same from which on it is worth a note \[ours\].
const NOTICEABLE: f64 = 0.03;
/// CPU use just below the limit from which on requests lack what the job takes (CAP-02).
const USED_UP: f64 = 0.75;

pub(crate) static RULE: Rule = Rule {
    code: "APP-28",
    name: "job-takes-cpu",
    since: "0.1.0",
    layers: &[Layer::Php],
    stage: RuleStage::Code,
    signal: UseSignal::Utilisation,
    applies_to: AppliesTo::Any,
    requires: &[],
    yields_to: &[],
    title: "a job beside the requests takes CPU that they lack",
    doc: RuleDoc {
        what_it_is: "Cron jobs, queue workers, backups and imports run on the hosts that serve pages. They compute on the same \
            cores, and as processes of their own they are in no pool and no setting of PHP-FPM: pages are slower, and the limit \
            is lower, while they run.",
        how_it_shows: "The CPU is used up and the pool's workers use less of it than the host does; the slowest response times \
            rise while the job runs, every ten minutes or every night.",
        how_it_is_confirmed: "Measure once without the job: the limit is higher by about its part of the CPU.",
        what_to_write: "Run it where no page is served, at a quiet hour, or behind the requests:\n\n    */10 * * * * nice -n 19 \
            php artisan schedule:run\n\nor give it a control group of its own:\n\n    systemd-run --scope -p CPUWeight=10 php \
            artisan queue:work",
        references: &[
            "https://man7.org/linux/man-pages/man7/sched.7.html",
            "https://www.freedesktop.org/software/systemd/man/latest/systemd.resource-control.html",
        ],
    },
    check,
};

fn check(evidence: &Evidence) -> Option<Finding> {
    let knee = evidence.knee()?;
    let (name, cores) = largest(evidence, knee)?;
    let part = evidence.part_of_cpu(knee, &[(Layer::Php, cores)]);
    if part < NOTICEABLE {
        return None;
    }
    let share = format_share(part);
    let cpu = evidence.cpu_use(knee)?;
    let is_lacking = cpu.share >= USED_UP;
    let title = match is_lacking {
        true => RULE.title,
        false => "a job beside the requests takes CPU",
    };
    RULE.finds(Layer::Php, format!("{title}: {name}, {share}"))
        .under(
            format!("{name} took {cores:.2} cores on average, {share} of the CPU that was used just below the limit"),
            "from the lowest load to the highest".to_owned(),
        )
        .measured(cpu.describe(), knee)
        .suspected_if(part >= BINDS && is_lacking)
        .weight(part)
        .gain(format!("at most {share} of the CPU"))
        .refuted_by("the same limit while the job does not run")
        .remedy(
            Advice::new(
                evidence,
                format!("Run {name} on another host, at an hour without visitors, or behind the requests (nice -n 19)."),
            )
            .build(),
        )
        .done()
}

/// The job that took most, and how many cores on average: over all phases, since one may not see a job that comes now and then.
fn largest<'e>(evidence: &'e Evidence, knee: &'e Phase) -> Option<(&'e str, f64)> {
    let names = knee.series.all(Layer::Php, metric::JOB_CPU_S);
    let taken = names.filter_map(|series| {
        let name = series.label.as_str();
        let all = evidence.phases.iter().flat_map(|phase| {
            let mut jobs = phase.series.all(Layer::Php, metric::JOB_CPU_S);
            jobs.find(|it| it.label == name)
        });
        let (cpu_s, time_s) = all.fold((0.0, 0.0), |(cpu_s, time_s), it| {
            let span_s = it.points.last().zip(it.points.first());
            let span_s = span_s.map_or(0.0, |(last, first)| last.0 - first.0);
            (cpu_s + it.delta().unwrap_or(0.0), time_s + span_s)
        });
        (time_s > 0.0).then(|| (name, cpu_s / time_s))
    });
    taken.max_by(|a, b| a.1.total_cmp(&b.1))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A job that takes so many cores, on a machine that is busy so far.
    fn case(job: f64, busy: f64) -> Case {
        Case::healthy()
            .everywhere(Layer::Generator, metric::MACHINE_BUSY_S, "", busy)
            .everywhere(Layer::Php, metric::JOB_CPU_S, "backup", job)
    }

    fn check(case: Case, expected: expect_test::Expect) {
        verify(&RULE, case, expected);
    }

    #[test]
    fn fires_when_requests_lack_what_a_job_takes() {
        check(
            case(0.5, 1.9),
            expect![[r#"
            named: APP-28
            suspected php (26 %): a job beside the requests takes CPU that they lack: backup, 26 %
              saw backup took 0.50 cores on average, 26 % of the CPU that was used just below the limit, from the lowest load to the highest
              saw 95 % of the machine's 2 cores used, at 190/s offered for 10 s
              do: Run backup on another host, at an hour without visitors, or behind the requests (nice -n 19).
        "#]],
        );
    }

    #[test]
    fn only_notes_a_job_on_a_machine_that_has_time() {
        check(
            case(0.5, 0.8),
            expect![[r#"
                named: nothing
                noted php (62 %): a job beside the requests takes CPU: backup, 62 %
                  saw backup took 0.50 cores on average, 62 % of the CPU that was used just below the limit, from the lowest load to the highest
                  saw 40 % of the machine's 2 cores used, at 190/s offered for 10 s
                  do: Run backup on another host, at an hour without visitors, or behind the requests (nice -n 19).
            "#]],
        );
    }

    #[test]
    fn stays_silent_on_a_job_that_takes_little() {
        stays_silent(&RULE, Case::healthy());
        stays_silent(&RULE, case(0.02, 1.9));
    }
}
