//! A broker and agents as processes of a lab: each on a host of its own, and nobody else's.

use crate::agent::{AgentOptions, serve};
use crate::broker::Access;
use kneepoint_linux::privilege::give_up_root;
use kneepoint_model::{Address, ProcessSpec, Ready, Signal};
use rustix::process::{Resource, Rlimit, setrlimit};
use serde::{Deserialize, Serialize};
use std::io;
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// The first argument of the program when it is to be an agent of a lab.
const ARGUMENT: &str = "__agent";
/// The account of a lab's broker.
const ACCOUNT: &str = "kneepoint";
/// Who serves messages, so that a fault of the broker is not root's: it needs no file and no right.
const NOBODY: &str = "nobody";
const READY_WITHIN: Duration = Duration::from_secs(10);
/// The lowest real-time priority: whoever has it is woken before all who have none (sched(7)).
const FIRST: u64 = 1;

/// The broker of one lab. Its password stands on command lines: that is as private as the lab's network, which only root enters.
#[derive(Debug, Clone)]
pub struct LabBroker {
    /// Where it listens.
    pub listen: SocketAddr,
    /// Who may speak there; letters and digits that nobody can guess.
    pub password: String,
}

/// What an agent of a lab is told.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Hired {
    url: String,
    name: String,
    network: String,
}

impl LabBroker {
    /// The broker itself, to be started by the lab; `program` is nats-server.
    #[must_use]
    pub fn process(&self, program: &Path, dir: &Path) -> ProcessSpec {
        let (host, port) = (self.listen.ip().to_string(), self.listen.port().to_string());
        let args = [
            "-a",
            &host,
            "-p",
            &port,
            "--user",
            ACCOUNT,
            "--pass",
            &self.password,
        ];
        ProcessSpec {
            user: Some(NOBODY.to_owned()),
            output: dir.join("broker.log"),
            ready: Ready::Connects(Address::Tcp(self.listen)),
            ..started("broker", program, args.map(str::to_owned).into(), dir)
        }
    }

    /// An agent, to be started by the lab on another host. It loads what has an address of this network (`10.0.0.0/24`), and gives
    /// up root before it reads anything.
    #[must_use]
    pub fn agent(&self, name: &str, network: &str, dir: &Path) -> ProcessSpec {
        let hired = Hired {
            url: self.url(),
            name: name.to_owned(),
            network: network.to_owned(),
        };
        // Plain data has a text.
        let told = serde_json::to_string(&hired).unwrap_or_default();
        let args = vec![ARGUMENT.to_owned(), told];
        // Whoever starts it is this program.
        started(name, &PathBuf::from("/proc/self/exe"), args, dir)
    }

    /// How a coordinator reaches it from a network namespace of the lab.
    #[must_use]
    pub fn access(&self, netns: Option<PathBuf>) -> Access {
        Access {
            url: self.url(),
            creds: None,
            netns,
        }
    }

    fn url(&self) -> String {
        format!("nats://{ACCOUNT}:{}@{}", self.password, self.listen)
    }
}

fn started(name: &str, program: &Path, args: Vec<String>, dir: &Path) -> ProcessSpec {
    ProcessSpec {
        name: name.to_owned(),
        program: program.to_owned(),
        args,
        env: Vec::new(),
        dir: dir.to_owned(),
        user: None,
        output: dir.join(format!("{name}.log")),
        ready: Ready::Immediately,
        ready_timeout: READY_WITHIN,
        reload: None,
        stop: Signal::Term,
        stop_timeout: Duration::from_secs(1),
    }
}

/// Serves as an agent of a lab when this process was started as one. Must be called before the program reads its arguments.
#[must_use]
pub fn entry() -> Option<ExitCode> {
    let mut args = std::env::args().skip(1);
    if args.next().as_deref() != Some(ARGUMENT) {
        return None;
    }
    let told = args.next().unwrap_or_default();
    let served = serde_json::from_str::<Hired>(&told)
        .map_err(|error| format!("an agent was not told what to be: {error}"))
        .and_then(|hired| {
            become_nobody().map_err(|error| format!("cannot give up root: {error}"))?;
            let network = hired.network.parse()?;
            let options = AgentOptions {
                access: Access {
                    url: hired.url,
                    creds: None,
                    netns: None,
                },
                name: hired.name,
                tag: None,
                max_rate_hz: None,
                i_own: vec![network],
            };
            // Its life ends with a signal of the lab.
            serve(&options, &say, &AtomicBool::new(false)).map_err(|error| error.to_string())
        });
    if let Err(why) = served {
        say(&why);
    }
    Some(ExitCode::FAILURE)
}

/// Gives up root, save that sending threads may be woken first. Where the kernel refuses even root that, the load says how late
/// it was.
fn become_nobody() -> io::Result<()> {
    let first = Rlimit {
        current: Some(FIRST),
        maximum: Some(FIRST),
    };
    let _ = setrlimit(Resource::Rtprio, first);
    give_up_root()
}

/// Its output is a file, which the lab quotes.
fn say(line: &str) {
    let _ = io::stderr().write_all(format!("{line}\n").as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_account_is_the_same_for_all_and_the_agent_reads_what_it_is_told() {
        let broker = LabBroker {
            listen: ([10, 0, 0, 2], 4222).into(),
            password: "abc".into(),
        };
        let dir = Path::new("/lab/client");
        let server = broker.process(Path::new("/usr/sbin/nats-server"), dir);
        assert!(server.args.ends_with(&["--pass".into(), "abc".into()]));
        assert_eq!(server.ready, Ready::Connects(Address::Tcp(broker.listen)));
        let agent = broker.agent("generator-1", "10.0.0.0/24", dir);
        let hired: Hired = serde_json::from_str(&agent.args[1]).expect("is read");
        assert_eq!(hired.url, broker.access(None).url);
        assert_eq!(
            (hired.name, hired.network),
            ("generator-1".into(), "10.0.0.0/24".into())
        );
    }
}
