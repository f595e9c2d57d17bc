//! Which pools serve an application: those whose web server, or whose own directory, leads to it.

use super::super::asks::endpoints_of;
use super::places::Places;
use crate::chain::Seen;
use crate::snapshot::{Link, ListenEndpoint, Settings};
use std::collections::{BTreeMap, BTreeSet, HashMap};

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

/// Where lines lead to from a directory or from one below it.
pub(super) struct Led {
    /// Which pools, of each service by its position.
    pools: BTreeMap<usize, HashMap<String, BTreeSet<String>>>,
    /// Which services a web server hands PHP of a directory to; none where nobody is there who listens.
    handed: HashMap<String, BTreeSet<usize>>,
}

impl Led {
    /// What web servers say, by the links from them, and what pools say themselves.
    /// A line to a directory in which an application is does not lead to one around it as well.
    pub(super) fn of(all: &[Seen], links: &[Link], places: &Places) -> Self {
        let mut led: BTreeMap<usize, BTreeSet<(String, String)>> = BTreeMap::new();
        for (from, seen) in all.iter().enumerate() {
            for pool in &seen.service.pools {
                let own = pool.settings.text("chdir").map(str::to_owned);
                let pools = led.entry(from).or_default();
                pools.extend(own.map(|dir| (dir, pool.name.clone())));
            }
            let mut asked: BTreeMap<ListenEndpoint, Vec<&str>> = BTreeMap::new();
            for (dir, to) in &seen.hands {
                asked.entry(to.clone()).or_default().push(dir);
            }
            if let Some(nginx) = &seen.service.nginx {
                for pass in &nginx.passes {
                    for (to, _) in endpoints_of(nginx, pass) {
                        let dirs = asked.entry(to).or_default();
                        dirs.extend(directories(&pass.settings));
                    }
                }
            }
            if asked.is_empty() {
                continue;
            }
            for link in links.iter().filter(|link| link.from == from) {
                let (Some(pool), Some(dirs)) = (&link.pool, asked.get(&link.by)) else {
                    continue;
                };
                let dirs = dirs.iter().map(|dir| ((*dir).to_owned(), pool.clone()));
                led.entry(link.to).or_default().extend(dirs);
            }
        }
        let around = led.into_iter().map(|(at, led)| {
            let mut pools: HashMap<String, BTreeSet<String>> = HashMap::new();
            for (dir, pool) in led {
                let mut around: Vec<&str> = within(&dir).collect();
                around.reverse();
                for dir in around {
                    pools
                        .entry(dir.to_owned())
                        .or_default()
                        .insert(pool.clone());
                    if places.contains_key(&(at, dir.to_owned())) {
                        break;
                    }
                }
            }
            (at, pools)
        });
        Self {
            pools: around.collect(),
            handed: handed(all, links),
        }
    }

    /// The pools of a service from which a line leads to a directory.
    fn to(&self, at: usize, root: &str) -> Vec<String> {
        let pools = self.pools.get(&at).and_then(|led| led.get(root));
        pools.into_iter().flatten().cloned().collect()
    }

    /// Whose the application in a directory is, as far as one service goes. `places` are all services with the directories
    /// that they see.
    pub(super) fn owners(&self, all: &[Seen], places: &Places, at: usize, root: &str) -> Owners {
        let service = &all[at].service;
        if service.pools.is_empty() {
            return Owners::None;
        }
        let pools = self.to(at, root);
        if !pools.is_empty() {
            return Owners::Pools(pools);
        }
        let identity = |at: usize| places.get(&(at, root.to_owned())).copied().flatten();
        let same = |other: usize| identity(other).is_some() && identity(other) == identity(at);
        let led = self.pools.iter().filter(|(_, led)| led.contains_key(root));
        let mut others = led.map(|(other, _)| *other).filter(|other| *other != at);
        if others.any(same) {
            return Owners::Elsewhere;
        }
        // Whoever is to serve it does not run: it is nobody's here.
        let handed = self.handed.get(root);
        if handed.is_some_and(|to| !to.contains(&at)) {
            return Owners::Elsewhere;
        }
        match service.pools.as_slice() {
            [only] => Owners::Pools(vec![only.name.clone()]),
            _ => Owners::Unknown,
        }
    }
}

/// To which services web servers hand PHP of each directory, as far as it is written out to whom.
fn handed(all: &[Seen], links: &[Link]) -> HashMap<String, BTreeSet<usize>> {
    let mut handed: HashMap<String, BTreeSet<usize>> = HashMap::new();
    let mut reached: BTreeMap<(usize, &ListenEndpoint), BTreeSet<usize>> = BTreeMap::new();
    for link in links {
        reached
            .entry((link.from, &link.by))
            .or_default()
            .insert(link.to);
    }
    for (from, seen) in all.iter().enumerate() {
        for (dir, to) in &seen.hands {
            let found = reached.get(&(from, to)).into_iter().flatten();
            let found: Vec<usize> = found.copied().collect();
            for dir in within(dir) {
                handed.entry(dir.to_owned()).or_default().extend(&found);
            }
        }
        let passes = seen.service.nginx.iter().flat_map(|nginx| {
            let own = nginx.passes.iter();
            own.filter(|pass| pass.directive == "fastcgi_pass")
                .map(move |pass| (pass, endpoints_of(nginx, pass)))
        });
        for (pass, to) in passes.filter(|(_, to)| !to.is_empty()) {
            let found = to.iter().filter_map(|(to, _)| reached.get(&(from, to)));
            let found: BTreeSet<usize> = found.flatten().copied().collect();
            for dir in directories(&pass.settings).flat_map(within) {
                handed.entry(dir.to_owned()).or_default().extend(&found);
            }
        }
    }
    handed
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

/// A directory and all that it is in.
fn within(dir: &str) -> impl Iterator<Item = &str> {
    let slashes = dir.match_indices('/').map(|(at, _)| &dir[..at]);
    slashes.chain([dir]).filter(|dir| !dir.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chain::join;
    use crate::rule::case::Case;
    use crate::snapshot::{ServiceKind, Snapshot};

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
                Seen::new(service)
            })
            .collect()
    }

    #[test]
    fn an_application_is_that_of_the_pool_which_a_line_leads_to() {
        let all = seen(&Case::healthy().fpm(POOLS, "").nginx(SITES).0);
        let links = join(&all, |kind| kind == ServiceKind::Nginx);
        assert_eq!(links.len(), 2, "{links:?}");
        let led = Led::of(&all, &links, &Places::new());
        let whose = |root: &str| led.owners(&all, &Places::new(), 1, root);
        let pools = |name: &str| Owners::Pools(vec![name.to_owned()]);
        assert_eq!(whose("/srv/shop"), pools("shop"));
        assert_eq!(whose("/srv/blog"), pools("blog"));
        assert_eq!(whose("/srv/jobs"), pools("jobs"));
        assert_eq!(whose("/srv/sho"), Owners::Unknown);
        assert_eq!(whose("/srv/other"), Owners::Unknown);
        assert_eq!(
            led.owners(&all, &Places::new(), 0, "/srv/shop"),
            Owners::None
        );
    }

    #[test]
    fn the_only_pool_serves_what_is_there() {
        let all = seen(&Case::healthy().0);
        let links = join(&all, |kind| kind == ServiceKind::Nginx);
        let whose =
            Led::of(&all, &links, &Places::new()).owners(&all, &Places::new(), 1, "/srv/other");
        assert_eq!(whose, Owners::Pools(vec!["www".to_owned()]));
    }

    #[test]
    fn an_application_whose_own_php_does_not_run_is_not_another_pool_s() {
        let other = "[other]\nlisten = /run/other.sock\npm.max_children = 7\n";
        let whose = |pools: &str, root: &str| {
            let all = seen(&Case::healthy().fpm(pools, "").nginx(SITES).0);
            let links = join(&all, |kind| kind == ServiceKind::Nginx);
            Led::of(&all, &links, &Places::new()).owners(&all, &Places::new(), 1, root)
        };
        let of_other = Owners::Pools(vec!["other".to_owned()]);
        assert_eq!(whose(other, "/srv/shop"), Owners::Elsewhere);
        assert_eq!(whose(other, "/srv/of-nobody"), of_other);
        let own = format!("{other}chdir = /srv/shop\n");
        assert_eq!(whose(&own, "/srv/shop"), of_other, "it says so itself");
        let two = format!("{other}[more]\nlisten = /run/more.sock\npm.max_children = 7\n");
        assert_eq!(whose(&two, "/srv/shop"), Owners::Elsewhere);
    }

    #[test]
    fn an_application_within_another_keeps_its_pool_for_itself() {
        let sites = "http {\n server {\n  root /w/public;\n  location / {\n   fastcgi_pass unix:/run/shop.sock;\n  }\n }\n \
            server {\n  root /w/app2/public;\n  location / {\n   fastcgi_pass unix:/run/blog.sock;\n  }\n }\n}\n";
        let all = seen(&Case::healthy().fpm(POOLS, "").nginx(sites).0);
        let links = join(&all, |kind| kind == ServiceKind::Nginx);
        let places: Places = ["/w", "/w/app2/public"]
            .map(|root| ((1, root.to_owned()), None))
            .into();
        let led = Led::of(&all, &links, &places);
        let whose = |root: &str| led.owners(&all, &places, 1, root);
        assert_eq!(whose("/w"), Owners::Pools(vec!["shop".to_owned()]));
        assert_eq!(
            whose("/w/app2/public"),
            Owners::Pools(vec!["blog".to_owned()])
        );
    }

    #[test]
    fn an_apache_hands_directories_to_pools_as_well() {
        let mut all = seen(&Case::healthy().fpm(POOLS, "").nginx("http {\n}\n").0);
        let mut apache = crate::snapshot::Service::new(ServiceKind::Apache, 9);
        let to = ListenEndpoint::Unix("/run/shop.sock".into());
        apache
            .asks
            .push((to.clone(), "/etc/apache2/a.conf:3".into()));
        let mut apache = Seen::new(apache);
        apache.hands.push(("/srv/shop/public".into(), to));
        all.push(apache);
        let links = join(&all, |kind| kind == ServiceKind::Apache);
        let led = Led::of(&all, &links, &Places::new());
        let whose = led.owners(&all, &Places::new(), 1, "/srv/shop");
        assert_eq!(whose, Owners::Pools(vec!["shop".to_owned()]));
    }
}
