//! Evidence for the rules' tests: a healthy stack, and one helper that shows what the diagnosis makes of it.

use crate::{Evidence, Phase, PhaseKind, Rule, diagnose};
use expect_test::Expect;
use kneepoint_model::metric::*;
use kneepoint_model::run::Machine;
use kneepoint_model::units::format_share;
use kneepoint_model::{
    Address, Apply, CallKind, CallTrace, Confidence, Finding, Kind, Layer, LoadPoint, LogEvent,
    LogKind, MetStack, Metric, Outcome, Place, Series, ServerKind, SettingKey, Slo, Stack,
    StackProfile, Tier, TracedCall, TracedRoute, Tunable, ValueKind, WorkerPool,
};

const WINDOW_S: u32 = 10;

/// A healthy stack at three rates, to be altered until it is not.
#[derive(Clone)]
pub(crate) struct Case(Evidence);

/// Shows what the whole diagnosis names, and this rule's finding in full; compares with what is expected.
pub(crate) fn check(rule: &Rule, case: Case, expected: Expect) {
    let findings = diagnose(&case.0);
    let named: Vec<&str> = findings
        .iter()
        .filter(|finding| finding.confidence >= Confidence::Suspected)
        .map(|finding| finding.code.as_str())
        .collect();
    let named = if named.is_empty() {
        "nothing".to_owned()
    } else {
        named.join(", ")
    };
    let mut text = format!("named: {named}\n");
    match findings.iter().find(|finding| finding.code == rule.code) {
        Some(finding) => text.push_str(&show(finding)),
        None => text.push_str("silent\n"),
    }
    expected.assert_eq(&text);
}

/// The same for the rule with a code.
pub(crate) fn check_code(code: &str, case: Case, expected: Expect) {
    let mut rules = crate::RULES.iter();
    check(
        rules.find(|rule| rule.code == code).expect(code),
        case,
        expected,
    );
}

/// A place in PHP code.
pub(crate) fn place(function: &str, file: &str, line: u32) -> Place {
    Place {
        function: function.to_owned(),
        file: Some(file.to_owned()),
        line: Some(line),
    }
}

/// A function of PHP itself, or a wait in brackets.
pub(crate) fn builtin(function: &str) -> Place {
    Place {
        function: function.to_owned(),
        ..Place::default()
    }
}

/// Stacks that were sampled above the limit.
pub(crate) fn sampled(rate_hz: u32, places: Vec<Place>, stacks: Vec<MetStack>) -> StackProfile {
    StackProfile {
        phase: PhaseKind::Over.name().to_owned(),
        rate_hz,
        places,
        stacks,
        ..StackProfile::default()
    }
}

/// A stack that was met so often.
pub(crate) fn met(route: &str, places: &[u32], count: u64) -> MetStack {
    MetStack {
        route: route.to_owned(),
        places: places.to_vec(),
        count,
    }
}

/// A call that each request of a route makes so often.
pub(crate) fn traced(route: &str, kind: CallKind, what: &str, at: Place, each: u64) -> TracedCall {
    TracedCall {
        route: route.to_owned(),
        kind,
        what: what.to_owned(),
        peer: String::new(),
        through: String::new(),
        own: Some(at.clone()),
        place: Some(at),
        count: each,
        failed: 0,
        most: each,
        answer_bytes: 0,
        waited_us: 0,
    }
}

/// The rule has nothing to say, and the whole diagnosis nothing but that the CPU is used up.
pub(crate) fn stays_silent(rule: &Rule, case: Case) {
    check(
        rule,
        case,
        expect_test::expect![[r#"
            named: CAP-02
            silent
        "#]],
    );
}

fn show(finding: &Finding) -> String {
    let mut text = format!(
        "{} {} ({}): {}\n",
        finding.confidence.name(),
        finding.layer,
        format_share(finding.weight),
        finding.title
    );
    for seen in &finding.seen {
        text.push_str(&format!("  saw {}", seen.what));
        if !seen.conditions.is_empty() {
            text.push_str(&format!(", {}", seen.conditions));
        }
        text.push('\n');
    }
    let remedy = finding.remedy.clone().unwrap_or_default();
    for setting in &remedy.settings {
        text.push_str(&format!("  set {setting}\n"));
    }
    if remedy.settings.is_empty() {
        text.push_str(&format!("  do: {}\n", remedy.text));
    }
    assert!(!finding.refuted_by.is_empty(), "{}", finding.code);
    assert!(!remedy.text.is_empty(), "{}", finding.code);
    text
}

impl Case {
    /// nginx, nginx, FPM with eight static workers, Redis, PostgreSQL on a machine of two cores; OPcache on,
    /// connections kept; R* is 200/s, where the CPU is used up.
    pub(crate) fn healthy() -> Self {
        let mut evidence = Evidence {
            stack: stack(),
            slo: Slo::default(),
            machine: Machine {
                cores: 2,
                memory_bytes: 4 << 30,
                shared_with_generator: true,
                generator_ceiling_hz: Some(8000.0),
                ..Machine::default()
            },
            ..Evidence::default()
        };
        for (kind, offered, done, ms, queue) in [
            (PhaseKind::Low, 60.0, 60.0, 12.0, 0.0),
            (PhaseKind::Knee, 190.0, 190.0, 40.0, 0.6),
            (PhaseKind::Over, 240.0, 205.0, 900.0, 120.0),
        ] {
            evidence.phases.push(phase(kind, offered, done, ms, queue));
        }
        Self(evidence)
    }

    pub(crate) fn evidence(self) -> Evidence {
        self.0
    }

    pub(crate) fn with(mut self, alter: impl FnOnce(&mut Evidence)) -> Self {
        alter(&mut self.0);
        self
    }

    pub(crate) fn set(self, layer: Layer, name: &str, value: &str) -> Self {
        self.with(|evidence| {
            let values = match layer {
                Layer::App => &mut evidence.stack.app_values,
                _ => &mut tier_mut(&mut evidence.stack, layer).settings,
            };
            values.insert(name.to_owned(), value.to_owned());
        })
    }

    pub(crate) fn keep(self, key: &str) -> Self {
        self.with(|evidence| evidence.keep.push(key.parse().expect("a key")))
    }

    pub(crate) fn tier(self, layer: Layer, alter: impl FnOnce(&mut Tier)) -> Self {
        self.with(|evidence| alter(tier_mut(&mut evidence.stack, layer)))
    }

    pub(crate) fn pool(self, alter: impl FnOnce(&mut WorkerPool)) -> Self {
        self.tier(Layer::Php, |tier| {
            alter(tier.pool.as_mut().expect("a pool"));
        })
    }

    /// A static pool of this size, all of it busy above the limit.
    pub(crate) fn pool_of(self, size: u64) -> Self {
        let workers = size as f64;
        self.set(Layer::Php, "pm.max_children", &size.to_string())
            .pool(|pool| (pool.max_workers, pool.start_workers) = (size, size))
            .everywhere(Layer::Php, WORKERS, "", workers)
            .gauge(PhaseKind::Over, Layer::Php, WORKERS_BUSY, "", workers)
            .gauge(PhaseKind::Over, Layer::Php, WORKERS_IDLE, "", 0.0)
    }

    /// With MariaDB for a database.
    pub(crate) fn on_mariadb(self) -> Self {
        self.with(|evidence| {
            let db = tier_mut(&mut evidence.stack, Layer::Db);
            db.server = ServerKind::new("mariadb");
        })
    }

    /// A gauge that stays at one value during one phase.
    pub(crate) fn gauge(
        self,
        kind: PhaseKind,
        layer: Layer,
        metric: Metric,
        label: &str,
        value: f64,
    ) -> Self {
        self.series(kind, layer, metric, label, |_| value)
    }

    /// PHP workers asleep in the call and on the peer a label names.
    pub(crate) fn waiting(self, kind: PhaseKind, label: &str, workers: f64) -> Self {
        self.gauge(kind, Layer::Php, WORKERS_WAITING, label, workers)
    }

    /// PHP workers on a CPU or ready to run.
    pub(crate) fn running(self, kind: PhaseKind, workers: f64) -> Self {
        self.gauge(kind, Layer::Php, WORKERS_RUNNING, "", workers)
    }

    /// The same in every phase.
    pub(crate) fn everywhere(self, layer: Layer, metric: Metric, label: &str, value: f64) -> Self {
        self.with(|evidence| {
            for phase in &mut evidence.phases {
                put(phase, layer, metric, label, |at| match metric.kind {
                    Kind::Gauge => value,
                    Kind::Counter => value * at,
                });
            }
        })
    }

    /// A counter that grows at one rate during one phase.
    pub(crate) fn counter(self, kind: PhaseKind, layer: Layer, metric: Metric, hz: f64) -> Self {
        self.series(kind, layer, metric, "", |at| hz * at)
    }

    pub(crate) fn series(
        self,
        kind: PhaseKind,
        layer: Layer,
        metric: Metric,
        label: &str,
        value: impl Fn(f64) -> f64,
    ) -> Self {
        self.with(|evidence| put(phase_mut(evidence, kind), layer, metric, label, value))
    }

    /// Telemetry without this metric.
    pub(crate) fn without(self, metric: Metric) -> Self {
        self.with(|evidence| {
            for phase in &mut evidence.phases {
                phase.series.series.retain(|s| s.metric != metric.name);
            }
        })
    }

    pub(crate) fn log(
        self,
        phase: PhaseKind,
        layer: Layer,
        kind: LogKind,
        count: u64,
        example: &str,
    ) -> Self {
        self.with(|evidence| {
            phase_mut(evidence, phase).log.push(LogEvent {
                layer,
                kind,
                count,
                example: example.to_owned(),
            });
        })
    }

    pub(crate) fn load(self, kind: PhaseKind, alter: impl FnOnce(&mut LoadPoint)) -> Self {
        self.with(|evidence| alter(&mut phase_mut(evidence, kind).load))
    }

    /// So many requests of a route traced, each of which made these calls.
    pub(crate) fn traced(self, route: &str, requests: u64, mut calls: Vec<TracedCall>) -> Self {
        calls.iter_mut().for_each(|call| call.count *= requests);
        self.with(|evidence| {
            evidence.calls = Some(CallTrace {
                routes: vec![TracedRoute {
                    route: route.to_owned(),
                    requests,
                }],
                calls,
                ..CallTrace::default()
            });
        })
    }

    /// The knee driven once more.
    pub(crate) fn repeated(self) -> Self {
        self.with(|evidence| {
            let mut again = phase_mut(evidence, PhaseKind::Knee).clone();
            again.kind = PhaseKind::Repeat;
            evidence.phases.push(again);
        })
    }

    /// The whole machine at this share of its cores above the limit.
    pub(crate) fn machine_at(self, kind: PhaseKind, share: f64) -> Self {
        self.counter(kind, Layer::Generator, MACHINE_BUSY_S, 2.0 * share)
    }
}

fn tier_mut(stack: &mut Stack, layer: Layer) -> &mut Tier {
    stack
        .tiers
        .iter_mut()
        .find(|tier| tier.layer == layer)
        .expect("the healthy stack has every tier")
}

fn phase_mut(evidence: &mut Evidence, kind: PhaseKind) -> &mut Phase {
    evidence
        .phases
        .iter_mut()
        .find(|phase| phase.kind == kind)
        .expect("the phase is there")
}

fn put(phase: &mut Phase, layer: Layer, metric: Metric, label: &str, value: impl Fn(f64) -> f64) {
    let series = &mut phase.series.series;
    series.retain(|s| !(s.layer == layer && s.metric == metric.name && s.label == label));
    series.push(Series {
        metric: metric.name.to_owned(),
        kind: metric.kind,
        layer,
        label: label.to_owned(),
        points: (0..=WINDOW_S)
            .map(|second| (f64::from(second), value(f64::from(second))))
            .collect(),
    });
}

/// A phase whose CPU use, waits and counters follow from its rate: 9.8 ms of CPU a request, 3 ms of waiting.
fn phase(kind: PhaseKind, offered: f64, done: f64, ms: f64, queue: f64) -> Phase {
    let load = load(offered, done, ms);
    let mut phase = Phase::new(kind, load, SeriesSet::default(), Vec::new());
    let busy = if kind == PhaseKind::Over {
        8.0
    } else {
        done * 0.022
    };
    let waiting = done * 0.003;
    for (layer, metric, label, value) in [
        (Layer::Php, QUEUE, "", queue),
        (Layer::Php, QUEUE_LIMIT, "", 511.0),
        (Layer::Php, WORKERS, "", 8.0),
        (Layer::Php, WORKERS_BUSY, "", busy),
        (Layer::Php, WORKERS_IDLE, "", 8.0 - busy),
        (Layer::Php, WORKERS_PINNED, "", 0.0),
        (Layer::Php, WORKERS_RUNNING, "", busy - waiting),
        (Layer::Php, WORKERS_WAITING, "recv db", waiting * 0.7),
        (Layer::Php, WORKERS_WAITING, "recv cache", waiting * 0.3),
        (Layer::Php, WORKERS_WAITING, "accept", 8.0 - busy),
        (Layer::Php, PSS_WORKER_BYTES, "", 20.0 * 1_048_576.0),
        (Layer::Php, OPCACHE_ENABLED, "", 1.0),
        (Layer::Php, OPCACHE_FULL, "", 0.0),
        (Layer::Php, OPCACHE_USED_BYTES, "", 30.0 * 1_048_576.0),
        (Layer::Php, OPCACHE_FREE_BYTES, "", 98.0 * 1_048_576.0),
        (Layer::Php, OPCACHE_SCRIPTS, "", 420.0),
        (Layer::Php, OPCACHE_KEYS, "", 600.0),
        (Layer::Php, OPCACHE_MAX_KEYS, "", 16_229.0),
        (Layer::Php, OPCACHE_INTERNED_FREE_SHARE, "", 0.4),
        (Layer::Php, PHP_FILES, "", 300.0),
        (Layer::Proxy, EVENT_LOOPS, "epoll", 0.9),
        (Layer::Web, EVENT_LOOPS, "epoll", 0.9),
        (Layer::Proxy, NGINX_WRITING, "", 1.0 + done * ms / 1e3),
        (Layer::Proxy, NET_SENT_BYTES, "", 0.0),
        (Layer::Proxy, NET_RECEIVED_BYTES, "", 0.0),
        (Layer::Proxy, PORT_RANGE, "", 28_232.0),
        (Layer::Proxy, TIME_WAIT, "web", 40.0),
        (Layer::Proxy, CPU_HOTTEST, "", 0.04),
        (Layer::Cache, REDIS_CLIENTS, "", 9.0),
        (Layer::Cache, REDIS_MAX_CLIENTS, "", 10_000.0),
        (Layer::Db, DB_CONNECTIONS, "", 9.0),
        (Layer::Db, DB_MAX_CONNECTIONS, "", 100.0),
        (Layer::Db, DB_DISK_WAIT, "write", 0.01),
    ] {
        put(&mut phase, layer, metric, label, |_| value);
    }
    count(&mut phase, done);
    phase
}

/// Counters that grow with the requests done.
fn count(phase: &mut Phase, done: f64) {
    for (layer, metric, per_request) in [
        (Layer::Generator, MACHINE_BUSY_S, 0.0094),
        (Layer::Generator, MACHINE_STEAL_S, 0.0),
        (Layer::Php, CPU_S, 0.0070),
        (Layer::Proxy, CPU_S, 0.0002),
        (Layer::Web, CPU_S, 0.0002),
        (Layer::Cache, CPU_S, 0.0003),
        (Layer::Db, CPU_S, 0.0012),
        (Layer::Php, WORKER_REQUESTS, 1.0),
        (Layer::Php, WORKER_STARTS, 0.0),
        (Layer::Php, OPCACHE_HITS, 300.0),
        (Layer::Php, OPCACHE_MISSES, 0.0),
        (Layer::Php, LISTEN_OVERFLOWS, 0.0),
        (Layer::Php, CGROUP_PERIODS, 0.0),
        (Layer::Php, CGROUP_THROTTLED, 0.0),
        (Layer::Php, CONTEXT_SWITCHES_FORCED, 2.0),
        (Layer::Proxy, ACTIVE_OPENS, 0.01),
        (Layer::Proxy, NGINX_REQUESTS, 1.0),
        (Layer::Proxy, NGINX_ACCEPTS, 0.01),
        (Layer::Proxy, NGINX_HANDLED, 0.01),
        (Layer::Cache, REDIS_CONNECTIONS, 0.001),
        (Layer::Cache, REDIS_COMMANDS, 4.0),
        (Layer::Cache, REDIS_REJECTED, 0.0),
        (Layer::Db, DB_SESSIONS, 0.001),
        (Layer::Db, DB_TRANSACTIONS, 2.0),
        (Layer::Db, DB_ROWS_SCANNED, 20.0),
    ] {
        put(phase, layer, metric, "", |at| per_request * done * at);
    }
}

fn load(offered: f64, done: f64, ms: f64) -> LoadPoint {
    let window = f64::from(WINDOW_S);
    let mut load = LoadPoint {
        offered_hz: offered,
        window_s: window,
        arrivals: (offered * window) as u64,
        ..LoadPoint::default()
    };
    let ok = (done * window) as u64;
    load.outcomes.by_outcome.insert(Outcome::Ok, ok);
    load.outcomes
        .by_outcome
        .insert(Outcome::Timeout, load.arrivals - ok);
    load.outcomes.by_status.insert(200, ok);
    load.good = if ms < 200.0 { ok } else { ok / 20 };
    for _ in 0..ok {
        load.response.record_us((ms * 1e3) as u64);
        load.service.record_us((ms * 1e3) as u64);
    }
    load.health.achieved_share = 1.0;
    load.health.send_lag_p99_ms = 0.4;
    load.health.cpu_share = 0.0001 * offered;
    load.health.ceiling_hz = Some(8000.0);
    load
}

fn stack() -> Stack {
    let persistent = |name: &str| Tunable {
        name: name.to_owned(),
        about: String::new(),
        values: ValueKind::Choice {
            of: vec!["false".to_owned(), "true".to_owned()],
        },
        default: Some("false".to_owned()),
        apply: Apply::Reload,
    };
    let mut stack = Stack {
        tiers: vec![
            tier(Layer::Proxy, "nginx", NGINX),
            tier(Layer::Web, "nginx", NGINX),
            tier(Layer::Php, "fpm", FPM),
            tier(Layer::Cache, "redis", &[("maxclients", "10000")]),
            tier(Layer::Db, "postgresql", &[("max_connections", "100")]),
        ],
        app_settings: vec![persistent("redis.persistent"), persistent("db.persistent")],
        ..Stack::default()
    };
    for name in ["redis.persistent", "db.persistent"] {
        stack.app_values.insert(name.to_owned(), "true".to_owned());
    }
    tier_mut(&mut stack, Layer::Web)
        .settings
        .insert("upstream.keepalive".into(), "0".into());
    let php = tier_mut(&mut stack, Layer::Php);
    php.listen = Some(Address::Unix("/run/php.sock".into()));
    php.pool = Some(WorkerPool {
        worker: "FPM child".into(),
        max_workers: 8,
        start_workers: 8,
        spawn_per_s: None,
        size_key: SettingKey::new(Layer::Php, "pm.max_children"),
        queue_limit: 511,
        keeps_queue: false,
    });
    stack
}

const NGINX: &[(&str, &str)] = &[
    ("worker_processes", "2"),
    ("worker_connections", "1024"),
    ("upstream.keepalive", "32"),
    ("fastcgi_keep_conn", "off"),
];

const FPM: &[(&str, &str)] = &[
    ("extension.opcache", "on"),
    ("opcache.enable", "1"),
    ("opcache.memory_consumption", "128"),
    ("opcache.max_accelerated_files", "10000"),
    ("opcache.validate_timestamps", "1"),
    ("opcache.revalidate_freq", "2"),
    ("pm", "static"),
    ("pm.max_children", "8"),
    ("pm.max_requests", "0"),
    ("listen.backlog", "511"),
];

fn tier(layer: Layer, server: &str, settings: &[(&str, &str)]) -> Tier {
    let mut tier = Tier {
        layer,
        server: ServerKind::new(server),
        version: String::new(),
        settings: settings
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect(),
        tunables: Vec::new(),
        listen: None,
        pool: None,
        cpus: 2.0,
        memory_bytes: 4 << 30,
        link_mbit: None,
        own_network: true,
    };
    tier.settings
        .insert("net.core.somaxconn".into(), "4096".into());
    tier
}
