//! The chains as a small picture.

use crate::snapshot::{FpmPool, Link, Service, ServiceKind, Snapshot};
use std::collections::HashSet;

/// Deeper than any chain.
const DEPTH: usize = 6;
/// Pools that are shown of a PHP-FPM that nobody is known to ask.
const POOLS: usize = 4;

/// A line a service, below whom asks it.
pub(super) fn draw(snapshot: &Snapshot) -> Vec<String> {
    let is_asked = |at: usize| snapshot.links.iter().any(|link| link.to == at);
    let all: Vec<usize> = (0..snapshot.services.len()).collect();
    let mut first: Vec<usize> = all.iter().copied().filter(|at| !is_asked(*at)).collect();
    // Services that ask one another in a circle have no first.
    if first.is_empty() {
        first = all.into_iter().take(1).collect();
    }
    let mut lines = Vec::new();
    for at in first {
        lines.push(describe(&snapshot.services[at]));
        lines.extend(pools_of(&snapshot.services[at]));
        below(snapshot, (at, None), "", &mut vec![at], &mut lines);
    }
    for at in (0..snapshot.services.len()).filter(|at| is_asked(*at)) {
        lines.extend(unasked(snapshot, at));
    }
    lines
}

/// The pools of a PHP-FPM that nobody is seen to ask, where others of it are asked.
fn unasked(snapshot: &Snapshot, at: usize) -> Vec<String> {
    let links = snapshot.links.iter().filter(|link| link.to == at);
    let asked: Option<HashSet<&str>> = links.map(|link| link.pool.as_deref()).collect();
    // By a link of which it is not known where it leads, it may be any of them.
    let Some(asked) = asked else {
        return Vec::new();
    };
    let service = &snapshot.services[at];
    let others = service.pools.iter();
    let others: Vec<&FpmPool> = others
        .filter(|pool| !asked.contains(pool.name.as_str()))
        .collect();
    if others.is_empty() {
        return Vec::new();
    }
    let mut lines = vec![format!("{}, not seen to be asked:", describe(service))];
    lines.extend(listed(&others));
    lines
}

/// What a service asks, and of a PHP-FPM the pool that is drawn above.
fn below(
    snapshot: &Snapshot,
    (at, through): (usize, Option<&str>),
    indent: &str,
    above: &mut Vec<usize>,
    lines: &mut Vec<String>,
) {
    let mut asked: Vec<(usize, String, Option<&str>)> = Vec::new();
    let asks = |link: &&Link| {
        let pools = &link.from_pools;
        let by_it =
            through.is_none_or(|pool| pools.is_empty() || pools.iter().any(|one| one == pool));
        link.from == at && by_it
    };
    for link in snapshot
        .links
        .iter()
        .filter(asks)
        .filter(|link| !above.contains(&link.to))
    {
        let same = asked
            .iter()
            .any(|(to, _, pool)| *to == link.to && *pool == link.pool.as_deref());
        if !same {
            let from = match (through, snapshot.services[at].pools.len()) {
                (None, 2..) => askers(&link.from_pools),
                _ => String::new(),
            };
            asked.push((link.to, format!("{}{from}", link.by), link.pool.as_deref()));
        }
    }
    let count = asked.len();
    for (index, (to, by, pool)) in asked.into_iter().enumerate() {
        let last = index + 1 == count;
        let service = &snapshot.services[to];
        let named = service
            .pools
            .iter()
            .find(|one| Some(one.name.as_str()) == pool);
        let through = pool;
        let pool = named.map_or_else(String::new, |pool| format!(", {}", of_pool(pool)));
        let corner = if last { "└" } else { "├" };
        lines.push(format!(
            "{indent}{corner}─ {by} ─▶ {}{pool}",
            describe(service)
        ));
        if above.len() < DEPTH {
            above.push(to);
            let deeper = format!("{indent}{}  ", if last { " " } else { "│" });
            below(snapshot, (to, through), &deeper, above, lines);
            above.pop();
        }
    }
}

/// Which of several pools ask.
fn askers(pools: &[String]) -> String {
    match pools {
        [] => String::new(),
        [pool] => format!(", from pool {pool}"),
        [first, others @ ..] => format!(", from pool {first} and {} more", others.len()),
    }
}

/// The pools of a PHP-FPM that nobody is known to ask.
fn pools_of(service: &Service) -> Vec<String> {
    listed(&service.pools.iter().collect::<Vec<_>>())
}

fn listed(pools: &[&FpmPool]) -> Vec<String> {
    let shown = pools.iter().take(POOLS);
    let mut lines: Vec<String> = shown.map(|pool| format!("   {}", of_pool(pool))).collect();
    if pools.len() > POOLS {
        lines.push(format!("   and {} more pools", pools.len() - POOLS));
    }
    lines
}

fn describe(service: &Service) -> String {
    let version = match service.version.as_str() {
        "" => String::new(),
        version => format!(" {version}"),
    };
    let place = match &service.place.container {
        Some(container) => format!("[{}] ", container.called()),
        None => String::new(),
    };
    let listens: Vec<String> = service
        .listens
        .iter()
        .take(4)
        .map(|one| one.endpoint.to_string())
        .collect();
    let listens = match (service.kind, listens.is_empty()) {
        // A pool says where it listens.
        (ServiceKind::Fpm, _) | (_, true) => String::new(),
        _ => format!(", {}", listens.join(" ")),
    };
    format!(
        "{place}{}{version} (process {}{listens})",
        service.kind, service.pid
    )
}

fn of_pool(pool: &FpmPool) -> String {
    let most = pool.settings.text("pm.max_children").unwrap_or("?");
    let states: Vec<bool> = pool.workers.iter().filter_map(|one| one.busy).collect();
    let busy = match states.is_empty() {
        true => String::new(),
        false => format!(
            ", {} of {} busy",
            states.iter().filter(|busy| **busy).count(),
            states.len()
        ),
    };
    let queue = match pool.queue {
        Some((length, limit)) => format!(", {length} of {limit} queued"),
        None => String::new(),
    };
    format!(
        "pool {} ({}, at most {most}{busy}{queue})",
        pool.name,
        pool.manager()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::case::Case;
    use expect_test::expect;

    #[test]
    fn chains_are_drawn_from_the_front() {
        let lines = draw(&Case::healthy().workers(2, 1e6, true).0).join("\n");
        expect![[r#"
            nginx 1.22.1 (process 11)
            └─ /run/php.sock ─▶ php-fpm 8.2.36 (process 13), pool www (static, at most 20, 2 of 2 busy)
               ├─ /run/php.sock ─▶ redis (process 16)
               ├─ /run/php.sock ─▶ mysql (process 17)
               └─ /run/php.sock ─▶ postgresql (process 18)"#]].assert_eq(&lines);
        assert!(draw(&Snapshot::default()).is_empty());
        let mut alone = Case::healthy().0;
        alone.links.clear();
        let lines = draw(&alone);
        assert!(
            lines.contains(&"   pool www (static, at most 20)".to_owned()),
            "{lines:?}"
        );
    }

    #[test]
    fn pools_that_nobody_is_seen_to_ask_are_drawn() {
        let lines = draw(&Case::healthy().pool_with("[jobs]\npm = ondemand", "").0);
        let at = lines
            .iter()
            .position(|line| line.ends_with(", not seen to be asked:"))
            .expect("a line of it");
        assert!(lines[at + 1].contains("pool jobs (ondemand"), "{lines:?}");
    }

    #[test]
    fn what_one_pool_asks_is_not_drawn_below_another() {
        let mut both = Case::healthy().0;
        let mut wp = both.services[1].pools[0].clone();
        wp.name = "wp".to_owned();
        both.services[1].pools.push(wp);
        let mut link = both.links[0].clone();
        link.pool = Some("wp".to_owned());
        both.links.insert(1, link);
        for link in both.links.iter_mut().filter(|link| link.from == 1) {
            link.from_pools = vec!["www".to_owned()];
        }
        let lines = draw(&both);
        let wp = lines
            .iter()
            .position(|line| line.contains("pool wp"))
            .expect("it is drawn");
        let www = lines
            .iter()
            .position(|line| line.contains("pool www"))
            .expect("it is drawn");
        assert!(www < wp && lines.len() == wp + 1, "{lines:#?}");
        both.links.retain(|link| link.from == 1);
        let lines = draw(&both).join("\n");
        assert!(lines.contains(", from pool www ─▶ redis"), "{lines}");
    }
}
