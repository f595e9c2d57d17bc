//! Whether the owner of a machine lets it be loaded: what the machine itself serves at a known path, and for how long.

use super::fetch;
use crate::plan::Target;
use jiff::Timestamp;
use kneepoint_model::Request;
use serde_json::Value;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// Where a machine serves the consent of its owner (RFC 8615: the place for what is asked of a whole site).
pub const CONSENT_PATH: &str = "/.well-known/kneepoint";

/// Most bytes of it: three short values.
const MOST_BYTES: usize = 4096;
/// Longest time of one question.
const LIMIT: Duration = Duration::from_secs(10);
/// So often it is asked for again while a load runs.
const EVERY: Duration = Duration::from_secs(60);
/// A server under load may miss a question; so many in a row end the load.
const TRIES: u32 = 3;

/// What the owner of a machine allows.
#[derive(Debug, Clone, PartialEq)]
pub struct Consent {
    /// The host that may be loaded, as a URL names it, without its port.
    pub host: String,
    /// The highest rate in requests a second, of all generators together.
    pub highest_hz: f64,
    /// When it ends.
    pub until: Timestamp,
}

/// Why there is no consent.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ConsentError {
    /// Nothing that says so is served.
    #[error(
        "{host} does not say that it may be loaded: {why}. Have it serve {CONSENT_PATH} with {{\"host\": \"{host}\", \
         \"highest_rate\": 500, \"until\": \"2030-01-31T18:00:00Z\"}}"
    )]
    NotServed {
        /// The host that was asked.
        host: String,
        /// What came instead.
        why: String,
    },
    /// It is for another host: a name that leads elsewhere, or a copied file.
    #[error("{host} serves the consent of another host, `{named}`")]
    OtherHost {
        /// The host that was asked.
        host: String,
        /// The host it names.
        named: String,
    },
    /// Its time is over.
    #[error("the consent of {host} ended at {until}")]
    Expired {
        /// The host that was asked.
        host: String,
        /// When it ended.
        until: Timestamp,
    },
    /// It allows less.
    #[error("{host} allows {allowed_hz} requests a second, and the load goes up to {wanted_hz}")]
    TooFast {
        /// The host that was asked.
        host: String,
        /// What it allows, a second.
        allowed_hz: f64,
        /// What is wanted, a second.
        wanted_hz: f64,
    },
}

impl Consent {
    /// Reads what a machine serves: `{"host": "staging.example.com", "highest_rate": 500, "until":
    /// "2030-01-31T18:00:00Z"}`.
    ///
    /// # Errors
    /// It is no such object; the words say what is missing.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        if bytes.len() > MOST_BYTES {
            return Err(format!("it is longer than {MOST_BYTES} bytes"));
        }
        let value: Value =
            serde_json::from_slice(bytes).map_err(|why| format!("it is no JSON ({why})"))?;
        let text = |name: &str| match value.get(name).and_then(Value::as_str) {
            Some(text) if !text.is_empty() => Ok(text),
            _ => Err(format!("it has no text `{name}`")),
        };
        let highest_hz = value.get("highest_rate").and_then(Value::as_f64);
        let highest_hz = highest_hz
            .filter(|hz| hz.is_finite() && *hz > 0.0)
            .ok_or("it has no number `highest_rate` above 0, in requests a second")?;
        let until = text("until")?;
        Ok(Self {
            host: text("host")?.to_owned(),
            highest_hz,
            until: until.parse().map_err(|why| {
                format!("its `until`, `{until}`, is no time such as 2030-01-31T18:00:00Z ({why})")
            })?,
        })
    }

    /// Whether it allows this host this rate now.
    ///
    /// # Errors
    /// It does not; the error says why.
    pub fn check(&self, host: &str, wanted_hz: f64, now: Timestamp) -> Result<(), ConsentError> {
        let host = || host.to_owned();
        if !self.host.eq_ignore_ascii_case(&host()) {
            return Err(ConsentError::OtherHost {
                host: host(),
                named: self.host.clone(),
            });
        }
        if now >= self.until {
            return Err(ConsentError::Expired {
                host: host(),
                until: self.until,
            });
        }
        // Rates come from divisions: 1000 in 3 s are no more than 333.33.
        if wanted_hz > self.highest_hz * (1.0 + 1e-9) {
            return Err(ConsentError::TooFast {
                host: host(),
                allowed_hz: self.highest_hz,
                wanted_hz,
            });
        }
        Ok(())
    }

    /// Asks a machine whether it may be loaded at this rate, under the name that requests use, which may have a port.
    ///
    /// # Errors
    /// It does not say so.
    pub fn ask(target: &Target, authority: &str, wanted_hz: f64) -> Result<Self, ConsentError> {
        let host = host_of(authority);
        let refused = |why: String| ConsentError::NotServed {
            host: host.to_owned(),
            why,
        };
        // The very site that is to be loaded: several share an address.
        let target = target.clone().with_host(authority);
        let request = Request::get(CONSENT_PATH);
        let fetched =
            fetch(&target, &request, None, LIMIT).map_err(|error| refused(error.to_string()))?;
        if fetched.status != 200 {
            let status = fetched.status;
            return Err(refused(format!("{CONSENT_PATH} has status {status}")));
        }
        let body = fetched.plain_body();
        let consent = body.map_or_else(
            || Err("it is compressed".to_owned()),
            |body| Self::parse(&body),
        );
        let consent =
            consent.map_err(|why| refused(format!("{CONSENT_PATH} is not one: {why}")))?;
        consent.check(host, wanted_hz, Timestamp::now())?;
        Ok(consent)
    }
}

/// The host of `host:80`, `[::1]:80` or `host`.
#[must_use]
pub fn host_of(authority: &str) -> &str {
    let host = match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => authority,
    };
    host.trim_matches(['[', ']'])
}

/// Asks each host of a load again every minute, and at the end of its consent, while the load runs. It ends with the value.
#[derive(Debug)]
pub struct ConsentWatch {
    withdrawn: Arc<Mutex<Option<ConsentError>>>,
    /// Dropped with the value, which ends the threads.
    _ended: Vec<Sender<()>>,
}

impl ConsentWatch {
    /// Asks each of the hosts, as requests name them, once, and then again and again. The consents are in the order of the
    /// hosts.
    ///
    /// # Errors
    /// One of them does not consent now.
    pub fn start(
        target: &Target,
        hosts: &[&str],
        wanted_hz: f64,
    ) -> Result<(Vec<Consent>, Self), ConsentError> {
        Self::start_every(EVERY, target, hosts, wanted_hz)
    }

    fn start_every(
        every: Duration,
        target: &Target,
        hosts: &[&str],
        wanted_hz: f64,
    ) -> Result<(Vec<Consent>, Self), ConsentError> {
        let asked = hosts
            .iter()
            .map(|host| Consent::ask(target, host, wanted_hz));
        let consents = asked.collect::<Result<Vec<_>, _>>()?;
        let withdrawn = Arc::new(Mutex::new(None));
        let mut ends = Vec::new();
        for (host, first) in hosts.iter().zip(&consents) {
            let (ended, end) = channel::<()>();
            ends.push(ended);
            let asking = Asking {
                target: target.clone(),
                host: (*host).to_owned(),
                wanted_hz,
                every,
                until: first.until,
            };
            let told = Arc::clone(&withdrawn);
            thread::Builder::new()
                .name("consent".into())
                .spawn(move || {
                    if let Some(why) = asking.ask_again(&end) {
                        let mut told = told.lock().unwrap_or_else(PoisonError::into_inner);
                        told.get_or_insert(why);
                    }
                })
                .map_err(|why| ConsentError::NotServed {
                    host: first.host.clone(),
                    why: format!("a thread that asks again cannot be started: {why}"),
                })?;
        }
        let watch = Self {
            withdrawn,
            _ended: ends,
        };
        Ok((consents, watch))
    }

    /// Why the load must end now; `None` while it may go on.
    #[must_use]
    pub fn withdrawn(&self) -> Option<ConsentError> {
        let withdrawn = self.withdrawn.lock();
        withdrawn.unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Who is asked again and again.
struct Asking {
    target: Target,
    host: String,
    wanted_hz: f64,
    every: Duration,
    /// When the last consent ends.
    until: Timestamp,
}

impl Asking {
    /// Asks until nobody wants to know any more, or there is no consent; then why.
    fn ask_again(mut self, end: &Receiver<()>) -> Option<ConsentError> {
        let mut missed = 0;
        loop {
            // To its own end, if that comes first.
            let left = Duration::try_from(self.until.duration_since(Timestamp::now()));
            let wait = if missed > 0 {
                self.every / 12
            } else {
                self.every
            };
            let wait = wait.min(left.unwrap_or(Duration::ZERO));
            if !matches!(end.recv_timeout(wait), Err(RecvTimeoutError::Timeout)) {
                return None;
            }
            match Consent::ask(&self.target, &self.host, self.wanted_hz) {
                Ok(consent) => (self.until, missed) = (consent.until, 0),
                Err(ConsentError::NotServed { .. })
                    if missed + 1 < TRIES && Timestamp::now() < self.until =>
                {
                    missed += 1;
                }
                Err(why) => return Some(why),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::SignedDuration;
    use kneepoint_model::Address;
    use proptest::prelude::*;
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;
    use std::time::Instant;

    fn token(host: &str, rate: f64, until: Timestamp) -> String {
        format!("{{\"host\": \"{host}\", \"highest_rate\": {rate}, \"until\": \"{until}\"}}")
    }

    fn in_seconds(seconds: i64) -> Timestamp {
        Timestamp::now() + SignedDuration::from_secs(seconds)
    }

    /// A server that serves each of these bodies once, and the last for ever; an empty one is a 404.
    fn serving(bodies: Vec<String>) -> Target {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("its address");
        thread::spawn(move || {
            for (nth, mut stream) in listener.incoming().flatten().enumerate() {
                let mut bytes = [0; 4096];
                let _ = stream.read(&mut bytes);
                let body = &bodies[nth.min(bodies.len() - 1)];
                let status = if body.is_empty() { "404 No" } else { "200 OK" };
                let length = body.len();
                let answer = format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\n\r\n{body}");
                let _ = stream.write_all(answer.as_bytes());
            }
        });
        Target::http(Address::Tcp(address), "x.test")
    }

    #[test]
    fn consent_is_for_a_host_a_rate_and_a_time() {
        let now: Timestamp = "2027-01-01T00:00:00Z".parse().expect("a time");
        let text =
            br#"{"host": "X.test", "highest_rate": 500, "until": "2027-01-01T01:00:00+01:00"}"#;
        let ended = Consent::parse(text).expect("read");
        assert_eq!((ended.highest_hz, ended.until), (500.0, now));
        let check = |host: &str, hz: f64, earlier_s: i64| {
            ended.check(host, hz, now - SignedDuration::from_secs(earlier_s))
        };
        assert_eq!(check("x.test", 500.0, 1), Ok(()));
        for (host, hz, earlier, words) in [
            ("y.test", 1.0, 1, "another host, `X.test`"),
            ("x.test", 1.0, 0, "ended at 2027-01-01T00:00:00Z"),
            (
                "x.test",
                501.0,
                1,
                "allows 500 requests a second, and the load goes up to 501",
            ),
        ] {
            let error = check(host, hz, earlier).expect_err(words).to_string();
            assert!(error.contains(words), "{error}");
        }
    }

    #[test]
    fn what_is_no_consent_is_said() {
        for (text, words) in [
            ("", "no JSON"),
            ("<html>not found</html>", "no JSON"),
            ("[]", "`highest_rate`"),
            (
                r#"{"host": "x", "until": "2030-01-01T00:00:00Z"}"#,
                "`highest_rate`",
            ),
            (r#"{"host": "x", "highest_rate": -1}"#, "`highest_rate`"),
            (r#"{"host": "x", "highest_rate": "500"}"#, "`highest_rate`"),
            (
                r#"{"host": "x", "highest_rate": 5, "until": "tomorrow"}"#,
                "`until`, `tomorrow`",
            ),
            (r#"{"host": "x", "highest_rate": 5}"#, "`until`"),
            (&" ".repeat(5000), "longer than"),
        ] {
            let said = Consent::parse(text.as_bytes()).expect_err(words);
            assert!(said.contains(words), "{text}: {said}");
        }
    }

    #[test]
    fn a_machine_that_says_nothing_is_told_what_to_serve() {
        let target = serving(vec![String::new()]);
        let error = Consent::ask(&target, "x.test", 5.0).expect_err("404");
        let said = error.to_string();
        assert!(
            said.contains("status 404") && said.contains("\"host\": \"x.test\""),
            "{said}"
        );
        let target = serving(vec![token("x.test", 5.0, in_seconds(60))]);
        assert!(Consent::ask(&target, "x.test", 5.0).is_ok());
    }

    /// What the watch of these answers says in the end.
    fn withdrawn(bodies: Vec<String>) -> String {
        let every = Duration::from_millis(60);
        let target = serving(bodies);
        let (_, watch) =
            ConsentWatch::start_every(every, &target, &["x.test"], 5.0).expect("consent");
        let end = Instant::now() + Duration::from_secs(20);
        while watch.withdrawn().is_none() && Instant::now() < end {
            thread::sleep(Duration::from_millis(5));
        }
        watch
            .withdrawn()
            .map_or_else(String::new, |why| why.to_string())
    }

    #[test]
    fn consent_that_ends_or_is_taken_back_ends_the_load() {
        let good = || token("x.test", 5.0, in_seconds(60));
        let said = withdrawn(vec![good(), good(), token("x.test", 4.0, in_seconds(60))]);
        assert!(said.contains("allows 4"), "{said}");
        // Missed once it is asked again, and then it is believed.
        let said = withdrawn(vec![good(), String::new(), good(), String::new()]);
        assert!(said.contains("status 404"), "{said}");
        let said = withdrawn(vec![token("x.test", 5.0, in_seconds(1))]);
        assert!(said.contains("ended at"), "{said}");
    }

    /// A server with several sites, which tells by the `Host` header which it is asked for.
    #[test]
    fn each_host_that_requests_name_is_asked_by_its_own_name() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("its address");
        thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let mut bytes = [0; 4096];
                let length = stream.read(&mut bytes).unwrap_or(0);
                let asked = String::from_utf8_lossy(&bytes[..length]).into_owned();
                let willing =
                    asked.contains("Host: x.test:80\r\n") || asked.contains("Host: z.test\r\n");
                let host = if asked.contains("z.test") {
                    "z.test"
                } else {
                    "x.test"
                };
                let (status, body) = match willing {
                    true => ("200 OK", token(host, 5.0, in_seconds(60))),
                    false => ("404 No", String::new()),
                };
                let length = body.len();
                let answer = format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\n\r\n{body}");
                let _ = stream.write_all(answer.as_bytes());
            }
        });
        let target = Target::http(Address::Tcp(address), "x.test:80");
        let (consents, _watch) =
            ConsentWatch::start(&target, &["x.test:80", "z.test"], 5.0).expect("both consent");
        assert_eq!(consents[1].host, "z.test");
        let refused = ConsentWatch::start(&target, &["x.test:80", "victim.test"], 5.0);
        let said = refused.expect_err("it does not consent").to_string();
        assert!(said.starts_with("victim.test does not say"), "{said}");
        assert_eq!(host_of("[::1]:80"), "::1");
        assert_eq!(host_of("shop.test"), "shop.test");
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), until in "[0-9TZ:+-]{0,30}") {
            let _ = Consent::parse(&bytes);
            let _ = Consent::parse(token("x", 1.0, Timestamp::MAX).replace("99", &until).as_bytes());
        }
    }
}
