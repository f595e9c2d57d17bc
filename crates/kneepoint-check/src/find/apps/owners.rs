//! Which pools serve an application: those whose web server, or whose own directory, leads to it.

use super::super::asks::endpoints_of;
use crate::chain::Seen;
use crate::files::Files as _;
use crate::snapshot::{Link, Settings};
use std::collections::BTreeSet;

/// Whose an application is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Owners {
    /// These pools of the service.
    Pools(Vec<String>),
    /// The service, which has no pools.
    None,
    /// One of several pools; nothing tells which.
    Unknown,
    /// Another service that sees the same files.
    Elsewhere,
}

/// Whose the application in a directory is, as far as one service goes. `places` are all services with the directories
/// that they see.
pub(super) fn of(
    all: &[Seen],
    links: &[Link],
    places: &[(usize, String)],
    at: usize,
    root: &str,
) -> Owners {
    let service = &all[at].service;
    if service.pools.is_empty() {
        return Owners::None;
    }
    let pools = led_to(all, links, at, root);
    if !pools.is_empty() {
        return Owners::Pools(pools.into_iter().collect());
    }
    let same = |other: usize| {
        let identity = |at: usize| all[at].root.as_ref()?.identity(root);
        identity(other).is_some() && identity(other) == identity(at)
    };
    let mut others = places
        .iter()
        .filter(|(other, own)| *other != at && own == root);
    if others.any(|(other, _)| same(*other) && !led_to(all, links, *other, root).is_empty()) {
        return Owners::Elsewhere;
    }
    match service.pools.as_slice() {
        [only] => Owners::Pools(vec![only.name.clone()]),
        _ => Owners::Unknown,
    }
}

/// The pools of a service from which a line leads to a directory: of nginx, which asks them for files below it, or their
/// own.
fn led_to(all: &[Seen], links: &[Link], at: usize, root: &str) -> BTreeSet<String> {
    let mut pools = BTreeSet::new();
    for link in links.iter().filter(|link| link.to == at) {
        let (Some(nginx), Some(pool)) = (&all[link.from].service.nginx, &link.pool) else {
            continue;
        };
        let mut passes = nginx.passes.iter().filter(|pass| {
            let ends = endpoints_of(nginx, pass);
            ends.iter().any(|(to, _)| *to == link.by)
        });
        if passes.any(|pass| directories(&pass.settings).any(|dir| is_within(dir, root))) {
            pools.insert(pool.clone());
        }
    }
    for pool in &all[at].service.pools {
        let own = pool.settings.text("chdir");
        if own.is_some_and(|dir| is_within(dir, root)) {
            pools.insert(pool.name.clone());
        }
    }
    pools
}

/// The directories whose files a place of nginx has executed, as far as they are written out.
fn directories(settings: &Settings) -> impl Iterator<Item = &str> {
    let names = [
        "root",
        "alias",
        "fastcgi_param script_filename",
        "fastcgi_param document_root",
    ];
    let written = names.into_iter().filter_map(|name| settings.text(name));
    written.map(|text| text.split('$').next().unwrap_or_default())
}

fn is_within(dir: &str, root: &str) -> bool {
    let rest = dir.strip_prefix(root);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chain::join;
    use crate::rule::case::Case;
    use crate::snapshot::{ServiceKind, Snapshot};
    use crate::sockets::Net;
    use std::collections::BTreeMap;

    const POOLS: &str = "[shop]\nlisten = /run/shop.sock\npm.max_children = 7\n[blog]\nlisten = /run/blog.sock\n\
        pm.max_children = 7\n[jobs]\nlisten = /run/jobs.sock\nchdir = /srv/jobs\npm.max_children = 7\n";
    const SITES: &str = "http {\n server {\n  root /srv/shop/public;\n  location ~ php {\n   fastcgi_pass unix:/run/shop.sock;\n  }\n }\n \
        server {\n  location /blog {\n   fastcgi_param SCRIPT_FILENAME /srv/blog$fastcgi_script_name;\n   \
        fastcgi_pass unix:/run/blog.sock;\n  }\n }\n}\n";

    fn seen(snapshot: &Snapshot) -> Vec<Seen> {
        let services = snapshot.services.iter().take(2).cloned();
        services
            .map(|mut service| {
                if let Some(nginx) = &service.nginx {
                    service.asks = nginx
                        .passes
                        .iter()
                        .flat_map(|pass| endpoints_of(nginx, pass))
                        .collect();
                }
                service.listens = service
                    .pools
                    .iter()
                    .filter_map(|pool| pool.listen.clone())
                    .map(|endpoint| crate::snapshot::Listener {
                        endpoint,
                        queue: None,
                    })
                    .collect();
                Seen {
                    service,
                    root: None,
                    net: Net::default(),
                    hosts: Vec::new(),
                    roots: Vec::new(),
                    askers: BTreeMap::new(),
                }
            })
            .collect()
    }

    #[test]
    fn an_application_is_that_of_the_pool_which_a_line_leads_to() {
        let all = seen(&Case::healthy().fpm(POOLS, "").nginx(SITES).0);
        let links = join(&all, |kind| kind == ServiceKind::Nginx);
        assert_eq!(links.len(), 2, "{links:?}");
        let whose = |root: &str| of(&all, &links, &[], 1, root);
        let pools = |name: &str| Owners::Pools(vec![name.to_owned()]);
        assert_eq!(whose("/srv/shop"), pools("shop"));
        assert_eq!(whose("/srv/blog"), pools("blog"));
        assert_eq!(whose("/srv/jobs"), pools("jobs"));
        assert_eq!(whose("/srv/sho"), Owners::Unknown);
        assert_eq!(whose("/srv/other"), Owners::Unknown);
        assert_eq!(of(&all, &links, &[], 0, "/srv/shop"), Owners::None);
    }

    #[test]
    fn the_only_pool_serves_what_is_there() {
        let all = seen(&Case::healthy().0);
        let links = join(&all, |kind| kind == ServiceKind::Nginx);
        let whose = of(&all, &links, &[], 1, "/srv/other");
        assert_eq!(whose, Owners::Pools(vec!["www".to_owned()]));
    }
}
