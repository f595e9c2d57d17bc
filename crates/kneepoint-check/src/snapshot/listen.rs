//! Where somebody listens, or connects to.

use serde::Serialize;

/// Where somebody listens, or connects to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ListenEndpoint {
    /// A name or an address, and a port.
    Tcp(String, u16),
    /// The path of a Unix socket.
    Unix(String),
}

impl ListenEndpoint {
    /// `unix:/path`, `/path`, `127.0.0.1:9000`, `[::1]:80`, `php:9000`, `*:80`, `9000`.
    #[must_use]
    pub fn parse(text: &str, port: u16) -> Option<Self> {
        let text = text.trim();
        if let Some(path) = text.strip_prefix("unix:") {
            return Some(Self::Unix(plain(path.trim_end_matches(':'))));
        }
        if text.starts_with('/') {
            return Some(Self::Unix(plain(text)));
        }
        if let Ok(port) = text.parse() {
            return Some(Self::Tcp("*".into(), port));
        }
        let (host, port) = match text.rsplit_once(':') {
            Some((host, digits)) if !host.ends_with(':') && !text.ends_with(']') => {
                (host, digits.parse().ok()?)
            }
            _ => (text, port),
        };
        let host = host.trim_start_matches('[').trim_end_matches(']');
        (!host.is_empty()).then(|| Self::Tcp(host.to_owned(), port))
    }

    /// Whether it is one of TCP.
    #[must_use]
    pub fn is_tcp(&self) -> bool {
        matches!(self, Self::Tcp(..))
    }
}

/// A path with one slash where there are several: panels write `unix:///run/php.sock`.
fn plain(path: &str) -> String {
    let mut plain = String::with_capacity(path.len());
    for letter in path.chars() {
        if letter != '/' || !plain.ends_with('/') {
            plain.push(letter);
        }
    }
    plain
}

impl std::fmt::Display for ListenEndpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Tcp(host, port) if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp(host, port) => write!(f, "{host}:{port}"),
            Self::Unix(path) => f.write_str(path),
        }
    }
}

/// A socket that takes connections.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Listener {
    /// Where.
    pub endpoint: ListenEndpoint,
    /// Connections in its accept queue, and how many fit.
    pub queue: Option<(u64, u64)>,
}
