//! What to do, in the words of whoever owns the stack: a drop-in for a host, the environment or a mounted file for a
//! container.

mod apply;
mod php;
mod sysctl;
#[cfg(test)]
mod tests;

use crate::config::MYSQL_PERSISTED;
use crate::files::{is_pattern, parent};
use crate::snapshot::{FpmPool, Service, ServiceKind, SettingSource, SettingValue, Settings};
pub use apply::shell_word;
use apply::{apply, apply_all, restart};
use kneepoint_model::redact::shown::has_unseen;
use serde::Serialize;

/// What to do.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Fix {
    /// In words.
    pub text: String,
    /// Directives to write by hand at the place that `text` names, where they are several: one a line.
    pub lines: Vec<String>,
    /// The file to write, where one is enough.
    pub file: Option<FixFile>,
    /// How it takes effect: a command for a shell, or a sentence, which ends with a full stop.
    pub apply: String,
}

/// A file to write.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FixFile {
    /// Its path, as the process sees it.
    pub path: String,
    /// What it holds.
    pub content: String,
    /// Its path from here, where the process has files of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from_here: Option<String>,
}

/// Values in [`Fix::open_files`] and the text of rules: enough for any server of a PHP stack (as systemd's own hard limit
/// was for years).
pub(crate) const OPEN_FILES: u64 = 65_535;

impl FixFile {
    /// A file with this content.
    #[must_use]
    pub fn new(path: impl Into<String>, content: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            content: content.into(),
            from_here: None,
        }
    }
}

impl Fix {
    /// Whether `apply` is a command for a shell.
    #[must_use]
    pub fn is_command(&self) -> bool {
        !self.apply.is_empty() && !self.apply.ends_with('.')
    }

    /// A command that holds a name with characters that nobody sees is none to hand to a shell: it is told instead.
    pub(crate) fn no_unseen_command(&mut self) {
        if self.is_command() && has_unseen(&self.apply) {
            self.apply = "Have the program read its files again. No command is written here: it would hold a name with \
                          characters that cannot be seen."
                .into();
        }
    }

    /// For a process whose files are others than those of their paths here: where they lie, and where its commands run.
    pub(crate) fn within(&mut self, pid: u32, pid_within: Option<u32>) {
        if let Some(file) = &mut self.file {
            file.from_here = Some(format!("/proc/{pid}/root{}", file.path));
        }
        if self.is_command() {
            let signalled = self.apply.strip_suffix(&format!(" {pid}"));
            let command = match (signalled, pid_within) {
                (Some(signal), Some(own)) => shell_word(&format!("{signal} {own}")),
                _ => shell_word(&self.apply),
            };
            // A file that holds a PID holds that of the own namespace.
            let processes = if pid_within.is_some() { " -p" } else { "" };
            self.apply = format!("nsenter -t {pid} -m -n{processes} sh -c {command}");
        }
        if !self.text.is_empty() {
            let place = format!(
                "Process {pid} has files of its own: from here they lie below /proc/{pid}/root."
            );
            self.text = format!("{place} {}", self.text);
        }
    }

    /// What is to be written, a directive a line: what the file holds, or what stands below `text`.
    pub fn written(&self) -> impl Iterator<Item = &str> {
        let file = self.file.iter().flat_map(|file| file.content.lines());
        self.lines.iter().map(String::as_str).chain(file)
    }

    /// All of it but how it takes effect, in one line.
    #[must_use]
    pub fn in_one_line(&self) -> String {
        let written: Vec<&str> = self.written().filter(|line| !line.is_empty()).collect();
        match written.is_empty() {
            true => self.text.clone(),
            // Directives of nginx end with a semicolon themselves.
            false => format!("{} {}", self.text, written.join("; ").replace(";;", ";")),
        }
    }

    /// Something that no setting does.
    pub(crate) fn words(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            ..Self::default()
        }
    }

    /// The same with a sentence before it: what is to be done or known first.
    pub(crate) fn after(mut self, sentence: &str) -> Self {
        self.text = format!("{sentence} {}", self.text);
        self
    }

    /// Directives of a pool.
    pub(crate) fn pool(service: &Service, pool: &FpmPool, directives: &[(&str, String)]) -> Self {
        if let Some(fix) = by_variable(service, &pool.settings, directives) {
            return fix;
        }
        let last = last_of_pools(service, std::iter::once(pool));
        if let Some(fix) = in_lines(service, &pool.settings, &last, &pool.name, directives) {
            return fix;
        }
        let content = section(&pool.name, &assigned(directives));
        Self::drop_in(service, &last, "conf", content)
    }

    /// Directives of PHP-FPM itself.
    pub(crate) fn global(service: &Service, directives: &[(&str, String)]) -> Self {
        if let Some(fix) = by_variable(service, &service.settings, directives) {
            return fix;
        }
        let content = section("global", &assigned(directives));
        let last = last_of_pools(service, service.pools.iter());
        if let Some(fix) = in_lines(service, &service.settings, &last, "global", directives) {
            return fix;
        }
        Self::drop_in(service, &last, "conf", content)
    }

    /// Options of MariaDB or MySQL, each as `name = value`: a file that is read last, with the header without which the
    /// server passes over them. Where no directory of such files is known, or a line outside of one may come later, that
    /// place itself.
    fn options(service: &Service, value: &SettingValue, text: &str) -> Option<Self> {
        let is_dropped = |path: &str| path.ends_with(".cnf") && parent(path).ends_with(".d");
        let holds = match &value.source {
            SettingSource::Default => true,
            source => source.path().is_some_and(is_dropped),
        };
        if !holds {
            return None;
        }
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let mut read = service.files.iter().rev();
        if let Some(last) = read.find(|file| is_dropped(&file.path)) {
            return Some(Self::drop_in(
                service,
                &last.path,
                "cnf",
                section("mysqld", &lines),
            ));
        }
        let mut mains = service.files.iter();
        let main = mains.find(|file| !file.path.ends_with(MYSQL_PERSISTED));
        let place = main.map_or_else(
            || {
                "In a file that the server reads (`mariadbd --help --verbose` names them)"
                    .to_owned()
            },
            |main| format!("In {}", main.path),
        );
        Some(Self::below(service, &place, "mysqld", lines))
    }

    /// Directives for a section of a file that is there.
    fn below(service: &Service, place: &str, section: &str, lines: Vec<String>) -> Self {
        let text = format!("{place}, below [{section}], write:");
        Self {
            apply: apply_all(service, &lines),
            ..Self::listed(text, lines)
        }
    }

    /// One directive behind the words, or several below them.
    fn listed(text: String, lines: Vec<String>) -> Self {
        match lines.as_slice() {
            [] => Self::words(text.trim_end_matches(':')),
            [one] => Self::words(format!("{text} {one}")),
            _ => Self {
                text,
                lines,
                ..Self::default()
            },
        }
    }

    fn drop_in(service: &Service, beside: &str, ending: &str, content: String) -> Self {
        let dir = parent(beside);
        let last = beside.rsplit('/').next().unwrap_or_default();
        let name = ["zz-kneepoint", "zzz-kneepoint", "zzzz-kneepoint"]
            .map(|name| format!("{name}.{ending}"));
        // One that an earlier check proposed goes on: what is added to it stands last.
        let name = name
            .iter()
            .find(|name| name.as_str() >= last)
            .unwrap_or(&name[2]);
        let path = format!("{dir}/{name}");
        let is_there = name == last;
        let text = match &service.place.container {
            None if is_there => format!("Add to {path}:"),
            None => format!("Write {path}:"),
            Some(container) if container.in_pod => match is_there {
                true => format!("Add to the ConfigMap that is mounted at {path}:"),
                false => format!("Mount a ConfigMap with this file at {path}:"),
            },
            Some(container) if is_there => {
                format!(
                    "Add to the file that the {} mounts at {path}:",
                    container.called()
                )
            }
            Some(container) => format!(
                "Mount this file into the {}, in a compose file `volumes: [\"./{name}:{path}:ro\"]`:",
                container.called()
            ),
        };
        Self {
            text,
            lines: Vec::new(),
            file: Some(FixFile::new(path, content)),
            apply: apply(service),
        }
    }

    /// Directives instead of one that is written somewhere, each on a line of its own.
    pub(crate) fn line(service: &Service, value: &SettingValue, text: &str) -> Self {
        let verb = match text.lines().count() {
            1 => "change this setting to",
            _ => "write instead of this setting",
        };
        Self::at(service, value, verb, text)
    }

    /// What belongs beside a line that stays as it is.
    pub(crate) fn beside(service: &Service, value: &SettingValue, text: &str) -> Self {
        Self::at(service, value, "add beside it", text)
    }

    /// A setting that is to go, or else `or`, which may be empty.
    pub(crate) fn without(service: &Service, value: &SettingValue, or: &str) -> Self {
        Self::at(service, value, &format!("remove this setting{or}"), "")
    }

    /// Files are right as they are, and the program is to read them: `text` says so.
    pub(crate) fn reload(service: &Service, text: String) -> Self {
        Self {
            apply: apply(service),
            ..Self::words(text)
        }
    }

    /// Everything is right as it is, and the program is to be started anew: `text` says why.
    pub(crate) fn restarted(service: &Service, text: &str) -> Self {
        Self {
            apply: restart(service, ""),
            ..Self::words(text)
        }
    }

    /// A change that takes effect when the program opens its socket anew: a reload hands the old one on, with the length of
    /// its queue. Words alone need nothing.
    pub(crate) fn after_restart(self, service: &Service) -> Self {
        match self.apply.is_empty() {
            true => self,
            false => Self {
                apply: restart(service, ""),
                ..self
            },
        }
    }

    fn at(service: &Service, value: &SettingValue, verb: &str, text: &str) -> Self {
        if service.kind == ServiceKind::Mysql
            && !text.is_empty()
            && let Some(fix) = Self::options(service, value, text)
        {
            return fix;
        }
        let is_altered = |path: &str| path.ends_with("/postgresql.auto.conf");
        if service.kind == ServiceKind::Postgresql
            && value.source.path().is_some_and(is_altered)
            && !text.is_empty()
        {
            return Self::altered(service, value, text);
        }
        let is_persisted = |path: &str| path.ends_with(MYSQL_PERSISTED);
        if value.source.path().is_some_and(is_persisted) && !text.is_empty() {
            return Self::persisted(service, value, text);
        }
        let (is_flag, place) = match (&value.source, service.files.first()) {
            (SettingSource::Default, Some(file)) if service.kind == ServiceKind::Nginx => {
                // Some lines say themselves where they belong.
                let place = match text.contains("(in ") {
                    true => "",
                    false => nginx_place(text),
                };
                (false, format!("In {}{place}, add", file.path))
            }
            (SettingSource::Default, Some(file)) => (false, format!("In {}, add", file.path)),
            // It was started without a file.
            (SettingSource::Default, None) => (true, "On its command line, add".to_owned()),
            (SettingSource::Flag, _) => (true, format!("On its command line, {verb}")),
            (SettingSource::Memory { .. }, _) => {
                (false, format!("Where it is set at run time, {verb}"))
            }
            (source, _) => (false, format!("In {source}, {verb}")),
        };
        let owner = match &service.place.container {
            Some(container) if container.in_pod => {
                " (the ConfigMap or image it comes from)".to_owned()
            }
            Some(container) => format!(
                " (the file that the {} mounts, or its image)",
                container.called()
            ),
            None => String::new(),
        };
        let directives: Vec<String> = text.lines().map(str::to_owned).collect();
        let apply = apply_all(service, &directives);
        let lines = match is_flag {
            true => text
                .lines()
                .map(|line| as_flag(service.kind, line))
                .collect(),
            false => directives,
        };
        Self {
            apply,
            ..Self::listed(format!("{place}{owner}:"), lines)
        }
    }

    /// Settings of PostgreSQL in the file that nobody edits: PostgreSQL writes it, and it comes after all others.
    fn altered(service: &Service, value: &SettingValue, text: &str) -> Self {
        let directives: Vec<String> = text.lines().map(str::to_owned).collect();
        let as_command = |line: &String| format!("ALTER SYSTEM SET {line};");
        let place = format!(
            "ALTER SYSTEM wrote {}. In psql, as a superuser:",
            value.source
        );
        Self {
            apply: apply_all(service, &directives),
            ..Self::listed(place, directives.iter().map(as_command).collect())
        }
    }

    /// Settings of MySQL in the file that nobody edits: MySQL writes it, and it comes after all others. It takes no units.
    fn persisted(service: &Service, value: &SettingValue, text: &str) -> Self {
        let as_command = |line: &str| {
            let (name, text) = line.split_once(" = ").unwrap_or((line, "DEFAULT"));
            let one = SettingValue::new(text, SettingSource::Default);
            let bytes = one.bytes().map(|bytes| format!("{bytes:.0}"));
            format!(
                "SET PERSIST_ONLY {name} = {};",
                bytes.as_deref().unwrap_or(text)
            )
        };
        let place = format!(
            "SET PERSIST wrote {}. In the client of MySQL, as root:",
            value.source
        );
        Self {
            apply: restart(service, ""),
            ..Self::listed(place, text.lines().map(as_command).collect())
        }
    }

    /// More open files for a service.
    pub(crate) fn open_files(service: &Service) -> Self {
        match (&service.place.container, &service.place.unit) {
            (Some(container), _) if container.in_pod => Self::words(format!(
                "A pod's spec has no limit of open files: `ulimit -n {OPEN_FILES}` before the server in its command, or LimitNOFILE= in \
                 the unit of the node's container runtime."
            )),
            (Some(container), _) => Self::words(format!(
                "For the {}, in a compose file `ulimits: {{nofile: {OPEN_FILES}}}`, and create it anew.",
                container.called()
            )),
            (None, Some(unit)) => {
                let path = format!("/etc/systemd/system/{unit}.d/zz-kneepoint.conf");
                Self {
                    text: format!("Write {path}:"),
                    lines: Vec::new(),
                    file: Some(FixFile::new(
                        path,
                        format!("[Service]\nLimitNOFILE={OPEN_FILES}\n"),
                    )),
                    apply: restart(service, "systemctl daemon-reload"),
                }
            }
            (None, None) => Self::words(format!(
                "Where it is started, before it: `ulimit -n {OPEN_FILES}`; then start it anew."
            )),
        }
    }
}

/// A section with its header.
fn section(name: &str, lines: &[String]) -> String {
    format!("[{name}]\n{}\n", lines.join("\n"))
}

/// `name = value` of each.
fn assigned(directives: &[(&str, String)]) -> Vec<String> {
    let lines = directives.iter();
    lines
        .map(|(name, value)| format!("{name} = {value}"))
        .collect()
}

/// Where nginx takes a directive that nobody has written yet.
fn nginx_place(text: &str) -> &'static str {
    const OUTSIDE: [&str; 8] = [
        "error_log",
        "pcre_jit",
        "thread_pool",
        "worker_cpu_affinity",
        "worker_priority",
        "worker_processes",
        "worker_rlimit_nofile",
        "worker_shutdown_timeout",
    ];
    const EVENTS: [&str; 5] = [
        "accept_mutex",
        "accept_mutex_delay",
        "multi_accept",
        "use",
        "worker_connections",
    ];
    let name = text.split([' ', ';']).next().unwrap_or_default();
    match () {
        () if OUTSIDE.contains(&name) => ", outside of every block",
        () if EVENTS.contains(&name) => ", inside events { }",
        () => ", inside http { }",
    }
}

/// A directive as its program takes it on the command line.
fn as_flag(kind: ServiceKind, line: &str) -> String {
    let assigned = line.split_once(" = ");
    match (kind, assigned) {
        (ServiceKind::Mysql, Some((name, value))) => {
            format!("--{}={value}", name.replace('_', "-"))
        }
        (ServiceKind::Postgresql, Some((name, value))) => format!("-c {name}={value}"),
        (ServiceKind::Redis, _) => format!("--{line}"),
        _ => line.to_owned(),
    }
}

/// The file that is read last of those that define pools.
fn last_of_pools<'a>(service: &'a Service, pools: impl Iterator<Item = &'a FpmPool>) -> String {
    let lines = pools.flat_map(|pool| pool.settings.iter().chain(pool.php.iter()));
    let defined = lines.filter_map(|(_, value)| value.source.path());
    let defined = defined.filter(|path| !path.ends_with(".ini"));
    let when = |path: &str| service.files.iter().position(|file| file.path == path);
    let last = defined.max_by_key(|path| (when(path), *path));
    last.unwrap_or("/etc/php-fpm.d/www.conf").to_owned()
}

/// The very lines of PHP-FPM's files, where a further file would not be read, or would be read before these lines.
fn in_lines(
    service: &Service,
    settings: &Settings,
    last: &str,
    section: &str,
    directives: &[(&str, String)],
) -> Option<Fix> {
    let is_final = |value: &&SettingValue| {
        let path = value.source.path();
        path.is_some_and(|path| !takes_more(service, path))
    };
    let values = directives.iter().filter_map(|(name, _)| settings.get(name));
    let own: Vec<&SettingValue> = values.filter(is_final).collect();
    let lines = assigned(directives);
    if let ([value], [line]) = (own.as_slice(), lines.as_slice()) {
        return Some(Fix::line(service, value, line));
    }
    let place = match takes_more(service, last) {
        true => own.first()?.source.path()?,
        false => last,
    };
    let fix = Fix::below(service, &format!("In {place}"), section, lines);
    let places: Vec<String> = own.iter().map(|value| value.source.to_string()).collect();
    Some(match places.is_empty() {
        true => fix,
        false => fix.after(&format!("Remove {}.", places.join(" and "))),
    })
}

/// Whether PHP-FPM reads whatever file is put beside this one: its main file is one alone, as is one that is included by name.
fn takes_more(service: &Service, path: &str) -> bool {
    if service.files.first().is_some_and(|main| main.path == path) {
        return false;
    }
    let php = service.php.as_ref();
    php.and_then(|php| php.included.as_ref()).is_none_or(|all| {
        let mut all = all.iter().filter(|one| is_pattern(one));
        all.any(|pattern| parent(pattern) == parent(path) && takes_own(pattern))
    })
}

/// Whether a pattern takes the files that are written here, whatever their names begin with.
fn takes_own(pattern: &str) -> bool {
    const OWN: &str = "zz-kneepoint.conf";
    let names = pattern.rsplit('/').next().unwrap_or_default();
    glob::Pattern::new(names).is_ok_and(|names| names.matches(OWN))
}

/// The environment, where that is what sets all of these.
fn by_variable(
    service: &Service,
    settings: &Settings,
    directives: &[(&str, String)],
) -> Option<Fix> {
    let pairs: Option<Vec<String>> = directives
        .iter()
        .map(|(name, value)| match &settings.get(name)?.source {
            SettingSource::Variable { name, .. } => Some(format!("{name}={value}")),
            _ => None,
        })
        .collect();
    let pairs = pairs.filter(|pairs| !pairs.is_empty())?.join(" ");
    let owner = match &service.place.container {
        Some(container) if container.in_pod => "in the pod's `env:`".to_owned(),
        Some(container) => format!(
            "of the {} (`environment:` in a compose file)",
            container.called()
        ),
        None => "of the unit that starts it (`systemctl edit`, Environment=)".to_owned(),
    };
    Some(Fix {
        text: format!("Set in the environment {owner}: {pairs}"),
        apply: "Create it anew: a reload keeps the old environment.".into(),
        ..Fix::default()
    })
}
