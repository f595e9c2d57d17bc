//! Names that are known by their form wherever they stand in a text: paths, addresses, hosts, mail.

use super::usual::is_host;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What a text names.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Mention<'t> {
    /// A path; what is behind its last slash may be anything.
    Path(&'t str),
    /// A host, with whom it is asked for: `user:password@host`.
    Host(&'t str),
    /// An address of a network that is not this machine's own.
    Address(&'t str),
}

/// Everything that a text names by its form.
pub(super) fn mentions(text: &str) -> Vec<Mention<'_>> {
    let is_end = |letter: char| letter.is_whitespace() || "'\"`,;()<>{}|=".contains(letter);
    let mut found = Vec::new();
    for word in text.split(is_end).filter(|word| !word.is_empty()) {
        if let Some((_, rest)) = word.split_once("://") {
            let (host, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
            found.extend([Mention::Host(host), Mention::Path(path)]);
        } else if let Some(at) = word.find('/') {
            // `unix:/run/x.sock`, `[/a]` and what is relative to a place.
            found.push(Mention::Path(&word[at..]));
        }
        if word.contains('@') {
            found.push(Mention::Host(word));
        }
        let is_of_host = |letter: char| letter.is_alphanumeric() || "-._".contains(letter);
        let hosts = word.split(|letter| !is_of_host(letter));
        found.extend(
            hosts
                .map(|host| host.trim_matches('.'))
                .filter(|host| is_host(host))
                .map(Mention::Host),
        );
    }
    found.extend(addresses(text).map(Mention::Address));
    found
}

/// Addresses of IPv4 and IPv6, without ports, that are not the machine's own.
fn addresses(text: &str) -> impl Iterator<Item = &str> {
    let is_part = |letter: char| letter.is_ascii_hexdigit() || letter == '.' || letter == ':';
    text.split(move |letter| !is_part(letter))
        .filter_map(|row| {
            let row = row.trim_end_matches('.');
            let row = match row.strip_suffix(':') {
                Some(bare) if !bare.ends_with(':') => bare,
                _ => row,
            };
            if row.parse::<Ipv6Addr>().is_ok() {
                return Some(row);
            }
            let bare = row.split(':').find(|part| part.contains('.'))?;
            bare.parse::<Ipv4Addr>().is_ok().then_some(bare)
        })
        .filter(|row| {
            let address: Option<IpAddr> = row.parse().ok();
            address.is_some_and(|one| !one.is_loopback() && !one.is_unspecified())
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_known_in_every_form() {
        let found = |text| addresses(text).collect::<Vec<_>>();
        assert_eq!(found("10.0.0.2:80 127.0.0.1 1.22.1 0.0.0.0"), ["10.0.0.2"]);
        assert_eq!(
            found("[2001:db8::5]:9000, fe80::1%eth0; ::1 [::]:80"),
            ["2001:db8::5", "fe80::1"]
        );
        assert_eq!(found("at 10:20:30, of face: dead"), Vec::<&str>::new());
        assert_eq!(found("asks 192.0.2.7."), ["192.0.2.7"]);
    }

    #[test]
    fn paths_hosts_and_mail_are_known() {
        let found =
            mentions("unix:/srv/a/b.sock, https://u:p@h.x/y?z mail me@z.example or c.example.");
        for one in [
            Mention::Path("/srv/a/b.sock"),
            Mention::Host("u:p@h.x"),
            Mention::Path("/y?z"),
            Mention::Host("me@z.example"),
            Mention::Host("c.example"),
        ] {
            assert!(found.contains(&one), "{one:?} is not in {found:?}");
        }
        assert!(mentions("pm.max_children = 5, opcache.enable").is_empty());
    }
}
