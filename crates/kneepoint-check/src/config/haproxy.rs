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
    for path in paths {
        let Some(text) = reader.must(&path) else {
            continue;
        };
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
    use crate::files::Memory;

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
}
