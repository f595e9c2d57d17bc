//! `[app]`: what is served.

use crate::config::reader::files;
use crate::config::reader::tree::{Node, Value};
use crate::config::reader::{Reader, Section};
use crate::config::values::alternatives;
use kneepoint_model::scenario::FilePatch;
use kneepoint_model::{AppKind, AppSetting, Change, Layer, SettingKey};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

pub(crate) const KINDS: &[(&str, AppKind)] = &[
    ("laravel", AppKind::Laravel),
    ("symfony", AppKind::Symfony),
    ("wordpress", AppKind::Wordpress),
    ("mediawiki", AppKind::Mediawiki),
    ("plain", AppKind::Plain),
];

/// Where front controllers are, in the order they are looked for.
pub(crate) const FRONTS: &[&str] = &["public/index.php", "index.php"];

/// Where a chain without PHP has its first page.
const STATIC_FRONTS: &[&str] = &["public/index.html", "index.html"];

/// What `[app]` says.
pub(super) struct App {
    /// What runs and reports call it; `None` where nobody says.
    pub(super) name: Option<String>,
    pub(super) root: PathBuf,
    pub(super) front: PathBuf,
    pub(super) kind: AppKind,
    pub(super) env: BTreeMap<String, String>,
    pub(super) settings: Vec<AppSetting>,
    pub(super) files: Vec<FilePatch>,
    pub(super) unreachable: Vec<String>,
}

/// Reads `[app]`. `executes_php` is false for a chain that only serves files.
pub(super) fn read(reader: &mut Reader<'_>, top: &Section<'_>, executes_php: bool) -> Option<App> {
    const WANTED: &str = "the application's directory, such as root = \".\" under [app]";
    let Some(node) = top.get("app") else {
        reader.missing(None, "app.root", WANTED);
        return None;
    };
    let app = reader.section(node, "app")?;
    let settings = app
        .get("setting")
        .map_or_else(Vec::new, |node| settings(reader, node));
    let env = app
        .get("env")
        .map_or_else(BTreeMap::new, |node| env(reader, node, &settings));
    let kind = app.get("kind").map(|node| reader.choice(node, KINDS));
    let unreachable = app
        .get("unreachable")
        .map_or_else(Vec::new, |node| unreachable(reader, node));
    let name = app
        .get("name")
        .and_then(|node| reader.text(node, "a name for reports, such as \"shop\""))
        .map(str::to_owned);
    let Some(root_node) = app.get("root") else {
        reader.missing(Some(app.at), "app.root", WANTED);
        return None;
    };
    let root = root(reader, root_node)?;
    let files = app
        .get("file")
        .map_or_else(Vec::new, |node| files::read(reader, node, &root));
    let front = match app.get("front") {
        Some(node) => front(reader, node, &root),
        None => find_front(reader, root_node, &root, executes_php),
    };
    Some(App {
        name,
        root,
        front: front?,
        kind: kind.flatten().unwrap_or_default(),
        env,
        settings,
        files,
        unreachable,
    })
}

fn unreachable(reader: &mut Reader<'_>, node: &Node) -> Vec<String> {
    const EXPECTED: &str = "hosts, addresses or paths of sockets, such as [\"api.example.org\"]";
    let mut seen = BTreeSet::new();
    let mut names = Vec::new();
    for item in reader.array(node, EXPECTED) {
        let Some(name) = reader.text(item, EXPECTED) else {
            continue;
        };
        if name.contains("://") {
            let message = format!("`{name}` is an address of a page");
            reader.wrong(
                item.at,
                message,
                "the host in it alone, such as \"api.example.org\"",
            );
        } else if reader.distinct(&mut seen, name, item.at) {
            names.push(name.to_owned());
        }
    }
    names
}

fn root(reader: &mut Reader<'_>, node: &Node) -> Option<PathBuf> {
    let written = reader.text(node, "a directory")?;
    let source = reader.source(node.at);
    let path = source.dir.join(written).canonicalize().ok();
    let path = path.filter(|path| path.is_dir());
    if path.is_none() {
        let expected = format!("a directory, relative to the directory of {}", source.file);
        reader.wrong(node.at, format!("`{written}` is no directory"), expected);
    }
    path
}

fn front(reader: &mut Reader<'_>, node: &Node, root: &Path) -> Option<PathBuf> {
    const EXPECTED: &str = "a file within app.root, such as \"public/index.php\"";
    let written = reader.text(node, EXPECTED)?;
    let problem = match files::within_app(written) {
        None => "leads out of app.root",
        Some(front) if root.join(&front).is_file() => return Some(front),
        Some(_) => "is no file within app.root",
    };
    reader.wrong(node.at, format!("`{written}` {problem}"), EXPECTED);
    None
}

fn find_front(
    reader: &mut Reader<'_>,
    root_node: &Node,
    root: &Path,
    executes_php: bool,
) -> Option<PathBuf> {
    let fronts = FRONTS.iter();
    let candidates: Vec<&str> = match executes_php {
        true => fronts.copied().collect(),
        false => fronts.chain(STATIC_FRONTS).copied().collect(),
    };
    let found = candidates.iter().find(|front| root.join(front).is_file());
    if found.is_none() {
        let expected = format!("{} in it", alternatives(candidates.iter().copied()));
        let message = "this directory has no front controller";
        let problem = reader.wrong(root_node.at, message, expected);
        problem.help("name it: front = \"PATH\", relative to app.root");
    }
    found.map(PathBuf::from)
}

fn settings(reader: &mut Reader<'_>, node: &Node) -> Vec<AppSetting> {
    let mut seen = BTreeSet::new();
    let items = reader.array(node, "[[app.setting]] tables with name, env and values");
    items
        .iter()
        .filter_map(|item| setting(reader, item, &mut seen))
        .collect()
}

fn setting(
    reader: &mut Reader<'_>,
    node: &Node,
    seen: &mut BTreeSet<String>,
) -> Option<AppSetting> {
    let section = reader.section(node, "app.setting")?;
    let mut required = |key, expected| {
        let node = section.get(key);
        if node.is_none() {
            reader.missing(Some(section.at), &format!("app.setting.{key}"), expected);
        }
        node
    };
    let name = required("name", "a name such as \"redis.persistent\"");
    let env = required(
        "env",
        "an environment variable such as \"REDIS_PERSISTENT\"",
    );
    let values = required(
        "values",
        "the values it takes, such as [\"false\", \"true\"]",
    );
    let name = name.and_then(|node| setting_name(reader, node, seen));
    let env = env.and_then(|node| {
        let name = reader.text(node, "an environment variable")?;
        env_name(reader, name, node).then(|| name.to_owned())
    });
    let values = values.and_then(|node| setting_values(reader, node));
    Some(AppSetting {
        name: name?,
        env: env?,
        values: values?,
    })
}

fn setting_name(
    reader: &mut Reader<'_>,
    node: &Node,
    seen: &mut BTreeSet<String>,
) -> Option<String> {
    const EXPECTED: &str = "letters, digits, `.`, `_` and `-`, such as \"redis.persistent\"";
    let name = reader.text(node, EXPECTED)?;
    let plain = |c: char| c.is_ascii_alphanumeric() || ".-_".contains(c);
    if !name.chars().all(plain) {
        reader.wrong(node.at, format!("`{name}` is no name"), EXPECTED);
        return None;
    }
    if Change::of(&SettingKey::new(Layer::App, name)).is_some() {
        let message = format!("`{name}` is the name of a change and not of a setting");
        reader.wrong(node.at, message, "another name, such as \"mode\"");
        return None;
    }
    reader
        .distinct(seen, name, node.at)
        .then(|| name.to_owned())
}

fn setting_values(reader: &mut Reader<'_>, node: &Node) -> Option<Vec<String>> {
    const EXPECTED: &str = "at least two values, such as [\"false\", \"true\"]";
    let mut seen = BTreeSet::new();
    let items = reader.array(node, EXPECTED);
    let mut values = Vec::new();
    for item in items {
        let value = reader.plain(item)?;
        if reader.distinct(&mut seen, &value, item.at) {
            values.push(value);
        }
    }
    if items.len() < 2 {
        if matches!(node.value, Value::Array(_)) {
            reader.wrong(node.at, "nothing to choose from", EXPECTED);
        }
        return None;
    }
    Some(values)
}

/// The environment. Its values are secrets: no message repeats one.
fn env(reader: &mut Reader<'_>, node: &Node, settings: &[AppSetting]) -> BTreeMap<String, String> {
    let mut env = BTreeMap::new();
    for entry in reader.entries(node, "a table of names and values") {
        let named = env_name(
            reader,
            &entry.key,
            &Node {
                value: Value::Bool(true),
                at: entry.key_at,
            },
        );
        let Some(value) = reader.plain(&entry.node) else {
            continue;
        };
        if value.contains('\0') {
            reader.wrong(entry.node.at, "found a NUL character", "text without NUL");
        }
        let declared = settings.iter().find(|setting| setting.env == entry.key);
        if let Some(declared) = declared
            && !declared.values.contains(&value)
        {
            let message = format!("not a value of the setting `app.{}`", declared.name);
            let values = declared.values.iter().map(String::as_str);
            reader.wrong(entry.node.at, message, alternatives(values));
        }
        if named {
            env.insert(entry.key.clone(), value);
        }
    }
    env
}

fn env_name(reader: &mut Reader<'_>, name: &str, node: &Node) -> bool {
    let letters = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let good = !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.chars().all(letters);
    if !good {
        let message = format!("`{name}` cannot name an environment variable");
        reader.wrong(node.at, message, "letters, digits and `_`, such as APP_ENV");
    }
    good
}
