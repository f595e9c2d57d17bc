//! Whom the application tried to reach outside of the lab, in words that say what to do.

use kneepoint_model::{PeerKind, PeerSpec};
use kneepoint_stack::application::{Mention, NamedHost};
use std::fmt::Write as _;
use std::net::SocketAddr;

/// Most outsiders that are told one by one.
const MOST_TOLD: usize = 12;
/// Ports of servers that a tier stands for, with the offers of the lab to point a setting at (`[app.env]`).
const OF_TIERS: [(u16, &str); 3] = [(3306, "DB"), (5432, "DB"), (6379, "REDIS")];
/// Ports that only TLS is spoken on, and those of mail.
const OF_TLS: [u16; 3] = [443, 465, 8443];
const OF_MAIL: [u16; 4] = [25, 587, 1025, 2525];

/// Whom an attempt was meant for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// A host by its name: a nameserver was asked for it.
    Name(String),
    /// An address.
    Address(SocketAddr),
    /// A socket of the machine, by its path.
    Socket(String),
    /// Somebody by mail, through the machine's mail program.
    Mail,
}

impl Reason {
    /// Whether both are the same outsider: `localhost` is one at either of its addresses.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Address(one), Self::Address(other)) => {
                let near = one.ip().is_loopback() && other.ip().is_loopback();
                one.port() == other.port() && (near || one.ip() == other.ip())
            }
            (one, other) => one == other,
        }
    }
}

/// What to do about an outsider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Advice {
    /// Let a double answer: its kind, its port.
    Double(PeerKind, u16),
    /// Point its settings at a tier, whose offers begin like this: `DB`.
    Tier(&'static str),
    /// Nobody can stand for it: that it stays unreachable, for this reason.
    Unreachable(&'static str),
}

/// Somebody outside of the lab whom the application tried to reach.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outsider {
    /// Whom.
    pub reason: Reason,
    /// The line of PHP: `src/Rates.php:12`; `None` where no PHP ran.
    pub at: Option<String>,
    /// The function of PHP that did it; may be empty.
    pub through: String,
    /// The request: `GET /cart`.
    pub request: Option<String>,
    /// The settings that name it.
    pub mentions: Vec<Mention>,
}

impl Outsider {
    /// How `[app] unreachable` and `[[peer]]` name it.
    #[must_use]
    pub fn name(&self) -> String {
        match &self.reason {
            Reason::Name(name) | Reason::Socket(name) => name.clone(),
            Reason::Address(address) => address.to_string(),
            Reason::Mail => PeerSpec::MAIL.to_owned(),
        }
    }

    /// The host of a double that would stand for it.
    #[must_use]
    pub fn host(&self) -> String {
        match &self.reason {
            Reason::Address(address) => address.ip().to_string(),
            Reason::Mail => "mail.example.test".to_owned(),
            _ => self.name(),
        }
    }

    /// What to do about it.
    #[must_use]
    pub fn advice(&self) -> Advice {
        let scheme = self.mentions.iter().find_map(|it| it.scheme.as_deref());
        let port = match &self.reason {
            Reason::Socket(path) => {
                let of_tier = |word: &str| path.contains(word);
                let redis = of_tier("redis") || of_tier("valkey");
                let db = of_tier("mysql") || of_tier("maria") || of_tier("PGSQL");
                return match (redis, db) {
                    (true, _) => Advice::Tier("REDIS"),
                    (_, true) => Advice::Tier("DB"),
                    _ => Advice::Unreachable("no double listens on a socket of the file system"),
                };
            }
            Reason::Mail => return Advice::Double(PeerKind::Smtp, 25),
            Reason::Address(address) if address.is_ipv6() && !address.ip().is_loopback() => {
                return Advice::Unreachable("no double has an IPv6 address");
            }
            Reason::Address(address) => Some(address.port()),
            Reason::Name(_) => self.mentions.iter().find_map(|it| it.port),
        };
        let by_port = port.and_then(|port| OF_TIERS.iter().find(|(of, _)| *of == port));
        let is_tls = matches!(scheme, Some("https" | "ssl" | "tls" | "smtps"))
            || port.is_some_and(|port| OF_TLS.contains(&port));
        let key = self.mentions.first().map(|it| it.key.to_ascii_uppercase());
        let key = key.unwrap_or_default();
        let of_mail = key.contains("MAIL") || key.contains("SMTP") || scheme == Some("smtp");
        match (by_port, port) {
            _ if is_tls => {
                Advice::Unreachable("it is asked over TLS, and a double has no certificate")
            }
            (Some((_, tier)), _) => Advice::Tier(tier),
            (None, _) if key.starts_with("DB_") || key.contains("DATABASE") => Advice::Tier("DB"),
            (None, _) if key.contains("REDIS") => Advice::Tier("REDIS"),
            (_, Some(port)) if of_mail || OF_MAIL.contains(&port) => {
                Advice::Double(PeerKind::Smtp, port)
            }
            (_, None) if of_mail => Advice::Double(PeerKind::Smtp, 25),
            (_, port) => Advice::Double(PeerKind::Http, port.unwrap_or(80)),
        }
    }

    /// The `[[peer]]` of a double that would stand for it.
    #[must_use]
    pub fn peer(&self) -> Option<String> {
        let Advice::Double(kind, port) = self.advice() else {
            return None;
        };
        let kind = kind.name();
        let host = self.host();
        Some(format!(
            "[[peer]]\nhost = \"{host}\"\nkind = \"{kind}\"\nport = {port}\n"
        ))
    }

    /// Whom, where and by which setting, in one sentence.
    #[must_use]
    pub fn describe(&self) -> String {
        let mut text = match &self.reason {
            Reason::Name(name) => format!("{name} (its address was asked for)"),
            Reason::Mail => "a mail server, by mail()".to_owned(),
            _ => self.name(),
        };
        // Writing to a string cannot fail.
        let _ = match &self.at {
            Some(at) => write!(text, ", at {at}"),
            None => write!(text, ", outside of any line of PHP"),
        };
        if !self.through.is_empty() && self.reason != Reason::Mail {
            let _ = write!(text, " in {}()", self.through);
        }
        if let Some(request) = &self.request {
            let _ = write!(text, ", for {request}");
        }
        if !self.mentions.is_empty() {
            let mentions: Vec<String> = self.mentions.iter().map(mention).collect();
            let _ = write!(text, "; named by {}", mentions.join(" and by "));
        } else if self.reason != Reason::Mail {
            text.push_str("; no setting names it: look at that line");
        }
        text
    }

    /// What to write.
    fn remedy(&self) -> String {
        let name = self.name();
        let blocked =
            format!("[app] unreachable = [\"{name}\"] where the application copes without it");
        match self.advice() {
            Advice::Double(..) => {
                let peer = self.peer().unwrap_or_default();
                let peer = peer.trim_end().replace('\n', ", ").replacen(", ", " ", 1);
                format!("a double: {peer}; or {blocked}")
            }
            Advice::Tier(offer) => {
                let key = self.mentions.first().map(|it| it.key.as_str());
                let of_env = |key: &&str| key.chars().all(|c| c.is_ascii_uppercase() || c == '_');
                let key = key.filter(of_env).filter(|key| !key.is_empty());
                let tier = match offer {
                    "REDIS" => "cache = { server = \"redis\" }",
                    _ => "db = { server = \"mariadb\" } (or postgresql)",
                };
                format!(
                    "a tier: {tier} in [stack], with [app.env] {} = \"{{{offer}_HOST}}\" (or an [[app.file]]) pointing there; or \
                     {blocked}",
                    key.unwrap_or("NAME")
                )
            }
            Advice::Unreachable(why) => format!("{blocked} ({why})"),
        }
    }
}

/// A place that names an outsider: `REDIS_HOST in .env, line 3`.
fn mention(mention: &Mention) -> String {
    let file = mention.file.display();
    let place = match mention.line {
        Some(line) => format!("{file}, line {line}"),
        None => file.to_string(),
    };
    match mention.key.as_str() {
        "" => place,
        key => format!("{key} in {place}"),
    }
}

/// Why nothing is loaded: whom the application tried to reach, and what to do about each; then whom its settings name besides.
pub(in crate::testbed) fn refusal(outsiders: &[Outsider], untried: &[NamedHost]) -> String {
    let mut text = String::from(
        "the application tries to reach somebody outside of the lab, which nothing in it did: no load was sent. For each, \
         write what is meant into the scenario.",
    );
    for outsider in outsiders.iter().take(MOST_TOLD) {
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            "\n  - {}\n    {}",
            outsider.describe(),
            outsider.remedy()
        );
    }
    if let Some(more) = outsiders.len().checked_sub(MOST_TOLD).filter(|it| *it > 0) {
        let _ = write!(text, "\n  and {more} more");
    }
    if !untried.is_empty() {
        text.push_str("\n  Its settings name others, and no request came so far as to try them:");
    }
    for named in untried.iter().take(MOST_TOLD) {
        let NamedHost {
            whom,
            key,
            file,
            line,
        } = named;
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            "\n  - {whom}, named by {key} in {}, line {line}",
            file.display()
        );
    }
    text
}

/// The same where it is on the machine's network, and nobody was kept from anything.
pub(in crate::testbed) fn warning(outsiders: &[Outsider]) -> String {
    let told: Vec<String> = outsiders
        .iter()
        .take(MOST_TOLD)
        .map(Outsider::describe)
        .collect();
    format!(
        "the application reaches for others, and on the machine's network nothing keeps it from them: {}",
        told.join("; ")
    )
}
