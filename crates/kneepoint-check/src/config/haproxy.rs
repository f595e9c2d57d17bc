//! HAProxy: the settings of `global` and `defaults`, and the servers of its backends.

use super::{Reader, Subject, lines};
use crate::files;
use crate::snapshot::{ListenEndpoint, SettingSource, Settings};

/// What is in force, and whom it asks.
pub(crate) fn read(
    subject: &Subject<'_>,
    reader: &mut Reader<'_>,
) -> (Settings, Vec<(ListenEndpoint, String)>) {
    let named = subject.args.windows(2).filter(|pair| pair[0] == "-f");
    let mut paths: Vec<String> = named
        .map(|pair| files::absolute(subject.cwd, &pair[1]))
        .collect();
    if paths.is_empty() {
        paths.push("/etc/haproxy/haproxy.cfg".into());
    }
    let mut settings = Settings::default();
    let mut asks = Vec::new();
    // Of a directory HAProxy reads the files that end so, by their names.
    let texts: Vec<(String, String)> = paths
        .iter()
        .flat_map(|path| reader.file_or_dir(path, ".cfg"))
        .collect();
    for (path, text) in texts {
        let mut section = "";
        for (line, name, rest) in lines::words(&text) {
            match name {
                "global" | "defaults" | "frontend" | "backend" | "listen" | "peers"
                | "resolvers" => section = name,
                "server" => {
                    let target = rest.split_ascii_whitespace().nth(1);
                    let target = target.and_then(|text| ListenEndpoint::parse(text, 80));
                    asks.extend(target.map(|target| (target, format!("{path}:{line}"))));
                }
                _ if section == "global" || section == "defaults" => {
                    settings.set(
                        &format!("{section} {name}"),
                        rest,
                        SettingSource::file(&path, line),
                    );
                }
                _ => {}
            }
        }
    }
    (settings, asks)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::{Memory, Root};

    #[test]
    fn servers_are_whom_it_asks() {
        let text = "global\n maxconn 2000\nbackend web\n server one 10.0.0.2:80 maxconn 50\n";
        let files = Memory::of(&[("/h.cfg", text)]);
        let args: Vec<String> = ["haproxy", "-f", "/h.cfg"].map(str::to_owned).into();
        let subject = Subject::with(&files, &args);
        let (settings, asks) = read(&subject, &mut Reader::new(&subject));
        assert_eq!(settings.text("global maxconn"), Some("2000"));
        assert_eq!(asks[0].0.to_string(), "10.0.0.2:80");
        assert_eq!(asks[0].1, "/h.cfg:4");
    }

    #[test]
    fn a_directory_is_read_file_by_file_and_may_be_empty() {
        let args: Vec<String> = ["haproxy", "-f", "/h.cfg", "-f", "/conf.d"]
            .map(str::to_owned)
            .into();
        let files = Memory::of(&[
            ("/h.cfg", "global\n maxconn 2000\n"),
            ("/conf.d/b.cfg", "backend b\n server two 10.0.0.3:80\n"),
            ("/conf.d/a.cfg", "backend a\n server one 10.0.0.2:80\n"),
            ("/conf.d/old.txt", "backend c\n server not 10.0.0.4:80\n"),
        ]);
        let subject = Subject::with(&files, &args);
        let mut reader = Reader::new(&subject);
        let (settings, asks) = read(&subject, &mut reader);
        assert_eq!(settings.text("global maxconn"), Some("2000"));
        let lines: Vec<&str> = asks.iter().map(|(_, line)| line.as_str()).collect();
        assert_eq!(lines, ["/conf.d/a.cfg:2", "/conf.d/b.cfg:2"]);
        assert!(reader.done().1.is_empty());

        let dir = tempfile::tempdir().expect("directory");
        std::fs::write(dir.path().join("h.cfg"), "global\n maxconn 2000\n").expect("written");
        std::fs::create_dir(dir.path().join("conf.d")).expect("made");
        let unseen = |args: &[String]| {
            let root = Root::at(dir.path().to_str().expect("a path")).expect("a root");
            let subject = Subject::with(&root, args);
            let mut reader = Reader::new(&subject);
            let (settings, _) = read(&subject, &mut reader);
            assert_eq!(settings.text("global maxconn"), Some("2000"));
            reader.done().1.len()
        };
        assert_eq!(unseen(&args), 0);
        let missing: Vec<String> = ["haproxy", "-f", "/h.cfg", "-f", "/none"]
            .map(str::to_owned)
            .into();
        assert_eq!(unseen(&missing), 1);
    }
}
