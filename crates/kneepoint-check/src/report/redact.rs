//! Takes out of a report what names somebody's site: so that it can be posted.
//!
//! Names are made of words, and a word that is not everybody's is replaced by the same other word wherever it stands: as a
//! pool, as a directory, within the name of a socket. So the report tells apart what it told apart. Which words are names is
//! known by where they stand in the snapshot, and by the form of paths, hosts and addresses in every text.

mod mentions;
mod usual;
mod wholes;

use super::Report;
use super::texts::Texts as _;
use crate::snapshot::{ListenEndpoint, Nginx, Service, Settings, Snapshot};
use mentions::{Mention, mentions};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use usual::{is_own, is_usual, stem, words};
use wholes::Wholes;

/// The same report without names of sites, pools, containers and people, directories, hosts and addresses. A name is
/// replaced by the same word wherever it stands.
#[must_use]
pub fn redacted(report: &Report, snapshot: &Snapshot) -> Report {
    let mut report = report.clone();
    let names = Names::of(&mut report, snapshot);
    report.each(&mut |text| *text = names.replace(text));
    report
}

/// Words that are somebody's, with the number that stands in the place of each.
#[derive(Debug, Default)]
struct Names {
    /// Every word of the report, in small letters: what is none needs no number.
    told: BTreeSet<String>,
    /// In small letters.
    words: BTreeMap<String, usize>,
    /// Names that hold a word of the check itself, addresses; in small letters, with what stands in their place.
    wholes: Wholes,
    addresses: usize,
}

impl Names {
    fn of(report: &mut Report, snapshot: &Snapshot) -> Self {
        let mut texts: Vec<String> = Vec::new();
        report.each(&mut |text| texts.push(text.clone()));
        let mut names = Self {
            told: texts
                .iter()
                .flat_map(|text| words(text))
                .map(str::to_lowercase)
                .collect(),
            ..Self::default()
        };
        for app in &snapshot.apps {
            names.path(&app.root);
        }
        for service in &snapshot.services {
            names.of_service(service);
        }
        for service in &report.services {
            let settings = service.settings.values();
            settings.for_each(|value| names.value(&value.text));
            service.files.iter().for_each(|file| names.path(&file.path));
        }
        for text in &texts {
            names.mentioned(text);
        }
        names
    }

    fn of_service(&mut self, service: &Service) {
        if let Some(container) = &service.place.container {
            self.name(&container.id);
            // The short id is the same name.
            let short = container.id.get(..12).unwrap_or_default().to_lowercase();
            if let Some(number) = self.words.get(&container.id.to_lowercase()) {
                self.words.insert(short, *number);
            } else {
                self.name(&short);
            }
            let all = [&container.name, &container.compose_service];
            all.into_iter().flatten().for_each(|name| self.name(name));
        }
        service.place.unit.iter().for_each(|unit| self.name(unit));
        service.nginx.iter().for_each(|nginx| self.of_nginx(nginx));
        let listens = service.listens.iter().map(|one| &one.endpoint);
        for endpoint in listens.chain(service.asks.iter().map(|(endpoint, _)| endpoint)) {
            match endpoint {
                ListenEndpoint::Tcp(host, _) => self.name(host),
                ListenEndpoint::Unix(path) => self.path(path),
            }
        }
        self.settings(&service.settings);
        self.settings(&service.kernel);
        for pool in &service.pools {
            self.name(&pool.name);
            self.settings(&pool.settings);
            self.settings(&pool.php);
            let calls = pool.slow.iter().flat_map(|slow| &slow.calls);
            calls.for_each(|(call, _)| self.value(call));
        }
        let logs = service.logs.iter().map(|log| &log.path);
        let peers = service.time_wait.keys();
        logs.chain(peers).for_each(|text| self.mentioned(text));
    }

    fn of_nginx(&mut self, nginx: &Nginx) {
        for server in &nginx.servers {
            server.names.iter().for_each(|name| self.name(name));
            self.settings(&server.settings);
        }
        for upstream in &nginx.upstreams {
            self.name(&upstream.name);
            let servers = upstream.servers.iter();
            servers.for_each(|server| self.value(&server.text));
            self.settings(&upstream.settings);
        }
        for pass in &nginx.passes {
            self.value(&pass.target.text);
            self.name(&pass.server);
            self.settings(&pass.settings);
        }
    }

    fn settings(&mut self, settings: &Settings) {
        /// Settings that name somebody, whatever the name.
        const NAMING: [&str; 6] = [
            "user",
            "group",
            "listen.owner",
            "listen.group",
            "opcache.preload_user",
            "prefix",
        ];
        for (name, value) in settings.iter() {
            match NAMING.contains(&name) {
                true => self.name(&value.text),
                false => self.value(&value.text),
            }
            let replaced = value.replaced.iter();
            replaced.for_each(|(text, _)| self.value(text));
            let sources = value.replaced.iter().map(|(_, source)| source);
            for path in sources.chain([&value.source]).filter_map(|it| it.path()) {
                self.path(path);
            }
        }
    }

    /// A value: a path or a few words, of which those are names that the check has not.
    fn value(&mut self, text: &str) {
        self.mentioned(text);
        let all = words(text).map(str::to_lowercase);
        for word in all.filter(|word| !is_usual(word) && !is_own(word)) {
            self.number(&word);
        }
    }

    fn path(&mut self, path: &str) {
        // The kernel's own files name nobody; what a process sees as its root is below one of them.
        let path = match path.strip_prefix("/proc/") {
            Some(of_kernel) => of_kernel.split_once("/root/").map_or("", |(_, path)| path),
            None => path,
        };
        path.split('/').for_each(|part| self.name(part));
    }

    fn mentioned(&mut self, text: &str) {
        for mention in mentions(text) {
            match mention {
                Mention::Path(path) => self.path(path),
                Mention::Host(host) => self.name(host),
                Mention::Address(address) => {
                    let address = address.to_lowercase();
                    if !self.wholes.has(&address) {
                        self.addresses += 1;
                        let instead = format!("address-{}", self.addresses);
                        self.wholes.insert(address, instead);
                    }
                }
            }
        }
    }

    /// A name. Its words are replaced wherever they stand; where one is a word of the check, too, the name as a whole, and
    /// the word where names stand.
    fn name(&mut self, name: &str) {
        let name = stem(name.trim()).to_ascii_lowercase();
        let mut whole = String::new();
        let mut rest = name.as_str();
        let (mut is_mixed, mut is_told) = (false, true);
        for word in words(&name) {
            let at = rest.find(word).unwrap_or(0);
            whole.push_str(&rest[..at]);
            rest = &rest[at + word.len()..];
            let key = word.to_lowercase();
            if is_usual(&key) {
                whole.push_str(word);
                continue;
            }
            is_mixed |= is_own(&key);
            match self.number(&key) {
                Some(number) => whole.push_str(&format!("name-{number}")),
                None => is_told = false,
            }
        }
        whole.push_str(rest);
        if is_mixed && is_told && words(&name).nth(1).is_some() {
            self.wholes.insert(name, whole);
        }
    }

    /// The number of a word; none where the report does not tell it.
    fn number(&mut self, word: &str) -> Option<usize> {
        if !self.told.contains(word) {
            return None;
        }
        let next = self.words.len() + 1;
        Some(*self.words.entry(word.to_owned()).or_insert(next))
    }

    /// The text in one pass, however many names there are.
    fn replace(&self, text: &str) -> String {
        let small = text.to_ascii_lowercase();
        let mut out = String::with_capacity(text.len());
        // What is before `done` is in `out`.
        let (mut done, mut next) = (0, 0);
        while let Some(at) = text[next..].find(char::is_alphanumeric) {
            let start = next + at;
            let length = text[start..].find(|letter: char| !letter.is_alphanumeric());
            let word = start..length.map_or(text.len(), |length| start + length);
            next = word.end;
            let known = match self.wholes.at(&small, &word, done) {
                Some((whole, instead)) => Some((whole, instead.to_owned())),
                None => self
                    .word(text, &word)
                    .map(|number| (word, format!("name-{number}"))),
            };
            if let Some((name, instead)) = known {
                out.push_str(&text[done..name.start]);
                out.push_str(&instead);
                done = name.end;
                next = name.end;
            }
        }
        out + &text[done..]
    }

    /// The number of a word of a text, where it is a name there.
    fn word(&self, text: &str, word: &Range<usize>) -> Option<usize> {
        let key = text[word.clone()].to_lowercase();
        let number = self.words.get(&key)?;
        let is_name = !is_own(&key) || is_place_of_name(&text[..word.start], &text[word.end..]);
        is_name.then_some(*number)
    }
}

/// Whether what stands between two texts is a name, though it be a word of the check.
fn is_place_of_name(before: &str, behind: &str) -> bool {
    /// What the rules write before a name.
    const NAMES: [&str; 17] = [
        "/",
        "[",
        "@",
        "kept_",
        "pool ",
        "container ",
        "upstream ",
        "server ",
        "Host ",
        "unit ",
        "user ",
        "user = ",
        "group ",
        "group = ",
        "owner = ",
        "systemctl restart ",
        "systemctl reload ",
    ];
    let is_key =
        || behind.is_empty() || behind.strip_prefix(' ').is_some_and(|it| !it.contains(' '));
    // The port of a host.
    let is_host = || {
        let port = behind.strip_prefix(':');
        port.is_some_and(|port| port.starts_with(|first: char| first.is_ascii_digit()))
    };
    NAMES.iter().any(|words| before.ends_with(words))
        || is_in_list(before)
        || behind.starts_with(".service")
        || is_host()
        || (before.is_empty() && is_key())
}

/// Whether a text ends within a list of pools: `pools a, `.
fn is_in_list(before: &str) -> bool {
    let list = before.rsplit_once("pools ").map(|(_, list)| list);
    list.is_some_and(|list| list.is_empty() || (list.ends_with(", ") && !list.contains(" of ")))
}

#[cfg(test)]
mod tests;
