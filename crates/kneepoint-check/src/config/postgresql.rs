//! PostgreSQL: its main file with includes, what `ALTER SYSTEM` wrote, then the command line.

use super::{Reader, Subject, lines, option};
use crate::files;
use crate::snapshot::{SettingSource, Settings};

/// What is in force, and the directory of its data.
pub(crate) fn read(subject: &Subject<'_>, reader: &mut Reader<'_>) -> (Settings, String) {
    let mut settings = Settings::default();
    let data = option(subject.args, &["-D"]).map(str::to_owned);
    let data = data
        .or_else(|| (subject.env)("PGDATA"))
        .unwrap_or_else(|| subject.cwd.to_owned());
    let assigned: Vec<(String, String)> = assignments(subject.args);
    let named = assigned.iter().find(|(name, _)| name == "config_file");
    let main = named.map_or_else(
        || files::absolute(&data, "postgresql.conf"),
        |(_, path)| path.clone(),
    );
    if let Some(text) = reader.must(&main) {
        file(reader, &text, &main, &mut settings);
    }
    let data = settings.text("data_directory").map_or(data, str::to_owned);
    let written = files::absolute(&data, "postgresql.auto.conf");
    if let Some(text) = reader.may(&written) {
        file(reader, &text, &written, &mut settings);
    }
    for (name, value) in assigned {
        settings.set(&name, &value, SettingSource::Flag);
    }
    (settings, data)
}

/// `-c NAME=VALUE` and `--NAME=VALUE`.
fn assignments(args: &[String]) -> Vec<(String, String)> {
    let behind = args
        .windows(2)
        .filter(|pair| pair[0] == "-c")
        .map(|pair| pair[1].as_str());
    let long = args.iter().filter_map(|arg| arg.strip_prefix("--"));
    behind
        .chain(long)
        .filter_map(|text| text.split_once('='))
        .map(|(name, value)| {
            (
                name.replace('-', "_").to_ascii_lowercase(),
                value.to_owned(),
            )
        })
        .collect()
}

fn file(reader: &mut Reader<'_>, text: &str, path: &str, settings: &mut Settings) {
    for (line, name, rest) in lines::words(text) {
        // `name = value`, `name=value`, `name value`.
        let (name, rest) = match name.split_once('=') {
            Some((name, value)) => (name, if value.is_empty() { rest } else { value }),
            None => (name, rest.strip_prefix('=').unwrap_or(rest).trim()),
        };
        let value = lines::unquoted(rest, '#');
        let home = files::parent(path).to_owned();
        let included = match name {
            "include" | "include_if_exists" => vec![files::absolute(&home, &value)],
            "include_dir" => {
                let dir = files::absolute(&home, &value);
                let names = reader.names(&dir, ".conf");
                names
                    .iter()
                    .map(|name| files::absolute(&dir, name))
                    .collect()
            }
            _ => {
                settings.set(
                    &name.to_ascii_lowercase(),
                    &value,
                    SettingSource::file(path, line),
                );
                continue;
            }
        };
        for path in included {
            let may = name == "include_if_exists" && !reader.is_there(&path);
            let texts = if may {
                Vec::new()
            } else {
                reader.included(&path)
            };
            for (path, text) in texts {
                reader.deeper(|reader| file(reader, &text, &path, settings));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::Memory;

    #[test]
    fn alter_system_and_flags_come_last() {
        let files = Memory::of(&[
            (
                "/etc/pg/main.conf",
                "data_directory = '/data' # here\nmax_connections=100\nshared_buffers 128MB\ninclude_dir = 'conf.d'\n",
            ),
            ("/etc/pg/conf.d/a.conf", "max_connections = 200\n"),
            ("/data/postgresql.auto.conf", "# no\nwork_mem = '64MB'\n"),
        ]);
        let line = "postgres -D /x -c config_file=/etc/pg/main.conf -c port=7";
        let args: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let subject = Subject::with(&files, &args);
        let mut reader = Reader::new(&subject);
        let (settings, data) = read(&subject, &mut reader);
        assert_eq!(data, "/data");
        assert_eq!(
            settings
                .get("max_connections")
                .expect("set")
                .source
                .to_string(),
            "/etc/pg/conf.d/a.conf:1"
        );
        assert_eq!(settings.text("shared_buffers"), Some("128MB"));
        assert_eq!(settings.text("work_mem"), Some("64MB"));
        assert_eq!(
            settings.get("port").expect("set").source,
            SettingSource::Flag
        );
        let (_, blind) = reader.done();
        assert!(blind.is_empty(), "{blind:?}");
    }
}
