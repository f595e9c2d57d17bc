//! Which places of nginx lead to whom: looked up by several rules, and made once for each, as a host may have thousands.

use crate::find::asks::endpoints_of;
use crate::snapshot::{
    FpmPool, Link, ListenEndpoint, Pass, Service, ServiceKind, SettingValue, Snapshot,
};
use std::collections::HashMap;

/// The places that hand requests on, and the links to pools.
pub(crate) struct Askers<'a> {
    /// By the service and where they lead.
    passes: HashMap<(usize, ListenEndpoint), Vec<&'a Pass>>,
    /// By the service that is asked, and its pool.
    links: HashMap<(usize, &'a str), Vec<&'a Link>>,
    services: &'a [Service],
}

/// How long somebody waits for an answer of PHP.
pub(crate) struct Patience {
    /// Who.
    pub(crate) who: &'static str,
    /// The directive.
    pub(crate) name: &'static str,
    pub(crate) value: SettingValue,
}

impl<'a> Askers<'a> {
    pub(crate) fn of(snapshot: &'a Snapshot) -> Self {
        let mut passes: HashMap<_, Vec<&Pass>> = HashMap::new();
        for (at, service) in snapshot.services.iter().enumerate() {
            if let Some(nginx) = &service.nginx {
                for pass in &nginx.passes {
                    for (to, _) in endpoints_of(nginx, pass) {
                        passes.entry((at, to)).or_default().push(pass);
                    }
                }
            }
        }
        let mut links: HashMap<_, Vec<&Link>> = HashMap::new();
        for link in &snapshot.links {
            if let Some(pool) = &link.pool {
                links
                    .entry((link.to, pool.as_str()))
                    .or_default()
                    .push(link);
            }
        }
        Self {
            passes,
            links,
            services: &snapshot.services,
        }
    }

    /// The places where nginx hands requests on to whom a link leads.
    pub(crate) fn passes(&self, link: &Link) -> &[&'a Pass] {
        let found = self.passes.get(&(link.from, link.by.clone()));
        found.map_or(&[], Vec::as_slice)
    }

    /// How long who asks a pool waits for its answer: nginx where it does, else Apache. `None` where nobody was seen who asks.
    pub(crate) fn longest_patience(&self, at: usize, pool: &FpmPool) -> Option<Patience> {
        let nginx = self.patience(at, pool).map(|value| Patience {
            who: "nginx",
            name: "fastcgi_read_timeout",
            value,
        });
        nginx.or_else(|| {
            let links = self.links.get(&(at, pool.name.as_str()))?;
            let mut askers = links.iter().filter_map(|link| self.services.get(link.from));
            let apache = askers.find(|one| one.kind == ServiceKind::Apache)?;
            // ProxyTimeout is Timeout where it is not set (mod_proxy), and that 60 s (core).
            let name = match apache.settings.get("proxytimeout") {
                Some(_) => "proxytimeout",
                None => "timeout",
            };
            Some(Patience {
                who: "Apache",
                name,
                value: apache.settings.or(name, "60"),
            })
        })
    }

    /// How long nginx waits for an answer of a pool: the longest of all places that lead to it. `None` where nobody was
    /// seen who asks it.
    pub(crate) fn patience(&self, at: usize, pool: &FpmPool) -> Option<SettingValue> {
        let links = self.links.get(&(at, pool.name.as_str()));
        let links = links.into_iter().flatten();
        let passes = links.flat_map(|link| self.passes(link));
        let waits = passes.map(|pass| pass.settings.or("fastcgi_read_timeout", "60s"));
        waits.reduce(|a, b| if a.seconds() < b.seconds() { b } else { a })
    }
}
