//! Doubles: small servers that stand in the lab for those whom an application must talk to.
//!
//! A double is this program started once more ([`entry`]), in a host of the lab like any other server of it. It speaks
//! HTTP/1.1 or SMTP as far as clients ask of it, takes what it is sent and forgets it, and answers when its latency is
//! over. What it reads is bounded: lines, heads, bodies, and the number of connections. It gives up root before it reads
//! the first byte, and keeps nothing. So does the reader of a log that is a pipe ([`log_reader`]).

mod answers;
mod http;
mod lines;
mod log_reader;
mod serve;
mod smtp;

use kneepoint_model::{Address, PeerKind, PeerSpec, ProcessSpec, Ready, Signal};
use log_reader::LogReader;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The first argument of the program when it is to be a double.
const ARGUMENT: &str = "__double";

/// What a double is told.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Double {
    listen: SocketAddr,
    kind: PeerKind,
    latency: Duration,
    capacity: u32,
    status: u16,
    body: String,
}

/// What this program is told to be.
#[derive(Debug, Serialize, Deserialize)]
enum Role {
    /// Somebody whom the application talks to.
    Double(Double),
    /// The reader of a log.
    LogReader(LogReader),
}

/// The double of somebody, to be started by the lab: where it listens, and a directory of its host.
#[must_use]
pub fn process(peer: &PeerSpec, listen: SocketAddr, dir: &Path) -> ProcessSpec {
    let double = Double {
        listen,
        kind: peer.kind,
        latency: peer.latency,
        capacity: peer.capacity,
        status: peer.status,
        body: peer.body.clone(),
    };
    let ready = Ready::Connects(Address::Tcp(listen));
    let output = format!("double-{}.log", peer.port);
    let name = format!("double of {}", peer.host);
    start(name, &Role::Double(double), ready, dir, &output)
}

/// The reader of a log that is a pipe, to be started by the lab: what it reads of it in a second, in KiB, and a directory of
/// its host. The pipe must be there.
#[must_use]
pub fn log_reader(pipe: &Path, kib_s: f64, dir: &Path) -> ProcessSpec {
    let reader = LogReader {
        pipe: pipe.to_owned(),
        bytes_s: kib_s * 1024.0,
    };
    let name = "reader of the access log".to_owned();
    // Who opens the pipe to write waits for it.
    let (role, ready) = (Role::LogReader(reader), Ready::Immediately);
    start(name, &role, ready, dir, "log-reader.log")
}

fn start(name: String, role: &Role, ready: Ready, dir: &Path, output: &str) -> ProcessSpec {
    ProcessSpec {
        name,
        // Whoever starts it is this program.
        program: PathBuf::from("/proc/self/exe"),
        args: vec![
            ARGUMENT.to_owned(),
            // Plain data has a text.
            serde_json::to_string(role).unwrap_or_default(),
        ],
        env: Vec::new(),
        dir: dir.to_owned(),
        user: None,
        output: dir.join(output),
        ready,
        ready_timeout: Duration::from_secs(10),
        reload: None,
        stop: Signal::Term,
        stop_timeout: Duration::from_secs(1),
    }
}

/// Serves as a double when this process was started as one, and does not return then. Must be called before anything else.
pub fn entry() {
    let mut args = std::env::args().skip(1);
    if args.next().as_deref() != Some(ARGUMENT) {
        return;
    }
    let told = args.next().unwrap_or_default();
    let served = serde_json::from_str::<Role>(&told)
        .map_err(|error| format!("a double was not told what to be: {error}"))
        .and_then(|role| match role {
            Role::Double(double) => serve::serve(&double),
            Role::LogReader(reader) => reader.serve(),
        });
    if let Err(why) = served {
        // Its output is a file, which the lab quotes.
        let _ = std::io::Write::write_all(&mut std::io::stderr(), format!("{why}\n").as_bytes());
    }
    std::process::exit(1);
}
