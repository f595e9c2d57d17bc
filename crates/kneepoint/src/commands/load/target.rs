//! Where the load goes: URLs and FastCGI listeners, and whether it may go there.

use crate::args::LoadArgs;
use anyhow::{Context as _, Result, bail};
use kneepoint_linux::network::{ListeningProcess, listeners};
use kneepoint_load::{HttpVersion, LoadPlan, Owned, Target, Tls, Verify, host_of};
use kneepoint_model::Address;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::Path;

/// Something to load.
#[derive(Debug, PartialEq)]
pub(super) struct Place {
    /// As the person named it.
    pub(super) name: String,
    pub(super) target: Target,
    /// Path and query of the URL.
    pub(super) path: String,
    /// Where it is not this machine, and no address that a person said to own.
    pub(super) foreign: Option<Foreign>,
}

/// What is not this machine, and that nobody has said to own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Foreign {
    /// The host as the URL names it.
    pub(super) host: String,
    ip: IpAddr,
    /// Why it is not this machine, in words.
    pub(super) why: String,
}

impl Foreign {
    /// The hosts that the requests of a plan name and nobody said to own, with their ports: each has to say itself that it
    /// may be loaded. The URL's name led here; another counts for this address only where it leads here, too.
    pub(super) fn unowned(&self, plan: &LoadPlan, i_own: &[Owned]) -> Result<Vec<String>> {
        let is_owned = |host: &str| {
            let mut own = i_own.iter();
            own.any(|own| own.is_host(host) && (own.is_host(&self.host) || own.is_at(self.ip)))
        };
        let hosts = plan.hosts()?.into_iter();
        let unowned = hosts.filter(|host| !is_owned(host_of(host)));
        Ok(unowned.map(str::to_owned).collect())
    }
}

/// Everything that was named, in order.
pub(super) fn places(args: &LoadArgs) -> Result<Vec<Place>> {
    let mut urls = args.urls.clone();
    if urls.is_empty() && args.unix_socket.is_some() {
        urls.push("http://localhost/".to_owned());
    }
    let mut places = urls
        .iter()
        .map(|url| http(url, args))
        .collect::<Result<Vec<_>>>()?;
    if let Some(address) = &args.fastcgi {
        // Under the URL's path, so that both hops do the same work.
        let path = places
            .first()
            .map_or_else(|| "/".to_owned(), |place| place.path.clone());
        places.push(fastcgi(address, path, args)?);
    }
    if places.is_empty() {
        bail!(
            "nothing to load: name a URL (kneepoint load http://127.0.0.1:8080/) or --fastcgi unix:/path.sock --script /path/index.php"
        );
    }
    Ok(places)
}

fn http(url: &str, args: &LoadArgs) -> Result<Place> {
    let parts = Parts::of(url)?;
    let mut foreign = None;
    let address = match &args.unix_socket {
        Some(path) => Address::Unix(path.clone()),
        None => {
            let address = resolve(&parts)
                .with_context(|| format!("cannot resolve `{}` of {url}", parts.host))?;
            foreign = not_owned(address, parts.host, &args.i_own);
            Address::Tcp(address)
        }
    };
    let mut target = Target::http(address, parts.authority).with_keep_alive(!args.close);
    if parts.encrypted {
        target = target.with_tls(Tls::new(parts.host).with_verify(verify(args)));
    }
    if args.http2 {
        target = target.with_version(HttpVersion::Http2);
    }
    Ok(Place {
        name: url.to_owned(),
        target,
        path: parts.path,
        foreign,
    })
}

fn verify(args: &LoadArgs) -> Verify {
    match &args.cacert {
        _ if args.insecure => Verify::None,
        Some(file) => Verify::CaFile(file.clone()),
        None => Verify::System,
    }
}

/// The parts of a URL.
#[derive(Debug, PartialEq, Eq)]
struct Parts<'u> {
    /// Host and port as written.
    authority: &'u str,
    /// The host without brackets.
    host: &'u str,
    port: u16,
    /// Whether it is https.
    encrypted: bool,
    /// Path and query, at least `/`.
    path: String,
}

impl<'u> Parts<'u> {
    fn of(url: &'u str) -> Result<Self> {
        let (encrypted, rest) = match url.split_once("://") {
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => (false, rest),
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("https") => (true, rest),
            Some((scheme, _)) => {
                bail!("{url}: the scheme `{scheme}` is not supported, only http and https")
            }
            None => (false, url),
        };
        // A fragment is the browser's own business and never sent.
        let rest = rest.split('#').next().unwrap_or(rest);
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        if authority.contains('@') {
            bail!(
                "{url}: write the user and password as a header: -H \"Authorization: Basic ...\""
            );
        }
        let (host, port) = split_port(authority, encrypted).with_context(|| {
            format!("`{url}` is not a URL; write for example http://127.0.0.1:8080/path")
        })?;
        let slash = if path.starts_with('/') { "" } else { "/" };
        Ok(Self {
            authority,
            host,
            port,
            encrypted,
            path: format!("{slash}{path}"),
        })
    }
}

/// `host`, `host:80`, `[::1]` or `[::1]:80`.
fn split_port(authority: &str, encrypted: bool) -> Option<(&str, u16)> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (host, tail) = rest.split_once(']')?;
            (
                host,
                tail.strip_prefix(':').or(tail.is_empty().then_some("")),
            )
        }
        None => match authority.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (authority, Some("")),
        },
    };
    let port = match port? {
        "" if encrypted => 443,
        "" => 80,
        digits => digits.parse().ok()?,
    };
    let named = !host.is_empty() && !host.contains(char::is_whitespace);
    named.then_some((host, port))
}

/// The address of a host. IPv4 comes first: `localhost` has both, and most servers listen on 127.0.0.1 alone.
fn resolve(parts: &Parts<'_>) -> Result<SocketAddr> {
    if let Ok(ip) = parts.host.parse::<IpAddr>() {
        return Ok(SocketAddr::new(ip, parts.port));
    }
    (parts.host, parts.port)
        .to_socket_addrs()?
        .min_by_key(SocketAddr::is_ipv6)
        .context("the name has no address")
}

/// Programs that hand connections on to another machine. What hands them on within this one, such as a load balancer or
/// the proxy of a container, is part of a stack and not among them.
const TUNNELS: [&str; 12] = [
    "ssh",
    "sshd",
    "sshd-session",
    "autossh",
    "kubectl",
    "socat",
    "stunnel",
    "stunnel4",
    "cloudflared",
    "chisel",
    "frpc",
    "tailscaled",
];

/// Load goes to this machine, or to what a person or the machine itself says may be loaded.
fn not_owned(address: SocketAddr, host: &str, i_own: &[Owned]) -> Option<Foreign> {
    if i_own.iter().any(|own| own.covers_address(address.ip())) {
        return None;
    }
    let why = match address.ip().is_loopback() {
        false => format!("{host} is not this machine"),
        true => tunnel(address, &listeners(address))?,
    };
    Some(Foreign {
        host: host.to_owned(),
        ip: address.ip(),
        why,
    })
}

/// That an address of this machine leads elsewhere, in words.
fn tunnel(address: SocketAddr, listeners: &[ListeningProcess]) -> Option<String> {
    let is_one = |listener: &&ListeningProcess| TUNNELS.contains(&listener.name.as_str());
    let ListeningProcess { pid, name } = listeners.iter().find(is_one)?;
    Some(format!(
        "{address} is a tunnel: `{name}` (process {pid}) listens there and sends on to another machine"
    ))
}

fn fastcgi(address: &str, path: String, args: &LoadArgs) -> Result<Place> {
    let name = format!("fastcgi {address}");
    let address: Address = address
        .parse()
        .map_err(|error| anyhow::anyhow!("--fastcgi: {error}"))?;
    if let Address::Tcp(tcp) = &address {
        let host = tcp.ip().to_string();
        let named = args.i_own.iter().any(|own| own.is_at(tcp.ip()));
        if let Some(Foreign { why, host, .. }) = not_owned(*tcp, &host, &args.i_own)
            && !named
        {
            // FastCGI serves no file by itself that could say so.
            bail!("{why}. If it is yours and may be loaded, say so: --i-own {host}");
        }
    }
    let Some(script) = args.script.clone() else {
        bail!("--fastcgi needs --script /path/to/index.php: the file PHP is to run")
    };
    if !script.is_absolute() {
        bail!(
            "--script {}: write the absolute path, as PHP-FPM sees it",
            script.display()
        );
    }
    let root = script.parent().unwrap_or(Path::new("/")).to_owned();
    Ok(Place {
        name,
        target: Target::fastcgi(address, script, root).with_keep_alive(args.keep_conn),
        path,
        foreign: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use kneepoint_load::Mode;
    use kneepoint_model::{Arrivals, Workload};

    #[track_caller]
    fn check(url: &str, expected: Result<(&str, u16, &str), &str>) {
        match (Parts::of(url), expected) {
            (Ok(parts), Ok((host, port, path))) => {
                assert_eq!(
                    (parts.host, parts.port, parts.path.as_str()),
                    (host, port, path)
                );
            }
            (Err(error), Err(words)) => {
                let said = format!("{error:#}");
                assert!(said.contains(words), "{said}");
            }
            (got, expected) => panic!("{url}: {got:?} is not {expected:?}"),
        }
    }

    #[test]
    fn urls_are_read_as_people_write_them() {
        check(
            "http://127.0.0.1:8080/a?b=c#d",
            Ok(("127.0.0.1", 8080, "/a?b=c")),
        );
        check("localhost", Ok(("localhost", 80, "/")));
        check("HTTP://[::1]:81?x=1", Ok(("::1", 81, "/?x=1")));
        check("http://[::1]/", Ok(("::1", 80, "/")));
        check("https://localhost/", Ok(("localhost", 443, "/")));
        check("https://localhost:8443/", Ok(("localhost", 8443, "/")));
        assert!(Parts::of("https://a/").expect("a URL").encrypted);
        assert!(!Parts::of("http://a/").expect("a URL").encrypted);
    }

    #[test]
    fn what_is_no_url_is_refused_in_words() {
        check("ftp://a/", Err("the scheme `ftp`"));
        check("http:///x", Err("write for example"));
        check("http://a:b/", Err("write for example"));
        check("http://[::1/", Err("write for example"));
        check("http://u:p@127.0.0.1/", Err("Authorization"));
    }

    #[test]
    fn load_stays_on_this_machine_unless_a_person_says_otherwise() {
        let address = |text: &str| text.parse::<SocketAddr>().expect("an address");
        let foreign = address("192.0.2.1:80");
        let own = |text: &str| [text.parse::<Owned>().expect("is owned")];
        assert_eq!(not_owned(address("127.9.9.9:1"), "x", &[]), None);
        assert_eq!(not_owned(foreign, "shop.test", &own("192.0.2.0/24")), None);
        let other = not_owned(foreign, "shop.test", &own("shop.test")).expect("not owned");
        assert_eq!(other.host, "shop.test");
        assert!(other.why.contains("not this machine"), "{}", other.why);

        // Whose site it is, the requests say.
        let mode = Mode::Open {
            schedule: "const(1,1)".parse().expect("a schedule"),
            arrivals: Arrivals::Even,
        };
        let target = Target::http(Address::Tcp(foreign), "shop.test:80");
        let mut plan = LoadPlan::new(target, Workload::single("/"), mode);
        let unowned = |plan: &LoadPlan, name: &str| other.unowned(plan, &own(name)).expect("hosts");
        assert_eq!(unowned(&plan, "SHOP.test"), [""; 0]);
        assert_eq!(unowned(&plan, "other.test"), ["shop.test:80"]);
        plan.workload.requests[0].headers = vec![("host".into(), "victim.test".into())];
        assert_eq!(unowned(&plan, "shop.test"), ["victim.test"]);
        plan.workload.requests[0].headers[0].1 = "{{a.b}}".into();
        let said = other
            .unowned(&plan, &[])
            .expect_err("a variable")
            .to_string();
        assert!(said.contains("holds a variable"), "{said}");
    }

    #[test]
    fn a_tunnel_is_no_machine_of_ours() {
        let by = |name: &str| {
            let name = name.to_owned();
            [ListeningProcess { pid: 7, name }]
        };
        let address = SocketAddr::from(([127, 0, 0, 1], 8080));
        for name in ["nginx", "docker-proxy", "sshfs", "php"] {
            assert_eq!(tunnel(address, &by(name)), None, "{name}");
        }
        for name in ["ssh", "kubectl", "socat"] {
            let said = tunnel(address, &by(name)).expect(name);
            assert!(said.contains(&format!("`{name}` (process 7)")), "{said}");
        }
        assert_eq!(tunnel(address, &[]), None);
    }
}
