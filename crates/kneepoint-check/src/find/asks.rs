//! Whom a configuration says that a service asks.

use crate::config::host_of;
use crate::files::Files;
use crate::snapshot::{ListenEndpoint, Nginx, Pass, ServiceKind};
use std::net::IpAddr;

/// Most files of a database that are counted, and how deep below its directory.
const DATA_FILES: usize = 20_000;
const DATA_DEPTH: usize = 3;

/// Everybody that nginx hands requests on to, with the place that says so.
pub(super) fn of_nginx(nginx: &Nginx) -> Vec<(ListenEndpoint, String)> {
    let passes = nginx.passes.iter();
    let mut asks: Vec<_> = passes.flat_map(|pass| endpoints_of(nginx, pass)).collect();
    asks.sort();
    asks.dedup_by(|a, b| a.0 == b.0);
    asks
}

/// To whom one place hands requests on, with the line that says so.
pub(crate) fn endpoints_of(nginx: &Nginx, pass: &Pass) -> Vec<(ListenEndpoint, String)> {
    match nginx.upstream_of(pass) {
        Some(upstream) => {
            let servers = upstream.servers.iter().filter_map(|server| {
                let target = server.text.split(' ').next().unwrap_or_default();
                Some((endpoint(target, 80)?, server.source.to_string()))
            });
            servers.collect()
        }
        None => {
            let host = host_of(&pass.directive, &pass.target.text);
            let to = endpoint(&host, default_port(pass));
            to.map(|to| (to, pass.target.source.to_string()))
                .into_iter()
                .collect()
        }
    }
}

fn default_port(pass: &Pass) -> u16 {
    if pass.target.text.starts_with("https") {
        443
    } else {
        80
    }
}

fn endpoint(text: &str, port: u16) -> Option<ListenEndpoint> {
    (!text.contains('$')).then(|| ListenEndpoint::parse(text, port))?
}

/// The names of `/etc/hosts` with their addresses.
pub(super) fn hosts(text: &str) -> Vec<(String, IpAddr)> {
    let lines = text
        .lines()
        .map(|line| line.split('#').next().unwrap_or_default());
    lines
        .filter_map(|line| {
            let mut words = line.split_ascii_whitespace();
            Some((words.next()?.parse::<IpAddr>().ok()?, words))
        })
        .flat_map(|(ip, names)| names.map(move |name| (name.to_owned(), ip)))
        .collect()
}

/// An endpoint as the kernel writes it: a directive and its listener are then the same.
pub(crate) fn usual(endpoint: &ListenEndpoint) -> ListenEndpoint {
    match endpoint {
        ListenEndpoint::Tcp(host, port) => {
            let host = match host.as_str() {
                "0.0.0.0" | "::" => "*",
                "localhost" => "127.0.0.1",
                host => host,
            };
            ListenEndpoint::Tcp(host.to_owned(), *port)
        }
        ListenEndpoint::Unix(_) => endpoint.clone(),
    }
}

/// Bytes of the tables and indexes below a directory of data; `None` where it cannot be read. Logs that lie there too, for
/// replication or for recovery, are no data that a cache holds.
pub(super) fn data_bytes(files: &dyn Files, dir: &str, kind: ServiceKind) -> Option<f64> {
    files.names(dir).ok()?;
    let mut pending = vec![(dir.to_owned(), 0)];
    let (mut bytes, mut counted) = (0.0, 0);
    while let Some((dir, depth)) = pending.pop() {
        for name in files.names(&dir).unwrap_or_default() {
            let path = format!("{}/{}", dir.trim_end_matches('/'), name.name);
            counted += 1;
            if counted > DATA_FILES {
                return Some(bytes);
            }
            // PostgreSQL has its tables in two of its directories, and nothing of them beside these.
            let may_hold = kind != ServiceKind::Postgresql
                || depth > 0
                || POSTGRESQL_DATA.contains(&name.name.as_str());
            if name.is_dir && depth < DATA_DEPTH && may_hold {
                pending.push((path, depth + 1));
            } else if !name.is_dir && may_hold && is_data(&name.name, kind) {
                bytes += files
                    .tail(&path, 0)
                    .map_or(0.0, |content| content.length as f64);
            }
        }
    }
    Some(bytes)
}

/// Directories of PostgreSQL's tables and indexes.
const POSTGRESQL_DATA: [&str; 2] = ["base", "global"];

/// Whether a file is one of tables and indexes, by its name: those of InnoDB, MyISAM and Aria.
fn is_data(name: &str, kind: ServiceKind) -> bool {
    let ending = name.rsplit_once('.').map(|(_, ending)| ending);
    let is_table = |ending| ["ibd", "MYD", "MYI", "MAD", "MAI"].contains(&ending);
    kind == ServiceKind::Postgresql || name.starts_with("ibdata") || ending.is_some_and(is_table)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::Memory;

    #[test]
    fn logs_beside_the_data_are_no_data() {
        let ten = "0123456789";
        let files = Memory::of(&[
            ("/my/ibdata1", ten),
            ("/my/shop/orders.ibd", ten),
            ("/my/shop/old.MYI", ten),
            ("/my/binlog.000001", ten),
            ("/my/#innodb_redo/#ib_redo7", ten),
            ("/my/slow.log", ten),
            ("/pg/base/5/1259", ten),
            ("/pg/global/1260", ten),
            ("/pg/pg_wal/000000010000000000000001", ten),
            ("/pg/log/postgresql.log", ten),
        ]);
        let bytes = |dir, kind| data_bytes(&files, dir, kind);
        assert_eq!(bytes("/my", ServiceKind::Mysql), Some(30.0));
        assert_eq!(bytes("/pg", ServiceKind::Postgresql), Some(20.0));
    }

    #[test]
    fn names_of_hosts_are_known() {
        let text = "127.0.0.1 localhost loop # x\n#1.1.1.1 y\n::1 localhost6\nodd\n";
        let names: Vec<String> = hosts(text)
            .into_iter()
            .map(|(name, ip)| format!("{name} {ip}"))
            .collect();
        assert_eq!(
            names,
            ["localhost 127.0.0.1", "loop 127.0.0.1", "localhost6 ::1"]
        );
    }

    #[test]
    fn a_directive_and_its_listener_are_one() {
        let check = |a: &str, b: &str| {
            let parse = |text| ListenEndpoint::parse(text, 9000).expect("an endpoint");
            usual(&parse(a)) == usual(&parse(b))
        };
        assert!(check("9000", "*:9000") && check("0.0.0.0:9000", "*:9000"));
        assert!(check("/run/a", "/run/a") && !check("/run/a", "/run/b"));
        assert!(!check("127.0.0.1:9000", "*:9001"));
    }
}
