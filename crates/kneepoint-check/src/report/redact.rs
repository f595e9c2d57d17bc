//! Takes out of a report what names somebody's site: so that it can be posted.

use super::Report;
use crate::snapshot::{SettingValue, Snapshot};
use std::collections::BTreeMap;

/// The same report without names of sites and containers, directories of applications and addresses. A name is replaced by
/// the same word wherever it stands.
#[must_use]
pub fn redacted(report: &Report, snapshot: &Snapshot) -> Report {
    let names = Names::of(snapshot);
    let text = |text: &mut String| *text = names.replace(text);
    let mut report = report.clone();
    report.picture.iter_mut().for_each(text);
    for service in &mut report.services {
        text(&mut service.name);
        service.listens.iter_mut().for_each(text);
        for file in &mut service.files {
            text(&mut file.path);
        }
        if let Some(container) = &mut service.container {
            text(&mut container.id);
            container.name.iter_mut().for_each(text);
            container.compose_service.iter_mut().for_each(text);
        }
        let settings = std::mem::take(&mut service.settings);
        service.settings = settings
            .into_iter()
            .map(|(name, value)| {
                let source = names.source(value.source);
                let replaced = value
                    .replaced
                    .into_iter()
                    .map(|(text, source)| (names.replace(&text), names.source(source)))
                    .collect();
                (
                    names.replace(&name),
                    SettingValue {
                        text: names.replace(&value.text),
                        source,
                        replaced,
                    },
                )
            })
            .collect();
    }
    for link in &mut report.links {
        text(&mut link.by);
        text(&mut link.how);
        link.pool.iter_mut().for_each(text);
        link.from_pools.iter_mut().for_each(text);
    }
    for finding in &mut report.findings {
        for words in [
            &mut finding.title,
            &mut finding.place,
            &mut finding.cost,
            &mut finding.fix.text,
            &mut finding.fix.apply,
        ] {
            text(words);
        }
        for seen in &mut finding.seen {
            text(&mut seen.what);
            text(&mut seen.source);
        }
        finding.also.iter_mut().for_each(text);
        finding.fix.lines.iter_mut().for_each(text);
        if let Some(file) = &mut finding.fix.file {
            text(&mut file.path);
            text(&mut file.content);
        }
    }
    for blind in &mut report.blind {
        text(&mut blind.what);
        text(&mut blind.why);
    }
    report
}

/// Names that are somebody's, with what stands in their place.
struct Names {
    known: Vec<(String, String)>,
}

/// Names that everybody has.
const COMMON: [&str; 12] = [
    "www",
    "localhost",
    "_",
    "default",
    "php",
    "app",
    "web",
    "nginx",
    "redis",
    "db",
    "mysql",
    "/",
];

impl Names {
    fn of(snapshot: &Snapshot) -> Self {
        let mut found: BTreeMap<String, &'static str> = BTreeMap::new();
        let mut add = |name: &str, word| {
            if name.len() > 2 && !COMMON.contains(&name) {
                found.entry(name.to_owned()).or_insert(word);
            }
        };
        for app in &snapshot.apps {
            add(&app.root, "/application");
        }
        for service in &snapshot.services {
            for server in service.nginx.iter().flat_map(|nginx| &nginx.servers) {
                server.names.iter().for_each(|name| add(name, "site"));
                server
                    .settings
                    .text("root")
                    .into_iter()
                    .for_each(|root| add(root, "/application"));
            }
            for upstream in service.nginx.iter().flat_map(|nginx| &nginx.upstreams) {
                add(&upstream.name, "upstream");
            }
            for pool in &service.pools {
                add(&pool.name, "pool");
                pool.settings
                    .text("user")
                    .into_iter()
                    .filter(|user| *user != "www-data")
                    .for_each(|user| add(user, "user"));
            }
            if let Some(container) = &service.place.container {
                add(&container.id, "container");
                add(container.id.get(..12).unwrap_or_default(), "container");
                [&container.name, &container.compose_service]
                    .into_iter()
                    .flatten()
                    .for_each(|name| add(name, "container"));
            }
            for (endpoint, _) in &service.asks {
                if let crate::snapshot::ListenEndpoint::Tcp(host, _) = endpoint
                    && host.parse::<std::net::IpAddr>().is_err()
                {
                    add(host, "host");
                }
            }
        }
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        let mut known: Vec<(String, String)> = found
            .into_iter()
            .map(|(name, word)| {
                let count = counts.entry(word).or_default();
                *count += 1;
                (name, format!("{word}-{count}"))
            })
            .collect();
        // The longest first: a name may be a part of another.
        known.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
        Self { known }
    }

    fn source(&self, source: crate::snapshot::SettingSource) -> crate::snapshot::SettingSource {
        use crate::snapshot::SettingSource;
        match source {
            SettingSource::File { path, line } => SettingSource::File {
                path: self.replace(&path),
                line,
            },
            SettingSource::Variable { name, path, line } => SettingSource::Variable {
                name,
                path: self.replace(&path),
                line,
            },
            SettingSource::Kernel { path } => SettingSource::Kernel {
                path: self.replace(&path),
            },
            other => other,
        }
    }

    fn replace(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (name, word) in &self.known {
            if text.contains(name.as_str()) {
                text = replace_whole(&text, name, word);
            }
        }
        without_addresses(&text)
    }
}

/// Replaces a name where it is not a part of a longer word.
fn replace_whole(text: &str, name: &str, word: &str) -> String {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let mut whole = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(name) {
        let before = rest[..at]
            .chars()
            .next_back()
            .or_else(|| whole.chars().next_back());
        let after = rest[at + name.len()..].chars().next();
        let apart = !before.is_some_and(is_part) && !after.is_some_and(is_part);
        whole.push_str(&rest[..at]);
        whole.push_str(if apart { word } else { name });
        rest = &rest[at + name.len()..];
    }
    whole.push_str(rest);
    whole
}

/// Replaces addresses of IPv4 that are not the machine's own.
fn without_addresses(text: &str) -> String {
    let is_part = |c: char| c.is_ascii_digit() || c == '.';
    let mut whole = String::new();
    let mut word = String::new();
    let end = |word: &mut String, whole: &mut String| {
        let address: Result<std::net::Ipv4Addr, _> = word.trim_end_matches('.').parse();
        match address {
            Ok(ip) if !ip.is_loopback() && !ip.is_unspecified() => {
                whole.push_str("ADDRESS");
                whole.push_str(&word[word.trim_end_matches('.').len()..]);
            }
            _ => whole.push_str(word),
        }
        word.clear();
    };
    for c in text.chars() {
        if is_part(c) {
            word.push(c);
        } else {
            end(&mut word, &mut whole);
            whole.push(c);
        }
    }
    end(&mut word, &mut whole);
    whole
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{CheckFormat, judge, render};
    use crate::rule::case::Case;

    #[test]
    fn nothing_names_the_site() {
        let conf = "http { upstream shop_backend { server 203.0.113.7:80; } server {\n server_name shop.example;\n root /srv/shop/public;\n location / {\n proxy_pass http://shop_backend; } } }";
        let case = Case::healthy().nginx(conf).with(|snapshot| {
            snapshot.apps[0].root = "/srv/shop".into();
            snapshot.apps[0].laravel_cached = Some((false, false));
            snapshot.services[1].pools[0].name = "shop".into();
        });
        let report = judge(&case.0);
        let plain = render(&report, CheckFormat::Json) + &render(&report, CheckFormat::Markdown);
        assert!(plain.contains("shop"));
        let hidden = redacted(&report, &case.0);
        let text = render(&hidden, CheckFormat::Json) + &render(&hidden, CheckFormat::Markdown);
        assert!(!text.contains("shop") && !text.contains("203.0"), "{text}");
        assert_eq!(hidden.findings.len(), report.findings.len());
    }

    #[test]
    fn names_are_replaced_as_whole_words() {
        assert_eq!(
            replace_whole("shop workshop shop.conf", "shop", "X"),
            "X workshop X.conf"
        );
        assert_eq!(
            without_addresses("10.0.0.2:80 127.0.0.1 1.22.1"),
            "ADDRESS:80 127.0.0.1 1.22.1"
        );
    }
}
