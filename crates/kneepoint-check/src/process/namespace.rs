//! Settings of the kernel, of the network namespace that a process is in.

use crate::snapshot::{SettingSource, Settings};
use kneepoint_linux::namespace::inside_path;
use std::fs;
use std::path::PathBuf;

/// The settings that rules look at, as paths below `/proc/sys`.
const NAMES: [&str; 10] = [
    "net/core/somaxconn",
    "net/ipv4/ip_local_port_range",
    "net/ipv4/ip_local_reserved_ports",
    "net/ipv4/tcp_tw_reuse",
    "net/ipv4/tcp_max_syn_backlog",
    "net/ipv4/tcp_syncookies",
    "net/netfilter/nf_conntrack_max",
    "net/netfilter/nf_conntrack_count",
    "fs/file-nr",
    "vm/swappiness",
];

/// Counters of `/proc/net/netstat` that rules look at.
const COUNTERS: [&str; 3] = ["ListenOverflows", "TCPReqQFullDrop", "TCPReqQFullDoCookies"];

/// The settings of the namespace of a process, and counters of it as `netstat.NAME`. `other` where it is not ours: a
/// thread that ends right away enters it then.
pub(crate) fn sysctls(pid: u32, other: bool) -> Result<Settings, String> {
    let theirs = other.then(|| PathBuf::from(format!("/proc/{pid}/ns/net")));
    let mut settings =
        inside_path(theirs.as_deref(), || Ok(read_sysctls())).map_err(|why| why.to_string())?;
    let path = format!("/proc/{pid}/net/netstat");
    for (name, value) in counters(&fs::read_to_string(&path).unwrap_or_default()) {
        let source = SettingSource::Kernel { path: path.clone() };
        settings.set(&format!("netstat.{name}"), &value, source);
    }
    Ok(settings)
}

fn read_sysctls() -> Settings {
    let mut settings = Settings::default();
    for name in NAMES {
        let path = format!("/proc/sys/{name}");
        if let Ok(text) = fs::read_to_string(&path) {
            let value = text.split_ascii_whitespace().collect::<Vec<_>>().join(" ");
            settings.set(
                &name.replace('/', "."),
                &value,
                SettingSource::Kernel { path },
            );
        }
    }
    let path = "/sys/kernel/mm/transparent_hugepage/enabled";
    if let Ok(text) = fs::read_to_string(path) {
        let chosen = text.split(['[', ']']).nth(1).unwrap_or_default();
        let source = SettingSource::Kernel { path: path.into() };
        settings.set("transparent_hugepage", chosen, source);
    }
    settings
}

/// The counters, of pairs of lines: names, then values.
fn counters(netstat: &str) -> Vec<(String, String)> {
    let lines: Vec<&str> = netstat.lines().collect();
    let pairs = lines.chunks_exact(2).flat_map(|pair| {
        let names = pair[0].split_ascii_whitespace();
        names.zip(pair[1].split_ascii_whitespace())
    });
    pairs
        .filter(|(name, _)| COUNTERS.contains(name))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_found_by_their_names() {
        let text = "TcpExt: SyncookiesSent ListenOverflows X\nTcpExt: 1 7 3\nIpExt: A\nIpExt: 2\n";
        assert_eq!(
            counters(text),
            [("ListenOverflows".to_owned(), "7".to_owned())]
        );
        assert_eq!(counters("odd\n"), []);
    }

    #[test]
    fn our_own_namespace_is_read() {
        let own = sysctls(std::process::id(), false).expect("ours");
        assert!(
            own.get("net.core.somaxconn")
                .is_some_and(|value| value.number() > Some(0.0))
        );
    }
}
