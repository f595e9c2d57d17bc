//! Redis: its file where its title names one, or one of the usual files that fits where it listens.

use super::{Reader, Subject, lines};
use crate::files;
use crate::snapshot::{ListenEndpoint, Listener, SettingSource, Settings};

/// Where distributions and images keep it.
const USUAL: [&str; 6] = [
    "/etc/redis/redis.conf",
    "/etc/redis.conf",
    "/etc/valkey/valkey.conf",
    "/usr/local/etc/redis/redis.conf",
    "/usr/local/etc/valkey/valkey.conf",
    "/etc/redis/6379.conf",
];

/// What is in force. Redis writes over its command line, so that often only the file is known.
pub(crate) fn read(
    subject: &Subject<'_>,
    reader: &mut Reader<'_>,
    listens: &[Listener],
) -> Settings {
    let mut settings = Settings::default();
    let named = subject.args.get(1).filter(|arg| arg.ends_with(".conf"));
    let path = match named {
        Some(path) => Some(files::absolute(subject.cwd, path)),
        None => fitting(subject, reader, listens),
    };
    match path {
        Some(path) => file(reader, &path, &mut settings),
        None => reader.unread(
            "the settings of Redis",
            "its title hides its command line, and no usual file fits where it listens",
            "set `set-proc-title no`, or keep the file at /etc/redis/redis.conf",
        ),
    }
    // `redis-server --maxmemory 1gb` where the title was left alone.
    for pair in subject.args.windows(2) {
        if let Some(name) = pair[0].strip_prefix("--") {
            settings.set(&name.to_ascii_lowercase(), &pair[1], SettingSource::Flag);
        }
    }
    settings
}

/// A usual file that says what is true of where the process listens.
fn fitting(subject: &Subject<'_>, reader: &mut Reader<'_>, listens: &[Listener]) -> Option<String> {
    let own = ["redis.conf", "valkey.conf"].map(|name| files::absolute(subject.cwd, name));
    let usual = USUAL.map(str::to_owned);
    let paths = own
        .into_iter()
        .chain(usual)
        .filter(|path| subject.files.identity(path).is_some());
    for path in paths.collect::<Vec<_>>() {
        let Ok(content) = subject.files.read(&path) else {
            reader.must(&path);
            continue;
        };
        let text = content.text();
        let value = |wanted: &str| {
            let mut found = lines::words(&text).filter(|(_, name, _)| *name == wanted);
            found.next_back_value()
        };
        let port = value("port").unwrap_or_else(|| "6379".into());
        let socket = value("unixsocket");
        let fits = listens.iter().any(|listener| match &listener.endpoint {
            ListenEndpoint::Tcp(_, own) => own.to_string() == port,
            ListenEndpoint::Unix(own) => Some(own.as_str()) == socket.as_deref(),
        });
        if fits {
            return Some(path);
        }
    }
    None
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
        // A password is nobody's business here.
        if !["requirepass", "masterauth", "user"].contains(&name.as_str()) {
            settings.set(
                &name,
                &lines::unquoted(value, '\0'),
                SettingSource::file(path, line),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::Memory;

    fn read_with(files: &Memory, args: &[&str], port: u16) -> (Settings, usize) {
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
        (settings, reader.blind.len())
    }

    #[test]
    fn the_file_that_fits_is_read() {
        // `identity` of files in memory is none, so the named file is what tests can read.
        let files = Memory::of(&[(
            "/r.conf",
            "port 7000\nmaxclients 100\nrequirepass secret\nsave 900 1",
        )]);
        let (settings, blind) = read_with(&files, &["redis-server", "/r.conf"], 7000);
        assert_eq!(
            settings.get("maxclients").expect("set").source.to_string(),
            "/r.conf:2"
        );
        assert_eq!((settings.text("requirepass"), blind), (None, 0));
        let (settings, blind) = read_with(&files, &["redis-server 127.0.0.1:7000"], 7000);
        assert_eq!((settings.iter().count(), blind), (0, 1));
        let (settings, _) = read_with(&files, &["redis-server", "--maxmemory", "1gb"], 6379);
        assert_eq!(
            settings.get("maxmemory").expect("set").source,
            SettingSource::Flag
        );
    }
}
