//! Says why a change must not be tried, before anything is restarted for it.

use crate::Evidence;
use crate::saturation::pool::{
    SPARE_CONNECTIONS, memory_limit, opcache_bytes, size_key, worker_bytes,
};
use kneepoint_model::units::format_bytes;
use kneepoint_model::{Layer, Setting, SettingKey};

/// File descriptors an nginx connection may need: its own, and one to the next tier or to a file.
const DESCRIPTORS_PER_CONNECTION: f64 = 2.0;
/// Ports below this one are privileged or belong to services.
const LOWEST_PORT: f64 = 1024.0;

/// Reasons to reject a change, a sentence each; empty when nothing speaks against trying it.
///
/// Checked on the configuration as it would be with the change: settings that are to be kept, memory of all workers
/// and OPcache, descriptors of nginx, the backlog against `somaxconn`, workers against the connection slots of
/// database and cache, spare workers of a dynamic pool, the port range.
#[must_use]
pub fn remedy_guard(evidence: &Evidence, settings: &[Setting]) -> Vec<String> {
    let after = After { evidence, settings };
    let kept = settings
        .iter()
        .filter(|setting| evidence.keep.contains(&setting.key))
        .map(|setting| format!("`{}` is to be kept as it is", setting.key));
    kept.chain(after.memory())
        .chain(after.descriptors())
        .chain(after.backlogs())
        .chain(after.slots())
        .chain(after.spares())
        .chain(after.ports())
        .collect()
}

/// The configuration with the change on top.
struct After<'a> {
    evidence: &'a Evidence,
    settings: &'a [Setting],
}

impl After<'_> {
    fn text(&self, layer: Layer, name: &str) -> Option<&str> {
        let key = SettingKey::new(layer, name);
        let changed = self.settings.iter().rev().find(|set| set.key == key);
        changed.map_or_else(
            || self.evidence.stack.setting(layer, name),
            |setting| Some(setting.value.as_str()),
        )
    }

    fn number(&self, layer: Layer, name: &str) -> Option<f64> {
        self.text(layer, name)?.trim().parse().ok()
    }

    fn changes(&self, layer: Layer, name: &str) -> bool {
        self.settings
            .iter()
            .any(|setting| setting.key.layer == layer && setting.key.name == name)
    }

    /// Workers there can be, when the change says so or concerns what they need.
    fn workers(&self) -> Option<f64> {
        let key = size_key(self.evidence);
        self.number(key.layer, &key.name).or_else(|| {
            let pool = self.evidence.stack.tier(Layer::Php)?.pool.as_ref()?;
            Some(pool.max_workers as f64)
        })
    }

    fn memory(&self) -> Option<String> {
        let size = size_key(self.evidence).name;
        let grows = self.changes(Layer::Php, &size)
            || self.changes(Layer::Php, "opcache.memory_consumption");
        if !grows {
            return None;
        }
        let opcache = self
            .number(Layer::Php, "opcache.memory_consumption")
            .map_or_else(|| opcache_bytes(self.evidence), |mb| mb * 1_048_576.0);
        let worker = worker_bytes(self.evidence).unwrap_or(0.0);
        let workers = self.workers()?;
        let limit = memory_limit(self.evidence)?;
        let needed = workers * worker + opcache;
        (needed > limit).then(|| {
            format!(
                "{workers:.0} workers of {} and OPcache of {} need {}, and PHP may use {}",
                format_bytes(worker as u64),
                format_bytes(opcache as u64),
                format_bytes(needed as u64),
                format_bytes(limit as u64)
            )
        })
    }

    fn descriptors(&self) -> Vec<String> {
        [Layer::Proxy, Layer::Web]
            .into_iter()
            .filter(|layer| self.changes(*layer, "worker_connections"))
            .filter_map(|layer| {
                let connections = self.number(layer, "worker_connections")?;
                let files = self.number(layer, "worker_rlimit_nofile")?;
                (files > 0.0 && connections * DESCRIPTORS_PER_CONNECTION > files).then(|| {
                    format!(
                        "{connections:.0} connections of a {layer} worker need {:.0} descriptors, and \
                         {layer}.worker_rlimit_nofile is {files:.0}",
                        connections * DESCRIPTORS_PER_CONNECTION
                    )
                })
            })
            .collect()
    }

    fn backlogs(&self) -> Vec<String> {
        [
            (Layer::Php, "listen.backlog"),
            (Layer::Web, "listen.backlog"),
            (Layer::Proxy, "listen.backlog"),
        ]
        .into_iter()
        .filter(|(layer, name)| self.changes(*layer, name))
        .filter_map(|(layer, name)| {
            let backlog = self.number(layer, name)?;
            let most = self.number(layer, "net.core.somaxconn")?;
            (backlog > most).then(|| {
                format!(
                    "{layer}.{name} = {backlog:.0} has no effect beyond {layer}.net.core.somaxconn = {most:.0}"
                )
            })
        })
        .collect()
    }

    fn slots(&self) -> Vec<String> {
        let resizes = self.changes(Layer::Php, &size_key(self.evidence).name);
        let keeps = |suffix: &str| {
            let mut settings = self.settings.iter();
            settings.any(|setting| setting.key.name.ends_with(suffix))
        };
        let Some(workers) = self.workers() else {
            return Vec::new();
        };
        [
            (Layer::Db, "max_connections", "db.persistent"),
            (Layer::Cache, "maxclients", "redis.persistent"),
        ]
        .into_iter()
        .filter(|(_, _, persistent)| resizes || keeps(persistent))
        .filter_map(|(layer, name, _)| {
            let slots = self.number(layer, name)?;
            let free = slots - SPARE_CONNECTIONS;
            (workers > free).then(|| {
                format!(
                    "{workers:.0} workers can each hold a connection, and of {layer}.{name} = {slots:.0} at most \
                     {:.0} are theirs",
                    free.max(0.0)
                )
            })
        })
        .collect()
    }

    fn spares(&self) -> Option<String> {
        if self.text(Layer::Php, "pm") != Some("dynamic") {
            return None;
        }
        let most = self.workers()?;
        // Those of a pool's file follow a smaller pool; what the change itself says is taken at its word.
        let follows = self.changes(Layer::Php, "pm.max_children");
        ["pm.start_servers", "pm.max_spare_servers", "pm.min_spare_servers"]
            .into_iter()
            .filter(|name| !follows || self.changes(Layer::Php, name))
            .filter_map(|name| Some((name, self.number(Layer::Php, name)?)))
            .find(|(_, value)| *value > most)
            .map(|(name, value)| {
                format!("php.{name} = {value:.0} exceeds the {most:.0} workers there can be: PHP would not start")
            })
    }

    fn ports(&self) -> Vec<String> {
        self.settings
            .iter()
            .filter(|setting| setting.key.name == "net.ipv4.ip_local_port_range")
            .filter_map(|setting| {
                let ends: Vec<f64> = setting
                    .value
                    .split_whitespace()
                    .filter_map(|end| end.parse().ok())
                    .collect();
                let sound = matches!(ends[..], [low, high] if low >= LOWEST_PORT && high > low && high <= 65535.0);
                (!sound).then(|| format!("`{setting}` is not a range of unprivileged ports such as `15000 65535`"))
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::Case;

    fn check(case: Case, settings: &[(Layer, &str, &str)], expected: &[&str]) {
        let settings: Vec<Setting> = settings
            .iter()
            .map(|(layer, name, value)| Setting::new(*layer, name, value))
            .collect();
        let reasons = remedy_guard(&case.evidence(), &settings);
        assert_eq!(reasons.len(), expected.len(), "{reasons:?}");
        for (reason, part) in reasons.iter().zip(expected) {
            assert!(reason.contains(part), "`{reason}` does not say `{part}`");
        }
    }

    #[test]
    fn a_sound_change_passes() {
        check(
            Case::healthy(),
            &[
                (Layer::Php, "pm.max_children", "16"),
                (Layer::Web, "worker_connections", "4096"),
                (Layer::Php, "listen.backlog", "4096"),
                (Layer::Proxy, "net.ipv4.ip_local_port_range", "1024 65535"),
            ],
            &[],
        );
        check(Case::healthy(), &[], &[]);
    }

    #[test]
    fn what_cannot_hold_is_rejected_with_its_numbers() {
        check(
            Case::healthy(),
            &[(Layer::Php, "pm.max_children", "400")],
            &["400 workers of 20.0 MiB", "of db.max_connections = 100"],
        );
        check(
            Case::healthy(),
            &[(Layer::Php, "listen.backlog", "9000")],
            &["somaxconn = 4096"],
        );
        check(
            Case::healthy().set(Layer::Web, "worker_rlimit_nofile", "1024"),
            &[(Layer::Web, "worker_connections", "4096")],
            &["need 8192 descriptors"],
        );
        check(
            Case::healthy(),
            &[(Layer::Web, "net.ipv4.ip_local_port_range", "80 90 100")],
            &["not a range"],
        );
    }

    #[test]
    fn kept_connections_need_slots_where_they_lead() {
        let crowd = || {
            Case::healthy()
                .pool_of(150)
                .set(Layer::Db, "max_connections", "151")
        };
        check(
            crowd(),
            &[(Layer::App, "db.persistent", "true")],
            &["of db.max_connections = 151"],
        );
        check(crowd(), &[(Layer::App, "redis.persistent", "true")], &[]);
    }

    #[test]
    fn what_is_to_be_kept_is_kept() {
        check(
            Case::healthy().keep("php.pm.max_children"),
            &[(Layer::Php, "pm.max_children", "16")],
            &["`php.pm.max_children` is to be kept"],
        );
    }

    #[test]
    fn a_dynamic_pool_must_be_able_to_start() {
        let smaller = (Layer::Php, "pm.max_children", "4");
        let dynamic = (Layer::Php, "pm", "dynamic");
        let start = (Layer::Php, "pm.start_servers", "6");
        check(
            Case::healthy(),
            &[dynamic, smaller, start],
            &["php.pm.start_servers = 6 exceeds the 4 workers"],
        );
        // What the pool's file says follows.
        let of_file = || Case::healthy().set(Layer::Php, "pm.start_servers", "60");
        check(of_file(), &[dynamic, smaller], &[]);
        check(
            of_file(),
            &[dynamic],
            &["php.pm.start_servers = 60 exceeds"],
        );
    }
}
