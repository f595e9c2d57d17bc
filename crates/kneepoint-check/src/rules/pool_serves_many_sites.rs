//! FPM-22: several sites share one pool.

use crate::rule::prelude::*;
use crate::snapshot::Pass;
use std::collections::{BTreeMap, BTreeSet, HashMap};

pub(crate) static RULE: CheckRule = CheckRule {
    code: "FPM-22",
    name: "pool-serves-many-sites",
    title: "Several sites share one pool of PHP",
    what_it_is: "A pool has a fixed number of workers for all that ask it. Where several sites share it, the slowest \
        of them takes the workers: one site whose database hangs makes all of them wait. With a pool for each site, \
        each has its own size, its own limits and its own slow log.",
    how_it_shows: "When one site is slow, all sites of the host are.",
    unless: "The sites belong together and depend on the same database anyhow.",
    what_to_write: "A pool with a listen socket of its own for each site, and their sizes within the memory of the \
        host.",
    check,
};

/// Fewer sites than this are told by nobody: a site with its second name, or its statistics \[ours\].
const MANY: usize = 3;

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    let mut sites: BTreeMap<(usize, String), BTreeSet<String>> = BTreeMap::new();
    let mut passes: HashMap<(usize, &str), Vec<&Pass>> = HashMap::new();
    for (at, service) in snapshot.services.iter().enumerate() {
        for pass in service.nginx.iter().flat_map(|nginx| &nginx.passes) {
            let target = pass.target.text.trim_start_matches("unix:");
            let target = target.trim_end_matches(':');
            passes.entry((at, target)).or_default().push(pass);
        }
    }
    for link in &snapshot.links {
        let Some(pool) = &link.pool else { continue };
        let to = link.by.to_string();
        let own = passes.get(&(link.from, to.as_str()));
        let own = own.into_iter().flatten();
        let names = own
            .map(|pass| pass.server.clone())
            .filter(|name| !name.is_empty() && name != "_");
        sites
            .entry((link.to, pool.clone()))
            .or_default()
            .extend(names);
    }
    for ((at, name), names) in sites {
        if names.len() < MANY {
            continue;
        }
        let pools = snapshot.services.get(at).map(|service| &service.pools);
        let pool = pools.and_then(|pools| pools.iter().find(|pool| pool.name == name));
        let Some(pool) = pool else { continue };
        let workers = pool.max_children().unwrap_or(0);
        RULE.at(snapshot, at, Severity::Note)
            .pool(pool)
            .value("pm.max_children", &pool.settings.or("pm.max_children", "not set"))
            .seen(format!("{} sites of nginx hand their requests to it", names.len()), "")
            .cost(format!("one slow site takes {} from {} others", super::all_of(workers, "worker"), names.len() - 1))
            .fix(Fix::words("Give each site a pool of its own: a file in pool.d with its name, its user and its socket."))
            .weight(0.05)
            .tell(found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sick_and_healthy() {
        let mut text = "events {\n}\nhttp {\n".to_owned();
        for name in ["a.example", "b.example", "c.example"] {
            text.push_str(&format!(
                "server {{\n server_name {name};\n location / {{\n fastcgi_pass unix:/run/php.sock;\n}}\n}}\n"
            ));
        }
        text.push('}');
        verify(
            &RULE,
            &[(
                Case::healthy().nginx(&text),
                Severity::Note,
                "all 20 workers from 2 others",
            )],
        );
    }
}
