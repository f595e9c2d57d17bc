//! A shop on nginx, PHP-FPM, Redis and PostgreSQL.

use super::SECRET;
use kneepoint_model::{
    AppKind, Budget, Expect, Layer, Request, Scenario, ServerKind, SettingKey, Slo, Stack, Tier,
    WorkerPool, Workload,
};
use std::collections::BTreeMap;
use std::time::Duration;

fn pairs(values: &[(&str, &str)]) -> BTreeMap<String, String> {
    values
        .iter()
        .map(|(name, value)| ((*name).into(), (*value).into()))
        .collect()
}

pub(crate) fn scenario() -> Scenario {
    let mut visit = Request::get("/");
    visit.weight = 8.0;
    visit.expect = Expect {
        status: vec![200.into()],
        body_contains: vec!["visits".into()],
        ..Expect::default()
    };
    Scenario {
        name: "shop".into(),
        root: "/srv/shop".into(),
        front: "public/index.php".into(),
        kind: AppKind::Laravel,
        env: pairs(&[("APP_ENV", "production"), ("DB_PASSWORD", SECRET)]),
        app_settings: Vec::new(),
        app_files: Vec::new(),
        changes: BTreeMap::new(),
        unreachable: Vec::new(),
        generators: None,
        peers: Vec::new(),
        jobs: Vec::new(),
        tiers: Vec::new(),
        hosts: BTreeMap::new(),
        workload: Workload {
            requests: vec![visit, Request::get("/cart?api_token=s3cr3t-hunter2")],
            users: 100,
            sessions: None,
            feeders: Vec::new(),
        },
        slo: Slo::default(),
        budget: Budget {
            time: Duration::from_secs(1200),
            memory_bytes: Some(2 << 30),
            keep: Vec::new(),
        },
    }
}

fn tier(layer: Layer, server: &str, version: &str, settings: &[(&str, &str)], cpus: f64) -> Tier {
    Tier {
        layer,
        server: ServerKind::new(server),
        version: version.into(),
        settings: pairs(settings),
        tunables: Vec::new(),
        listen: None,
        pool: None,
        cpus,
        memory_bytes: 2 << 30,
        link_mbit: None,
        own_network: true,
    }
}

fn stack(php: &[(&str, &str)], children: u64) -> Stack {
    let mut fpm = tier(Layer::Php, "fpm", "8.2.35", php, 1.0);
    fpm.pool = Some(WorkerPool {
        worker: "FPM child".into(),
        max_workers: children,
        start_workers: children,
        spawn_per_s: None,
        size_key: SettingKey::new(Layer::Php, "pm.max_children"),
        queue_limit: 511,
        keeps_queue: false,
    });
    Stack {
        tiers: vec![
            tier(
                Layer::Web,
                "nginx",
                "1.22.1",
                &[("worker_processes", "1"), ("upstream.keepalive", "0")],
                2.0,
            ),
            fpm,
            tier(
                Layer::Cache,
                "redis",
                "7.0.15",
                &[("requirepass", SECRET)],
                2.0,
            ),
            tier(
                Layer::Db,
                "postgresql",
                "15.14",
                &[("max_connections", "100")],
                2.0,
            ),
        ],
        ..Stack::default()
    }
}

pub(crate) fn base() -> Stack {
    stack(
        &[
            ("opcache.enable", "0"),
            ("pm", "dynamic"),
            ("pm.max_children", "5"),
        ],
        5,
    )
}

pub(crate) fn best() -> Stack {
    stack(
        &[
            ("opcache.enable", "1"),
            ("pm", "static"),
            ("pm.max_children", "16"),
        ],
        16,
    )
}
