//! What the whole diagnosis makes of a stack: no false alarm on a healthy one, and the cause before its symptoms.

use crate::test_support::{Case, builtin, check as verify, met, place, sampled, traced};
use crate::{PhaseKind, RULES, diagnose, diagnose_without, unjudged};
use expect_test::expect;
use kneepoint_model::metric::*;
use kneepoint_model::run::Bound;
use kneepoint_model::{CallKind, Confidence, Kind, Layer, LogKind, SeriesSet};
use proptest::prelude::*;

fn named(case: Case) -> Vec<String> {
    diagnose(&case.evidence())
        .into_iter()
        .filter(|finding| finding.confidence >= Confidence::Suspected)
        .map(|finding| finding.code)
        .collect()
}

fn check(case: Case, expected: &[&str]) {
    assert_eq!(named(case), expected);
}

#[test]
fn a_healthy_stack_is_at_its_honest_limit() {
    check(Case::healthy(), &["CAP-02"]);
    check(Case::healthy().repeated(), &["CAP-02"]);
    let dynamic = Case::healthy()
        .set(Layer::Php, "pm", "dynamic")
        .pool(|pool| {
            pool.start_workers = 4;
            pool.spawn_per_s = Some(2.0);
        })
        .series(PhaseKind::Over, Layer::Php, WORKERS, "", |at| {
            (5.0 + at).min(8.0)
        });
    check(dynamic, &["CAP-02"]);
    check(Case::healthy().pool_of(32), &["CAP-02"]);
    let own_core = Case::healthy()
        .tier(Layer::Php, |tier| tier.cpus = 1.0)
        .machine_at(PhaseKind::Over, 0.7)
        .counter(PhaseKind::Over, Layer::Php, CPU_S, 0.99)
        .everywhere(Layer::Php, CGROUP_PERIODS, "", 10.0)
        .everywhere(Layer::Php, CGROUP_THROTTLED, "", 7.0)
        .counter(PhaseKind::Knee, Layer::Php, CPU_S, 0.93);
    check(own_core, &["CAP-02"]);
}

#[test]
fn overload_of_a_healthy_stack_is_not_taken_for_a_fault() {
    let overloaded = Case::healthy()
        .log(
            PhaseKind::Over,
            Layer::Web,
            LogKind::UpstreamQueueFull,
            900,
            "(11: ...)",
        )
        .log(
            PhaseKind::Over,
            Layer::Web,
            LogKind::UpstreamReadTimeout,
            80,
            "(110: ...)",
        )
        .log(
            PhaseKind::Over,
            Layer::Php,
            LogKind::PoolExhausted,
            1,
            "server reached pm.max_children",
        )
        .counter(PhaseKind::Over, Layer::Proxy, ACTIVE_OPENS, 90.0)
        .gauge(PhaseKind::Over, Layer::Php, QUEUE, "", 511.0)
        .everywhere(Layer::Generator, PSI_CPU_SOME_S, "", 0.9);
    check(overloaded, &["CAP-02"]);
}

#[test]
fn several_causes_come_in_the_order_of_what_they_cost() {
    let as_the_field_reports_found_it = Case::healthy()
        .set(Layer::Php, "opcache.enable", "0")
        .everywhere(Layer::Php, OPCACHE_ENABLED, "", 0.0)
        .set(Layer::App, "redis.persistent", "false")
        .counter(PhaseKind::Knee, Layer::Cache, REDIS_CONNECTIONS, 700.0)
        .set(Layer::App, "db.persistent", "false")
        .counter(PhaseKind::Knee, Layer::Db, DB_SESSIONS, 60.0)
        .set(Layer::Proxy, "upstream.keepalive", "0")
        .counter(PhaseKind::Knee, Layer::Proxy, ACTIVE_OPENS, 190.0);
    // A connection to the web server costs half a hundredth of a request: a note.
    check(
        as_the_field_reports_found_it,
        &["OPC-01", "PG-02", "RDS-01"],
    );
}

#[test]
fn a_root_cause_silences_its_symptoms() {
    // Refused connections make PHP die of an exception, and the page is wrong.
    let refused = Case::healthy()
        .set(Layer::Db, "max_connections", "5")
        .log(
            PhaseKind::Knee,
            Layer::Db,
            LogKind::TooManyDbClients,
            300,
            "FATAL: sorry, too many clients already",
        )
        .log(
            PhaseKind::Knee,
            Layer::Php,
            LogKind::PhpFatal,
            300,
            "PHP Fatal error: Uncaught PDOException",
        )
        .load(PhaseKind::Knee, |load| {
            load.outcomes
                .by_outcome
                .insert(kneepoint_model::Outcome::WrongBody, 300);
        });
    check(refused, &["PG-01"]);
    // Workers that compile wait for OPcache's lock, which is a lock on a file.
    let full = Case::healthy()
        .everywhere(Layer::Php, OPCACHE_FULL, "", 1.0)
        .counter(PhaseKind::Knee, Layer::Php, OPCACHE_MISSES, 20_000.0)
        .machine_at(PhaseKind::Over, 0.6)
        .waiting(PhaseKind::Over, "flock", 4.0)
        .running(PhaseKind::Over, 3.0);
    assert_eq!(named(full).first().map(String::as_str), Some("OPC-03"));
}

#[test]
fn refusals_beyond_the_limit_bind_only_where_failures_do() {
    let overloaded = |bound_by| {
        Case::healthy()
            .set(Layer::Db, "max_connections", "6")
            .log(
                PhaseKind::Over,
                Layer::Db,
                LogKind::TooManyDbClients,
                300,
                "FATAL: sorry, too many clients already",
            )
            .log(
                PhaseKind::Over,
                Layer::Php,
                LogKind::PhpFatal,
                300,
                "PHP Fatal error: Uncaught PDOException",
            )
            .load(PhaseKind::Over, |load| {
                let failed = kneepoint_model::Outcome::HttpError;
                load.outcomes.by_outcome.insert(failed, 300);
            })
            .with(|evidence| evidence.bound_by = Some(bound_by))
    };
    check(overloaded(Bound::Errors), &["PG-01"]);
    check(overloaded(Bound::ResponseTime(95.0)), &["CAP-02"]);
}

#[test]
fn a_cause_explains_what_it_is_worth_and_nothing_at_another_tier() {
    let found = |layer, weight| RULES[0].finds(layer, "x").weight(weight).done();
    let explains = |cause: (Layer, f64), symptom: (Layer, f64)| {
        let cause = found(cause.0, cause.1).expect("a finding");
        let symptom = found(symptom.0, symptom.1).expect("a finding");
        crate::explains(&cause, &symptom)
    };
    assert!(explains((Layer::Php, 0.3), (Layer::App, 0.5)));
    assert!(!explains((Layer::Php, 0.06), (Layer::App, 0.5)));
    // An error that is seen directly has no part to compare.
    assert!(explains((Layer::Db, 0.0), (Layer::App, 0.5)));
    assert!(!explains((Layer::Cache, 0.6), (Layer::Db, 0.6)));
}

#[test]
fn where_one_hosts_cpu_binds_only_its_work_counts() {
    let quota = Case::healthy()
        .tier(Layer::Php, |tier| tier.cpus = 1.0)
        .machine_at(PhaseKind::Knee, 0.6)
        .counter(PhaseKind::Knee, Layer::Php, CPU_S, 0.95);
    let evidence = quota.clone().evidence();
    let knee = evidence.knee().expect("a knee");
    let part = |parts: &[(Layer, f64)]| evidence.part_of_cpu(knee, parts);
    let both = part(&[(Layer::Php, 0.19), (Layer::Db, 0.5)]);
    assert!((both - 0.2).abs() < 1e-9, "{both}");
    assert!(part(&[(Layer::Db, 0.19)]) <= 0.0);
    assert!((evidence.part_of_tiers(Layer::Php) - 1.0).abs() < 1e-9);
    assert!(evidence.part_of_tiers(Layer::Db) <= 0.0);
    // Where the machine is used up as well, it is the machine's.
    let evidence = quota.machine_at(PhaseKind::Knee, 0.95).evidence();
    let knee = evidence.knee().expect("a knee");
    assert!(evidence.part_of_cpu(knee, &[(Layer::Db, 0.19)]) > 0.05);
    // On the whole machine's cores every tier's work counts.
    let evidence = Case::healthy().evidence();
    let knee = evidence.knee().expect("a knee");
    assert!(evidence.part_of_cpu(knee, &[(Layer::Db, 0.19)]) > 0.05);
    assert!(evidence.part_of_tiers(Layer::Db) > 0.05);
}

#[test]
fn a_worker_takes_what_it_takes_beside_many() {
    let shared = Case::healthy()
        .gauge(
            PhaseKind::Low,
            Layer::Php,
            PSS_WORKER_BYTES,
            "",
            90.0 * 1048576.0,
        )
        .gauge(
            PhaseKind::Over,
            Layer::Php,
            PSS_WORKER_BYTES,
            "",
            35.0 * 1048576.0,
        );
    let worker = crate::saturation::pool::worker_bytes(&shared.evidence());
    assert_eq!(worker, Some(35.0 * 1048576.0));
}

/// How sure a rule is of a case; `None` where it is silent.
fn sure(case: Case, code: &str) -> Option<Confidence> {
    let found = diagnose(&case.evidence());
    let finding = found.iter().find(|finding| finding.code == code)?;
    Some(finding.confidence)
}

/// A stack on four cores, of which so much is used at the knee and beyond.
fn on_four_cores(knee: f64, over: f64) -> Case {
    Case::healthy()
        .with(|evidence| {
            evidence.machine.cores = 4;
            for tier in &mut evidence.stack.tiers {
                tier.cpus = 4.0;
            }
        })
        // The case counts two.
        .machine_at(PhaseKind::Knee, 2.0 * knee)
        .machine_at(PhaseKind::Over, 2.0 * over)
}

#[test]
fn a_few_workers_for_each_core_are_too_few_before_the_cpu_is_used_up() {
    // The pool that Debian ships, on four cores: five workers reach no more of the CPU than this.
    let five = on_four_cores(0.73, 0.77)
        .pool_of(5)
        .running(PhaseKind::Over, 2.9)
        .waiting(PhaseKind::Over, "recv db", 2.1);
    check(five, &["FPM-01"]);
}

#[test]
fn a_pool_that_pages_of_seconds_fill_slowly_is_full_at_last() {
    let filling = Case::healthy()
        .machine_at(PhaseKind::Knee, 0.3)
        .machine_at(PhaseKind::Over, 0.3)
        .running(PhaseKind::Over, 2.0)
        .waiting(PhaseKind::Over, "recv db", 0.0)
        .waiting(PhaseKind::Over, "recv cache", 0.0)
        .series(PhaseKind::Over, Layer::Php, WORKERS_BUSY, "", |at| {
            (2.0 * at).min(8.0)
        })
        .series(PhaseKind::Over, Layer::Php, QUEUE, "", |at| {
            (at - 4.0).max(0.0)
        });
    assert_eq!(sure(filling, "FPM-01"), Some(Confidence::Suspected));
}

#[test]
fn a_crowd_that_is_ready_to_run_lacks_no_worker() {
    // 18 are ready on two cores of which a third looks idle: somebody withholds it.
    let withheld = Case::healthy()
        .pool_of(20)
        .machine_at(PhaseKind::Over, 0.68)
        .running(PhaseKind::Over, 18.0);
    assert_eq!(sure(withheld, "FPM-01"), None);
}

#[test]
fn rows_that_an_index_leads_to_are_no_scan() {
    let reading = |of_tables: f64| {
        Case::healthy()
            .on_mariadb()
            .counter(PhaseKind::Knee, Layer::Db, DB_ROWS_SCANNED, 190.0 * 5000.0)
            .counter(
                PhaseKind::Knee,
                Layer::Db,
                DB_ROWS_OF_TABLES,
                190.0 * of_tables,
            )
            .counter(PhaseKind::Knee, Layer::Db, DB_SCANS, 1.0)
            .counter(PhaseKind::Knee, Layer::Db, CPU_S, 0.9)
    };
    assert_eq!(sure(reading(10.0), "MYS-03"), None);
    // An UPDATE without an index is no SELECT that scans.
    assert_eq!(sure(reading(5000.0), "MYS-03"), Some(Confidence::Suspected));
}

#[test]
fn workers_that_would_not_fit_are_a_risk_where_memory_was_never_short() {
    let large = |held_bytes: f64| {
        Case::healthy()
            .pool_of(40)
            .gauge(
                PhaseKind::Over,
                Layer::Php,
                PSS_WORKER_BYTES,
                "",
                120.0 * 1048576.0,
            )
            .gauge(PhaseKind::Over, Layer::Php, PSS_BYTES, "", held_bytes)
    };
    let gb = 1024.0 * 1048576.0;
    assert_eq!(sure(large(2.1 * gb), "FPM-02"), Some(Confidence::Noted));
    assert_eq!(sure(large(4.2 * gb), "FPM-02"), Some(Confidence::Suspected));
}

#[test]
fn a_small_pool_before_a_tier_that_answers_as_fast_as_alone_is_too_small() {
    let at = |over: f64, low: f64| {
        on_four_cores(0.62, 0.66)
            .running(PhaseKind::Knee, 3.1)
            .waiting(PhaseKind::Knee, "recv db", 4.5)
            .running(PhaseKind::Over, 4.2)
            .waiting(PhaseKind::Over, "recv db", over)
            .waiting(PhaseKind::Low, "recv db", low)
    };
    check(at(3.8, 1.2), &["FPM-01"]);
    // The same while it answers in a third of the time alone.
    let slower = named(at(3.8, 0.3));
    assert_eq!(slower.first().map(String::as_str), Some("FPM-04"));
}

#[test]
fn a_single_error_below_the_limit_does_not_make_those_of_an_overload_bind() {
    let with_errors_at_the_knee = |count: u64| {
        let failed = kneepoint_model::Outcome::HttpError;
        Case::healthy()
            .load(PhaseKind::Knee, |load| {
                load.outcomes.by_outcome.insert(failed, count);
            })
            .load(PhaseKind::Over, |load| {
                load.outcomes.by_outcome.insert(failed, 300);
            })
            .log(
                PhaseKind::Over,
                Layer::Php,
                LogKind::PhpFatal,
                300,
                "PHP Fatal error:  Maximum execution time exceeded",
            )
            .with(|evidence| evidence.bound_by = Some(Bound::ResponseTime(95.0)))
    };
    check(with_errors_at_the_knee(1), &["CAP-02"]);
    check(with_errors_at_the_knee(40), &["APP-14"]);
}

#[test]
fn sessions_cost_no_more_than_the_database_used() {
    let weight = |cores: f64| {
        let case = Case::healthy()
            .counter(PhaseKind::Knee, Layer::Db, DB_SESSIONS, 190.0)
            .counter(PhaseKind::Knee, Layer::Db, CPU_S, cores);
        let found = diagnose(&case.evidence());
        let finding = found.iter().find(|finding| finding.code == "PG-02");
        finding.expect("sessions").weight
    };
    // 190 sessions a second at 3 ms would be 0.57 cores.
    assert!(weight(0.05) < 0.5 * weight(0.6), "{}", weight(0.05));
}

#[test]
fn ports_that_run_out_in_an_overload_alone_do_not_bind() {
    let refused = |kind| {
        Case::healthy()
            .log(kind, Layer::Proxy, LogKind::NoLocalPort, 55, "(99: ...)")
            .with(|evidence| evidence.bound_by = Some(Bound::ResponseTime(95.0)))
    };
    assert_eq!(
        sure(refused(PhaseKind::Over), "KRN-01"),
        Some(Confidence::Noted)
    );
    assert_eq!(
        sure(refused(PhaseKind::Low), "KRN-01"),
        Some(Confidence::Suspected)
    );
}

#[test]
fn fetching_what_has_come_already_is_work() {
    let stacks = sampled(
        99,
        vec![place("rows", "db.php", 1), builtin("mysqli_fetch_object")],
        vec![met("GET /", &[0, 1], 300)],
    );
    let case = Case::healthy().with(|evidence| evidence.stacks = Some(stacks));
    assert_eq!(case.evidence().hot_functions().len(), 1);
}

/// The pool grows from 2 to 9 workers while requests queue and half the CPU is left, at a rate below the limit; at the
/// limit the CPU is used up.
fn growing_then_used_up() -> Case {
    Case::healthy()
        .set(Layer::Php, "pm", "dynamic")
        .pool(|pool| {
            (pool.start_workers, pool.max_workers) = (2, 10);
            pool.spawn_per_s = Some(1.0);
        })
        .series(PhaseKind::Low, Layer::Php, WORKERS, "", |at| {
            (2.0 + at).min(9.0)
        })
        .gauge(PhaseKind::Low, Layer::Php, QUEUE, "", 14.0)
        .machine_at(PhaseKind::Low, 0.5)
}

#[test]
fn the_cpu_that_stood_back_behind_a_cause_is_named_without_it() {
    check(growing_then_used_up(), &["FPM-03"]);
    let evidence = growing_then_used_up().evidence();
    let others = diagnose_without(&evidence, &["FPM-03"]);
    let suspected = others
        .iter()
        .filter(|it| it.confidence >= Confidence::Suspected);
    let codes: Vec<&str> = suspected.map(|it| it.code.as_str()).collect();
    assert_eq!(codes, ["CAP-02"]);
}

#[test]
fn rules_that_lack_a_metric_are_listed_and_silent() {
    let case = Case::healthy().without(REDIS_CONNECTIONS);
    let evidence = case.evidence();
    let lacking: Vec<_> = unjudged(&evidence)
        .into_iter()
        .filter(|(rule, _)| rule.code == "RDS-01")
        .collect();
    assert_eq!(lacking.len(), 1);
    assert_eq!(lacking[0].1, ["redis.connections_received"]);
    let nothing = crate::Evidence::default();
    assert_eq!(diagnose(&nothing), []);
}

/// Every gauge off by its own factor, and every counter growing at a rate that is.
fn noisy(case: Case, factors: &[f64]) -> Case {
    case.with(|evidence| {
        let mut next = factors.iter().cycle();
        for series in evidence
            .phases
            .iter_mut()
            .flat_map(|phase| &mut phase.series.series)
        {
            // Flags, and counts that the same server reports together.
            let exact = [
                OPCACHE_ENABLED,
                OPCACHE_FULL,
                WORKERS,
                NGINX_ACCEPTS,
                NGINX_HANDLED,
            ];
            let factor = next.next().copied().unwrap_or(1.0);
            if exact.iter().all(|metric| metric.name != series.metric) {
                series.points.iter_mut().for_each(|point| point.1 *= factor);
            }
        }
    })
}

proptest! {
    #[test]
    fn measurement_noise_raises_no_false_alarm(factors in prop::collection::vec(0.93..1.07f64, 97)) {
        prop_assert_eq!(named(noisy(Case::healthy().repeated(), &factors)), ["CAP-02"]);
    }

    #[test]
    fn no_series_panics_and_weights_are_shares(
        points in prop::collection::vec(
            (0..STANDARD.len(), 0..Layer::ALL.len(), 0..3usize, prop::collection::vec(
                prop_oneof![-1e9..1e12f64, Just(0.0), Just(f64::NAN), Just(f64::INFINITY)], 0..4)),
            0..120),
    ) {
        let case = Case::healthy().with(|evidence| {
            for (at, phase) in evidence.phases.iter_mut().enumerate() {
                phase.series = SeriesSet::default();
                for (metric, layer, kind, values) in &points {
                    let metric = STANDARD[*metric];
                    let times = if metric.kind == Kind::Counter { 1.0 } else { 0.5 };
                    for (n, value) in values.iter().enumerate().filter(|_| *kind <= at) {
                        phase.series.push(Layer::ALL[*layer], metric, "", n as f64 * times, *value);
                    }
                }
            }
        });
        let evidence = case.evidence();
        for phase in &evidence.phases {
            let fall = crate::waterfall(phase, &evidence.stack);
            let sum: f64 = fall.parts.iter().map(|part| part.ms).sum();
            prop_assert!(fall.parts.iter().all(|part| part.ms >= 0.0), "{fall:?}");
            prop_assert!((sum - fall.response_ms).abs() < 1e-6, "{fall:?}");
        }
        for finding in diagnose(&evidence) {
            prop_assert!((0.0..=0.95).contains(&finding.weight), "{finding:?}");
        }
    }
}

#[test]
fn a_wait_outside_the_stack_is_told_with_route_line_and_host() {
    let at = || place("App\\Rates::show", "app/Rates.php", 31);
    let mut call = traced(
        "GET /rates",
        CallKind::Http,
        "GET http://api.example.org/rates",
        at(),
        1,
    );
    "203.0.113.9:443".clone_into(&mut call.peer);
    "curl_exec".clone_into(&mut call.through);
    let mut other = call.clone();
    "db".clone_into(&mut other.peer);
    let stacks = sampled(
        50,
        vec![at(), builtin("[recv 203.0.113.9:443]")],
        vec![met("GET /rates", &[0, 1], 900), met("GET /", &[0], 100)],
    );
    let case = Case::healthy()
        .machine_at(PhaseKind::Over, 0.2)
        .running(PhaseKind::Over, 0.8)
        .waiting(PhaseKind::Over, "recv 203.0.113.9:443", 6.8)
        .traced("GET /rates", 10, vec![call, other])
        .with(|evidence| evidence.stacks = Some(stacks));
    let rule = RULES.iter().find(|rule| rule.code == "APP-05");
    verify(
        rule.expect("a rule"),
        case,
        expect![[r#"
            named: APP-05
            suspected app (83 %): requests wait for 203.0.113.9:443, outside the stack, 83 % of their time
              saw recv 203.0.113.9:443 takes 83 % of the time of busy workers, at 240/s offered for 10 s
              saw 33.2 ms of it in each request, at 240/s offered for 10 s
              saw 20 % of the machine's 2 cores used, at 240/s offered for 10 s
              saw waiting there: GET /rates, App\Rates::show at app/Rates.php:31, 100 % of 900 stacks, sampled 50 times a second, at 240/s offered for 10 s
              saw GET http://api.example.org/rates through curl_exec, once in each GET /rates, in App\Rates::show at app/Rates.php:31, in 10 requests that were traced, one after the other
              do: Give the call a short timeout, cache its answer, or move it to a queue. More workers only help while the other side keeps up.
        "#]],
    );
}
