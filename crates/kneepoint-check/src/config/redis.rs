//! Redis: its file where its title names one, or one of the usual files that fits where it listens.

use super::{Reader, Subject, lines};
use crate::files;
use crate::snapshot::{ListenEndpoint, Listener, SettingSource, Settings};
use kneepoint_model::redact::HIDDEN;

/// Where distributions and images keep it.
const USUAL: [&str; 6] = [
    "/etc/redis/redis.conf",
    "/etc/redis.conf",
    "/etc/valkey/valkey.conf",
    "/usr/local/etc/redis/redis.conf",
    "/usr/local/etc/valkey/valkey.conf",
    "/etc/redis/6379.conf",
];

/// What is in force; `None` where nothing tells which file or flags it was started with. Redis writes over its command
/// line, so that often only the files are known.
pub(crate) fn read(
    subject: &Subject<'_>,
    reader: &mut Reader<'_>,
    listens: &[Listener],
) -> Option<Settings> {
    let mut settings = Settings::default();
    let named = subject.args.get(1).filter(|arg| arg.ends_with(".conf"));
    match named {
        Some(path) => file(reader, &files::absolute(subject.cwd, path), &mut settings),
        // `redis-server --maxmemory 1gb`: there is no file.
        None if subject.args.len() > 1 || is_left_alone(subject.args) => {}
        None => {
            let path = fitting(subject, reader, listens)?;
            file(reader, &path, &mut settings);
        }
    }
    let mut name = None;
    for arg in subject.args.iter().skip(1) {
        match (arg.strip_prefix("--"), name) {
            (Some(next), _) => name = Some(next),
            (None, Some(name)) => {
                settings.set(&name.to_ascii_lowercase(), arg, SettingSource::Flag)
            }
            (None, None) => {}
        }
    }
    Some(settings)
}

/// Whether a command line of one word is one, and no title: a title says where it listens.
fn is_left_alone(args: &[String]) -> bool {
    args.len() == 1 && !args[0].trim().contains([' ', ':'])
}

/// The only file that says what is true of where the process listens and works.
fn fitting(subject: &Subject<'_>, reader: &mut Reader<'_>, listens: &[Listener]) -> Option<String> {
    let own = ["redis.conf", "valkey.conf"].map(|name| files::absolute(subject.cwd, name));
    let usual = USUAL.iter().map(|path| (*path).to_owned());
    let mut paths: Vec<String> = own.into_iter().chain(usual).collect();
    for dir in ["/etc/redis", "/etc/valkey"] {
        let names = reader.names(dir, ".conf");
        paths.extend(names.iter().map(|name| files::absolute(dir, name)));
    }
    let mut known = std::collections::BTreeSet::new();
    paths.retain(|path| known.insert(path.clone()));
    paths.retain(|path| match subject.files.read(path) {
        Ok(content) => fits(&content.text(), subject.cwd, listens),
        Err(files::Unread::Missing) => false,
        Err(_) => {
            reader.must(path);
            false
        }
    });
    // A file that another includes is a part of that one.
    let included: Vec<String> = paths
        .iter()
        .filter_map(|path| subject.files.read(path).ok())
        .flat_map(|content| includes(&content.text(), subject.cwd))
        .collect();
    paths.retain(|path| !included.contains(path));
    let why = match paths.as_slice() {
        [path] => return Some(path.clone()),
        [] => {
            "its title hides its command line, and no usual file fits where it listens".to_owned()
        }
        many => format!(
            "its title hides its command line, and several files fit: {}",
            many.join(", ")
        ),
    };
    reader.unread(
        "the settings of Redis",
        &why,
        "set `set-proc-title no`, or keep one file in /etc/redis",
    );
    None
}

/// The files that a file of Redis includes by name.
fn includes(text: &str, cwd: &str) -> Vec<String> {
    let lines = lines::words(text).filter(|(_, name, _)| name.eq_ignore_ascii_case("include"));
    lines
        .map(|(.., path)| files::absolute(cwd, &lines::unquoted(path, '\0')))
        .collect()
}

/// Whether a file can be that of a process. Redis changes into the directory that `dir` names.
fn fits(text: &str, cwd: &str, listens: &[Listener]) -> bool {
    let value = |wanted: &str| {
        let mut found = lines::words(text).filter(|(_, name, _)| *name == wanted);
        found.next_back_value()
    };
    let port = value("port").unwrap_or_else(|| "6379".into());
    let socket = value("unixsocket");
    let dir = value("dir").filter(|dir| dir.starts_with('/'));
    let is_there = dir.is_none_or(|dir| dir.trim_end_matches('/') == cwd.trim_end_matches('/'));
    is_there
        && listens.iter().any(|listener| match &listener.endpoint {
            ListenEndpoint::Tcp(_, own) => own.to_string() == port,
            ListenEndpoint::Unix(own) => Some(own.as_str()) == socket.as_deref(),
        })
}

/// The value of the last of some lines.
trait LastValue {
    fn next_back_value(&mut self) -> Option<String>;
}

impl<'a, I: Iterator<Item = (usize, &'a str, &'a str)>> LastValue for I {
    fn next_back_value(&mut self) -> Option<String> {
        self.last()
            .map(|(_, _, value)| lines::unquoted(value, '\0'))
    }
}

fn file(reader: &mut Reader<'_>, path: &str, settings: &mut Settings) {
    let Some(text) = reader.must(path) else {
        return;
    };
    for (line, name, value) in lines::words(&text) {
        let name = name.to_ascii_lowercase();
        if name == "include" {
            for (file_path, _) in reader.deeper(|reader| reader.included(value)) {
                reader.deeper(|reader| file(reader, &file_path, settings));
            }
            continue;
        }
        // A password is nobody's business here, and that there is one is.
        let value = match ["requirepass", "masterauth", "user"].contains(&name.as_str()) {
            true => HIDDEN.to_owned(),
            false => lines::unquoted(value, '\0'),
        };
        settings.set(&name, &value, SettingSource::file(path, line));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::Memory;

    fn read_with(files: &Memory, args: &[&str], port: u16) -> (Option<Settings>, Vec<String>) {
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        let subject = Subject {
            files,
            args: &args,
            cwd: "/data",
            env: &|_| None,
            loaded_s: 0.0,
        };
        let listener = Listener {
            endpoint: ListenEndpoint::Tcp("*".into(), port),
            queue: None,
        };
        let mut reader = Reader::new(&subject);
        let settings = read(&subject, &mut reader, &[listener]);
        (
            settings,
            reader.done().1.into_iter().map(|one| one.why).collect(),
        )
    }

    #[test]
    fn a_named_file_and_flags_are_read() {
        let text = "port 7000\nmaxclients 100\nrequirepass secret\nsave 900 1";
        let files = Memory::of(&[("/r.conf", text)]);
        let (settings, blind) = read_with(&files, &["redis-server", "/r.conf", "--save", ""], 7000);
        let settings = settings.expect("known");
        let clients = settings.get("maxclients").expect("set");
        assert_eq!(clients.source.to_string(), "/r.conf:2");
        assert_eq!(
            (settings.text("requirepass"), settings.text("save")),
            (Some(HIDDEN), Some(""))
        );
        assert!(blind.is_empty());
        let (settings, _) = read_with(
            &files,
            &["redis-server", "--maxmemory", "1gb", "--maxclients", "4"],
            6379,
        );
        let settings = settings.expect("known");
        assert_eq!(
            settings.get("maxmemory").expect("set").source,
            SettingSource::Flag
        );
        assert_eq!(settings.text("maxclients"), Some("4"));
        let (settings, blind) = read_with(&files, &["redis-server"], 6379);
        assert!(settings.is_some_and(|all| all.iter().next().is_none()) && blind.is_empty());
    }

    #[test]
    fn behind_a_title_the_only_file_that_fits_is_read() {
        let title = ["redis-server 127.0.0.1:6379"];
        let packages = "port 6379\ndir /var/lib/redis\nmaxmemory 5gb";
        let one = Memory::of(&[
            ("/etc/redis/redis.conf", packages),
            ("/etc/redis/site.conf", "maxmemory 1gb"),
        ]);
        // The package's file is for a process in /var/lib/redis.
        let (settings, blind) = read_with(&one, &title, 6379);
        assert_eq!(settings.expect("known").text("maxmemory"), Some("1gb"));
        assert!(blind.is_empty());
        let (settings, blind) = read_with(&one, &title, 7000);
        assert!(settings.is_none() && blind[0].contains("no usual file fits"));
        let two = Memory::of(&[("/etc/redis/a.conf", ""), ("/etc/redis/b.conf", "")]);
        let (settings, blind) = read_with(&two, &title, 6379);
        assert!(settings.is_none() && blind[0].contains("a.conf, /etc/redis/b.conf"));
    }

    #[test]
    fn a_file_that_another_includes_is_a_part_of_that() {
        let files = Memory::of(&[
            (
                "/etc/redis/redis.conf",
                "port 6379\ninclude /etc/redis/extra.conf\n",
            ),
            ("/etc/redis/extra.conf", "maxmemory 3mb\n"),
        ]);
        let (settings, blind) = read_with(&files, &["redis-server *:6379"], 6379);
        let settings = settings.unwrap_or_else(|| panic!("{blind:?}"));
        let value = settings.get("maxmemory").expect("set");
        assert_eq!(value.source.to_string(), "/etc/redis/extra.conf:1");
    }
}
