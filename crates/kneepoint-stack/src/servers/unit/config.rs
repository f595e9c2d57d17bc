//! The configuration of Unit: one JSON document, which it keeps in its state directory.

use crate::TierContext;
use crate::php;
use crate::php::runtime_config::{PROBE_PATH, RuntimeConfig, USER};
use crate::tier::IDENTITY_PATH;
use kneepoint_model::Address;
use serde_json::{Map, Value, json};

/// The configuration, and what of it may be shown.
pub(super) struct Texts {
    pub(super) whole: String,
    /// Without the application's environment.
    pub(super) shown: String,
}

/// Static files and the identity by the router, everything else by PHP.
pub(super) fn whole(context: &TierContext, runtime: &RuntimeConfig, listen: &Address) -> Texts {
    let at = match listen {
        Address::Tcp(tcp) => tcp.to_string(),
        Address::Unix(path) => format!("unix:{}", path.display()),
    };
    let mut listener = json!({ "pass": "routes" });
    if let (Address::Tcp(_), Some(backlog)) = (listen, runtime.number("backlog")) {
        listener["backlog"] = json!(backlog);
    }
    let share = format!("{}$uri", context.app.document_root().display());
    let app = json!({ "pass": "applications/php/app" });
    let routes = json!([
        { "match": { "uri": IDENTITY_PATH }, "action": { "share": context.path("identity.txt") } },
        { "match": { "uri": PROBE_PATH }, "action": { "pass": "applications/php/probe" } },
        { "match": { "uri": "!*.php" }, "action": { "share": share, "fallback": app.clone() } },
        { "action": app },
    ]);
    let mut config = json!({
        "listeners": { at: listener },
        "routes": routes,
        "applications": { "php": application(context, runtime) },
    });
    let whole = pretty(&config);
    config["applications"]["php"]["environment"] = json!({});
    Texts {
        whole,
        shown: pretty(&config),
    }
}

fn pretty(config: &Value) -> String {
    let mut text = serde_json::to_string_pretty(config).unwrap_or_default();
    text.push('\n');
    text
}

fn application(context: &TierContext, runtime: &RuntimeConfig) -> Value {
    let mut limits = Map::new();
    for (name, key) in [
        ("limits.requests", "requests"),
        ("limits.timeout", "timeout"),
    ] {
        if let Some(value) = runtime.number(name).filter(|value| *value > 0) {
            limits.insert(key.to_owned(), json!(value));
        }
    }
    let mut env = php::app_env(context);
    env.insert("PHP_INI_SCAN_DIR".into(), context.path("conf.d"));
    let mut application = json!({
        "type": "php",
        "processes": processes(runtime),
        "limits": limits,
        "working_directory": context.app.root,
        "environment": env,
        "options": { "file": context.path("php.ini") },
        "targets": {
            "app": { "root": context.app.document_root(), "script": context.app.front_name() },
            "probe": { "root": context.dir, "script": "probe.php" },
        },
    });
    if context.as_root {
        application["user"] = json!(USER);
        application["group"] = json!(USER);
    }
    application
}

fn processes(runtime: &RuntimeConfig) -> Value {
    let max = runtime.number("processes").unwrap_or(1);
    let spare = runtime.number("processes.spare");
    let idle = runtime.number("processes.idle_timeout");
    match (spare, idle) {
        (None, None) => json!(max),
        (spare, idle) => json!({
            "max": max,
            "spare": spare.unwrap_or(1).min(max),
            "idle_timeout": idle.unwrap_or(15),
        }),
    }
}
