use super::account;
use crate::test_support::{Case, met, place, traced};
use crate::{Evidence, PhaseKind};
use expect_test::{Expect, expect};
use kneepoint_model::account::{Account, CpuOf, CpuPart, TimeKind};
use kneepoint_model::metric::{self, CPU_S, MACHINE_BUSY_S, WORKERS_RUNNING};
use kneepoint_model::units::{format_ms, format_share};
use kneepoint_model::{CallKind, Layer, Place, StackProfile};
use proptest::prelude::*;

/// The function of PHP itself with this name, or a wait.
fn internal(function: &str) -> Place {
    Place {
        function: function.to_owned(),
        ..Place::default()
    }
}

/// A blog: a plugin that computes by itself and calls WordPress, a password check, a wait for the database.
fn blog(phase: &str) -> StackProfile {
    StackProfile {
        phase: phase.to_owned(),
        places: vec![
            place("main index.php", "index.php", 17),
            place("apply_filters", "wp-includes/plugin.php", 205),
            place("Rates\\show", "wp-content/plugins/rates/rates.php", 31),
            place("Rates\\show", "wp-content/plugins/rates/rates.php", 40),
            place("Rates\\check", "wp-content/plugins/rates/check.php", 9),
            internal("password_verify"),
            place("wpdb::query", "wp-includes/class-wpdb.php", 2056),
            internal("mysqli_query"),
            internal("[recv db]"),
            internal("(engine)"),
        ],
        stacks: vec![
            met("GET /", &[0, 1, 2], 200),
            met("GET /", &[0, 1, 3], 100),
            met("GET /", &[0, 1, 2, 4, 5], 100),
            met("GET /", &[0, 1, 2, 1], 40),
            met("GET /", &[0, 6, 7], 20),
            met("GET /", &[0], 30),
            met("GET /", &[9], 10),
            met("GET /", &[0, 6, 7, 8], 60),
            met("GET /", &[0, 1, 2, 6, 7, 8], 140),
        ],
        ..StackProfile::default()
    }
}

fn with_blog(case: Case) -> Case {
    case.with(|evidence| {
        evidence.knee_stacks = Some(blog("knee"));
        evidence.stacks = Some(blog("over"));
    })
}

fn show(account: &Account) -> String {
    let mut text = format!(
        "{}: {} requests, explained {} of the CPU, {} of the time\n",
        account.phase,
        account.requests,
        account
            .explained_share()
            .map_or("-".to_owned(), format_share),
        account
            .time_explained_share()
            .map_or("-".to_owned(), format_share),
    );
    let mut line = |what: String| text.push_str(&format!("{what}\n"));
    for part in &account.cpu {
        let share = format_share(part.share);
        let (name, ms) = (part.of.name(), format_ms(part.ms));
        line(format!(
            "cpu {name}: {:.2} cores, {ms}, {share}",
            part.cores
        ));
    }
    if let Some(code) = &account.code {
        line(format!("{} stacks of {}", code.stacks, code.phase));
        for one in &code.owners {
            let shares = [one.share, one.with_calls].map(format_share);
            line(format!("{}: {} ({})", one.owner, shares[0], shares[1]));
        }
        for one in &code.functions {
            let by = one.caller.as_ref();
            let by = by.map_or_else(String::new, |by| format!(" by {by}"));
            let share = format_share(one.share);
            line(format!("  {}{by}: {share} [{}]", one.place, one.owner));
        }
        line(format!("unnamed: {}", format_share(code.unnamed)));
    }
    for part in &account.time {
        let share = format_share(part.share);
        line(format!(
            "time {} {}: {} {share}",
            part.layer,
            part.what,
            format_ms(part.ms)
        ));
        for one in &part.lines {
            line(format!("  {} {}", one.place, format_share(one.share)));
        }
    }
    account.notes.iter().for_each(|note| line(note.clone()));
    text
}

/// What holds of every account.
fn is_sound(account: &Account) {
    let close = |sum: f64| (sum - 1.0).abs() < 1e-6;
    let tiers: Vec<f64> = account.tiers().map(|(_, part)| part.share).collect();
    assert!(tiers.is_empty() || close(tiers.iter().sum()), "{tiers:?}");
    let parts = account.cpu.iter();
    let figures = parts.flat_map(|part| [part.cores, part.ms, part.share]);
    let times = account.time.iter().flat_map(|part| [part.ms, part.share]);
    for figure in figures.chain(times) {
        assert!(figure.is_finite() && figure >= 0.0, "{account:?}");
    }
    if let Some(code) = &account.code {
        let owners: f64 = code.owners.iter().map(|one| one.share).sum();
        assert!(close(owners + code.unnamed), "{code:?}");
        assert!(code.unnamed >= 0.0);
        for one in &code.owners {
            assert!(one.with_calls >= one.share - 1e-9, "{one:?}");
        }
        for one in &code.functions {
            assert!(one.with_calls >= one.share - 1e-9, "{one:?}");
        }
    }
    let time: f64 = account.time.iter().map(|part| part.share).sum();
    assert!(account.time.is_empty() || close(time), "{account:?}");
    for share in [account.explained_share(), account.time_explained_share()] {
        assert!(share.is_none_or(|share| (0.0..=1.0).contains(&share)));
    }
}

fn check(case: Case, expected: Expect) {
    let account = account(&case.evidence());
    is_sound(&account);
    expected.assert_eq(&show(&account));
}

#[test]
fn the_cpu_is_divided_by_tier_owner_and_function_and_the_time_by_wait() {
    check(
        with_blog(Case::healthy()),
        expect![[r#"
        knee: 1900 requests, explained 98 % of the CPU, 64 % of the time
        cpu php: 1.33 cores, 7.00 ms, 79 %
        cpu db: 0.23 cores, 1.20 ms, 13 %
        cpu cache: 0.06 cores, 0.30 ms, 3.4 %
        cpu proxy: 0.04 cores, 0.20 ms, 2.2 %
        cpu web: 0.04 cores, 0.20 ms, 2.2 %
        cpu interrupts and Kneepoint's measuring: 0.08 cores, 0.40 ms, 0 %
        cpu generator: 0.02 cores, 0.10 ms, 0 %
        500 stacks of knee
        plugin rates: 80 % (88 %)
        WordPress core: 12 % (92 %)
        the application: 6.0 % (98 %)
          Rates\show at wp-content/plugins/rates/rates.php:31: 60 % [plugin rates]
          password_verify by Rates\check at wp-content/plugins/rates/check.php:9: 20 % [plugin rates]
          apply_filters at wp-includes/plugin.php:205: 8.0 % [WordPress core]
          index.php:17: 6.0 % [the application]
          mysqli_query by wpdb::query at wp-includes/class-wpdb.php:2056: 4.0 % [WordPress core]
        unnamed: 2.0 %
        time php accept queue: 3.16 ms 7.9 %
        time php computing: 7.00 ms 17 %
        time php ready, but without a core: 12.0 ms 30 %
        time db waiting: recv db: 2.10 ms 5.2 %
          Rates\show at wp-content/plugins/rates/rates.php:31 70 %
          index.php:17 30 %
        time cache waiting: recv cache: 0.90 ms 2.2 %
        time proxy computing: 0.40 ms 1.0 %
        time proxy not seen: the network, and servers without a core: 14.5 ms 36 %
    "#]],
    );
}

#[test]
fn without_stacks_php_is_not_explained() {
    check(
        Case::healthy(),
        expect![[r#"
        knee: 1900 requests, explained 21 % of the CPU, 64 % of the time
        cpu php: 1.33 cores, 7.00 ms, 79 %
        cpu db: 0.23 cores, 1.20 ms, 13 %
        cpu cache: 0.06 cores, 0.30 ms, 3.4 %
        cpu proxy: 0.04 cores, 0.20 ms, 2.2 %
        cpu web: 0.04 cores, 0.20 ms, 2.2 %
        cpu interrupts and Kneepoint's measuring: 0.08 cores, 0.40 ms, 0 %
        cpu generator: 0.02 cores, 0.10 ms, 0 %
        time php accept queue: 3.16 ms 7.9 %
        time php computing: 7.00 ms 17 %
        time php ready, but without a core: 12.0 ms 30 %
        time db waiting: recv db: 2.10 ms 5.2 %
        time cache waiting: recv cache: 0.90 ms 2.2 %
        time proxy computing: 0.40 ms 1.0 %
        time proxy not seen: the network, and servers without a core: 14.5 ms 36 %
        no PHP stacks were sampled, so PHP's CPU is not divided
    "#]],
    );
}

#[test]
fn a_lock_is_told_with_its_file() {
    let asked = traced("GET /", CallKind::Lock, "data/cache.lock", internal("x"), 1);
    let case = Case::healthy()
        .waiting(PhaseKind::Knee, "flock", 2.0)
        .traced("GET /", 20, vec![asked]);
    let account = account(&case.evidence());
    let lock = |part: &&kneepoint_model::account::TimePart| {
        part.kind == TimeKind::Wait("flock".to_owned())
    };
    let lock = account.time.iter().find(lock).expect("the lock");
    assert_eq!(lock.what, "waiting: flock of data/cache.lock");
}

#[test]
fn the_stacks_of_another_phase_are_taken_where_too_few_computed_and_it_is_said() {
    let case = with_blog(Case::healthy()).with(|evidence| {
        let knee = evidence.knee_stacks.as_mut().expect("stacks");
        knee.stacks.truncate(1);
        knee.stacks[0].count = 3;
    });
    let account = account(&case.evidence());
    assert_eq!(account.code.expect("code").phase, "over");
    assert!(account.notes[0].contains("`over`"), "{:?}", account.notes);
}

#[test]
fn what_others_used_has_lines_of_its_own() {
    let case = Case::healthy().load(PhaseKind::Knee, |load| {
        load.health.foreign_share = Some(0.05);
        load.health.cpu_share = 0.02;
    });
    let account = account(&case.evidence());
    let cores = |of| {
        let part = account.cpu.iter().find(|part| part.of == of);
        part.map(|part| (part.cores * 1e3).round() / 1e3)
    };
    assert_eq!(cores(CpuOf::Others), Some(0.1));
    assert_eq!(cores(CpuOf::Generator), Some(0.02));
    assert!((account.tiers().map(|(_, part)| part.share).sum::<f64>() - 1.0).abs() < 1e-9);
}

#[test]
fn a_job_is_no_part_of_php() {
    let php = |case: Case| {
        let account = account(&case.evidence());
        let part = |of| account.cpu.iter().find(|part| part.of == of).copied();
        (part(CpuOf::Tier(Layer::Php)), part(CpuOf::Jobs))
    };
    let (alone, none) = php(Case::healthy());
    let with_job = Case::healthy().everywhere(Layer::Php, metric::JOB_CPU_S, "backup", 0.25);
    let (beside, job) = php(with_job);
    let cores = |part: Option<CpuPart>| part.expect("a part").cores;
    assert!(none.is_none());
    assert!((cores(job) - 0.25).abs() < 0.01, "{job:?}");
    assert!(
        (cores(alone) - cores(beside) - 0.25).abs() < 0.01,
        "{beside:?}"
    );
}

#[test]
fn nothing_driven_gives_nothing() {
    assert!(account(&Evidence::default()).is_empty());
}

proptest! {
    #[test]
    fn shares_add_up_whatever_was_measured(
        cpu in proptest::collection::vec(0.0..3.0_f64, 5),
        busy in 0.0..3.0_f64,
        running in 0.0..20.0_f64,
        stacks in proptest::collection::vec((proptest::collection::vec(0_u32..14, 0..6), 0_u64..50), 0..12),
        foreign in proptest::option::of(0.0..1.0_f64),
        is_idle in any::<bool>(),
    ) {
        let mut case = with_blog(Case::healthy())
            .counter(PhaseKind::Knee, Layer::Generator, MACHINE_BUSY_S, busy)
            .gauge(PhaseKind::Knee, Layer::Php, WORKERS_RUNNING, "", running)
            .load(PhaseKind::Knee, |load| load.health.foreign_share = foreign);
        for (layer, hz) in Layer::TIERS.into_iter().zip(cpu) {
            case = case.counter(PhaseKind::Knee, layer, CPU_S, hz);
        }
        if is_idle {
            case = case.without(metric::WORKERS_BUSY).load(PhaseKind::Knee, |load| load.response.clear());
        }
        let case = case.with(|evidence| {
            let knee = evidence.knee_stacks.as_mut().expect("stacks");
            knee.stacks = stacks.iter().map(|(places, count)| met("GET /", places, *count)).collect();
        });
        is_sound(&account(&case.evidence()));
    }
}
