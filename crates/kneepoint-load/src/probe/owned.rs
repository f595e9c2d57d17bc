//! What an operator says is theirs and may be loaded: a host, an address or a network.

use std::net::{IpAddr, ToSocketAddrs as _};
use std::str::FromStr;

/// Longest name of a host in the DNS.
const LONGEST_HOST: usize = 253;

/// Something that an operator says is theirs (`--i-own`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Owned {
    /// A host by its name: what requests name so, at an address that the name has. Another host at that address is
    /// somebody else's.
    Host(String),
    /// All addresses that begin as this one does, in so many bits, whatever host requests name there.
    Network(IpAddr, u32),
}

impl FromStr for Owned {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let plain = text.trim_matches(['[', ']']);
        let network = || {
            let (address, bits) = plain.split_once('/')?;
            let address: IpAddr = address.parse().ok()?;
            let bits = bits.parse().ok()?;
            (1..=width(address))
                .contains(&bits)
                .then_some(Self::Network(address, bits))
        };
        if let Ok(address) = plain.parse::<IpAddr>() {
            return Ok(Self::Network(address, width(address)));
        }
        let host = || is_host(text).then(|| Self::Host(text.to_owned()));
        network().or_else(host).ok_or_else(|| {
            "write a host (shop.test), an address (10.0.0.5) or a network (10.0.0.0/24, with 1 to 32 bits, IPv6 with 1 to \
             128), without a scheme, a port and a path"
                .into()
        })
    }
}

impl Owned {
    /// Whether every request to this address is covered, whatever host it names.
    #[must_use]
    pub fn covers_address(&self, ip: IpAddr) -> bool {
        match (self, ip) {
            (Self::Network(IpAddr::V4(own), bits), IpAddr::V4(ip)) => {
                (own.to_bits() ^ ip.to_bits())
                    .checked_shr(32u32.saturating_sub(*bits))
                    .unwrap_or(0)
                    == 0
            }
            (Self::Network(IpAddr::V6(own), bits), IpAddr::V6(ip)) => {
                (own.to_bits() ^ ip.to_bits())
                    .checked_shr(128u32.saturating_sub(*bits))
                    .unwrap_or(0)
                    == 0
            }
            _ => false,
        }
    }

    /// Whether it is the host of this name.
    #[must_use]
    pub fn is_host(&self, name: &str) -> bool {
        matches!(self, Self::Host(own) if own.eq_ignore_ascii_case(name))
    }

    /// Whether it is a host that is at this address, as far as this machine knows.
    #[must_use]
    pub fn is_at(&self, ip: IpAddr) -> bool {
        let Self::Host(name) = self else {
            return false;
        };
        let found = (name.as_str(), 0).to_socket_addrs();
        found.is_ok_and(|mut found| found.any(|address| address.ip() == ip))
    }
}

fn width(address: IpAddr) -> u32 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// Whether a text can be a host's name; numbers alone at its end are an address that is none.
fn is_host(text: &str) -> bool {
    let fits = |label: &str| {
        let inner = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_');
        !label.is_empty() && label.chars().all(inner)
    };
    let last = text.rsplit('.').next().unwrap_or(text);
    let numeric = last.bytes().all(|byte| byte.is_ascii_digit());
    (1..=LONGEST_HOST).contains(&text.len()) && text.split('.').all(fits) && !numeric
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owned(text: &str) -> Owned {
        text.parse().expect(text)
    }

    #[test]
    fn hosts_addresses_and_networks_are_taken_and_nothing_else() {
        assert_eq!(owned("shop.test"), Owned::Host("shop.test".into()));
        assert_eq!(owned("localhost"), Owned::Host("localhost".into()));
        assert_eq!(owned("10.0.0.5"), Owned::Network([10, 0, 0, 5].into(), 32));
        assert_eq!(owned("[::1]"), owned("::1"));
        assert_eq!(
            owned("10.0.0.0/24"),
            Owned::Network([10, 0, 0, 0].into(), 24)
        );
        for nonsense in [
            "",
            "*",
            "*.test",
            ".",
            "a..b",
            "10.0.0.0/99",
            "10.0.0.0/0",
            "10.0.0.0/x",
            "::/129",
            "http://shop.test",
            "shop.test:80",
            "shop.test/",
            "10.0.0.300",
            "10.0.0",
            "a b",
            "127.0.0.1:80",
        ] {
            let said = nonsense.parse::<Owned>().expect_err(nonsense);
            assert!(said.contains("10.0.0.0/24"), "{said}");
        }
    }

    #[test]
    fn a_network_covers_its_addresses_and_a_host_only_itself() {
        let inside = |network: &str| owned(network).covers_address([192, 0, 2, 77].into());
        assert!(inside("192.0.2.0/24") && inside("192.0.2.77/32") && inside("192.0.2.77"));
        assert!(!inside("192.0.3.0/24") && !inside("192.0.2.76") && !inside("::/1"));
        assert!(owned("2001:db8::/32").covers_address("2001:db8:1::1".parse().expect("v6")));
        let host = owned("Shop.test");
        assert!(!host.covers_address([127, 0, 0, 1].into()));
        assert!(host.is_host("shop.TEST") && !host.is_host("other.test"));
        assert!(owned("localhost").is_at([127, 0, 0, 1].into()));
        assert!(!owned("localhost").is_at([192, 0, 2, 1].into()));
    }
}
