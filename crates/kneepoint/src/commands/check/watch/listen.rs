//! The watch as metrics over HTTP: `GET /metrics`, and nothing else.
//!
//! A few connections at a time, a bounded head, two seconds for all of it: it serves scrapers, not the world.

use crate::say::say_line;
use anyhow::{Context as _, Result};
use kneepoint_check::{Moment, metrics};
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Most bytes of a request.
const HEAD: usize = 8 << 10;
/// How long one scrape may take.
const PATIENCE: Duration = Duration::from_secs(2);
/// A limit of no time at all would be none.
const LEAST: Duration = Duration::from_millis(1);
/// Most scrapes at once: one who is slow must not keep the others waiting, and many must not cost the machine.
const AT_ONCE: usize = 16;
/// How long to wait until one of them may be over.
const SOON: Duration = Duration::from_millis(10);

/// An address at which the last moment is served, as long as the program runs.
pub(super) struct Served {
    address: SocketAddr,
    moment: Arc<Mutex<Option<Moment>>>,
}

impl Served {
    /// Begins to serve.
    ///
    /// # Errors
    /// It is no address, or somebody else listens there.
    pub(super) fn at(text: &str) -> Result<Self> {
        Self::begin(parse(text)?, PATIENCE)
    }

    fn begin(address: SocketAddr, patience: Duration) -> Result<Self> {
        let listener = TcpListener::bind(address)
            .with_context(|| format!("cannot listen at {address}: choose another with --listen"))?;
        let address = listener.local_addr().unwrap_or(address);
        let moment = Arc::new(Mutex::new(None));
        let last = Arc::clone(&moment);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                // Held by us, and by each that serves. The others wait in the queue of the socket: each takes a bounded time.
                while Arc::strong_count(&last) >= AT_ONCE + 2 {
                    thread::sleep(SOON);
                }
                let last = Arc::clone(&last);
                // A scraper that leaves early is no failure of ours, and one that comes when the system has no thread for it
                // comes again.
                let _ = thread::Builder::new().spawn(move || serve(stream, &last, patience));
            }
        });
        Ok(Self { address, moment })
    }

    /// Says where, and who can read it.
    pub(super) fn say(&self) {
        say_line(&format!("Metrics: http://{}/metrics", self.address));
        if !self.address.ip().is_loopback() {
            say_line(&format!(
                "Anyone who reaches {} reads the names of pools, logs and settings there: keep it behind a firewall, or listen at 127.0.0.1.",
                self.address
            ));
        }
    }

    /// The moment that is served from now on.
    pub(super) fn tell(&self, moment: &Moment) {
        let mut last = self.moment.lock().unwrap_or_else(PoisonError::into_inner);
        *last = Some(moment.clone());
    }
}

/// `9753`, `127.0.0.1:9753`, `[::]:9753`.
fn parse(text: &str) -> Result<SocketAddr> {
    if let Ok(port) = text.trim_start_matches(':').parse() {
        return Ok(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port));
    }
    text.parse().with_context(|| {
        format!("--listen {text}: write a port, or an address with one: 127.0.0.1:9753")
    })
}

fn serve(
    mut stream: TcpStream,
    last: &Mutex<Option<Moment>>,
    patience: Duration,
) -> std::io::Result<()> {
    let end = Instant::now() + patience;
    let left = || end.saturating_duration_since(Instant::now());
    let mut head = Vec::new();
    let mut buffer = [0; 1024];
    while !head.windows(4).any(|four| four == b"\r\n\r\n") {
        if head.len() > HEAD || left().is_zero() {
            return Ok(());
        }
        stream.set_read_timeout(Some(left().max(LEAST)))?;
        match stream.read(&mut buffer)? {
            0 => return Ok(()),
            read => head.extend_from_slice(&buffer[..read]),
        }
    }
    let moment = last.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let text = answer(&head, moment.as_ref());
    let mut rest = text.as_bytes();
    while !rest.is_empty() && !left().is_zero() {
        stream.set_write_timeout(Some(left().max(LEAST)))?;
        rest = &rest[stream.write(rest)?..];
    }
    Ok(())
}

fn answer(head: &[u8], moment: Option<&Moment>) -> String {
    let head = String::from_utf8_lossy(head);
    let mut words = head.split_ascii_whitespace();
    let (method, path) = (
        words.next().unwrap_or_default(),
        words.next().unwrap_or_default(),
    );
    let path = path.split('?').next().unwrap_or_default();
    let (status, body) = match (method, path, moment) {
        ("GET" | "HEAD", "/metrics", Some(moment)) => ("200 OK", metrics(moment)),
        ("GET" | "HEAD", "/metrics", None) => {
            ("503 Service Unavailable", "not looked yet\n".into())
        }
        ("GET" | "HEAD", _, _) => ("404 Not Found", "metrics are at /metrics\n".into()),
        _ => ("405 Method Not Allowed", "GET /metrics\n".into()),
    };
    let length = body.len();
    let body = if method == "HEAD" {
        String::new()
    } else {
        body
    };
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n{body}"
    )
}

#[cfg(test)]
mod tests {
    use super::super::plain::tests::moment;
    use super::*;

    fn asked(address: SocketAddr, request: &str) -> String {
        let mut stream = TcpStream::connect(address).expect("connected");
        stream.write_all(request.as_bytes()).expect("sent");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("answered");
        text
    }

    #[test]
    fn a_scraper_reads_the_last_moment() {
        let served = Served::at("127.0.0.1:0").expect("listens");
        let get = "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";
        assert!(asked(served.address, get).starts_with("HTTP/1.1 503 "));
        served.tell(&moment());
        let text = asked(served.address, get);
        let (head, body) = text.split_once("\r\n\r\n").expect("a head");
        assert!(
            head.starts_with("HTTP/1.1 200 OK") && head.contains("version=0.0.4"),
            "{head}"
        );
        assert!(
            head.contains(&format!("Content-Length: {}", body.len())),
            "{head}"
        );
        assert!(body.contains("pool=\"www\",state=\"busy\"} 5\n"), "{body}");
        assert!(asked(served.address, "GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404 "));
        assert!(
            asked(served.address, "POST /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405 ")
        );
        // One that leaves at once.
        drop(TcpStream::connect(served.address).expect("connected"));
        let head = asked(served.address, "HEAD /metrics HTTP/1.1\r\n\r\n");
        assert!(head.ends_with("\r\n\r\n"), "{head}");
    }

    #[test]
    fn who_says_nothing_keeps_no_other_waiting() {
        let address = parse("127.0.0.1:0").expect("an address");
        let served = Served::begin(address, Duration::from_secs(600)).expect("listens");
        served.tell(&moment());
        let silent: Vec<TcpStream> = (1..AT_ONCE)
            .map(|_| TcpStream::connect(served.address).expect("connected"))
            .collect();
        let text = asked(served.address, "GET /metrics HTTP/1.1\r\n\r\n");
        assert!(text.starts_with("HTTP/1.1 200 OK"), "{text}");
        drop(silent);
    }

    #[test]
    fn who_comes_while_all_places_are_taken_waits_for_one() {
        let address = parse("127.0.0.1:0").expect("an address");
        let served = Served::begin(address, Duration::from_millis(300)).expect("listens");
        served.tell(&moment());
        let silent: Vec<TcpStream> = (0..2 * AT_ONCE)
            .map(|_| TcpStream::connect(served.address).expect("connected"))
            .collect();
        let text = asked(served.address, "GET /metrics HTTP/1.1\r\n\r\n");
        assert!(text.starts_with("HTTP/1.1 200 OK"), "{text}");
        drop(silent);
    }

    #[test]
    fn a_port_alone_is_one_of_loopback() {
        let shown = |text: &str| parse(text).map(|address| address.to_string()).ok();
        assert_eq!(shown("9753").as_deref(), Some("127.0.0.1:9753"));
        assert_eq!(shown(":9753").as_deref(), Some("127.0.0.1:9753"));
        assert_eq!(shown("[::]:1").as_deref(), Some("[::]:1"));
        assert_eq!(shown("example.org:80"), None);
    }
}
