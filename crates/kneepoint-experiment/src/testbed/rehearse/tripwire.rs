//! Whom the application tries to reach while each request is rehearsed, and who of them is nobody of the lab.

use super::outsiders::{Outsider, Reason};
use crate::testbed::arm::Arm;
use kneepoint_model::{Address, Layer, PeerKind, PeerSpec, Place};
use kneepoint_profiler::{Attempt, Sought, Tripwire};
use kneepoint_stack::application::{
    Mention, Mentioned, NamedHost, likeliest, mentions, mentions_in, named_hosts,
};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

/// Sockets that libraries look for by themselves and do without: caches of names, and the machine's log (nscd(8),
/// nss-resolve(8), syslog(3)).
const DONE_WITHOUT: [&str; 5] = [
    "/var/run/nscd/socket",
    "/run/nscd/socket",
    "/run/systemd/resolve/io.systemd.Resolve",
    "/run/systemd/userdb/io.systemd.DynamicUser",
    "/dev/log",
];
/// Directories of sockets that are each host's own: who answers there is of the lab.
const OWN: [&str; 5] = ["/run/", "/var/run/", "/tmp/", "/var/tmp/", "/var/spool/"];
/// The program of the lab that stands where mail would be handed on.
const NO_MAIL: &str = "no-mail";
/// Where PHP's workers are known from outside.
const FPM: &str = "fpm";

/// A watch over the workers of an arm, where one can be kept.
pub struct Watch(Result<Tripwire, String>);

impl Arm {
    /// Begins to watch whom PHP tries to reach.
    pub(in crate::testbed) fn watch(&self) -> Watch {
        let mut tiers = self.running.iter();
        let Some(php) = tiers.find(|tier| tier.layer == Layer::Php) else {
            return Watch(Err(String::new()));
        };
        if php.server.as_str() != FPM {
            let server = &php.server;
            return Watch(Err(format!(
                "of {server} nobody sees whom PHP tries to reach: that is known of PHP-FPM"
            )));
        }
        Watch(Tripwire::set(php.pid).map_err(|error| {
            format!("nobody watched whom the application tries to reach: {error}")
        }))
    }

    /// Ends a watch: who was tried and is nobody of the lab, in the order of the attempts; or why that is not known, in words
    /// that are empty where there is no PHP.
    pub(in crate::testbed) fn outsiders(
        &self,
        watch: Watch,
        lab: &Path,
    ) -> Result<Vec<Outsider>, String> {
        let attempts = watch.0?.take_down().map_err(|error| {
            format!("the watch over whom the application tries to reach has ended: {error}")
        })?;
        let inside = Inside {
            arm: self,
            lab,
            closed: self.running.iter().all(|tier| tier.netns.is_some()),
        };
        let mut outsiders: Vec<Outsider> = Vec::new();
        for attempt in attempts {
            let Some(reason) = inside.outsider(&attempt) else {
                continue;
            };
            if outsiders.iter().any(|it| it.reason.is_same(&reason)) {
                continue;
            }
            let mentions = self.mentions(&reason);
            outsiders.push(Outsider {
                at: attempt.own.or(attempt.place).map(|it| self.shown(&it)),
                through: attempt.through,
                request: attempt.request,
                mentions,
                reason,
            });
        }
        Ok(outsiders)
    }

    /// Whom the application's own settings name besides these, and nobody tried: what would have is behind what failed.
    pub(in crate::testbed) fn untried(&self, outsiders: &[Outsider], lab: &Path) -> Vec<NamedHost> {
        let inside = Inside {
            arm: self,
            lab,
            closed: true,
        };
        let is_told = |named: &NamedHost, reason: &Reason| {
            let at = |it: &Mention| it.file == named.file && it.line == Some(named.line);
            let mut outsiders = outsiders.iter();
            outsiders.any(|it| it.reason.is_same(reason) || it.mentions.iter().any(at))
        };
        let mut found: Vec<NamedHost> = Vec::new();
        for named in named_hosts(&self.app_root) {
            let reason = reason_of(&named.whom);
            let is_new = !found.iter().any(|it| it.whom == named.whom);
            let in_force = !self.env.contains_key(&named.key);
            if is_new && in_force && !is_told(&named, &reason) && !inside.is_in_order(&reason) {
                found.push(named);
            }
        }
        found
    }

    /// A line of PHP as the person knows it: from the application's directory on.
    fn shown(&self, place: &Place) -> String {
        let at = place.at();
        let root = format!("{}/", self.app_root.display());
        at.strip_prefix(&root).unwrap_or(&at).to_owned()
    }

    /// Which settings name an outsider: of the environment, of the configuration of tiers, of the application's files.
    fn mentions(&self, reason: &Reason) -> Vec<Mention> {
        let wanted = match reason {
            Reason::Name(name) => Mentioned::name(name),
            Reason::Address(address) => Mentioned::address(address.ip(), address.port()),
            Reason::Socket(path) => Mentioned::name(path),
            Reason::Mail => return Vec::new(),
        };
        let mut found = mentions_in(Path::new("[app.env]"), &lines(&self.env), &wanted);
        for mention in &mut found {
            mention.line = None;
        }
        for path in &self.configs {
            let text = std::fs::read_to_string(path).unwrap_or_default();
            found.extend(mentions_in(path, &text, &wanted));
        }
        found.extend(mentions(&self.app_root, &wanted));
        likeliest(found)
    }
}

/// Whom a setting means.
fn reason_of(whom: &str) -> Reason {
    if whom.starts_with('/') {
        return Reason::Socket(whom.to_owned());
    }
    let number = whom.replacen("localhost", "127.0.0.1", 1);
    if let Ok(address) = number.parse() {
        return Reason::Address(address);
    }
    let host = whom.rsplit_once(':').map_or(whom, |(host, _)| host);
    Reason::Name(host.to_owned())
}

/// An environment as a file of it would be.
fn lines(env: &BTreeMap<String, String>) -> String {
    env.iter().fold(String::new(), |mut text, (name, value)| {
        // A value of several lines names its host in the first, or not at all.
        let value = value.lines().next().unwrap_or_default();
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{name}={value}");
        text
    })
}

/// Who is of the lab.
struct Inside<'a> {
    arm: &'a Arm,
    lab: &'a Path,
    /// Whether the application reaches nobody else.
    closed: bool,
}

impl Inside<'_> {
    /// Whom an attempt was meant for, where that is an outsider whom the scenario does not name.
    fn outsider(&self, attempt: &Attempt) -> Option<Reason> {
        let reason = match &attempt.sought {
            Sought::Name(name) => Reason::Name(name.clone()),
            Sought::Address(Address::Tcp(address)) => {
                let within = attempt.reached && self.closed;
                if within || self.is_known(*address) {
                    return None;
                }
                Reason::Address(*address)
            }
            Sought::Address(Address::Unix(path)) => {
                let text = path.to_string_lossy().into_owned();
                let own = attempt.reached && OWN.iter().any(|dir| text.starts_with(dir));
                let inside = path.starts_with(self.lab) || (own && self.closed);
                if inside || DONE_WITHOUT.contains(&text.as_str()) {
                    return None;
                }
                Reason::Socket(text)
            }
            Sought::Program(path) => {
                let path = Path::new(path);
                if !path.starts_with(self.lab) || !path.ends_with(NO_MAIL) {
                    return None;
                }
                let mut peers = self.arm.peers.iter();
                if peers.any(|peer| peer.kind == PeerKind::Smtp) {
                    return None;
                }
                Reason::Mail
            }
        };
        (!self.is_named(&reason)).then_some(reason)
    }

    /// Whether the scenario says who stands for somebody, or that nobody does.
    fn is_named(&self, reason: &Reason) -> bool {
        let allowed = |name: &String| is_meant(name, reason);
        let has_double = match reason {
            Reason::Name(name) => self.has_double(name),
            _ => false,
        };
        has_double || self.arm.unreachable.iter().any(allowed)
    }

    /// Whether somebody whom a setting names is of the lab, or named by the scenario.
    fn is_in_order(&self, reason: &Reason) -> bool {
        let of_lab = match reason {
            Reason::Address(address) => self.is_known(*address),
            Reason::Socket(path) => Path::new(path).starts_with(self.lab),
            Reason::Name(_) | Reason::Mail => false,
        };
        of_lab || self.is_named(reason)
    }

    /// Whether a tier or a double is at an address.
    fn is_known(&self, address: SocketAddr) -> bool {
        let tiers = self.arm.running.iter();
        let of_tiers = tiers.flat_map(|tier| &tier.listen);
        let doubles = self.arm.doubles.iter().map(|(_, address)| address);
        of_tiers.chain(doubles).any(|known| match known {
            Address::Tcp(known) => {
                let any = known.ip().is_unspecified();
                known.port() == address.port() && (any || known.ip() == address.ip())
            }
            Address::Unix(_) => false,
        })
    }

    /// A name that stands in the lab's list of hosts is only asked for in ways that the list has no answer to.
    fn has_double(&self, name: &str) -> bool {
        let mut peers = self.arm.peers.iter();
        peers.any(|peer| peer.host.eq_ignore_ascii_case(name))
    }
}

/// Whether an entry of `[app] unreachable` means an outsider.
fn is_meant(entry: &str, outsider: &Reason) -> bool {
    let entry = entry.strip_prefix("unix:").unwrap_or(entry);
    let ip = |text: &str| text.trim_matches(['[', ']']).parse::<IpAddr>().ok();
    match outsider {
        Reason::Mail => entry == PeerSpec::MAIL,
        Reason::Socket(path) => entry == path,
        Reason::Name(name) => {
            let host = entry.rsplit_once(':').map_or(entry, |(host, _)| host);
            host.trim_end_matches('.').eq_ignore_ascii_case(name)
        }
        Reason::Address(address) => {
            let is_host = |host: &str| match ip(host) {
                Some(host) => host == address.ip(),
                None => host == "localhost" && address.ip().is_loopback(),
            };
            is_host(entry)
                || entry
                    .rsplit_once(':')
                    .is_some_and(|(host, port)| is_host(host) && port.parse() == Ok(address.port()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> Reason {
        Reason::Address(text.parse().expect("an address"))
    }

    #[test]
    fn an_entry_means_a_host_an_address_a_socket_or_mail() {
        let api = Reason::Name("api.example.test".to_owned());
        let socket = Reason::Socket("/run/mysqld/mysqld.sock".to_owned());
        for (entry, outsider, meant) in [
            ("API.example.test", &api, true),
            ("api.example.test:443", &api, true),
            ("example.test", &api, false),
            ("10.0.0.9", &address("10.0.0.9:25"), true),
            ("10.0.0.9:25", &address("10.0.0.9:25"), true),
            ("10.0.0.9:26", &address("10.0.0.9:25"), false),
            ("10.0.0.8", &address("10.0.0.9:25"), false),
            ("localhost", &address("127.0.0.1:25"), true),
            ("localhost:25", &address("[::1]:25"), true),
            ("localhost:26", &address("127.0.0.1:25"), false),
            ("[2001:db8::1]:25", &address("[2001:db8::1]:25"), true),
            ("2001:db8::1", &address("[2001:db8::1]:25"), true),
            ("/run/mysqld/mysqld.sock", &socket, true),
            ("unix:/run/mysqld/mysqld.sock", &socket, true),
            ("/run", &socket, false),
            ("mail()", &Reason::Mail, true),
            ("mail", &Reason::Mail, false),
        ] {
            assert_eq!(is_meant(entry, outsider), meant, "{entry} {outsider:?}");
        }
    }
}
