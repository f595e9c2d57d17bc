//! Apache httpd: its directives line by line, with what it includes. Blocks are taken to hold, but those of an MPM that is
//! not the one that a line above loads.

use super::{Reader, Subject, lines, option};
use crate::files;
use crate::snapshot::{ListenEndpoint, SettingSource, Settings};

/// What is configured.
pub(crate) struct Apache {
    /// Its directives.
    pub(crate) settings: Settings,
    /// Whom it asks: targets with their place.
    pub(crate) asks: Vec<(ListenEndpoint, String)>,
    /// Directories whose PHP it hands on, and to whom.
    pub(crate) hands: Vec<(String, ListenEndpoint)>,
}

/// What is in force.
pub(crate) fn read(subject: &Subject<'_>, reader: &mut Reader<'_>) -> Apache {
    let home = option(subject.args, &["-d"]).unwrap_or("");
    let homes = [home, "/etc/apache2", "/etc/httpd", "/usr/local/apache2"];
    let names = ["apache2.conf", "conf/httpd.conf", "httpd.conf"];
    let usual = homes
        .iter()
        .filter(|home| !home.is_empty())
        .flat_map(|home| names.map(|name| ((*home).to_owned(), files::absolute(home, name))));
    let named = option(subject.args, &["-f"]).map(|path| {
        let home = if home.is_empty() {
            files::parent(path)
        } else {
            home
        };
        (home.to_owned(), files::absolute(home, path))
    });
    let place = named.or_else(|| {
        usual
            .into_iter()
            .find(|(_, path)| subject.files.read(path).is_ok())
    });
    let mut walk = Walk {
        env: subject.env,
        home: String::new(),
        mpm: None,
        settings: Settings::default(),
        asks: Vec::new(),
        own: Site::default(),
        site: None,
        sites: Vec::new(),
    };
    match place {
        Some((home, path)) => {
            walk.home.clone_from(&home);
            if let Some(text) = reader.must(&path) {
                walk.text(reader, &text, &path);
            }
            // Relative names of files are below it, also where no line says so.
            if walk.settings.get("serverroot").is_none() {
                walk.settings
                    .set("serverroot", &home, SettingSource::Default);
            }
        }
        None => reader.unread(
            "the settings of Apache",
            "none of its usual files is there",
            "tell with -f where it is",
        ),
    }
    Apache {
        hands: walk.hands(),
        settings: walk.settings,
        asks: walk.asks,
    }
}

/// A host of Apache, or all that is around its hosts.
#[derive(Debug, Default)]
struct Site {
    root: Option<String>,
    targets: Vec<ListenEndpoint>,
}

struct Walk<'a> {
    env: &'a dyn Fn(&str) -> Option<String>,
    home: String,
    /// The MPM that a line loads.
    mpm: Option<String>,
    settings: Settings,
    asks: Vec<(ListenEndpoint, String)>,
    own: Site,
    /// The host whose lines are read.
    site: Option<Site>,
    sites: Vec<Site>,
}

impl Walk<'_> {
    /// What a host does not say is as it is around all of them.
    fn hands(&self) -> Vec<(String, ListenEndpoint)> {
        let hands = |site: &Site| {
            let root = site.root.as_ref().or(self.own.root.as_ref());
            let targets = match site.targets.is_empty() {
                true => &self.own.targets,
                false => &site.targets,
            };
            let pairs = root.into_iter().flat_map(|root| {
                let root = root.trim_end_matches('/');
                targets.iter().map(move |to| (root.to_owned(), to.clone()))
            });
            pairs.collect::<Vec<_>>()
        };
        let all = self.sites.iter().chain([&self.own]);
        all.flat_map(hands).collect()
    }

    fn text(&mut self, reader: &mut Reader<'_>, text: &str, path: &str) {
        // How many blocks are open of those that do not hold.
        let mut skipped = 0_usize;
        for (line, name, rest) in lines::words(text) {
            let (rest, ..) = lines::expanded(rest, self.env);
            let value = lines::unquoted(&rest, '\0');
            match name.to_ascii_lowercase().as_str() {
                "<ifmodule" if skipped > 0 || self.is_of_another_mpm(&value) => skipped += 1,
                "</ifmodule>" => skipped = skipped.saturating_sub(1),
                _ if skipped > 0 => {}
                "include" | "includeoptional" => {
                    let pattern = files::absolute(&self.home, &value);
                    for (file, text) in reader.included(&pattern) {
                        reader.deeper(|reader| self.text(reader, &text, &file));
                    }
                }
                "loadmodule" => {
                    let module = value.split_whitespace().next();
                    if let Some(name) = module.and_then(mpm) {
                        self.mpm = Some(name.to_owned());
                    }
                }
                "serverroot" => {
                    let source = SettingSource::file(path, line);
                    self.settings.set("serverroot", &value, source);
                    self.home = value;
                }
                "<virtualhost" => self.site = Some(Site::default()),
                "</virtualhost>" => self.sites.extend(self.site.take()),
                name => {
                    let how = format!("{path}:{line}");
                    let named = targets(&rest);
                    let site = self.site.as_mut().unwrap_or(&mut self.own);
                    site.targets.extend(named.iter().cloned());
                    if name == "documentroot" {
                        site.root = Some(value.clone());
                    }
                    let named = named.into_iter();
                    self.asks.extend(named.map(|target| (target, how.clone())));
                    let source = SettingSource::file(path, line);
                    self.settings.set(current(name), &value, source);
                }
            }
        }
    }

    /// Whether a block is for an MPM that is surely not the one that runs: a line above loads another.
    fn is_of_another_mpm(&self, module: &str) -> bool {
        let named = mpm(module.trim_end_matches('>').trim());
        let loaded = self.mpm.as_deref();
        named.is_some_and(|named| loaded.is_some_and(|loaded| loaded != named))
    }
}

/// The MPM that a module is, by its name or by that of its file: `mpm_event_module`, `mpm_event.c`.
fn mpm(module: &str) -> Option<&str> {
    const ALL: [&str; 6] = ["prefork", "worker", "event", "winnt", "netware", "mpmt_os2"];
    let file = || module.strip_suffix(".c");
    let name = module.strip_suffix("_module").or_else(file)?;
    let name = name.strip_prefix("mpm_").unwrap_or(name);
    ALL.contains(&name).then_some(name)
}

/// The name of a directive since 2.4, which takes those of before as well
/// (<https://httpd.apache.org/docs/2.4/mod/mpm_common.html>).
fn current(name: &str) -> &str {
    match name {
        "maxclients" => "maxrequestworkers",
        "maxrequestsperchild" => "maxconnectionsperchild",
        name => name,
    }
}

/// Addresses of FastCGI that a line names: `proxy:unix:/run/p.sock|fcgi://localhost`, `fcgi://127.0.0.1:9000/x`.
fn targets(line: &str) -> Vec<ListenEndpoint> {
    let words = line.split([' ', '\t', '"', '|']);
    let named = words.filter_map(|word| {
        let word = word.strip_prefix("proxy:").unwrap_or(word);
        if word.starts_with("unix:") {
            return ListenEndpoint::parse(word, 0);
        }
        let rest = word.strip_prefix("fcgi://")?;
        let host = rest.split('/').next()?;
        host.contains(':')
            .then(|| ListenEndpoint::parse(host, 9000))?
    });
    named.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::Memory;

    #[test]
    fn directives_and_targets_are_found() {
        let files = Memory::of(&[
            (
                "/etc/apache2/apache2.conf",
                "KeepAliveTimeout 5\nErrorLog ${APACHE_LOG_DIR}/error.log\nIncludeOptional sites/*.conf\n",
            ),
            (
                "/etc/apache2/sites/a.conf",
                "<FilesMatch x>\n SetHandler \"proxy:unix:/run/php.sock|fcgi://localhost\"\n</FilesMatch>\nProxyPass / fcgi://php:9000/srv\n",
            ),
        ]);
        let env = |name: &str| (name == "APACHE_LOG_DIR").then(|| "/var/log/apache2".to_owned());
        let subject = Subject {
            files: &files,
            args: &[],
            cwd: "/",
            env: &env,
            loaded_s: 0.0,
        };
        let Apache { settings, asks, .. } = read(&subject, &mut Reader::new(&subject));
        assert_eq!(
            settings.text("errorlog"),
            Some("/var/log/apache2/error.log")
        );
        let asks: Vec<String> = asks.iter().map(|(to, how)| format!("{to} {how}")).collect();
        assert_eq!(
            asks,
            [
                "/run/php.sock /etc/apache2/sites/a.conf:2",
                "php:9000 /etc/apache2/sites/a.conf:4"
            ]
        );
    }

    #[test]
    fn blocks_of_another_mpm_do_not_hold_and_old_names_do() {
        let blocks = "<IfModule mpm_prefork_module>\nMaxRequestWorkers 150\n<IfModule x>\n</IfModule>\nStartServers 5\n\
            </IfModule>\n<IfModule mpm_event.c>\nMaxClients 400\nMaxRequestsPerChild 0\n</IfModule>\n<IfModule ssl_module>\nTimeout 9\n\
            </IfModule>\n";
        let of = |loaded: &str| {
            let text = format!("{loaded}\n{blocks}");
            let files = Memory::of(&[("/etc/apache2/apache2.conf", &text)]);
            let subject = Subject::with(&files, &[]);
            let settings = read(&subject, &mut Reader::new(&subject)).settings;
            let told = |name: &str| settings.text(name).unwrap_or("-").to_owned();
            assert_eq!(told("timeout"), "9");
            assert_eq!(told("serverroot"), "/etc/apache2");
            format!(
                "{} {} {}",
                told("maxrequestworkers"),
                told("startservers"),
                told("maxconnectionsperchild")
            )
        };
        let event = "LoadModule mpm_event_module modules/mod_mpm_event.so";
        assert_eq!(of(event), "400 - 0");
        let prefork = "LoadModule mpm_prefork_module modules/mod_mpm_prefork.so";
        assert_eq!(of(prefork), "150 5 -");
        // Nothing says which one is loaded.
        assert_eq!(of("LoadModule ssl_module modules/mod_ssl.so"), "400 5 0");
    }

    #[test]
    fn a_host_hands_its_directory_to_whom_it_names() {
        let files = Memory::of(&[(
            "/etc/apache2/apache2.conf",
            "<VirtualHost *:80>\nDocumentRoot /srv/a/\n</VirtualHost>\n<VirtualHost *:80>\nDocumentRoot \"/srv/b\"\n<FilesMatch x>\n\
             SetHandler \"proxy:unix:/run/b.sock|fcgi://b\"\n</FilesMatch>\n</VirtualHost>\nSetHandler proxy:unix:/run/all.sock|fcgi://x\n",
        )]);
        let subject = Subject::with(&files, &[]);
        let hands = read(&subject, &mut Reader::new(&subject)).hands.into_iter();
        let hands: Vec<String> = hands.map(|(dir, to)| format!("{dir} {to}")).collect();
        assert_eq!(hands, ["/srv/a /run/all.sock", "/srv/b /run/b.sock"]);
    }
}
