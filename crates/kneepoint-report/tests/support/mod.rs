//! Sample runs as the experiments would record them: realistic shapes, no measurement.

mod account;
mod inside;
mod load;
pub(crate) mod loads;
mod stack;
mod story;

use kneepoint_model::gate::{Doubt, GateClaim, judge, loss};
use kneepoint_model::run::{
    Bound, Decision, EntryKind, FileDiff, LimitResult, Machine, Observation, RUN_VERSION, TrialId,
    Waterfall, WaterfallPart,
};
use kneepoint_model::{
    Effect, GateResult, GateVerdict, Interval, JournalEntry, Layer, Run, Trial, Validity, Verdict,
};
use story::{decisions, effect, findings};

/// A secret that must not appear in any format; it is in the environment, the stack, the diff and a log line.
pub(crate) const SECRET: &str = "s3cr3t-hunter2";

/// Markup that must stay text.
pub(crate) const INJECTION: &str = "<script>alert(\"x\")</script>";

fn interval(low: f64, estimate: f64, high: f64) -> Interval {
    Interval {
        low,
        estimate,
        high,
    }
}

fn entry(at_s: f64, kind: EntryKind, text: &str) -> JournalEntry {
    JournalEntry {
        at_s,
        kind,
        text: text.into(),
    }
}

fn limit(arm: &str, rate: Interval, saturation_hz: f64, trials: &[Trial]) -> LimitResult {
    let fitted = |trial: &&Trial| trial.arm == arm && trial.purpose == "limit: step";
    LimitResult {
        arm: arm.into(),
        rate_hz: rate,
        requests_a_visit: None,
        visit_s: None,
        missed_alone: None,
        reference_hz: None,
        r90_hz: None,
        noise: None,
        speeds: Vec::new(),
        load_s: 0.0,
        bound_by: Bound::ResponseTime(95.0),
        saturation_hz,
        trials: trials
            .iter()
            .filter(|trial| trial.arm == arm && trial.purpose.starts_with("limit: "))
            .map(|trial| trial.id)
            .collect(),
        steps: trials
            .iter()
            .filter(fitted)
            .map(|trial| {
                (
                    trial.load.offered_hz,
                    trial.load.violating_share(),
                    trial.load.arrivals,
                )
            })
            .collect(),
        soak_error_share: 0.0,
        soak_p95_ms: Some(if arm == "base" { 181.0 } else { 172.0 }),
        soak_hz: rate.low,
        soak_failed: 0,
        soak_arrivals: (rate.low * 60.0) as u64,
        soak_held: true,
        warnings: Vec::new(),
    }
}

fn waterfall(offered_hz: f64, parts: &[(Layer, &str, f64)]) -> Waterfall {
    let response_ms: f64 = parts.iter().map(|part| part.2).sum();
    let concurrency = offered_hz * response_ms / 1e3;
    Waterfall {
        offered_hz,
        response_ms,
        parts: parts
            .iter()
            .map(|&(layer, what, ms)| WaterfallPart {
                layer,
                what: what.into(),
                ms,
            })
            .collect(),
        little: format!(
            "{:.2} in flight measured, {concurrency:.2} from rate times time",
            concurrency * 1.02
        ),
        little_error: Some(0.02),
    }
}

fn observation(phase: &str, arm: &str, trial: u64, waterfall: Waterfall) -> Observation {
    Observation {
        phase: phase.into(),
        arm: arm.into(),
        trial: TrialId(trial),
        series: load::telemetry(phase, arm, waterfall.offered_hz),
        waterfall: Some(waterfall),
    }
}

const PARTS: [(Layer, &str); 6] = [
    (Layer::Web, "CPU"),
    (Layer::Php, "accept queue"),
    (Layer::Php, "CPU"),
    (Layer::Php, "ready, waiting for a core"),
    (Layer::Cache, "waiting on cache"),
    (Layer::Db, "waiting on database"),
];

fn parts(ms: [f64; 6]) -> Vec<(Layer, &'static str, f64)> {
    PARTS
        .iter()
        .zip(ms)
        .map(|(&(layer, what), ms)| (layer, what, ms))
        .collect()
}

fn observations() -> Vec<Observation> {
    let phases = [
        ("low", "base", 20, 11.5, [0.31, 0.02, 22.8, 0.7, 2.9, 4.2]),
        ("knee", "base", 21, 36.6, [0.42, 38.6, 24.1, 18.9, 3.6, 5.1]),
        ("low", "best", 22, 35.4, [0.28, 0.02, 6.9, 0.4, 2.8, 4.3]),
        ("knee", "best", 23, 112.0, [0.61, 4.2, 7.8, 44.3, 6.9, 9.8]),
    ];
    phases
        .into_iter()
        .map(|(phase, arm, trial, hz, ms)| {
            observation(phase, arm, trial, waterfall(hz, &parts(ms)))
        })
        .collect()
}

fn journal() -> Vec<JournalEntry> {
    use EntryKind::{Change, Result, Stage, Warning};
    vec![
        entry(0.0, Stage, "Stand up nginx, PHP-FPM, Redis and PostgreSQL"),
        entry(
            4.1,
            Result,
            "The target echoes the nonce; nginx -t and php-fpm -t pass",
        ),
        entry(
            6.0,
            Result,
            "Generator reaches 41 200/s against a null server",
        ),
        entry(9.0, Stage, "Find the limit of the configuration as it is"),
        entry(15.4, Result, "Closed loop saturates at 42.9/s"),
        entry(
            98.0,
            Warning,
            "Step 7 is invalid: the generator's send lag p99 was 6.2 ms",
        ),
        entry(171.2, Result, "R* = 38.5/s (37.2 to 39.8), p95 binds"),
        entry(240.0, Stage, "Diagnose"),
        entry(
            262.7,
            Result,
            "OPC-01 OPcache is off: 71 % of PHP's CPU time is compilation",
        ),
        entry(
            301.5,
            Change,
            "Kept php.opcache.enable = 1: goodput x2.29 (2.21 to 2.38)",
        ),
        entry(
            388.0,
            Change,
            "Kept php.pm.max_children = 16: goodput x1.33 (1.28 to 1.39)",
        ),
        entry(
            455.8,
            Change,
            "Dropped web.upstream.keepalive = 32: no difference within 2 %",
        ),
        entry(520.0, Stage, "Prove: fresh start, after against before"),
        entry(
            533.0,
            Warning,
            &format!("A worker logged: redis://:{SECRET}@10.0.0.4:6379 took 1.1 s to answer"),
        ),
        entry(
            872.0,
            Result,
            "R* = 118/s (114 to 121), 3.05 times what it was; 0 of 6840 requests failed",
        ),
    ]
}

const FPM_DIFF: &str = "--- a/www.conf\n+++ b/www.conf\n@@ -3,9 +3,7 @@\n listen = 10.89.0.3:9000\n-pm = dynamic\n\
-pm.max_children = 5\n-pm.start_servers = 2\n+pm = static\n+pm.max_children = 16\n pm.max_requests = 0\n \
env[APP_ENV] = production\n env[DB_PASSWORD] = s3cr3t-hunter2\n";

const INI_DIFF: &str = "--- a/php.ini\n+++ b/php.ini\n@@ -11,4 +11,4 @@\n [opcache]\n-opcache.enable=0\n\
+opcache.enable=1\n opcache.memory_consumption=128\n";

fn diff() -> Vec<FileDiff> {
    vec![
        FileDiff {
            file: "php: www.conf".into(),
            diff: FPM_DIFF.into(),
        },
        FileDiff {
            file: "php: php.ini".into(),
            diff: INI_DIFF.into(),
        },
    ]
}

fn machine() -> Machine {
    Machine {
        cores: 2,
        quota_cores: None,
        memory_bytes: 24 << 30,
        kernel: "6.18.0".into(),
        cpu: "AMD EPYC 7B13".into(),
        shared_with_generator: true,
        generator_ceiling_hz: Some(41_200.0),
    }
}

fn begun(command: &str) -> Run {
    Run {
        version: RUN_VERSION,
        id: format!("2026-11-20-0312-shop-{command}"),
        command: command.into(),
        tool_version: "0.1.0".into(),
        started_at: "2026-11-20T03:12:44Z".into(),
        machine: machine(),
        scenario: Some(stack::scenario()),
        base: Some(stack::base()),
        ..Run::default()
    }
}

/// A complete `tune`: three changes tried, two kept, proved.
pub(crate) fn tuned() -> Run {
    let mut trials = load::search("base", 38.5, 9.0, 0);
    trials[7].load.validity = Validity::Invalid {
        because: vec![
            "The send lag p99 of 6.2 ms is above 4 ms: run the generator on a core of its own."
                .into(),
        ],
    };
    trials.extend(load::observed());
    trials.extend(load::search("best", 117.6, 540.0, 24));
    let (before, after) = (interval(37.2, 38.5, 39.8), interval(114.1, 117.6, 121.2));
    Run {
        elapsed_s: 872.0,
        ended: "finished".into(),
        best: Some(stack::best()),
        journal: journal(),
        limits: vec![
            limit("base", before, 42.9, &trials),
            limit("best", after, 134.0, &trials),
        ],
        trials,
        observations: observations(),
        calls: vec![inside::calls("base", 412), inside::calls("best", 3)],
        stacks: vec![
            inside::stacks("base", 900, 150),
            inside::stacks("best", 20, 640),
        ],
        accounts: vec![
            account::account("base", 36.6, 44.1),
            account::account("best", 112.0, 14.9),
        ],
        findings: findings(),
        decisions: decisions(),
        proof: Some(Effect {
            conditions: "at 38.5/s, 5 s each, fresh start of both".into(),
            ..effect(
                "base -> best",
                Vec::new(),
                "R*",
                interval(2.89, 3.04, 3.21),
                12,
            )
        }),
        restarted: Some(Effect {
            conditions: "20 closed-loop workers, 2 s steps, interleaved".into(),
            verdict: Verdict::Inconclusive,
            ..effect(
                "the same after a restart",
                Vec::new(),
                "throughput at saturation",
                interval(0.972, 0.991, 1.012),
                12,
            )
        }),
        diff: diff(),
        ..begun("tune")
    }
}

/// A `tune` after which the proxy keeps its connections: before, most of the kernel's work for it was to find ports.
pub(crate) fn kept_connections() -> Run {
    let mut run = tuned();
    for (one, searching) in run.accounts.iter_mut().zip([80, 2]) {
        one.native.push(account::proxy(searching));
    }
    run
}

/// A complete `limit`: R* and nothing else.
pub(crate) fn limit_only() -> Run {
    let trials = load::search("base", 38.5, 9.0, 0);
    Run {
        elapsed_s: 241.0,
        ended: "finished".into(),
        journal: journal().into_iter().take(7).collect(),
        limits: vec![limit("base", interval(37.2, 38.5, 39.8), 42.9, &trials)],
        trials,
        ..begun("limit")
    }
}

/// A `limit --ci` beside the application as it was, which lost `lost` of its throughput.
pub(crate) fn gated(lost: f64) -> Run {
    let before = interval(38.6, 39.9, 41.3);
    let limited = limit_only();
    let now = limited.limits[0].rate_hz;
    let claim = |quantity: &str, loss: Interval, conditions: &str| GateClaim {
        quantity: quantity.into(),
        before_hz: None,
        now_hz: None,
        loss,
        verdict: judge(&loss, 0.05),
        conditions: conditions.into(),
    };
    let claims = vec![
        claim(
            "throughput at saturation",
            interval(lost - 0.03, lost, lost + 0.03),
            "9 pairs of 3 s steps with 10 closed-loop workers, interleaved",
        ),
        GateClaim {
            before_hz: Some(before),
            now_hz: Some(now),
            ..claim(
                "R*",
                loss(&before, &now).expect("rates"),
                "before: 18 steps in 204 s of load, within 3.5 %; now: 18 steps in 204 s of load, within 3.4 %",
            )
        },
    ];
    let doubts = vec![Doubt::Note(format!(
        "the cache was redis://:{SECRET}@10.0.0.4:6379 before"
    ))];
    Run {
        gate: Some(GateResult::new(
            "the application in /srv/main, beside the present one".into(),
            0.05,
            GateVerdict::Inconclusive,
            claims,
            doubts,
        )),
        ..limited
    }
}

/// A `limit --ci` against a run of another machine.
pub(crate) fn gated_elsewhere() -> Run {
    let mut run = gated(0.12);
    if let Some(gate) = &mut run.gate {
        let obstacle = Doubt::Obstacle(
            "the baseline was measured on another machine: it had 8 cores, this one has 2".into(),
        );
        *gate = GateResult::new(
            "run 20261119-120000-shop-limit of 2026-11-19T12:00:00Z".into(),
            gate.max_loss,
            GateVerdict::Fail,
            gate.claims.split_off(1),
            vec![obstacle],
        );
    }
    run
}

/// A complete `tune` of a stack with nothing wrong: CPU binds.
pub(crate) fn healthy() -> Run {
    let best_as_base = observations()
        .into_iter()
        .filter(|seen| seen.arm == "best")
        .map(|mut seen| {
            seen.arm = "base".into();
            seen
        });
    let mut trials = load::search("base", 117.6, 9.0, 0);
    trials.extend(
        load::observed()
            .into_iter()
            .filter(|trial| trial.arm == "best")
            .map(|mut trial| {
                trial.arm = "base".into();
                trial
            }),
    );
    Run {
        elapsed_s: 305.0,
        ended: "finished".into(),
        base: Some(stack::best()),
        limits: vec![limit("base", interval(114.1, 117.6, 121.2), 134.0, &trials)],
        trials,
        observations: best_as_base.collect(),
        ..begun("tune")
    }
}

/// A `tune` that Ctrl-C ended after the first change was kept.
pub(crate) fn interrupted() -> Run {
    let full = tuned();
    Run {
        elapsed_s: 338.0,
        ended: "interrupted".into(),
        best: None,
        journal: full
            .journal
            .into_iter()
            .filter(|entry| entry.at_s < 338.0)
            .collect(),
        trials: full
            .trials
            .into_iter()
            .filter(|trial| trial.at_s < 338.0)
            .collect(),
        limits: full.limits.into_iter().take(1).collect(),
        observations: full.observations.into_iter().take(2).collect(),
        findings: full.findings.into_iter().take(1).collect(),
        decisions: full
            .decisions
            .into_iter()
            .take(1)
            .map(|decision| Decision {
                leave_one_out: None,
                ..decision
            })
            .collect(),
        ..begun("tune")
    }
}

/// A `diagnose`: findings without a limit.
pub(crate) fn diagnosed() -> Run {
    let full = tuned();
    Run {
        elapsed_s: 58.0,
        ended: "finished".into(),
        trials: full
            .trials
            .into_iter()
            .filter(|trial| [20, 21].contains(&trial.id.0))
            .collect(),
        observations: full.observations.into_iter().take(2).collect(),
        accounts: full.accounts.into_iter().take(1).collect(),
        findings: full.findings.into_iter().skip(1).take(2).collect(),
        ..begun("diagnose")
    }
}

/// A run whose every text carries markup and control characters.
pub(crate) fn hostile() -> Run {
    let mut run = tuned();
    run.id = INJECTION.into();
    run.findings[0].title = INJECTION.into();
    run.findings[0].seen[0].what = format!("\u{1b}[2J{INJECTION}");
    run.decisions[0].effect.change = INJECTION.into();
    run.diff[0].file = INJECTION.into();
    run.diff[0].diff = format!("+{INJECTION}\n```\n");
    run.journal[0].text = INJECTION.into();
    run.stacks[0].places[0].function = INJECTION.into();
    run.stacks[1].stacks[0].route = format!("GET /{INJECTION}");
    run.calls[0].calls[0].what = format!("\u{1b}[2J{INJECTION}");
    run.accounts[0].time[3].what = format!("waiting: {INJECTION}");
    run.accounts[1].time[3].lines[0].place.function = INJECTION.into();
    for account in &mut run.accounts {
        let code = account.code.as_mut().expect("code");
        code.functions[0].place.function = INJECTION.into();
        code.functions[1].place.file = Some(format!("cache/{SECRET}.php"));
        code.owners[0].owner.name = INJECTION.into();
        code.files[0].file = format!("{INJECTION}/{SECRET}");
        account.native[0].objects[0].object = format!("\u{1b}[2J{INJECTION}");
    }
    run.trials[7].load.validity = Validity::Invalid {
        because: vec![INJECTION.into()],
    };
    run
}

/// Every sample with its name.
pub(crate) fn all() -> Vec<(&'static str, Run)> {
    vec![
        ("tuned", tuned()),
        ("limit-only", limit_only()),
        ("kept-connections", kept_connections()),
        ("gated", gated(0.12)),
        ("gated-elsewhere", gated_elsewhere()),
        ("healthy", healthy()),
        ("interrupted", interrupted()),
        ("diagnosed", diagnosed()),
        ("hostile", hostile()),
        ("not-a-number", not_a_number()),
        ("empty", Run::default()),
    ]
}

/// A run whose every number is none.
pub(crate) fn not_a_number() -> Run {
    let mut run = tuned();
    let odd = [f64::NAN, f64::INFINITY, 0.0, -1.0];
    run.elapsed_s = f64::NAN;
    run.machine.generator_ceiling_hz = Some(f64::INFINITY);
    for (i, limit) in run.limits.iter_mut().enumerate() {
        limit.rate_hz = interval(f64::NEG_INFINITY, odd[i], f64::NAN);
        limit.steps = vec![(f64::NAN, f64::INFINITY, 0), (0.0, 0.0, u64::MAX)];
        limit.soak_p95_ms = Some(f64::NAN);
    }
    for (i, trial) in run.trials.iter_mut().enumerate() {
        trial.load.offered_hz = odd[i % odd.len()];
        trial.load.window_s = odd[(i + 1) % odd.len()];
        trial.load.arrivals = if i % 3 == 0 { 0 } else { u64::MAX / 1_000_000 };
    }
    for waterfall in run
        .observations
        .iter_mut()
        .filter_map(|seen| seen.waterfall.as_mut())
    {
        waterfall.response_ms = 0.0;
        for (part, ms) in waterfall.parts.iter_mut().zip(odd) {
            part.ms = ms;
        }
    }
    for account in &mut run.accounts {
        account.response_ms = f64::NAN;
        for (part, odd) in account.cpu.iter_mut().zip(odd) {
            (part.cores, part.ms, part.share) = (odd, odd, odd);
        }
        for (part, odd) in account.time.iter_mut().zip(odd) {
            (part.ms, part.share) = (odd, odd);
        }
        account.native[0].samples = 0;
        let code = account.code.as_mut().expect("code");
        (code.stacks, code.unnamed, code.owners[0].share) = (0, f64::NAN, f64::INFINITY);
    }
    for decision in &mut run.decisions {
        decision.effect.ratio = Some(interval(f64::NAN, 0.0, f64::INFINITY));
        decision.effect.e_value = f64::NAN;
        decision.effect.smallest_visible = Some(f64::NAN);
    }
    run
}
