//! What many rules share: one directive whose value costs.

use super::prelude::*;
use std::collections::HashMap;

/// Where a directive stands.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Home {
    /// Among the settings of a program.
    Program(ServiceKind),
    /// In php.ini, or in what a pool lays over it.
    Ini,
    /// In a pool of PHP-FPM.
    Pool,
    /// In a server of nginx, or where it hands requests on.
    Site,
}

/// What is around a value.
pub(crate) struct Around<'a> {
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) at: usize,
    pub(crate) service: &'a Service,
    /// The pool, where the directive is one of PHP.
    pub(crate) pool: Option<&'a FpmPool>,
    /// The settings it is one of.
    pub(crate) settings: &'a Settings,
}

impl<'a> Around<'a> {
    /// What is around a setting of a service itself.
    pub(crate) fn service(snapshot: &'a Snapshot, at: usize, service: &'a Service) -> Self {
        Self {
            snapshot,
            at,
            service,
            pool: None,
            settings: &service.settings,
        }
    }

    /// Most workers that share the value: those of the pool, or of all PHP that asks the service.
    pub(crate) fn workers(&self) -> u64 {
        self.workers_seen().unwrap_or(1)
    }

    /// The same for a sentence: `20 workers`, or that nobody was seen who asks the service.
    pub(crate) fn who(&self) -> String {
        self.workers_seen()
            .map_or("workers that are not seen here".into(), |count| {
                counted(count, "worker")
            })
    }

    fn workers_seen(&self) -> Option<u64> {
        let own = self.pool.and_then(FpmPool::max_children);
        own.or_else(|| self.snapshot.workers_behind(self.at))
    }

    /// Memory that the service may use in bytes: its limit, or all of the machine.
    pub(crate) fn memory_bytes(&self) -> f64 {
        self.service.memory_bytes(&self.snapshot.machine)
    }

    /// Where the memory it may use is said.
    pub(crate) fn memory_source(&self) -> String {
        self.service.memory_source()
    }
}

/// A directive, and what is wrong with some of its values.
pub(crate) struct Directive {
    pub(crate) home: Home,
    pub(crate) name: &'static str,
    /// Its value where nobody wrote one.
    pub(crate) usual: &'static str,
    /// Other directives to show beside it, with their usual values.
    pub(crate) beside: &'static [(&'static str, &'static str)],
    pub(crate) severity: Severity,
    /// What a value costs here; `None` where it is well.
    pub(crate) costs: fn(&SettingValue, &Around<'_>) -> Option<String>,
    /// What to write: a value for PHP; for others whole lines, a directive each.
    pub(crate) better: fn(&Around<'_>) -> String,
    pub(crate) weight: f64,
}

impl Directive {
    /// Finds the values that cost, each place once.
    pub(crate) fn check(
        &self,
        rule: &'static CheckRule,
        snapshot: &Snapshot,
        found: &mut Vec<CheckFinding>,
    ) {
        let mut told: HashMap<(usize, SettingValue), usize> = HashMap::new();
        for around in self.places(snapshot) {
            let value = around.settings.or(self.name, self.usual);
            if self.name.starts_with("opcache.") && around.settings.switches_opcache_off() {
                continue;
            }
            let key = (around.at, value.clone());
            // Of one line that several pools have, the first tells, and names the others.
            if let Some(first) = told.get(&key) {
                if let Some(pool) = around.pool
                    && (self.costs)(&value, &around).is_some()
                {
                    let place = format!("pool {} of {}", pool.name, around.service.name());
                    found[*first].also.push(place);
                }
                continue;
            }
            let Some(cost) = (self.costs)(&value, &around) else {
                continue;
            };
            told.insert(key, found.len());
            let mut draft = rule
                .at(snapshot, around.at, self.severity)
                .value(self.name, &value);
            if let Some(pool) = around.pool {
                draft = draft.pool(pool);
            }
            for (name, usual) in self.beside {
                draft = draft.value(name, &around.settings.or(name, usual));
            }
            draft
                .cost(cost)
                .fix(self.fix(&value, &around))
                .weight(self.weight)
                .tell(found);
        }
    }

    /// Everywhere the directive may stand. A program of which no setting was read is left out: its defaults are not known
    /// to be in force.
    fn places<'a>(&self, snapshot: &'a Snapshot) -> Vec<Around<'a>> {
        let around = |at, service, pool, settings| Around {
            snapshot,
            at,
            service,
            pool,
            settings,
        };
        match self.home {
            Home::Program(kind) => snapshot
                .of(kind)
                .map(|(at, service)| Around::service(snapshot, at, service))
                .filter(|place| !place.settings.is_empty())
                .collect(),
            Home::Ini => snapshot
                .pools()
                .map(|(at, service, pool)| around(at, service, Some(pool), &pool.php))
                .filter(|place| !place.settings.is_empty())
                .collect(),
            Home::Pool => snapshot
                .pools()
                .map(|(at, service, pool)| around(at, service, Some(pool), &pool.settings))
                .collect(),
            Home::Site => snapshot
                .of(ServiceKind::Nginx)
                .filter_map(|(at, service)| Some((at, service, service.nginx.as_ref()?)))
                .flat_map(|(at, service, nginx)| {
                    let servers = nginx.servers.iter().map(|one| &one.settings);
                    let passes = nginx.passes.iter().map(|one| &one.settings);
                    servers
                        .chain(passes)
                        .map(move |settings| around(at, service, None, settings))
                })
                .collect(),
        }
    }

    fn fix(&self, value: &SettingValue, around: &Around<'_>) -> Fix {
        let better = (self.better)(around);
        let service = around.service;
        match (self.home, around.pool) {
            (Home::Ini, Some(pool)) => Fix::php(service, pool, &[(self.name, better)]),
            (Home::Ini, None) => Fix::ini(service, &[(self.name, better)]),
            (Home::Pool, Some(pool)) => Fix::pool(service, pool, &[(self.name, better)]),
            (Home::Program(ServiceKind::Fpm), _) => Fix::global(service, &[(self.name, better)]),
            // A value is changed where it stands; what another one ought to be goes beside it.
            _ if begins(&better, self.name) => Fix::line(service, value, &better),
            _ => Fix::beside(service, value, &better),
        }
    }
}

/// Whether a line sets a directive, which may be named behind its section: `global maxconn`.
fn begins(line: &str, name: &str) -> bool {
    let set = line.split([' ', '=']).next().unwrap_or_default();
    let name = name.rsplit(' ').next().unwrap_or(name);
    set.eq_ignore_ascii_case(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_names_what_it_sets() {
        assert!(begins("maxconn 20000", "global maxconn") && begins("KeepAlive On", "keepalive"));
        assert!(begins("general_log = 0", "general_log"));
        assert!(!begins("max_heap_table_size = 1M", "tmp_table_size"));
    }
}
