//! `[stack]` and `[hosts]`: the chain of tiers and the machines under it.

mod job;

use crate::config::Servers;
use crate::config::reader::tree::{Entry, Node, Span, Value};
use crate::config::reader::{Reader, Section, changes};
use crate::config::suggest::nearest;
use crate::config::values::{alternatives, check_value, switch};
pub(super) use job::read as read_jobs;
use kneepoint_model::{
    Change, HostLimits, Layer, ServerKind, SettingKey, TierSpec, Tunable, ValueKind,
};
use std::collections::{BTreeMap, BTreeSet};

/// A place in the chain: its layer, the names of its tables, and the program that serves it by default.
struct Place {
    layer: Layer,
    stack: &'static str,
    host: &'static str,
    server_key: &'static str,
    default: &'static str,
}

const fn place(
    layer: Layer,
    stack: &'static str,
    host: &'static str,
    default: &'static str,
) -> Place {
    let server_key = match layer {
        Layer::Php => "runtime",
        _ => "server",
    };
    Place {
        layer,
        stack,
        host,
        server_key,
        default,
    }
}

/// The chain in the order a request meets it.
/// Most agents of a lab: a host each, beside those of the stack.
const MOST_GENERATORS: u32 = 64;

const CHAIN: &[Place] = &[
    place(Layer::Proxy, "stack.proxy", "hosts.proxy", "nginx"),
    place(Layer::Web, "stack.web", "hosts.web", "nginx"),
    place(Layer::Php, "stack.php", "hosts.php", "fpm"),
    place(Layer::Cache, "stack.cache", "hosts.cache", "redis"),
    place(Layer::Db, "stack.db", "hosts.db", "postgresql"),
];

/// Reads the tiers.
pub(super) fn read(reader: &mut Reader<'_>, top: &Section<'_>) -> Vec<TierSpec> {
    let Some(node) = top.get("stack") else {
        let in_default = |place: &&Place| matches!(place.layer, Layer::Web | Layer::Php);
        return CHAIN.iter().filter(in_default).map(bare).collect();
    };
    let Some(stack) = reader.section(node, "stack") else {
        return Vec::new();
    };
    check_chain(reader, &stack);
    CHAIN
        .iter()
        .filter_map(|place| {
            let node = stack.get(place.layer.name())?;
            tier(reader, place, node)
        })
        .collect()
}

/// PHP may be missing only where nothing needs it, and PHP-FPM needs something that speaks FastCGI to it.
fn check_chain(reader: &mut Reader<'_>, stack: &Section<'_>) {
    let has = |layer: Layer| stack.get(layer.name()).is_some();
    let serves_files = has(Layer::Web) && !has(Layer::Cache) && !has(Layer::Db);
    if !has(Layer::Php) && !serves_files {
        let wanted =
            "php = { runtime = \"fpm\" }, or only a web server (and proxy) that serves files";
        reader.missing(Some(stack.at), "stack.php", wanted);
    }
    let Some(runtime) = runtime(stack) else {
        return;
    };
    let is_http = reader.servers.speaks_http(runtime);
    if has(Layer::Proxy) && !has(Layer::Web) && !is_http {
        let wanted = "web = { server = \"nginx\" }: a proxy speaks HTTP, PHP-FPM only FastCGI";
        reader.missing(Some(stack.at), "stack.web", wanted);
    }
    if let Some(web) = stack.get("web").filter(|_| is_http) {
        reader.wrong(
            web.at,
            format!("{runtime} answers HTTP itself, and the web tier speaks FastCGI to PHP"),
            "no `web`: what stands before such a runtime is `proxy`",
        );
    }
}

/// The runtime that is to be known, as it is written; none without PHP.
fn runtime<'a>(stack: &'a Section<'_>) -> Option<&'a str> {
    let Value::Table(php) = &stack.get("php")?.value else {
        return None;
    };
    match php.get("runtime").map(|node| &node.value) {
        None => Some("fpm"),
        Some(Value::Text(runtime)) => Some(runtime),
        Some(_) => None,
    }
}

fn bare(place: &Place) -> TierSpec {
    TierSpec {
        layer: place.layer,
        server: ServerKind::new(place.default),
        config: None,
        ini: None,
        seed: None,
        unix_socket: false,
        settings: BTreeMap::new(),
    }
}

fn tier(reader: &mut Reader<'_>, place: &Place, node: &Node) -> Option<TierSpec> {
    let section = reader.section(node, place.stack)?;
    let server = match section.get(place.server_key) {
        Some(node) => server(reader, place, node)?,
        None => ServerKind::new(place.default),
    };
    let mut spec = TierSpec {
        server,
        ..bare(place)
    };
    let mut file = |node: Option<&Node>, what| node.and_then(|node| reader.file(node, what));
    spec.config = file(section.get("config"), "a configuration file");
    if place.layer == Layer::Php {
        spec.ini = file(section.get("ini"), "a php.ini");
    }
    spec.seed = match place.layer {
        Layer::Db => file(section.get("seed"), "a file of SQL"),
        Layer::Cache => file(section.get("seed"), "a file of Redis commands"),
        _ => None,
    };
    if let Some(node) = section.get("socket") {
        let choices = &[("unix", true), ("tcp", false)];
        spec.unix_socket = reader.choice(node, choices).unwrap_or_default();
    }
    if let Some(node) = section.get("settings") {
        spec.settings = settings(reader, place, &spec.server, node);
    }
    Some(spec)
}

fn server(reader: &mut Reader<'_>, place: &Place, node: &Node) -> Option<ServerKind> {
    let names = reader.servers.names(place.layer);
    let choices: Vec<(&str, ())> = names.iter().map(|name| (name.as_str(), ())).collect();
    reader.choice(node, &choices)?;
    match &node.value {
        Value::Text(name) => Some(ServerKind::new(name)),
        _ => None,
    }
}

fn settings(
    reader: &mut Reader<'_>,
    place: &Place,
    server: &ServerKind,
    node: &Node,
) -> BTreeMap<String, String> {
    let tunables = reader.servers.tunables(place.layer, server);
    let mut values = BTreeMap::new();
    for entry in reader.entries(
        node,
        "a table of settings, such as { \"NAME\" = \"VALUE\" }",
    ) {
        if SettingKey::new(place.layer, &entry.key).is_sysctl() {
            let message = format!("`{}` is a kernel setting, not one of {server}", entry.key);
            let home = format!("it in `sysctl` of [{}]", place.host);
            reader.wrong(entry.key_at, message, home);
            continue;
        }
        match tunables.iter().find(|tunable| tunable.name == entry.key) {
            Some(tunable) => value(reader, entry, Some(tunable), &mut values),
            None => unknown_setting(reader, server, &tunables, &entry.key, entry.key_at),
        }
    }
    values
}

/// Notes a setting the server does not have.
fn unknown_setting(
    reader: &mut Reader<'_>,
    server: &ServerKind,
    tunables: &[Tunable],
    name: &str,
    at: Span,
) {
    let names = tunables.iter().map(|tunable| tunable.name.as_str());
    let near = nearest(name, names.clone());
    let expected = match tunables.len() {
        0..=12 => alternatives(names),
        many => format!("one of the {many} settings of {server}"),
    };
    let message = format!("{server} has no setting `{name}`");
    let problem = reader.wrong(at, message, expected);
    if let Some(near) = near {
        problem.help(format!("did you mean `{near}`?"));
    }
}

/// Takes over one setting, when its value is possible.
fn value(
    reader: &mut Reader<'_>,
    entry: &Entry,
    tunable: Option<&Tunable>,
    into: &mut BTreeMap<String, String>,
) {
    let Some(mut spelled) = reader.plain(&entry.node) else {
        return;
    };
    if let Some(ValueKind::Switch { off, on }) = tunable.map(|tunable| &tunable.values) {
        spelled = match switch(&spelled) {
            Some(true) => on.clone(),
            Some(false) => off.clone(),
            None => spelled,
        };
    }
    let verdict = match tunable {
        Some(tunable) => check_value(tunable, &spelled),
        None if spelled.chars().any(char::is_control) => Err("a value on one line".into()),
        None => Ok(()),
    };
    if let Err(expected) = verdict {
        let message = format!("`{}` cannot be `{spelled}`", entry.key);
        reader.wrong(entry.node.at, message, expected);
    } else if into.insert(entry.key.clone(), spelled).is_some() {
        let message = format!("`{}` is set twice", entry.key);
        reader.wrong(entry.key_at, message, "each setting once");
    }
}

/// Reads the limits of the hosts.
pub(super) fn read_hosts(
    reader: &mut Reader<'_>,
    top: &Section<'_>,
    tiers: &[TierSpec],
) -> BTreeMap<Layer, HostLimits> {
    let mut limits = BTreeMap::new();
    let Some(hosts) = top
        .get("hosts")
        .and_then(|node| reader.section(node, "hosts"))
    else {
        return limits;
    };
    for place in CHAIN {
        let layer = place.layer;
        let Some(node) = hosts.get(layer.name()) else {
            continue;
        };
        if !tiers.iter().any(|tier| tier.layer == layer) {
            let message = format!("limits for `{layer}`, which is not in the chain");
            let present = tiers.iter().map(|tier| tier.layer.name());
            reader.wrong(node.at, message, alternatives(present));
        }
        if let Some(section) = reader.section(node, place.host) {
            let of_layer = tiers.iter().find(|tier| tier.layer == layer);
            let is_nginx = of_layer.is_some_and(|tier| tier.server.as_str() == "nginx");
            limits.insert(layer, host(reader, is_nginx, &section));
        }
    }
    limits
}

/// How many generators send from hosts of their own, where the scenario says so.
pub(super) fn read_generators(reader: &mut Reader<'_>, top: &Section<'_>) -> Option<u32> {
    let node = top.get("generators")?;
    let section = reader.section(node, "generators")?;
    match section.get("count") {
        Some(count) => reader.whole(count, 1, MOST_GENERATORS),
        None => {
            reader.missing(Some(node.at), "count", "a number of agents, such as 3");
            None
        }
    }
}

fn host(reader: &mut Reader<'_>, is_nginx: bool, section: &Section<'_>) -> HostLimits {
    const CORES: &str = "a number of cores from 0.01 to 4096, such as 1.5";
    let cpus = section.get("cpus");
    const MEGABITS: &str = "megabits a second from 0.1 to 400000, such as 100";
    let memory = section.get("memory");
    let disk = section.get("disk_iops");
    let link = section.get("link_mbit");
    const KIB: &str = "KiB a second from 0.1 to 4000000, such as 64";
    let log = section.get("log_pipe_kib_s");
    if let Some(node) = log.filter(|_| !is_nginx) {
        let message = "only the access log of nginx can be a pipe";
        reader.wrong(node.at, message, "the host of a tier that nginx serves");
    }
    let mut limits = HostLimits {
        cpus: cpus.and_then(|node| reader.number(node, 0.01, 4096.0, CORES)),
        memory_bytes: memory.and_then(|node| reader.memory(node)),
        disk_iops: disk.and_then(|node| reader.whole(node, 1, 10_000_000)),
        link_mbit: link.and_then(|node| reader.number(node, 0.1, 400_000.0, MEGABITS)),
        log_pipe_kib_s: log.and_then(|node| reader.number(node, 0.1, 4_000_000.0, KIB)),
        sysctl: BTreeMap::new(),
    };
    let Some(node) = section.get("sysctl") else {
        return limits;
    };
    for entry in reader.entries(node, "a table of kernel settings") {
        let name = &entry.key;
        let plain = |c: char| c.is_ascii_alphanumeric() || "._-/".contains(c);
        let good = SettingKey::new(Layer::Web, name).is_sysctl()
            && name.chars().all(plain)
            && !name.contains("..");
        if !good {
            let message = format!("`{name}` is not a kernel setting");
            let expected = "a name that begins with net., vm. or fs., such as net.core.somaxconn";
            reader.wrong(entry.key_at, message, expected);
            continue;
        }
        value(reader, entry, None, &mut limits.sysctl);
    }
    limits
}

/// Checks that a key of `tune.keep` names something that exists.
pub(super) fn check_key(
    reader: &mut Reader<'_>,
    key: &SettingKey,
    at: Span,
    tiers: &[TierSpec],
    app_settings: &BTreeSet<&str>,
) {
    let servers: &dyn Servers = reader.servers;
    if Change::of(key).is_some() {
        if let Err(message) = changes::check(key, tiers) {
            reader.wrong(at, message, Change::NAMES);
        }
        return;
    }
    if key.layer == Layer::App {
        if !app_settings.contains(key.name.as_str()) {
            let message = format!("the application declares no setting `{}`", key.name);
            reader.wrong(at, message, "the name of an [[app.setting]]");
        }
        return;
    }
    let Some(tier) = tiers.iter().find(|tier| tier.layer == key.layer) else {
        let message = format!("`{}` is not in the chain", key.layer);
        let present = tiers.iter().map(|tier| tier.layer.name());
        reader.wrong(at, message, alternatives(present));
        return;
    };
    let tunables = servers.tunables(tier.layer, &tier.server);
    let known = tunables.iter().any(|tunable| tunable.name == key.name);
    if !key.is_sysctl() && !known {
        unknown_setting(reader, &tier.server, &tunables, &key.name, at);
    }
}
