//! Settings that nginx tells PHP with every request: `fastcgi_param PHP_VALUE` and `PHP_ADMIN_VALUE`.

use super::asks::endpoints_of;
use crate::snapshot::{Link, ListenEndpoint, Pass, Service, SettingSource, SettingValue};
use std::collections::{BTreeMap, HashMap};

/// The parameters, as settings of nginx name them; the second wins over the first.
const PARAMETERS: [&str; 2] = ["fastcgi_param php_value", "fastcgi_param php_admin_value"];
/// Directives of OPcache that a request may still change: the others are decided when PHP starts.
const OF_REQUESTS: [&str; 3] = [
    "opcache.enable",
    "opcache.revalidate_freq",
    "opcache.validate_timestamps",
];

type Told = BTreeMap<String, (String, SettingSource)>;

/// Lays them over the settings of the pools that are asked, where every place of nginx that leads to a pool tells the same.
pub(super) fn lay_over(services: &mut [Service], links: &[Link]) {
    let mut told_to = of_pools(services, links);
    let all = services.iter_mut().enumerate();
    let all = all.flat_map(|(at, service)| service.pools.iter_mut().map(move |pool| (at, pool)));
    for (at, pool) in all {
        let Some(told) = told_to.remove(&(at, pool.name.clone())) else {
            continue;
        };
        for (name, (text, source)) in told {
            // A pool cannot be switched on.
            let is_off = pool.php.get(&name).and_then(SettingValue::is_on) == Some(false);
            if name == "opcache.enable" && is_off {
                continue;
            }
            pool.php.set(&name, &text, source);
        }
    }
}

/// What is told to each pool by all who ask it.
fn of_pools(services: &[Service], links: &[Link]) -> HashMap<(usize, String), Told> {
    let mut told_at: HashMap<(usize, ListenEndpoint), Vec<Told>> = HashMap::new();
    for (from, service) in services.iter().enumerate() {
        let nginx = service.nginx.iter();
        // Most hosts have none of them, and thousands of places.
        for nginx in nginx.filter(|nginx| nginx.passes.iter().any(tells)) {
            for pass in &nginx.passes {
                for (to, _) in endpoints_of(nginx, pass) {
                    told_at.entry((from, to)).or_default().push(told(pass));
                }
            }
        }
    }
    let mut asked: HashMap<(usize, &str), Vec<Told>> = HashMap::new();
    for link in links.iter().filter(|_| !told_at.is_empty()) {
        let told = told_at.get(&(link.from, link.by.clone()));
        if let (Some(pool), Some(told)) = (&link.pool, told) {
            let all = asked.entry((link.to, pool.as_str())).or_default();
            all.extend(told.iter().cloned());
        }
    }
    let all = asked.into_iter().filter_map(|((at, pool), told)| {
        let same = told.into_iter().reduce(|mut all, other| {
            all.retain(|name, (text, _)| other.get(name).is_some_and(|(same, _)| same == text));
            all
        })?;
        Some(((at, pool.to_owned()), same))
    });
    all.collect()
}

fn tells(pass: &Pass) -> bool {
    let mut names = PARAMETERS.iter();
    names.any(|name| pass.settings.get(name).is_some())
}

/// What one place tells.
fn told(pass: &Pass) -> Told {
    let mut told = Told::new();
    let values = PARAMETERS.iter().filter_map(|name| pass.settings.get(name));
    for value in values {
        let lines = value.text.split("\\n").flat_map(str::lines);
        for (name, text) in lines.filter_map(|line| line.split_once('=')) {
            let (name, text) = (name.trim(), text.trim().trim_matches(['"', '\'']));
            let is_told = !name.starts_with("opcache.") || OF_REQUESTS.contains(&name);
            if is_told && !name.is_empty() && !text.contains('$') {
                told.insert(name.to_owned(), (text.to_owned(), value.source.clone()));
            }
        }
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::case::Case;

    /// The value of a setting in the pool, and where it comes from.
    fn in_force(nginx: &str, name: &str) -> Option<(String, String)> {
        let mut snapshot = Case::healthy().nginx(nginx).0;
        let links = snapshot.links.clone();
        lay_over(&mut snapshot.services, &links);
        let value = snapshot.services[1].pools[0].php.get(name)?;
        Some((value.text.clone(), value.source.to_string()))
    }

    fn site(first: &str, second: &str) -> String {
        format!(
            "http {{\n server {{\n  location /a {{\n   {first}\n   fastcgi_pass unix:/run/php.sock;\n  }}\n  location /b {{\n   \
             {second}\n   fastcgi_pass unix:/run/php.sock;\n  }}\n }}\n}}\n"
        )
    }

    #[test]
    fn what_every_place_tells_is_in_force() {
        let value = "fastcgi_param PHP_VALUE \"memory_limit=64M\n opcache.revalidate_freq = 60\";";
        let both = site(value, value);
        let told = |text: &str, line: &str| {
            Some((text.to_owned(), format!("/etc/nginx/nginx.conf:{line}")))
        };
        assert_eq!(in_force(&both, "memory_limit"), told("64M", "4"));
        assert_eq!(in_force(&both, "opcache.revalidate_freq"), told("60", "4"));
        let one = site(value, "");
        assert_eq!(in_force(&one, "memory_limit").expect("set").0, "128M");
        let off = "fastcgi_param PHP_ADMIN_VALUE \"opcache.enable=0\";";
        assert_eq!(in_force(&site(off, off), "opcache.enable"), told("0", "4"));
        let memory = "fastcgi_param PHP_ADMIN_VALUE \"opcache.memory_consumption=8\";";
        let found = in_force(&site(memory, memory), "opcache.memory_consumption");
        assert_eq!(found.expect("set").0, "256", "decided at the start");
    }
}
