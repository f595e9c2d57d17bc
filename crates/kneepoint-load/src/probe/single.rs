//! A single request outside a load: to check who answers, to warm up, to wait for a first response.

use crate::connection::namespace;
use crate::connection::{Endpoint, socket};
use crate::connection::{Secure, TlsSession};
use crate::http2::{self, Timing};
use crate::plan::LoadError;
use crate::plan::{HttpVersion, Target};
use crate::request::RequestTemplate;
use crate::response::Page;
use crate::response::Parser;
use crate::response::{Fed, Malformed, Reply};
use crate::response::{printable, readable};
use kneepoint_model::VariableNames;
use kneepoint_model::{Request, check_request};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send, sockopt};
use std::borrow::Cow;
use std::io::Read as _;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// Largest body that is kept.
pub(crate) const LARGEST_BODY: usize = 4 << 20;
const READ_BYTES: usize = 16 << 10;

/// A response to a single request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetched {
    /// HTTP status (for FastCGI, of the `Status` header, else 200).
    pub status: u16,
    /// Its headers, name and value, in their order.
    pub headers: Vec<(String, String)>,
    /// The body as on the wire, up to 4 MiB.
    pub body: Vec<u8>,
    /// First bytes of the FastCGI error stream.
    pub stderr: String,
    /// From before the connection to the first byte.
    pub first_byte: Duration,
    /// From before the connection to the last byte.
    pub elapsed: Duration,
}

impl Fetched {
    /// What a reply has kept of a complete response.
    fn of(reply: &mut Reply<'_>, timing: Timing) -> Self {
        let Timing {
            first_byte,
            elapsed,
        } = timing;
        Self {
            status: reply.status,
            headers: reply.take_headers(),
            body: reply.take_body(),
            stderr: printable(&reply.stderr),
            first_byte,
            elapsed,
        }
    }

    /// The value of the first header of this name, letter case ignored.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        let found = headers.find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    /// Where a redirect sends its visitor, as written; `None` for another answer, or one that does not say.
    #[must_use]
    pub fn redirect(&self) -> Option<&str> {
        let redirects = (300..400).contains(&self.status);
        self.header("location").filter(|_| redirects)
    }

    /// The body without compression, up to 4 MiB; `None` where it is compressed by something else than gzip.
    #[must_use]
    pub fn plain_body(&self) -> Option<Cow<'_, [u8]>> {
        match self.header("content-encoding").map(str::trim) {
            None | Some("" | "identity") => Some(Cow::Borrowed(&self.body)),
            Some(gzip) if gzip.eq_ignore_ascii_case("gzip") => {
                let mut plain = Vec::new();
                // Of a body that is cut off or damaged, what came before is shown.
                let _ = flate2::read::MultiGzDecoder::new(self.body.as_slice())
                    .take(LARGEST_BODY as u64)
                    .read_to_end(&mut plain);
                Some(Cow::Owned(plain))
            }
            Some(_) => None,
        }
    }

    /// Whether a text stands in the body as it is on the wire.
    #[must_use]
    pub fn contains(&self, text: &str) -> bool {
        memchr::memmem::find(&self.body, text.as_bytes()).is_some()
    }

    /// What a person reads on it. Its size is that of the body on the wire.
    #[must_use]
    pub fn page(&self) -> Page {
        let mut page = match self.plain_body() {
            Some(body) => Page::read(&body, self.header("content-type")),
            None => Page::default(),
        };
        page.size_bytes = self.body.len();
        page
    }
}

/// Sends one request on a new connection and returns what comes, whatever its status.
///
/// # Errors
/// No complete response within `timeout`; the message says at which point.
pub fn fetch(
    target: &Target,
    request: &Request,
    netns: Option<&Path>,
    timeout: Duration,
) -> Result<Fetched, LoadError> {
    let names = VariableNames::default();
    check_request(request, &names)?;
    let template = RequestTemplate::new(target, request, &names, &[]);
    let exchange = Exchange {
        target,
        template: &template,
        request: &template.whole,
        timeout,
    };
    let mut reply = Reply::keeping_body(LARGEST_BODY);
    exchange.run(netns, &mut reply)
}

/// Asks a target who it is: the body of a GET of `path`, which must come with status 200. With a nonce in it,
/// this proves that the server is the one that was stood up.
///
/// # Errors
/// No response, or another status; the message shows what came instead.
pub fn identify(
    target: &Target,
    path: &str,
    netns: Option<&Path>,
    timeout: Duration,
) -> Result<String, LoadError> {
    let fetched = fetch(target, &Request::get(path), netns, timeout)?;
    if fetched.status == 200 {
        return Ok(String::from_utf8_lossy(&fetched.body).into_owned());
    }
    let shown = readable(&fetched.body[..fetched.body.len().min(crate::response::EXCERPT_BYTES)]);
    Err(LoadError::Fetch {
        request: format!("GET {path}"),
        address: target.address().to_string(),
        problem: format!(
            "status {} instead of 200; check that this server serves the path. It said: {shown} {}",
            fetched.status, fetched.stderr
        ),
    })
}

/// One request on a connection of its own.
pub(crate) struct Exchange<'a> {
    pub(crate) target: &'a Target,
    pub(crate) template: &'a RequestTemplate,
    /// What is sent.
    pub(crate) request: &'a [u8],
    pub(crate) timeout: Duration,
}

impl Exchange<'_> {
    /// Sends the request from a namespace and reads the response into a reply that has been made ready for it.
    pub(crate) fn run(
        &self,
        netns: Option<&Path>,
        reply: &mut Reply<'_>,
    ) -> Result<Fetched, LoadError> {
        let endpoint = Endpoint::new(self.target.address())?;
        let secure = self.target.tls();
        let secure = secure.map(|tls| Secure::new(tls, self.target.version()));
        let secure = secure.transpose()?;
        let mut call = || {
            let call = Call {
                exchange: self,
                secure: secure.as_ref(),
                began: Instant::now(),
            };
            match self.target.version() {
                HttpVersion::Http1 => call.run(&endpoint, reply),
                HttpVersion::Http2 => {
                    let scheme = http2::scheme(self.target);
                    let (secure, wire) = (secure.as_ref(), self.request);
                    http2::fetch(&endpoint, secure, scheme, wire, self.timeout, reply)?
                        .map_err(|problem| call.error(problem))
                        .map(|timing| Fetched::of(reply, timing))
                }
            }
        };
        if netns.is_none() {
            return call();
        }
        // A namespace is entered for good, so a thread of its own goes there.
        thread::scope(|scope| {
            let visit = scope.spawn(|| namespace::enter(netns).and_then(|()| call()));
            visit
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }
}

/// A connection, encrypted or not.
struct Channel {
    fd: OwnedFd,
    session: Option<Box<TlsSession>>,
}

/// An exchange under way.
struct Call<'a> {
    exchange: &'a Exchange<'a>,
    secure: Option<&'a Secure>,
    began: Instant,
}

impl Call<'_> {
    fn error(&self, problem: String) -> LoadError {
        LoadError::Fetch {
            request: self.exchange.template.name.clone(),
            address: self.exchange.target.address().to_string(),
            problem,
        }
    }

    fn failed(&self, doing: &str, errno: Errno) -> LoadError {
        self.error(format!(
            "{doing}: {errno}; check that the server runs and listens there"
        ))
    }

    /// Waits until the socket can be read or written.
    fn wait(&self, fd: &OwnedFd, what: PollFlags, doing: &str) -> Result<(), LoadError> {
        loop {
            let left = self.exchange.timeout.saturating_sub(self.began.elapsed());
            if left.is_zero() {
                return Err(self.error(format!(
                    "{doing}: nothing within {:?}; check what the server is busy with",
                    self.exchange.timeout
                )));
            }
            let timeout = Timespec {
                tv_sec: left.as_secs() as i64,
                tv_nsec: left.subsec_nanos().into(),
            };
            match poll(&mut [PollFd::new(fd, what)], Some(&timeout)) {
                Ok(0) | Err(Errno::INTR) => {}
                Ok(_) => return Ok(()),
                Err(errno) => return Err(self.failed(doing, errno)),
            }
        }
    }

    fn run(&self, endpoint: &Endpoint, reply: &mut Reply<'_>) -> Result<Fetched, LoadError> {
        let fd = self.connect(endpoint)?;
        let mut channel = Channel { fd, session: None };
        if let Some(secure) = self.secure {
            self.shake_hands(&mut channel, secure)?;
        }
        match self.send(&mut channel, self.exchange.request) {
            Ok(()) => self.receive(&mut channel, reply),
            // A server may answer before it has read all, and close (413).
            Err(failed) => self.receive(&mut channel, reply).map_err(|_| failed),
        }
    }

    fn connect(&self, endpoint: &Endpoint) -> Result<OwnedFd, LoadError> {
        let doing = "connecting";
        let opening = socket::open(endpoint).map_err(|errno| self.failed(doing, errno))?;
        if !opening.connected {
            self.wait(&opening.fd, PollFlags::OUT, doing)?;
            sockopt::socket_error(&opening.fd)
                .and_then(|state| state)
                .map_err(|errno| self.failed(doing, errno))?;
        }
        Ok(opening.fd)
    }

    fn shake_hands(&self, channel: &mut Channel, secure: &Secure) -> Result<(), LoadError> {
        let broken = |error: rustls::Error| self.error(secure.explain(&error));
        channel.session = Some(secure.open().map_err(broken)?);
        let mut buffer = vec![0; READ_BYTES];
        while channel.session.as_ref().is_some_and(|s| s.is_handshaking()) {
            self.send(channel, &[])?;
            let count = self.read(&channel.fd, &mut buffer, "the TLS handshake")?;
            let Some(session) = &mut channel.session else {
                break;
            };
            if count == 0 {
                return Err(self.error(
                    "the server closed during the TLS handshake; look into its error log".into(),
                ));
            }
            // There is no plaintext before the request.
            let taken = session.take(&buffer[..count], &mut [], |_| {});
            if let Err(error) = taken {
                // The alert that tells the server why.
                let _ = session.write(&channel.fd, &[], &mut 0);
                return Err(broken(error));
            }
        }
        Ok(())
    }

    fn send(&self, channel: &mut Channel, bytes: &[u8]) -> Result<(), LoadError> {
        let mut written = 0;
        loop {
            let sent = match &mut channel.session {
                Some(session) => session.write(&channel.fd, bytes, &mut written),
                None => write_plain(&channel.fd, bytes, &mut written),
            };
            match sent {
                Ok(true) => return Ok(()),
                Ok(false) => self.wait(&channel.fd, PollFlags::OUT, "sending")?,
                Err(errno) => return Err(self.failed("sending", errno)),
            }
        }
    }

    /// Reads what there is, waiting for it; 0 at the end.
    fn read(&self, fd: &OwnedFd, buffer: &mut [u8], doing: &str) -> Result<usize, LoadError> {
        loop {
            match recv(fd, &mut *buffer, RecvFlags::empty()) {
                Ok((count, _)) => return Ok(count),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => self.wait(fd, PollFlags::IN, doing)?,
                Err(errno) => return Err(self.failed(doing, errno)),
            }
        }
    }

    fn receive(&self, channel: &mut Channel, reply: &mut Reply<'_>) -> Result<Fetched, LoadError> {
        let doing = "waiting for the response";
        let mut parser = Parser::of(self.exchange.target);
        parser.begin(self.exchange.template.head);
        let (mut buffer, mut plain) = (vec![0; READ_BYTES], vec![0; READ_BYTES]);
        let mut first_byte = None;
        loop {
            let count = self.read(&channel.fd, &mut buffer, doing)?;
            let mut fed = Ok(Fed::More);
            let mut feed = |bytes: &[u8]| {
                first_byte.get_or_insert_with(|| self.began.elapsed());
                if matches!(fed, Ok(Fed::More)) {
                    fed = parser.feed(bytes, reply);
                }
            };
            let ended = match (&mut channel.session, self.secure) {
                (Some(session), Some(secure)) if count > 0 => session
                    .take(&buffer[..count], &mut plain, &mut feed)
                    .map_err(|error| self.error(secure.explain(&error)))?,
                _ if count > 0 => {
                    feed(&buffer[..count]);
                    false
                }
                _ => true,
            };
            match fed {
                Ok(Fed::Done(_)) => break,
                Ok(Fed::More) if ended && parser.complete_at_end() => break,
                Ok(Fed::More) if ended => {
                    return Err(self.error(
                        "the server closed before its response was complete; look into its error log".into(),
                    ));
                }
                Ok(Fed::More) => {}
                Err(Malformed(why)) => {
                    return Err(self.error(format!(
                        "{why}; check that this address speaks the protocol asked for"
                    )));
                }
            }
        }
        let elapsed = self.began.elapsed();
        let timing = Timing {
            first_byte: first_byte.unwrap_or(elapsed),
            elapsed,
        };
        Ok(Fetched::of(reply, timing))
    }
}

/// Writes what is not `written` yet; false when the socket is full.
fn write_plain(fd: &OwnedFd, bytes: &[u8], written: &mut usize) -> Result<bool, Errno> {
    while let Some(rest) = bytes.get(*written..).filter(|rest| !rest.is_empty()) {
        match send(fd, rest, SendFlags::NOSIGNAL) {
            Ok(count) => *written += count,
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return Ok(false),
            Err(errno) => return Err(errno),
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use std::io::Write as _;

    fn check(body: &[u8], encoding: &str, title: Option<&str>) {
        let fetched = Fetched {
            status: 200,
            headers: vec![
                ("content-type".into(), "text/html".into()),
                ("Content-Encoding".into(), encoding.into()),
            ],
            body: body.to_vec(),
            stderr: String::new(),
            first_byte: Duration::ZERO,
            elapsed: Duration::ZERO,
        };
        let page = fetched.page();
        assert_eq!(page.title.as_deref(), title, "{encoding}");
        assert_eq!(page.size_bytes, body.len());
    }

    #[test]
    fn a_compressed_page_is_read_as_the_one_it_was() {
        let html = format!("<title>My blog</title>{}", "<p>words</p>".repeat(100));
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(html.as_bytes()).expect("compressed");
        let gzip = encoder.finish().expect("compressed");
        check(html.as_bytes(), "", Some("My blog"));
        check(html.as_bytes(), "identity", Some("My blog"));
        check(&gzip, "gzip", Some("My blog"));
        check(&gzip, "GZIP", Some("My blog"));
        check(&gzip, "br", None);
        check(b"no gzip at all", "gzip", None);
    }
}
