//! What an agent drives, and what it refuses (docs/agents.md, section 1).

use kneepoint_load::{ConsentWatch, LoadPlan, Owned, Target, host_of};
use kneepoint_model::Address;
use kneepoint_model::units::format_rate;
use std::net::IpAddr;

/// What an agent's operator allows.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Permit {
    /// Most requests a second.
    pub(crate) max_rate_hz: Option<f64>,
    /// Hosts, addresses and networks that the operator says are theirs.
    pub(crate) i_own: Vec<Owned>,
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
        let Some(highest) = plan.highest_hz() else {
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
        if (self.from_here && ip.is_loopback())
            || self.i_own.iter().any(|own| own.covers_address(ip))
        {
            return Ok(None);
        }
        let hosts = plan.hosts().map_err(|error| error.to_string())?;
        let foreign: Vec<&str> = hosts
            .into_iter()
            .filter(|host| !self.owns(plan, host_of(host), ip))
            .collect();
        if foreign.is_empty() {
            return Ok(None);
        }
        if ip.is_loopback() || matches!(target, Target::FastCgi { .. }) {
            return Err(format!(
                "{name} is not loaded for somebody elsewhere; if it may be, say so where this agent is started: --i-own {name}"
            ));
        }
        asked(plan, &foreign, &name).map(Some)
    }

    /// Whether a host that requests name is its operator's, at an address that the host has as far as this machine knows. What
    /// a plan calls the host proves nothing by itself: whoever sent it chose the name and the address. FastCGI has no sites.
    fn owns(&self, plan: &LoadPlan, host: &str, ip: IpAddr) -> bool {
        let sites = !matches!(plan.target, Target::FastCgi { .. });
        let mut own = self.i_own.iter();
        own.any(|own| (own.is_host(host) || !sites) && own.is_at(ip))
    }
}

fn share_of(plan: &LoadPlan) -> f64 {
    plan.share.as_ref().map_or(1.0, |share| share.fraction())
}

/// Asks the target itself, by each of the names that requests use.
fn asked(plan: &LoadPlan, hosts: &[&str], name: &str) -> Result<ConsentWatch, String> {
    let instead = format!("or start this agent with --i-own {name}");
    let rate = plan.highest_hz().ok_or_else(|| {
        format!(
            "{} consents to a rate, and the answers decide that of closed loops and visits; ask for a schedule, {instead}",
            hosts.first().map_or(name, |host| host_of(host))
        )
    })?;
    ConsentWatch::start(&plan.target, hosts, rate)
        .map(|(_, watch)| watch)
        .map_err(|refused| format!("{refused}, {instead}"))
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
            i_own: i_own
                .iter()
                .map(|own| own.parse().expect("is owned"))
                .collect(),
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
            asked(&plan(&address, rate), &["shop.test:80"], "shop.test")
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
    }

    #[test]
    fn a_target_that_its_operator_names_is_loaded_and_no_other_by_fastcgi() {
        let foreign = plan("192.0.2.1:80", "const(1,1)");
        allowed(&permit(None, &["192.0.2.1"], false), &foreign);
        let mut php = foreign;
        php.target = Target::fastcgi("192.0.2.1:9000".parse().expect("an address"), "/a.php", "/");
        refused(
            &permit(None, &["192.0.2.2"], true),
            &php,
            "--i-own 192.0.2.1",
        );
    }

    /// Which site of an address is loaded is for the requests to say, and so whose word is asked for.
    #[test]
    fn the_host_that_requests_name_is_the_one_that_must_allow_it() {
        let named = |name: &str, header: &str| {
            let mut plan = plan("127.0.0.1:80", "const(1,1)");
            plan.target = Target::http("127.0.0.1:80".parse().expect("an address"), "localhost:80");
            plan.workload
                .requests
                .push(plan.workload.requests[0].clone());
            plan.workload.requests[1].headers = vec![(name.into(), header.into())];
            plan
        };
        let own = permit(None, &["localhost"], false);
        allowed(&own, &named("X", "victim.test"));
        allowed(&own, &named("hOST", "LOCALHOST:8080"));
        for name in ["Host", "hOST", "HOST"] {
            refused(&own, &named(name, "victim.test"), "--i-own 127.0.0.1");
        }
        refused(&own, &named("Host", "{{site.name}}"), "holds a variable");
        // Whoever owns the address owns every site there.
        allowed(
            &permit(None, &["127.0.0.0/8"], false),
            &named("Host", "victim.test"),
        );
        // A name that is ours is not ours at somebody else's address.
        let mut elsewhere = named("X", "");
        elsewhere.target =
            Target::fastcgi("192.0.2.1:9000".parse().expect("an address"), "/a.php", "/");
        refused(&own, &elsewhere, "--i-own 192.0.2.1");
    }
}
