//! TLS by rustls: whom a connection trusts, and the session that turns its records into plaintext and back.
//!
//! A session makes no system call of its own: what the loop has read goes in, and what must be written goes to the
//! socket the loop gives. rustls allocates for each record, so an encrypted load is not free of allocation as a plain
//! one is.

use crate::plan::{HttpVersion, LoadError, Tls, Verify};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendFlags, send, sendmsg};
use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    AlertDescription, CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct,
    Error, RootCertStore, SignatureScheme,
};
use std::io::{self, IoSlice, Read, Write};
use std::path::Path;
use std::sync::Arc;

/// Sessions of one server that are kept to be resumed, per thread.
const SESSIONS: usize = 256;
/// Plaintext taken out of a session at once.
const PLAIN_BYTES: usize = 16 << 10;

/// What every connection of a load needs to begin a session.
#[derive(Debug, Clone)]
pub(crate) struct Secure {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl Secure {
    /// Reads the authorities, once for a load.
    pub(crate) fn new(tls: &Tls, version: HttpVersion) -> Result<Self, LoadError> {
        let name = ServerName::try_from(tls.server_name.clone()).map_err(|_| LoadError::Plan {
            problem: format!(
                "{:?} is not a name a certificate can be for; use a DNS name or an IP address",
                tls.server_name
            ),
        })?;
        let provider = Arc::new(ring::default_provider());
        let schemes = provider
            .signature_verification_algorithms
            .supported_schemes();
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| LoadError::Plan {
                problem: format!(
                    "TLS cannot be set up: {error}; this is a mistake in this program"
                ),
            })?;
        let mut config = match &tls.verify {
            Verify::None => builder
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(Anybody(schemes)))
                .with_no_client_auth(),
            Verify::System => builder
                .with_root_certificates(system_roots()?)
                .with_no_client_auth(),
            Verify::CaFile(path) => builder
                .with_root_certificates(roots_of(path)?)
                .with_no_client_auth(),
        };
        config.alpn_protocols = match version {
            HttpVersion::Http1 => vec![b"http/1.1".to_vec()],
            HttpVersion::Http2 => vec![b"h2".to_vec()],
        };
        Ok(Self {
            config: Arc::new(config),
            name,
        })
    }

    /// The same with sessions to resume that one thread has for itself.
    pub(crate) fn for_one_thread(&self) -> Self {
        let mut config = ClientConfig::clone(&self.config);
        config.resumption = Resumption::in_memory_sessions(SESSIONS);
        Self {
            config: Arc::new(config),
            name: self.name.clone(),
        }
    }

    /// Begins a session.
    pub(crate) fn open(&self) -> Result<Box<TlsSession>, Error> {
        let connection = ClientConnection::new(self.config.clone(), self.name.clone())?;
        Ok(Box::new(TlsSession { connection }))
    }

    pub(crate) fn config(&self) -> &Arc<ClientConfig> {
        &self.config
    }

    pub(crate) fn name(&self) -> &ServerName<'static> {
        &self.name
    }

    /// An error as a sentence that says what to do.
    pub(crate) fn explain(&self, error: &Error) -> String {
        explain(error, &self.name.to_str())
    }
}

/// What a thread needs to encrypt, beside the sessions of its connections.
#[derive(Debug)]
pub(crate) struct ThreadTls {
    pub(crate) secure: Secure,
    /// Where plaintext is put on its way to a parser.
    pub(crate) plain: Vec<u8>,
}

impl ThreadTls {
    pub(crate) fn new(secure: &Secure) -> Self {
        Self {
            secure: secure.for_one_thread(),
            plain: vec![0; PLAIN_BYTES],
        }
    }
}

fn roots_of(path: &Path) -> Result<RootCertStore, LoadError> {
    let wrong = |what: String| LoadError::Plan {
        problem: format!(
            "the authorities of `{}`: {what}; name a file of PEM certificates with --cacert",
            path.display()
        ),
    };
    let certificates = CertificateDer::pem_file_iter(path).map_err(|e| wrong(e.to_string()))?;
    let mut roots = RootCertStore::empty();
    for certificate in certificates {
        let certificate = certificate.map_err(|e| wrong(e.to_string()))?;
        roots.add(certificate).map_err(|e| wrong(e.to_string()))?;
    }
    if roots.is_empty() {
        return Err(wrong("no certificate in it".into()));
    }
    Ok(roots)
}

fn system_roots() -> Result<RootCertStore, LoadError> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    // A certificate that cannot be read is one authority less; the others still count.
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        let why = found.errors.first().map_or_else(
            || "no certificates were found".to_owned(),
            ToString::to_string,
        );
        return Err(LoadError::Plan {
            problem: format!(
                "the authorities this machine trusts: {why}; install ca-certificates, or name a file of PEM \
                 certificates with --cacert"
            ),
        });
    }
    Ok(roots)
}

/// Accepts any certificate, and with it any signature: who may answer with anybody's certificate need not prove that it
/// is theirs.
#[derive(Debug)]
struct Anybody(Vec<SignatureScheme>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.clone()
    }
}

/// Why a session failed, and what to do.
pub(crate) fn explain(error: &Error, name: &str) -> String {
    use CertificateError as Bad;
    let why = match error {
        Error::InvalidCertificate(Bad::UnknownIssuer) => {
            "the certificate is signed by an authority that is not trusted; name it with --cacert FILE"
                .to_owned()
        }
        Error::InvalidCertificate(Bad::Expired | Bad::ExpiredContext { .. }) => {
            "the certificate has expired; renew it".to_owned()
        }
        Error::InvalidCertificate(Bad::NotValidYet | Bad::NotValidYetContext { .. }) => {
            "the certificate is not valid yet; check the clocks of both machines".to_owned()
        }
        Error::InvalidCertificate(Bad::NotValidForName | Bad::NotValidForNameContext { .. }) => {
            format!("the certificate is not for `{name}`; use a name that it is for")
        }
        Error::InvalidCertificate(other) => {
            format!("the certificate cannot be accepted ({other:?}); check it with `openssl x509`")
        }
        _ => return explain_handshake(error),
    };
    format!("TLS: {why}, or accept any certificate with --insecure")
}

fn explain_handshake(error: &Error) -> String {
    match error {
        Error::AlertReceived(AlertDescription::NoApplicationProtocol) => {
            "TLS: the server does not speak the version of HTTP that was asked for; add or remove --http2".into()
        }
        Error::AlertReceived(alert) => {
            format!("TLS: the server ended the session with the alert {alert:?}; its error log says more")
        }
        Error::InvalidMessage(_) => {
            "TLS: what the server sends is not TLS; check the port, or use http:// instead of https://".into()
        }
        Error::PeerIncompatible(why) => format!(
            "TLS: the server and this program have no version or cipher in common ({why:?}); enable TLS 1.2 or 1.3 there"
        ),
        other => format!("TLS: {other}; the server's error log says more"),
    }
}

/// Writes to a socket that does not block.
struct Socket<'f>(&'f OwnedFd);

impl Write for Socket<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(send(self.0, bytes, SendFlags::NOSIGNAL)?)
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut none = SendAncillaryBuffer::default();
        Ok(sendmsg(self.0, parts, &mut none, SendFlags::NOSIGNAL)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The TLS session of one connection.
#[derive(Debug)]
pub(crate) struct TlsSession {
    connection: ClientConnection,
}

impl TlsSession {
    /// Whether application data cannot be sent yet.
    pub(crate) fn is_handshaking(&self) -> bool {
        self.connection.is_handshaking()
    }

    /// Whether the session has something to say of its own accord.
    pub(crate) fn wants_write(&self) -> bool {
        self.connection.wants_write()
    }

    /// Sends what of a request is not `written` yet, after what the session itself has to say. True when all of it
    /// is on its way; false when the socket is full.
    pub(crate) fn write(
        &mut self,
        fd: &OwnedFd,
        request: &[u8],
        written: &mut usize,
    ) -> Result<bool, Errno> {
        loop {
            while self.connection.wants_write() {
                match self.connection.write_tls(&mut Socket(fd)) {
                    Ok(_) => {}
                    Err(error) => match Errno::from_io_error(&error) {
                        Some(Errno::INTR) => {}
                        Some(Errno::AGAIN) => return Ok(false),
                        Some(errno) => return Err(errno),
                        None => return Err(Errno::IO),
                    },
                }
            }
            let rest = request.get(*written..).unwrap_or_default();
            if rest.is_empty() {
                return Ok(true);
            }
            // Nothing is buffered now, so there is room for some of it; writing into the buffer cannot fail.
            *written += self.connection.writer().write(rest).unwrap_or(0);
        }
    }

    /// Takes records as they were read, in whatever pieces, and hands on the plaintext in them. True when the peer
    /// has said that it will send no more.
    pub(crate) fn take(
        &mut self,
        mut records: &[u8],
        plain: &mut [u8],
        mut each: impl FnMut(&[u8]),
    ) -> Result<bool, Error> {
        while !records.is_empty() {
            match self.connection.read_tls(&mut records) {
                // Nothing counts after the peer's end.
                Ok(0) => return Ok(true),
                Ok(_) => {}
                Err(error) => return Err(Error::General(error.to_string())),
            }
            let state = self.connection.process_new_packets()?;
            let mut left = state.plaintext_bytes_to_read();
            while left > 0 {
                let count = self.connection.reader().read(plain).unwrap_or(0);
                if count == 0 {
                    break;
                }
                each(&plain[..count]);
                left = left.saturating_sub(count);
            }
            if state.peer_has_closed() {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(tls: &Tls) -> String {
        Secure::new(tls, HttpVersion::Http1)
            .expect_err("cannot be")
            .to_string()
    }

    #[test]
    fn settings_that_cannot_be_are_refused_with_what_to_do() {
        let missing = Verify::CaFile("/nonexistent/ca.pem".into());
        let error = refused(&Tls::new("shop.test").with_verify(missing));
        assert!(
            error.contains("/nonexistent/ca.pem") && error.contains("--cacert"),
            "{error}"
        );

        let dir = tempfile::tempdir().expect("temporary directory");
        let empty = dir.path().join("empty.pem");
        std::fs::write(&empty, "nothing\n").expect("written");
        let error = refused(&Tls::new("shop.test").with_verify(Verify::CaFile(empty)));
        assert!(error.contains("no certificate in it"), "{error}");

        let error = refused(&Tls::new("not a name").with_verify(Verify::None));
        assert!(error.contains("DNS name or an IP address"), "{error}");
        assert!(
            Secure::new(
                &Tls::new("127.0.0.1").with_verify(Verify::None),
                HttpVersion::Http2
            )
            .is_ok()
        );
    }

    #[test]
    fn each_failure_says_what_to_do() {
        let check = |error: Error, says: &[&str]| {
            let text = explain(&error, "shop.test");
            assert!(says.iter().all(|part| text.contains(part)), "{text}");
        };
        check(
            CertificateError::UnknownIssuer.into(),
            &["not trusted", "--cacert", "--insecure"],
        );
        check(
            CertificateError::Expired.into(),
            &["has expired", "--insecure"],
        );
        check(
            CertificateError::NotValidForName.into(),
            &["not for `shop.test`", "--insecure"],
        );
        check(CertificateError::Revoked.into(), &["Revoked", "--insecure"]);
        check(
            Error::AlertReceived(AlertDescription::NoApplicationProtocol),
            &["--http2"],
        );
        check(
            Error::AlertReceived(AlertDescription::HandshakeFailure),
            &["HandshakeFailure", "error log"],
        );
    }
}
