//! A single request outside a load: to check who answers, to warm up, to wait for a first response.

use crate::examples::printable;
use crate::namespace;
use crate::plan::{LoadError, Target};
use crate::render::{self, Template};
use crate::reply::{Fed, Malformed, Reply};
use crate::sendable::check_request;
use crate::socket::{self, Endpoint};
use crate::text::Names;
use kneepoint_model::Request;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send, sockopt};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// Largest body that is kept.
pub(crate) const LARGEST_BODY: usize = 4 << 20;

/// A response to a single request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetched {
    /// HTTP status (for FastCGI, of the `Status` header, else 200).
    pub status: u16,
    /// The body as on the wire, up to 4 MiB.
    pub body: Vec<u8>,
    /// First bytes of the FastCGI error stream.
    pub stderr: String,
    /// From before the connection to the first byte.
    pub first_byte: Duration,
    /// From before the connection to the last byte.
    pub elapsed: Duration,
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
    let names = Names::default();
    check_request(request, &names)?;
    let template = Template::new(target, request, &names, &[]);
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
    let shown = printable(&fetched.body[..fetched.body.len().min(crate::reply::EXCERPT_BYTES)]);
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
    pub(crate) template: &'a Template,
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
        let mut call = || {
            Call {
                exchange: self,
                began: Instant::now(),
            }
            .run(&endpoint, reply)
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

/// An exchange under way.
struct Call<'a> {
    exchange: &'a Exchange<'a>,
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
        self.send(&fd)?;
        self.receive(&fd, reply)
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

    fn send(&self, fd: &OwnedFd) -> Result<(), LoadError> {
        let mut rest = self.exchange.request;
        while !rest.is_empty() {
            match send(fd, rest, SendFlags::NOSIGNAL) {
                Ok(count) => rest = &rest[count..],
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => self.wait(fd, PollFlags::OUT, "sending")?,
                Err(errno) => return Err(self.failed("sending", errno)),
            }
        }
        Ok(())
    }

    fn receive(&self, fd: &OwnedFd, reply: &mut Reply<'_>) -> Result<Fetched, LoadError> {
        let doing = "waiting for the response";
        let mut parser = render::parser(self.exchange.target);
        parser.begin(self.exchange.template.head);
        let mut buffer = vec![0; 16 << 10];
        let mut first_byte = None;
        loop {
            match recv(fd, buffer.as_mut_slice(), RecvFlags::empty()) {
                Ok((0, _)) if parser.complete_at_end() => break,
                Ok((0, _)) => {
                    return Err(self.error(
                        "the server closed before its response was complete; look into its error log".into(),
                    ));
                }
                Ok((count, _)) => {
                    first_byte.get_or_insert_with(|| self.began.elapsed());
                    match parser.feed(&buffer[..count], reply) {
                        Ok(Fed::More) => {}
                        Ok(Fed::Done(_)) => break,
                        Err(Malformed(why)) => {
                            return Err(self.error(format!(
                                "{why}; check that this address speaks the protocol asked for"
                            )));
                        }
                    }
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => self.wait(fd, PollFlags::IN, doing)?,
                Err(errno) => return Err(self.failed(doing, errno)),
            }
        }
        let elapsed = self.began.elapsed();
        Ok(Fetched {
            status: reply.status,
            stderr: printable(&reply.stderr),
            body: reply.take_body(),
            first_byte: first_byte.unwrap_or(elapsed),
            elapsed,
        })
    }
}
