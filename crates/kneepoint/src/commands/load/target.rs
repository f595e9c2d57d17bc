//! Where the load goes: URLs and FastCGI listeners, and whether it may go there.

use crate::args::LoadArgs;
use anyhow::{Context as _, Result, bail};
use kneepoint_load::{HttpVersion, Target, Tls, Verify};
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
    let address = match &args.unix_socket {
        Some(path) => Address::Unix(path.clone()),
        None => {
            let address = resolve(&parts)
                .with_context(|| format!("cannot resolve `{}` of {url}", parts.host))?;
            owned(address.ip(), parts.host, &args.i_own)?;
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

/// Load goes to loopback, or to what a person says is theirs (DESIGN section 16).
fn owned(ip: IpAddr, host: &str, i_own: &[String]) -> Result<()> {
    if ip.is_loopback() || i_own.iter().any(|own| own == host) {
        return Ok(());
    }
    bail!("{host} is not this machine. If it is yours and may be loaded, say so: --i-own {host}")
}

fn fastcgi(address: &str, path: String, args: &LoadArgs) -> Result<Place> {
    let name = format!("fastcgi {address}");
    let address: Address = address
        .parse()
        .map_err(|error| anyhow::anyhow!("--fastcgi: {error}"))?;
    if let Address::Tcp(tcp) = &address {
        owned(tcp.ip(), &tcp.ip().to_string(), &args.i_own)?;
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
    })
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let foreign: IpAddr = "192.0.2.1".parse().expect("an address");
        let own = ["shop.test".to_owned()];
        assert!(owned("127.9.9.9".parse().expect("an address"), "x", &[]).is_ok());
        assert!(owned(foreign, "shop.test", &own).is_ok());
        let error = owned(foreign, "other.test", &own).expect_err("not owned");
        assert!(error.to_string().contains("--i-own other.test"), "{error}");
    }
}
