//! Reads `kneepoint.toml` into a [`Scenario`] that holds nothing impossible.
//!
//! Every key is in one list ([`keys::all`]), every message points at the line that is wrong, and all of
//! them are told at once. It starts nothing and writes nothing. It reads the files that requests send and
//! take values from, and the access log of `mix`; of the others it asks only whether they exist, and of an
//! `[[app.file]]` whether the text to replace is there.

mod app;
mod error;
pub mod keys;
mod known;
mod peer;
mod reader;
mod stack;
mod suggest;
#[cfg(test)]
mod tests;
mod tune;
mod values;
mod workload;

pub(crate) use app::{FRONTS, KINDS};
pub use error::{ConfigError, ConfigErrors, TextPosition};
pub use keys::reference;
pub use known::StackServers;
pub use reader::changes::{check as check_change, check_text as check_change_text};
pub use values::check_value;

use kneepoint_model::{Layer, Scenario, ServerKind, Tunable};
use reader::{Reader, changes, tree};
use std::borrow::Cow;
use std::ffi::OsStr;
use std::path::Path;

/// Largest scenario file that is read, in bytes. A thousand requests fit in a tenth of it.
const LARGEST_FILE_BYTES: u64 = 1 << 20;

/// What a scenario may name. The caller answers from the stack crate.
pub trait Servers {
    /// The programs that can serve a layer, by their names in a scenario.
    fn names(&self, layer: Layer) -> Vec<String>;

    /// The settings of a program; empty when the program is not known.
    fn tunables(&self, layer: Layer, server: &ServerKind) -> Vec<Tunable>;

    /// Whether a PHP runtime is a web server, too.
    fn speaks_http(&self, runtime: &str) -> bool;
}

/// A piece of TOML to lay over a scenario: the fault bench's way of breaking one.
#[derive(Clone, Copy)]
pub struct Patch<'a> {
    /// How messages call it: its file.
    pub name: &'a str,
    /// Directory its paths are relative to.
    pub dir: &'a Path,
    /// Keys of a scenario. Tables are merged key by key, everything else (arrays too) is replaced whole.
    pub text: &'a str,
}

/// One of the texts a scenario is made of.
struct Source<'a> {
    file: &'a str,
    dir: &'a Path,
    text: &'a str,
}

/// Reads a scenario file.
///
/// # Errors
/// The file cannot be read, or everything that is wrong in it.
pub fn load(path: &Path) -> Result<Scenario, ConfigErrors> {
    load_with(path, &[], &StackServers)
}

/// Reads a scenario file with a piece of TOML laid over it, its paths relative to the scenario's directory.
///
/// # Errors
/// As [`load`], in either text.
pub fn load_with_patch(path: &Path, text: &str) -> Result<Scenario, ConfigErrors> {
    let patch = Patch {
        name: "the patch",
        dir: directory_of(path),
        text,
    };
    load_with_patches(path, &[patch])
}

/// Reads a scenario file with patches laid over it in their order; errors name the patch they are in.
///
/// # Errors
/// As [`load`], in any of the texts.
pub fn load_with_patches(path: &Path, patches: &[Patch<'_>]) -> Result<Scenario, ConfigErrors> {
    load_with(path, patches, &StackServers)
}

/// Reads a scenario file, with patches laid over it in their order.
fn load_with(
    path: &Path,
    patches: &[Patch<'_>],
    servers: &dyn Servers,
) -> Result<Scenario, ConfigErrors> {
    let file = path.display().to_string();
    let text = read_file(path).map_err(|message| {
        let help = "name an existing scenario, or write one with `kneepoint init`";
        ConfigErrors::unreadable(&file, message, help)
    })?;
    let mut sources = vec![Source {
        file: &file,
        dir: directory_of(path),
        text: &text,
    }];
    sources.extend(patches.iter().map(|patch| Source {
        file: patch.name,
        dir: patch.dir,
        text: patch.text,
    }));
    build(&sources, servers)
}

fn directory_of(path: &Path) -> &Path {
    match path.parent() {
        Some(dir) if dir != Path::new("") => dir,
        _ => Path::new("."),
    }
}

fn read_file(path: &Path) -> Result<String, String> {
    let unreadable = |error: std::io::Error| format!("cannot be read: {error}");
    let metadata = std::fs::metadata(path).map_err(unreadable)?;
    if !metadata.is_file() {
        return Err("is not a file".into());
    }
    if metadata.len() > LARGEST_FILE_BYTES {
        return Err(format!("is larger than {LARGEST_FILE_BYTES} bytes"));
    }
    let bytes = std::fs::read(path).map_err(unreadable)?;
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        format!("is not UTF-8 text (byte {at})")
    })
}

/// Reads a scenario from text. `file` is how messages call it; paths are relative to `dir`.
///
/// # Errors
/// Everything that is wrong in the text.
pub fn parse(
    text: &str,
    dir: &Path,
    file: &str,
    servers: &dyn Servers,
) -> Result<Scenario, ConfigErrors> {
    build(&[Source { file, dir, text }], servers)
}

fn build(sources: &[Source<'_>], servers: &dyn Servers) -> Result<Scenario, ConfigErrors> {
    let mut reader = Reader::new(sources, servers);
    let mut document = tree::Table::default();
    let mut readable = true;
    for (index, source) in sources.iter().enumerate() {
        let (table, errors) = tree::parse(index, source.text);
        readable &= errors.is_empty();
        errors.into_iter().for_each(|error| reader.syntax(error));
        tree::merge(&mut document, table);
    }
    // What the parser lost would be reported a second time, as missing or of the wrong type.
    let scenario = match readable {
        true => scenario(&mut reader, &document, &sources[0]),
        false => None,
    };
    reader.finish(scenario)
}

fn scenario(
    reader: &mut Reader<'_>,
    document: &tree::Table,
    source: &Source<'_>,
) -> Option<Scenario> {
    let top = reader.top(document);
    let tiers = stack::read(reader, &top);
    let executes_php = tiers.iter().any(|tier| tier.layer == Layer::Php);
    let app = app::read(reader, &top, executes_php);
    let hosts = stack::read_hosts(reader, &top, &tiers);
    let generators = stack::read_generators(reader, &top);
    let peers = peer::read(reader, &top);
    let jobs = stack::read_jobs(reader, &top, executes_php);
    let workload = workload::read(reader, &top);
    let slo = workload::read_slo(reader, &top);
    let declared = app.as_ref().map_or(&[][..], |app| &app.settings);
    let budget = tune::read(reader, &top, &tiers, declared);
    let changes = changes::read(reader, &top, &tiers);
    let app = app?;
    Some(Scenario {
        name: name(source, &app),
        root: app.root,
        front: app.front,
        kind: app.kind,
        env: app.env,
        app_settings: app.settings,
        app_files: app.files,
        changes,
        unreachable: app.unreachable,
        peers,
        jobs,
        tiers,
        generators,
        hosts,
        workload,
        slo,
        budget,
    })
}

/// Directories that many applications have: their names say nothing.
const EVERYBODYS: [&str; 12] = [
    "app",
    "code",
    "current",
    "htdocs",
    "html",
    "public",
    "public_html",
    "site",
    "src",
    "web",
    "webroot",
    "www",
];

/// What runs and reports are called after: the application's own name where it is given, else its directory, or the one
/// around it where that is called as many are. The file's name only where that says more.
fn name(source: &Source<'_>, app: &app::App) -> String {
    if let Some(name) = &app.name {
        return name.clone();
    }
    let directories = app.root.ancestors().take(2).filter_map(Path::file_name);
    let own = directories
        .map(OsStr::to_string_lossy)
        .find(|name| !EVERYBODYS.contains(&name.as_ref()));
    let stem = Path::new(source.file)
        .file_stem()
        .map(OsStr::to_string_lossy);
    let stem = stem.filter(|stem| stem != "kneepoint");
    let root = app.root.file_name().map(OsStr::to_string_lossy);
    own.or(stem)
        .or(root)
        .map_or_else(|| "kneepoint".into(), Cow::into_owned)
}
