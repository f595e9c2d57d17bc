//! Where requests go, in which protocol, and whom an encrypted connection trusts.

use kneepoint_model::Address;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Where requests go and in which protocol. Made by [`Target::http`] or [`Target::fastcgi`] and the `with_` methods,
/// so that what is added later costs nothing where it is not wanted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Target {
    /// HTTP over TCP or a Unix socket.
    Http {
        /// Where the server listens.
        address: Address,
        /// Value of the `Host` header (in HTTP/2, of `:authority`).
        host_header: String,
        /// Whether connections are used again. Without, each request asks the server to close (in HTTP/2, each
        /// connection carries one request).
        keep_alive: bool,
        /// The version that is spoken.
        version: HttpVersion,
        /// How connections are encrypted; `None` sends in the clear.
        tls: Option<Tls>,
    },
    /// FastCGI straight to a PHP runtime, with the parameters nginx would send.
    FastCgi {
        /// Where the runtime listens.
        address: Address,
        /// The script that serves every path which does not itself end in `.php`: the front controller.
        script: PathBuf,
        /// The document root.
        document_root: PathBuf,
        /// Whether connections are used again (`FCGI_KEEP_CONN`, nginx's `fastcgi_keep_conn`).
        keep_conn: bool,
        /// Whether the application is told that the visitor came over HTTPS (`HTTPS=on`), as nginx does behind
        /// `listen ... ssl`. Applications that redirect to HTTPS need it.
        https: bool,
    },
}

/// A version of HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HttpVersion {
    /// HTTP/1.1: one request at a time on a connection.
    #[default]
    Http1,
    /// HTTP/2: agreed on through ALPN on an encrypted connection, and spoken with prior knowledge (h2c) on a plain one.
    Http2,
}

/// How connections are encrypted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Tls {
    /// The DNS name or IP address the certificate must be for. A name is also sent to the server (SNI).
    pub server_name: String,
    /// Whose certificates are accepted.
    pub verify: Verify,
}

/// Whose certificates are accepted.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verify {
    /// Those signed by an authority this machine trusts.
    #[default]
    System,
    /// Those signed by an authority in this PEM file, and no other.
    CaFile(PathBuf),
    /// Anybody's. The load point says so as a doubt, since nothing shows then who answered.
    None,
}

impl Target {
    /// HTTP/1.1 in the clear on connections that are used again.
    #[must_use]
    pub fn http(address: Address, host_header: impl Into<String>) -> Self {
        Self::Http {
            address,
            host_header: host_header.into(),
            keep_alive: true,
            version: HttpVersion::Http1,
            tls: None,
        }
    }

    /// FastCGI on a new connection for each request, for a visitor who came over plain HTTP.
    #[must_use]
    pub fn fastcgi(
        address: Address,
        script: impl Into<PathBuf>,
        document_root: impl Into<PathBuf>,
    ) -> Self {
        Self::FastCgi {
            address,
            script: script.into(),
            document_root: document_root.into(),
            keep_conn: false,
            https: false,
        }
    }

    /// The same with connections that are used again, or not.
    #[must_use]
    pub fn with_keep_alive(mut self, keep: bool) -> Self {
        match &mut self {
            Self::Http { keep_alive, .. } => *keep_alive = keep,
            Self::FastCgi { keep_conn, .. } => *keep_conn = keep,
        }
        self
    }

    /// The same over TLS. FastCGI has none: there it only tells the application that the visitor came over HTTPS.
    #[must_use]
    pub fn with_tls(mut self, settings: Tls) -> Self {
        match &mut self {
            Self::Http { tls, .. } => *tls = Some(settings),
            Self::FastCgi { https, .. } => *https = true,
        }
        self
    }

    /// The same in another version of HTTP; FastCGI stays as it is.
    #[must_use]
    pub fn with_version(mut self, wanted: HttpVersion) -> Self {
        if let Self::Http { version, .. } = &mut self {
            *version = wanted;
        }
        self
    }

    /// Where the server listens.
    #[must_use]
    pub fn address(&self) -> &Address {
        match self {
            Self::Http { address, .. } | Self::FastCgi { address, .. } => address,
        }
    }

    /// By what name the site is asked, unless a request names another.
    #[must_use]
    pub fn host(&self) -> &str {
        match self {
            Self::Http { host_header, .. } => host_header,
            Self::FastCgi { .. } => "localhost",
        }
    }

    /// The same, asked by another name. FastCGI stays as it is.
    #[must_use]
    pub(crate) fn with_host(mut self, host: &str) -> Self {
        if let Self::Http { host_header, .. } = &mut self {
            host_header.clear();
            host_header.push_str(host);
        }
        self
    }

    /// How connections are encrypted, if they are.
    #[must_use]
    pub fn tls(&self) -> Option<&Tls> {
        match self {
            Self::Http { tls, .. } => tls.as_ref(),
            Self::FastCgi { .. } => None,
        }
    }

    /// The version of HTTP on its connections. (FastCGI counts as the older one: it, too, carries one request at a
    /// time.)
    #[must_use]
    pub fn version(&self) -> HttpVersion {
        match self {
            Self::Http { version, .. } => *version,
            Self::FastCgi { .. } => HttpVersion::Http1,
        }
    }

    /// Whether clients of it can have slow lines: one request at a time on a connection of the network.
    pub(crate) fn has_lines(&self) -> bool {
        match self {
            Self::Http {
                address, version, ..
            } => matches!(address, Address::Tcp(_)) && *version == HttpVersion::Http1,
            Self::FastCgi { .. } => false,
        }
    }

    pub(crate) fn keeps_connections(&self) -> bool {
        match self {
            Self::Http { keep_alive, .. } => *keep_alive,
            Self::FastCgi { keep_conn, .. } => *keep_conn,
        }
    }

    /// What this target leaves unchecked, a sentence each, for the load point.
    pub(crate) fn doubts(&self) -> Vec<String> {
        let unverified = self.tls().filter(|tls| tls.verify == Verify::None);
        unverified
            .map(|tls| {
                format!(
                    "certificates were not verified: nothing shows that it was {} which answered; name its \
                     authority with --cacert FILE instead of --insecure",
                    tls.server_name
                )
            })
            .into_iter()
            .collect()
    }
}

impl Tls {
    /// Encrypts for a server of this name whose certificate an authority this machine trusts has signed.
    #[must_use]
    pub fn new(server_name: impl Into<String>) -> Self {
        Self {
            server_name: server_name.into(),
            verify: Verify::System,
        }
    }

    /// The same with another choice of whom to trust.
    #[must_use]
    pub fn with_verify(mut self, verify: Verify) -> Self {
        self.verify = verify;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_made_in_steps_and_doubt_what_is_not_verified() {
        let plain = Target::http(Address::Unix("/x".into()), "shop.test");
        assert!(plain.keeps_connections() && plain.tls().is_none());
        assert_eq!(plain.version(), HttpVersion::Http1);
        let target = plain
            .with_keep_alive(false)
            .with_version(HttpVersion::Http2)
            .with_tls(Tls::new("shop.test"));
        assert!(!target.keeps_connections());
        assert_eq!(target.version(), HttpVersion::Http2);
        assert_eq!(target.doubts(), Vec::<String>::new());
        let blind = Tls::new("shop.test").with_verify(Verify::None);
        let doubts = target.with_tls(blind).doubts();
        assert!(doubts[0].contains("shop.test"), "{doubts:?}");

        let php = Target::fastcgi(Address::Unix("/x".into()), "/srv/index.php", "/srv")
            .with_version(HttpVersion::Http2)
            .with_tls(Tls::new("shop.test"));
        assert!(matches!(
            &php,
            Target::FastCgi {
                https: true,
                keep_conn: false,
                ..
            }
        ));
        assert_eq!((php.version(), php.tls()), (HttpVersion::Http1, None));
    }
}
