//! PHP-FPM: what holds for all of it, and its pools.

use super::{ListenEndpoint, SettingSource, SettingValue, Settings, SlowLog};
use kneepoint_profiler::OpcacheState;
use std::collections::BTreeMap;

/// A process of a service.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ServiceProcess {
    /// Its number.
    pub pid: u32,
    /// Its title, shortened.
    pub title: String,
    /// Proportional memory in bytes.
    pub pss: Option<f64>,
    /// Memory that no other process has, in bytes.
    pub private: Option<f64>,
    /// Whether it was at work when it was looked at; `None` where that cannot be told.
    pub busy: Option<bool>,
}

/// What PHP is like.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PhpService {
    /// php.ini with all that comes after it.
    pub ini: Settings,
    /// Directories whose files are read after php.ini, the last one last; `None` where that is not known.
    pub scanned: Option<Vec<String>>,
    /// What PHP-FPM's files include, by names or patterns; `None` where that is not known.
    pub included: Option<Vec<String>>,
    /// Extensions that are mapped into memory, by name.
    pub loaded: BTreeMap<String, String>,
    /// Whether what is mapped could be read.
    pub maps_seen: bool,
    /// Bytes of the memory that OPcache shares among its workers; `None` where there is none.
    pub opcache_bytes: Option<f64>,
    /// OPcache's own numbers, from that memory; `None` where they are not known.
    pub opcache: Option<OpcacheState>,
    /// Releases of applications whose scripts OPcache keeps, where there are several beside one another.
    pub releases: Vec<CachedRelease>,
}

impl PhpService {
    /// Whether OPcache is loaded: it is mapped, its own numbers are there, or PHP has directives that no other extension
    /// knows. A library in a directory that nobody expects is mapped all the same.
    pub(crate) fn has_opcache(&self) -> bool {
        let mut running = self
            .ini
            .iter()
            .filter(|(_, value)| matches!(value.source, SettingSource::Memory { .. }));
        self.loaded.contains_key("opcache")
            || self.opcache.is_some()
            || running.any(|(name, _)| name.starts_with("opcache."))
    }
}

/// A release of which OPcache keeps scripts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CachedRelease {
    /// Its directory, as PHP sees it.
    pub dir: String,
    /// Scripts of it that are kept.
    pub scripts: u64,
    /// Whether another one beside it is served instead, or is there while this one is gone.
    pub is_old: bool,
}

/// A pool of PHP-FPM.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct FpmPool {
    /// Its name.
    pub name: String,
    /// Its directives.
    pub settings: Settings,
    /// PHP's settings, as this pool has them.
    pub php: Settings,
    /// By what key the pool itself writes settings of PHP: `php_admin_value[memory_limit]`, by their names.
    pub php_keys: BTreeMap<String, String>,
    /// Where it listens.
    pub listen: Option<ListenEndpoint>,
    /// Connections that wait to be accepted, and how many fit.
    pub queue: Option<(u64, u64)>,
    /// Its workers.
    pub workers: Vec<ServiceProcess>,
    /// What its slow log tells; `None` where that could not be read or tells of none of its requests.
    pub slow: Option<SlowLog>,
}

impl Settings {
    /// Whether OPcache is off by them.
    pub(crate) fn switches_opcache_off(&self) -> bool {
        self.get("opcache.enable").and_then(SettingValue::is_on) == Some(false)
    }
}

impl FpmPool {
    /// Most workers it may have.
    #[must_use]
    pub fn max_children(&self) -> Option<u64> {
        self.settings.text("pm.max_children")?.trim().parse().ok()
    }

    /// How it is managed.
    #[must_use]
    pub fn manager(&self) -> &str {
        self.settings.text("pm").unwrap_or("static")
    }

    /// A number of a directive, or its default.
    #[must_use]
    pub fn number(&self, name: &str, default: f64) -> f64 {
        let value = self.settings.get(name);
        value.and_then(SettingValue::seconds).unwrap_or(default)
    }
}
