//! What an agent drives, and what it refuses (docs/agents.md, section 1).

use kneepoint_load::{ConsentWatch, LoadPlan, Target};
use kneepoint_model::Address;
use kneepoint_model::units::format_rate;
use std::net::{IpAddr, ToSocketAddrs as _};

/// What an agent's operator allows.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Permit {
    /// Most requests a second.
    pub(crate) max_rate_hz: Option<f64>,
    /// Hosts, addresses and networks that the operator says are theirs.
    pub(crate) i_own: Vec<String>,
    /// Whether the broker, and so whoever has an account there, is on this machine.
    pub(crate) from_here: bool,
}

impl Permit {
    /// Whether this agent may drive its share of a plan. Where the target itself says so, somebody goes on asking it.
    ///
    /// # Errors
    /// It may not: a sentence with what to do.
    pub(crate) fn check(&self, plan: &LoadPlan) -> Result<Option<ConsentWatch>, String> {
        self.below_cap(plan)?;
        self.has_consent(plan)
    }

    fn below_cap(&self, plan: &LoadPlan) -> Result<(), String> {
        let Some(cap) = self.max_rate_hz else {
            return Ok(());
        };
        let told = format!("--max-rate of this agent is {}", format_rate(cap));
        let decided = plan
            .mode
            .highest_hz()
            .filter(|_| plan.workload.sessions.is_none());
        let Some(highest) = decided else {
            return Err(format!(
                "the answers decide how many requests a second closed loops and visits make, and {told}; ask it for a schedule of \
                 single requests, or start it without a cap"
            ));
        };
        let own = highest * share_of(plan);
        if own > cap * (1.0 + 1e-9) {
            return Err(format!(
                "its share goes up to {} and {told}; use more agents, a lower rate, or a higher cap",
                format_rate(own)
            ));
        }
        Ok(())
    }

    fn has_consent(&self, plan: &LoadPlan) -> Result<Option<ConsentWatch>, String> {
        let target = &plan.target;
        let (ip, name) = match target.address() {
            Address::Unix(_) if self.from_here => return Ok(None),
            Address::Unix(_) => {
                return Err(
                    "a Unix socket of this agent's machine is not loaded for somebody elsewhere; use an agent whose broker is \
                     on 127.0.0.1"
                        .into(),
                );
            }
            Address::Tcp(address) => (address.ip(), address.ip().to_string()),
        };
        if (self.from_here && ip.is_loopback()) || self.i_own.iter().any(|own| is_at(own, ip)) {
            return Ok(None);
        }
        if ip.is_loopback() || matches!(target, Target::FastCgi { .. }) {
            return Err(format!(
                "{name} is not loaded for somebody elsewhere; if it may be, say so where this agent is started: --i-own {name}"
            ));
        }
        asked(plan, &name).map(Some)
    }
}

/// Whether a host is at an address, as far as this machine knows. What the plan calls the host proves nothing: whoever sent it
/// chose the name and the address.
fn is_at(host: &str, ip: IpAddr) -> bool {
    if let Some((network, bits)) = host.split_once('/') {
        return is_in(network, bits, ip);
    }
    match host.parse::<IpAddr>() {
        Ok(own) => own == ip,
        Err(_) => (host, 0)
            .to_socket_addrs()
            .is_ok_and(|mut found| found.any(|address| address.ip() == ip)),
    }
}

/// Whether an address begins as a network's does, in so many bits.
fn is_in(network: &str, bits: &str, ip: IpAddr) -> bool {
    let Ok(bits) = bits.parse::<u32>() else {
        return false;
    };
    match (network.parse::<IpAddr>(), ip) {
        (Ok(IpAddr::V4(own)), IpAddr::V4(ip)) if (1..=32).contains(&bits) => {
            (own.to_bits() ^ ip.to_bits()) >> (32 - bits) == 0
        }
        (Ok(IpAddr::V6(own)), IpAddr::V6(ip)) if (1..=128).contains(&bits) => {
            (own.to_bits() ^ ip.to_bits()) >> (128 - bits) == 0
        }
        _ => false,
    }
}

fn share_of(plan: &LoadPlan) -> f64 {
    plan.share.as_ref().map_or(1.0, |share| share.fraction())
}

/// Asks the target itself.
fn asked(plan: &LoadPlan, name: &str) -> Result<ConsentWatch, String> {
    let host = without_port(plan.target.host());
    let instead = format!("or start this agent with --i-own {name}");
    // A closed loop makes as many requests as the target answers.
    let decided = plan
        .mode
        .highest_hz()
        .filter(|_| plan.workload.sessions.is_none());
    let rate = decided.ok_or_else(|| {
        format!("{host} consents to a rate, and the answers decide that of closed loops and visits; ask for a schedule, {instead}")
    })?;
    ConsentWatch::start(&plan.target, host, rate)
        .map(|(_, watch)| watch)
        .map_err(|refused| format!("{refused}, {instead}"))
}

/// The host of `host:80` and `[::1]:80`.
fn without_port(authority: &str) -> &str {
    let host = match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => authority,
    };
    host.trim_matches(['[', ']'])
}

#[cfg(test)]
mod tests {
    use super::*;
    use kneepoint_load::{Mode, Share};
    use kneepoint_model::{Arrivals, ClosedLoop, Workload};
    use std::time::Duration;

    fn plan(address: &str, rate: &str) -> LoadPlan {
        let mode = Mode::Open {
            schedule: rate.parse().expect("a schedule"),
            arrivals: Arrivals::Even,
        };
        let target = Target::http(address.parse().expect("an address"), "shop.test:80");
        let mut plan = LoadPlan::new(target, Workload::single("/"), mode);
        plan.share = Share::new(vec![0, 2], 4);
        plan
    }

    fn permit(max_rate_hz: Option<f64>, i_own: &[&str], from_here: bool) -> Permit {
        Permit {
            max_rate_hz,
            i_own: i_own.iter().map(|own| (*own).to_owned()).collect(),
            from_here,
        }
    }

    fn refused(permit: &Permit, plan: &LoadPlan, says: &str) {
        let said = permit.check(plan).expect_err(says);
        assert!(said.contains(says), "{said}");
    }

    fn allowed(permit: &Permit, plan: &LoadPlan) {
        permit.check(plan).expect("it may");
    }

    #[test]
    fn a_share_above_the_cap_is_refused() {
        let here = |cap| permit(Some(cap), &[], true);
        // Half of it is this agent's.
        allowed(&here(50.0), &plan("127.0.0.1:80", "line(10,100,5)"));
        refused(
            &here(49.0),
            &plan("127.0.0.1:80", "line(10,100,5)"),
            "--max-rate",
        );
        let mut closed = plan("127.0.0.1:80", "const(1,1)");
        closed.mode = Mode::Closed(ClosedLoop::new(1, Duration::from_secs(1)));
        refused(&here(1e9), &closed, "the answers decide");
        allowed(&permit(None, &[], true), &closed);
    }

    #[test]
    fn what_is_this_machine_is_loaded_only_for_this_machine() {
        let loopback = plan("127.0.0.1:80", "const(1,1)");
        refused(&permit(None, &[], false), &loopback, "--i-own 127.0.0.1");
        allowed(&permit(None, &["127.0.0.1"], false), &loopback);
        let mut socket = loopback;
        socket.target = Target::http(Address::Unix("/run/x".into()), "localhost");
        refused(&permit(None, &["127.0.0.1"], false), &socket, "Unix socket");
        allowed(&permit(None, &[], true), &socket);
    }

    /// A server that answers so once.
    fn answering(answer: &'static str) -> std::net::SocketAddr {
        use std::io::{Read as _, Write as _};
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        std::thread::spawn(move || {
            let (mut peer, _) = listener.accept().expect("somebody asks");
            let mut request = [0; 4096];
            let length = peer.read(&mut request).expect("a request");
            let text = String::from_utf8_lossy(&request[..length]);
            assert!(
                text.starts_with("GET /.well-known/kneepoint HTTP/1.1"),
                "{text}"
            );
            let head = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length";
            write!(peer, "{head}: {}\r\n\r\n{answer}", answer.len()).expect("an answer");
        });
        address
    }

    #[test]
    fn a_target_is_asked_by_the_agent_itself() {
        let consenting =
            r#"{"host": "shop.test", "highest_rate": 100, "until": "2999-01-01T00:00:00Z"}"#;
        let ask = |answer, rate| {
            let address = answering(answer).to_string();
            asked(&plan(&address, rate), "shop.test")
        };
        ask(consenting, "const(100,1)").expect("it consents");
        // Its share is half of it, but the consent is for all generators together.
        let said = ask(consenting, "const(101,1)").expect_err("too fast");
        assert!(said.contains("allows 100"), "{said}");
        let said = ask("hello", "const(1,1)").expect_err("no consent");
        assert!(
            said.contains("does not say that it may be loaded") && said.contains("--i-own"),
            "{said}"
        );
        assert_eq!(without_port("[::1]:80"), "::1");
        assert_eq!(without_port("shop.test"), "shop.test");
    }

    #[test]
    fn a_target_that_its_operator_names_is_loaded_and_no_other_by_fastcgi() {
        let foreign = plan("192.0.2.1:80", "const(1,1)");
        allowed(&permit(None, &["192.0.2.1"], false), &foreign);
        assert!(is_at("localhost", [127, 0, 0, 1].into()));
        let inside = |network: &str| is_at(network, [192, 0, 2, 77].into());
        assert!(inside("192.0.2.0/24") && inside("192.0.2.77/32"));
        let other = [
            "192.0.3.0/24",
            "192.0.2.0/0",
            "192.0.2.0/33",
            "::/1",
            "192.0.2.0/x",
        ];
        assert!(other.iter().all(|network| !inside(network)));
        assert!(
            !is_at("shop.test", [192, 0, 2, 1].into()),
            "a name is not taken for an address"
        );
        let mut php = foreign;
        php.target = Target::fastcgi("192.0.2.1:9000".parse().expect("an address"), "/a.php", "/");
        refused(
            &permit(None, &["192.0.2.2"], true),
            &php,
            "--i-own 192.0.2.1",
        );
    }
}
