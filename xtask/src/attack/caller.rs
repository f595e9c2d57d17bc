//! What a person may do by mistake: load a machine that is not his, or one that sends on to it.

use super::outside::Outside;
use super::site::{Site, run};
use super::table::{Row, Verdict};
use anyhow::Result;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::process::Command;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);

/// Another network of this machine, with nobody in it but a server of the bench. Gone with the value.
pub(super) struct Peer {
    name: String,
    /// Where its server listens.
    pub(super) address: String,
}

impl Peer {
    /// Makes a network namespace that this machine reaches by a pair of devices; nothing where the machine cannot.
    pub(super) fn make(outside: &Outside) -> Option<Self> {
        let number = std::process::id() % 250;
        let name = format!("attack{}", std::process::id());
        let ours = format!("at{number}a");
        let script = format!(
            "ip netns add {name} && ip link add {ours} type veth peer name at{number}b netns {name} && \
             ip addr add 10.213.{number}.1/24 dev {ours} && ip link set {ours} up && \
             ip -n {name} addr add 10.213.{number}.2/24 dev at{number}b && ip -n {name} link set at{number}b up"
        );
        let made = run(Command::new("sh").args(["-c", &script]), LIMIT).ok()?;
        let peer = Self {
            name,
            // The bench's own server on this machine is asked by its address in that network.
            address: format!("10.213.{number}.1:{}", outside.any.port()),
        };
        (made.code == Some(0)).then_some(peer)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // Its devices go with it.
        let _ = Command::new("ip")
            .args(["netns", "del", &self.name])
            .status();
    }
}

/// Tries it.
pub(super) fn attempts(site: &Site, outside: &Outside) -> Result<Vec<Row>> {
    let row = |id, what, verdict| Row::new("caller", id, what, verdict);
    let mut rows = Vec::new();
    if let Some(foreign) = outside.addresses.first() {
        let url = format!("http://{foreign}:{}/foreign-load", outside.any.port());
        let own = run(
            &mut site.command(&["load", "http://203.0.113.9/", "-z", "1s"]),
            LIMIT,
        )?;
        let verdict = match (own.code, outside.reached_by("foreign-load")) {
            (Some(2), None) => Verdict::Refused(own.why()),
            (code, _) => Verdict::GotOut(format!("it ended with {code:?}: {url}")),
        };
        rows.push(row(
            "foreign-load",
            "loads a machine that is not this one without saying so (14)",
            verdict,
        ));
    }
    let target = format!("http://127.0.0.1:{}/redirected", outside.tcp.port());
    let url = redirecting(target)?;
    let ended = run(
        &mut site.command(&["load", &url, "-q", "20", "-z", "1s"]),
        LIMIT,
    )?;
    let verdict = match outside.reached_by("redirected") {
        None => Verdict::Refused(format!("it ended with {:?}", ended.code)),
        Some(how) => Verdict::GotOut(how),
    };
    rows.push(row(
        "redirected-load",
        "is sent on to another server by the one it loads (14)",
        verdict,
    ));
    Ok(rows)
}

/// A server that sends everybody on.
fn redirecting(to: String) -> Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let url = format!("http://{}/", listener.local_addr()?);
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut bytes = [0; 4096];
            while matches!(stream.read(&mut bytes), Ok(1..)) {
                let answer =
                    format!("HTTP/1.1 302 Found\r\nlocation: {to}\r\ncontent-length: 0\r\n\r\n");
                if stream.write_all(answer.as_bytes()).is_err() {
                    break;
                }
            }
        }
    });
    Ok(url)
}
