//! Whether two runs speak of the same thing, measured under the same conditions.

use crate::record::gate::Doubt;
use crate::record::run::{Machine, Run};
use crate::redact::{Redact as _, Secrets, redact_job};
use crate::{JobSpec, Request, Scenario, Slo, Workload};
use serde_json::Value;

/// Relative difference of memory that is a difference: what a kernel keeps for itself varies.
const MEMORY_APART: f64 = 0.05;
/// Relative difference from which on two numbers of a scenario differ: a run file may cost the last digit.
const APART: f64 = 1e-9;

/// Why R* of the two scenarios is not the same quantity, a sentence each: another SLO, other requests, other limits
/// of the hosts. What is under test (the application, its configuration) may differ.
#[must_use]
pub fn not_comparable(before: &Scenario, now: &Scenario) -> Vec<String> {
    let mut reasons = Vec::new();
    if !same_slo(&before.slo, &now.slo) {
        let (was, is) = (before.slo.describe(), now.slo.describe());
        reasons.push(format!("the SLO was {was} and is {is}"));
    }
    if !same_requests(&before.workload, &now.workload) {
        reasons.push(format!(
            "the requests were {} and are {}",
            requests(&before.workload),
            requests(&now.workload)
        ));
    } else {
        reasons.extend(other_contents(before, now));
    }
    let limits = |scenario: &Scenario| {
        let hosts = scenario.hosts.iter();
        let of_host = hosts.map(|(layer, host)| {
            let (computing, moving) = (
                (host.cpus, host.memory_bytes),
                (host.disk_iops, host.link_mbit, host.log_pipe_kib_s),
            );
            (*layer, computing, moving)
        });
        let unlimited = ((None, None), (None, None, None));
        of_host
            .filter(|(_, computing, moving)| (*computing, *moving) != unlimited)
            .collect::<Vec<_>>()
    };
    if limits(before) != limits(now) {
        reasons.push(
            "the tiers' hosts had other limits of cores, memory, disk, network or logs".to_owned(),
        );
    }
    if jobs(before) != jobs(now) {
        reasons.push("other jobs ran beside the requests".to_owned());
    }
    reasons
}

/// Whether two SLOs are the same, by their numbers: their words are rounded.
fn same_slo(before: &Slo, now: &Slo) -> bool {
    before.timeout == now.timeout
        && before.response_time == now.response_time
        && !apart(before.quantile, now.quantile, APART)
        && !apart(before.errors, now.errors, APART)
}

/// What runs beside the requests of a scenario, as a run file keeps it.
fn jobs(scenario: &Scenario) -> Vec<JobSpec> {
    let mut jobs = scenario.jobs.clone();
    jobs.iter_mut().for_each(redact_job);
    jobs
}

fn same_requests(before: &Workload, now: &Workload) -> bool {
    let total = |mix: &Workload| mix.requests.iter().map(|it| it.weight).sum::<f64>();
    let (all_before, all_now) = (total(before), total(now));
    before.requests.len() == now.requests.len()
        && before.sessions.is_some() == now.sessions.is_some()
        && before
            .requests
            .iter()
            .zip(&now.requests)
            .all(|(before, now)| {
                before.method == now.method
                    && before.path == now.path
                    && !apart(before.weight / all_before, now.weight / all_now, APART)
            })
}

/// What differs in what the same requests carry and expect, and in how visitors take them: the first such request. Of
/// values that no run file keeps, what stands for them is compared.
fn other_contents(before: &Scenario, now: &Scenario) -> Option<String> {
    let mut secrets = Secrets::default();
    secrets.know(now);
    let pairs = before.workload.requests.iter().zip(&now.workload.requests);
    for (was, is) in pairs {
        let kept = |request: &Request| {
            let mut request = request.clone();
            request.redact(&secrets);
            request
        };
        let (was, is) = (kept(was), kept(is));
        let parts = [
            ("other headers", same(&was.headers, &is.headers)),
            ("another body", same(&was.body, &is.body)),
            ("other expectations", same(&was.expect, &is.expect)),
            (
                "another session",
                was.session == is.session && same(&was.captures, &is.captures),
            ),
            (
                "another client_mbit",
                same(&was.client_mbit, &is.client_mbit),
            ),
        ];
        let other = parts.into_iter().find(|(_, same)| !same);
        if let Some((what, _)) = other {
            return Some(format!("{} {} had {what}", is.method.0, is.path));
        }
    }
    let (was, is) = (&before.workload, &now.workload);
    let parts = [
        ("visitors", same(&was.sessions, &is.sessions)),
        ("tables of values", same(&was.feeders, &is.feeders)),
    ];
    let other = parts.into_iter().find(|(_, same)| !same);
    other.map(|(what, _)| format!("the {what} were others"))
}

/// Whether two values are the same as a run file keeps them: without rows and contents of files, and with numbers that
/// may have lost their last digit.
fn same<T: serde::Serialize>(before: &T, now: &T) -> bool {
    let kept = |value: &T| serde_json::to_value(value).ok();
    kept(before)
        .zip(kept(now))
        .is_some_and(|(before, now)| alike(&before, &now))
}

fn alike(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => match (a.as_f64(), b.as_f64()) {
            (Some(a), Some(b)) => !apart(a, b, APART),
            _ => a == b,
        },
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| alike(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len()
                && a.iter()
                    .all(|(name, a)| b.get(name).is_some_and(|b| alike(a, b)))
        }
        _ => a == b,
    }
}

/// `GET / 0.8, POST /login 0.2`, the first few.
fn requests(mix: &Workload) -> String {
    const SHOWN: usize = 4;
    let total: f64 = mix.requests.iter().map(|it| it.weight).sum();
    let shown = mix.requests.iter().take(SHOWN).map(|request| {
        let share = request.weight / total;
        format!("{} {} {share:.2}", request.method.0, request.path)
    });
    let more = match mix.requests.len().saturating_sub(SHOWN) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("{}{more}", shown.collect::<Vec<_>>().join(", "))
}

/// What differs in the conditions of two runs of comparable scenarios.
#[must_use]
pub fn other_conditions(before: &Run, now: &Run) -> Vec<Doubt> {
    let mut doubts: Vec<Doubt> = machines(&before.machine, &now.machine)
        .into_iter()
        .map(|what| {
            Doubt::Obstacle(format!(
                "the baseline was measured on another machine: {what}"
            ))
        })
        .collect();
    let mut note = |what: &str, before: &str, now: &str| {
        if before != now {
            doubts.push(Doubt::Note(format!("the {what} was {before} and is {now}")));
        }
    };
    note("kernel", &before.machine.kernel, &now.machine.kernel);
    note(
        "version of Kneepoint",
        &before.tool_version,
        &now.tool_version,
    );
    if before.ended != "finished" {
        doubts.push(Doubt::Note("the baseline run did not finish".to_owned()));
    }
    doubts
}

/// How two machines differ in what capacity depends on most.
fn machines(before: &Machine, now: &Machine) -> Vec<String> {
    let mut differences = Vec::new();
    if before.cpu != now.cpu {
        let name = |cpu: &str| if cpu.is_empty() { "unknown" } else { cpu }.to_owned();
        differences.push(format!(
            "its processor was {}, this one's is {}",
            name(&before.cpu),
            name(&now.cpu)
        ));
    }
    if before.cpus() != now.cpus() {
        differences.push(format!(
            "it had {}, this one has {}",
            before.cores_in_words(),
            now.cores_in_words()
        ));
    }
    let (was, is) = (before.memory_bytes as f64, now.memory_bytes as f64);
    if apart(was, is, MEMORY_APART) {
        differences.push(format!(
            "it had {} of memory, this one has {}",
            crate::units::format_bytes(before.memory_bytes),
            crate::units::format_bytes(now.memory_bytes)
        ));
    }
    differences
}

fn apart(a: f64, b: f64, relative: f64) -> bool {
    (a - b).abs() > relative * a.abs().max(b.abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on(machine: Machine) -> Run {
        Run {
            machine,
            ended: "finished".into(),
            tool_version: "0.1.0".into(),
            ..Run::default()
        }
    }

    fn machine() -> Machine {
        Machine {
            cores: 4,
            memory_bytes: 8 << 30,
            kernel: "6.12.1".into(),
            cpu: "EPYC 7B13".into(),
            ..Machine::default()
        }
    }

    #[test]
    fn another_machine_is_an_obstacle_and_another_kernel_a_note() {
        let before = on(machine());
        assert_eq!(other_conditions(&before, &before), Vec::new());
        let small = on(Machine {
            cores: 2,
            ..machine()
        });
        expect_test::expect![[r#"
            [
                Obstacle(
                    "the baseline was measured on another machine: it had 4 cores, this one has 2 cores",
                ),
            ]
        "#]]
        .assert_debug_eq(&other_conditions(&before, &small));
        let patched = on(Machine {
            kernel: "6.12.2".into(),
            memory_bytes: (8 << 30) - (100 << 20),
            ..machine()
        });
        expect_test::expect![[r#"
            [
                Note(
                    "the kernel was 6.12.1 and is 6.12.2",
                ),
            ]
        "#]]
        .assert_debug_eq(&other_conditions(&before, &patched));
    }

    fn scenario() -> Scenario {
        Scenario {
            name: "shop".into(),
            root: "/srv/shop".into(),
            front: "index.php".into(),
            kind: crate::AppKind::Plain,
            env: Default::default(),
            app_settings: Vec::new(),
            app_files: Vec::new(),
            changes: Default::default(),
            unreachable: Vec::new(),
            generators: None,
            peers: Vec::new(),
            jobs: Vec::new(),
            tiers: Vec::new(),
            hosts: Default::default(),
            workload: Workload::single("/"),
            slo: Slo::default(),
            budget: crate::Budget {
                time: std::time::Duration::from_secs(60),
                memory_bytes: None,
                keep: Vec::new(),
            },
        }
    }

    #[test]
    fn another_slo_or_other_requests_are_another_quantity() {
        let before = scenario();
        let mut now = scenario();
        now.root = "/elsewhere".into();
        now.env.insert("A".into(), "b".into());
        now.workload.requests[0].weight = 3.0;
        assert_eq!(not_comparable(&before, &now), Vec::<String>::new());
        now.slo.response_time *= 2;
        now.workload.requests.push(Request::get("/cart"));
        now.hosts.entry(crate::Layer::Php).or_default().cpus = Some(1.0);
        now.jobs.push(JobSpec {
            name: "backup".into(),
            run: "./backup".into(),
            every: None,
        });
        expect_test::expect![[r#"
            [
                "the SLO was p95 <= 200 ms, errors <= 0.1 %, timeout 2 s and is p95 <= 400 ms, errors <= 0.1 %, timeout 2 s",
                "the requests were GET / 1.00 and are GET / 0.75, GET /cart 0.25",
                "the tiers' hosts had other limits of cores, memory, disk, network or logs",
                "other jobs ran beside the requests",
            ]
        "#]]
        .assert_debug_eq(&not_comparable(&before, &now));
    }

    #[test]
    fn an_slo_that_differs_by_little_is_another_one() {
        let before = scenario();
        let check = |change: &dyn Fn(&mut Slo), expected: &[&str]| {
            let mut now = scenario();
            change(&mut now.slo);
            assert_eq!(not_comparable(&before, &now), expected);
        };
        // The last digit may be lost in a run file.
        check(&|slo| slo.errors *= 1.0 + 1e-15, &[]);
        check(
            &|slo| slo.errors = 0.0012,
            &[
                "the SLO was p95 <= 200 ms, errors <= 0.1 %, timeout 2 s and is p95 <= 200 ms, errors <= 0.12 %, timeout 2 s",
            ],
        );
        check(
            &|slo| slo.errors = 0.0002,
            &[
                "the SLO was p95 <= 200 ms, errors <= 0.1 %, timeout 2 s and is p95 <= 200 ms, errors <= 0.02 %, timeout 2 s",
            ],
        );
    }

    #[test]
    fn requests_that_carry_or_expect_something_else_are_another_load() {
        use crate::Body;
        let with = |change: &dyn Fn(&mut Request)| {
            let mut scenario = scenario();
            let request = &mut scenario.workload.requests[0];
            request.headers = vec![("Authorization".into(), "Bearer s3cr3t-s3cr3t".into())];
            request.body = Some(Body::Form(vec![("page".into(), "1".into())]));
            change(request);
            scenario
        };
        let before = with(&|_| ());
        let check = |change: &dyn Fn(&mut Request), expected: &[&str]| {
            let now = with(change);
            // As a run file has it: without secrets.
            let mut run = Run {
                scenario: Some(before.clone()),
                ..Run::default()
            };
            run = crate::redact::redact(&run);
            let stored = run.scenario.expect("a scenario");
            assert_eq!(not_comparable(&stored, &now), expected);
        };
        check(&|_| (), &[]);
        check(
            &|request| request.headers[0].1 = "Bearer another-token".into(),
            &[],
        );
        check(
            &|request| request.headers.push(("Accept".into(), "text/html".into())),
            &["GET / had other headers"],
        );
        check(
            &|request| request.body = Some(Body::Form(vec![("page".into(), "2".into())])),
            &["GET / had another body"],
        );
        check(
            &|request| request.expect.body_contains.push("served".into()),
            &["GET / had other expectations"],
        );
        check(
            &|request| request.client_mbit = Some(1.6),
            &["GET / had another client_mbit"],
        );
    }
}
