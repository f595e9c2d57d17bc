//! nginx: its files as one tree, and what is in force at each place where it hands requests on.

mod syntax;
mod variables;

use super::{Reader, Subject, option};
use crate::files;
use crate::process::Program;
use crate::snapshot::{
    Nginx, Pass, ReadFile, SettingSource, SettingValue, Settings, Upstream, WebService,
};
use std::collections::HashMap;
use std::sync::Arc;
use syntax::{Directive, parse};
use variables::Variables;

/// The directives that hand requests on.
const PASSES: [&str; 5] = [
    "fastcgi_pass",
    "proxy_pass",
    "uwsgi_pass",
    "scgi_pass",
    "grpc_pass",
];
/// Blocks that hold tables of values.
const DATA: [&str; 4] = ["geo", "map", "split_clients", "types"];
/// Directives that are lists: those of a level replace all of the levels around it.
const LISTS: [&str; 5] = [
    "proxy_set_header",
    "fastcgi_param",
    "access_log",
    "error_log",
    "add_header",
];

/// What is configured.
pub(crate) struct Configured {
    /// Of the main level, of `events` and of `http`.
    pub(crate) settings: Settings,
    /// Servers, upstreams and what is handed on.
    pub(crate) nginx: Nginx,
    /// The files.
    pub(crate) files: Vec<ReadFile>,
    /// What could not be read.
    pub(crate) blind: Vec<crate::snapshot::Blind>,
    /// Root directories that are named.
    pub(crate) roots: Vec<String>,
    /// Where it logs errors where nothing says so.
    pub(crate) error_log: Option<String>,
}

/// Reads what a process of nginx has in force.
pub(crate) fn read(subject: &Subject<'_>, program: &Program) -> Configured {
    let prefix = option(subject.args, &["-p"])
        .or(program.word(2))
        .map_or("/etc/nginx", |prefix| prefix.trim_end_matches('/'));
    let prefix = files::absolute(subject.cwd, prefix);
    let named = option(subject.args, &["-c"]).or(program.word(1));
    let path = files::absolute(&prefix, named.unwrap_or("/etc/nginx/nginx.conf"));
    let mut reader = Reader::new(subject);
    // The title of a master holds its arguments behind its own words.
    let text = reader.must(&path).unwrap_or_default();
    let tree = load(&mut reader, &text, &path, files::parent(&path));
    let log = program.word(4).map(|path| files::absolute(&prefix, path));
    let mut walk = Walk {
        access_log: log,
        ..Walk::default()
    };
    for flag in flags(subject.args) {
        if let Ok(directives) = parse(&flag) {
            walk.main(&directives, &|_| SettingSource::Flag);
        }
    }
    walk.tree(&tree);
    let (files, blind) = reader.done();
    Configured {
        settings: walk.settings,
        nginx: walk.nginx,
        files,
        blind,
        roots: walk.roots,
        error_log: program.word(3).map(str::to_owned),
    }
}

/// Directives of the command line: `-g "daemon off;"`.
fn flags(args: &[String]) -> Vec<String> {
    let behind = args.windows(2).filter(|pair| pair[0] == "-g");
    behind
        .map(|pair| format!("{};", pair[1].trim_end_matches([';', ' '])))
        .collect()
}

/// A directive with the file it is in.
struct Placed {
    directive: Directive,
    file: String,
    inside: Vec<Placed>,
}

impl Placed {
    fn source(&self) -> SettingSource {
        SettingSource::file(&self.file, self.directive.line)
    }

    fn value(&self) -> SettingValue {
        SettingValue::new(&self.directive.args.join(" "), self.source())
    }
}

/// Parses a text, with what it includes in its place.
fn load(reader: &mut Reader<'_>, text: &str, path: &str, home: &str) -> Vec<Placed> {
    match parse(text) {
        Ok(directives) => place(reader, directives, path, home),
        Err((line, why)) => {
            let what = format!("{path}:{line}");
            reader.unread(
                &what,
                why,
                "run `nginx -t`: what is on disk is not what runs",
            );
            Vec::new()
        }
    }
}

fn place(
    reader: &mut Reader<'_>,
    directives: Vec<Directive>,
    path: &str,
    home: &str,
) -> Vec<Placed> {
    let mut placed = Vec::new();
    for mut directive in directives {
        if directive.name == "include" && directive.args.len() == 1 {
            let pattern = files::absolute(home, &directive.args[0]);
            for (file, text) in reader.included(&pattern) {
                let more = reader.deeper(|reader| load(reader, &text, &file, home));
                placed.extend(more);
            }
            continue;
        }
        let inside = std::mem::take(&mut directive.inside);
        // Tables may have a million lines, and none is a directive.
        if DATA.contains(&directive.name.as_str()) {
            let included = inside.iter().filter(|one| one.name == "include");
            for pattern in included.filter_map(|one| one.args.first()) {
                reader.data(&files::absolute(home, pattern));
            }
            if directive.name == "map" {
                directive.args.extend(variables::of_map(&inside));
                placed.push(Placed {
                    directive,
                    file: path.to_owned(),
                    inside: Vec::new(),
                });
            }
            continue;
        }
        let inside = place(reader, inside, path, home);
        placed.push(Placed {
            directive,
            file: path.to_owned(),
            inside,
        });
    }
    placed
}

#[derive(Default)]
struct Walk {
    settings: Settings,
    nginx: Nginx,
    roots: Vec<String>,
    /// Where it was built to log requests.
    access_log: Option<String>,
}

impl Walk {
    fn main(&mut self, directives: &[Directive], source: &dyn Fn(usize) -> SettingSource) {
        for one in directives {
            self.settings
                .set(&one.name, &one.args.join(" "), source(one.line));
        }
    }

    fn tree(&mut self, tree: &[Placed]) {
        for placed in tree.iter().filter(|one| one.directive.name != "http") {
            match placed.directive.name.as_str() {
                "events" => set_all(&mut self.settings, &placed.inside),
                "stream" | "mail" => {}
                _ => set(&mut self.settings, placed),
            }
        }
        for http in tree.iter().filter(|one| one.directive.name == "http") {
            let mut around = Settings::default();
            set_all(&mut around, &http.inside);
            // It holds where no level says another.
            if let (None, Some(log)) = (around.get("access_log"), &self.access_log) {
                around.set(
                    "access_log",
                    &format!("{log} combined"),
                    SettingSource::Default,
                );
            }
            let around = Arc::new(around);
            set_all(&mut self.settings, &http.inside);
            self.find_roots(&http.inside);
            let variables = Variables::of(&http.inside);
            for inside in &http.inside {
                match inside.directive.name.as_str() {
                    "upstream" => self.upstream(inside),
                    "server" => self.server(inside, &around, &variables),
                    _ => {}
                }
            }
        }
        let upstreams = self.nginx.upstreams.iter().enumerate().rev();
        // Of several of one name, the first.
        let named: HashMap<&str, usize> =
            upstreams.map(|(at, one)| (one.name.as_str(), at)).collect();
        for pass in &mut self.nginx.passes {
            let target = host_of(&pass.directive, &pass.target.text);
            pass.upstream = named.get(target.as_str()).copied();
        }
    }

    fn upstream(&mut self, block: &Placed) {
        let mut upstream = Upstream {
            name: block.directive.args.first().cloned().unwrap_or_default(),
            at: Some(block.source()),
            ..Upstream::default()
        };
        for inside in &block.inside {
            match inside.directive.name.as_str() {
                "server" => upstream.servers.push(inside.value()),
                _ => set(&mut upstream.settings, inside),
            }
        }
        self.nginx.upstreams.push(upstream);
    }

    fn server(&mut self, block: &Placed, around: &Arc<Settings>, variables: &Variables) {
        let mut server = WebService::default();
        for inside in &block.inside {
            match inside.directive.name.as_str() {
                "listen" => server.listens.push(inside.value()),
                "server_name" => server.names.extend(inside.directive.args.iter().cloned()),
                _ => {}
            }
        }
        let settings = Arc::new(level(around, &block.inside));
        server.settings = Settings::within(&settings);
        let name = server.names.first().cloned().unwrap_or_default();
        self.find_roots(&block.inside);
        self.nginx.servers.push(server);
        let variables = variables.with(&block.inside);
        self.locations(&block.inside, &settings, (&name, &variables));
    }

    fn locations(
        &mut self,
        inside: &[Placed],
        around: &Arc<Settings>,
        (server, variables): (&str, &Variables),
    ) {
        for placed in inside {
            let name = placed.directive.name.as_str();
            if PASSES.contains(&name) && !placed.directive.args.is_empty() {
                let written = placed.directive.args.join(" ");
                let targets = variables.targets(&written);
                let passes = targets.into_iter().map(|target| Pass {
                    directive: name.to_owned(),
                    target: SettingValue::new(&target, placed.source()),
                    by_variable: host_of(name, &written).contains('$'),
                    upstream: None,
                    settings: Settings::within(around),
                    sets_headers: inside
                        .iter()
                        .any(|one| one.directive.name == "proxy_set_header"),
                    server: server.to_owned(),
                });
                self.nginx.passes.extend(passes);
            }
            if matches!(name, "location" | "if" | "limit_except") {
                let settings = Arc::new(level(around, &placed.inside));
                self.find_roots(&placed.inside);
                self.locations(&placed.inside, &settings, (server, variables));
            }
        }
    }

    fn find_roots(&mut self, inside: &[Placed]) {
        for placed in inside.iter().filter(|one| one.directive.name == "root") {
            let path = placed.directive.args.first();
            let path = path.filter(|path| path.starts_with('/') && !path.contains('$'));
            self.roots
                .extend(path.map(|path| path.trim_end_matches('/').to_owned()));
        }
    }
}

/// The settings of a level: its own over those around it.
fn level(around: &Arc<Settings>, inside: &[Placed]) -> Settings {
    let mut settings = Settings::within(around);
    for list in LISTS {
        if inside.iter().any(|one| one.directive.name == list) {
            settings.hide(list);
        }
    }
    for placed in inside.iter().filter(|one| !one.directive.is_block) {
        match placed.directive.name.as_str() {
            // Logs stand beside each other: every line of a level counts.
            "access_log" | "error_log" => set(&mut settings, placed),
            // What a level says replaces nothing: it holds for this level only.
            _ => {
                let name = key(placed);
                let text = text(placed, &name);
                settings.put(&name, SettingValue::new(&text, placed.source()));
            }
        }
    }
    settings
}

fn set_all(settings: &mut Settings, inside: &[Placed]) {
    for placed in inside {
        set(settings, placed);
    }
}

/// The name under which a directive is kept: headers and parameters each by their own.
fn key(placed: &Placed) -> String {
    let directive = &placed.directive;
    match (directive.name.as_str(), directive.args.first()) {
        // Formats of logs have names, and several of them stand beside each other.
        ("log_format", Some(first)) => format!("log_format {first}"),
        (name @ ("proxy_set_header" | "fastcgi_param" | "add_header"), Some(first)) => {
            format!("{name} {}", first.to_ascii_lowercase())
        }
        (name, _) => name.to_owned(),
    }
}

fn set(settings: &mut Settings, placed: &Placed) {
    if !placed.directive.is_block {
        let name = key(placed);
        settings.set(&name, &text(placed, &name), placed.source());
    }
}

/// What a directive says, without what is part of its name.
fn text(placed: &Placed, name: &str) -> String {
    let directive = &placed.directive;
    let skip = usize::from(name.contains(' '));
    // nginx takes the pieces of a format as one text.
    let is_format = directive.name == "log_format";
    let between = if is_format { "" } else { " " };
    let args = directive.args.iter().skip(skip);
    let args = args.filter(|arg| !(is_format && arg.starts_with("escape=")));
    let args: Vec<&str> = args.map(String::as_str).collect();
    args.join(between)
}

/// The host that a pass names, or the name of its upstream.
pub(crate) fn host_of(directive: &str, target: &str) -> String {
    let rest = match directive {
        "proxy_pass" | "grpc_pass" => target.split_once("://").map_or(target, |(_, rest)| rest),
        _ => target,
    };
    match rest.strip_prefix("unix:") {
        Some(path) => format!("unix:{}", path.split(':').next().unwrap_or(path)),
        None => {
            // What begins a path may stand in a variable of nginx's own.
            let paths = ["/", "$request_uri", "$uri", "$is_args"];
            let ends = paths.iter().filter_map(|begin| rest.find(begin)).min();
            rest[..ends.unwrap_or(rest.len())].to_owned()
        }
    }
}

#[cfg(test)]
mod tests;
