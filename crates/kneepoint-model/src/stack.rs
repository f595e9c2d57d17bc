//! The serving stack: tiers, their tunables, their settings and how they are joined.

pub mod app_switch;
pub mod change;
pub mod ports;
pub mod process;
pub mod value_kind;

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;
use value_kind::{Value, ValueKind};

/// A place where a request spends time, and where a cause can sit: the tiers of the chain in the order a
/// request meets them, with the generator before and the application's own code beside PHP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Layer {
    /// The load generator and the machine it shares.
    Generator,
    /// The reverse proxy or load balancer in front.
    Proxy,
    /// The web server that talks FastCGI (or serves static files).
    Web,
    /// The PHP runtime.
    Php,
    /// Redis or another cache.
    Cache,
    /// The database.
    Db,
    /// The application itself, by the settings it declares.
    App,
}

impl Layer {
    /// Every layer, in the order a request meets them.
    pub const ALL: [Self; 7] = [
        Self::Generator,
        Self::Proxy,
        Self::Web,
        Self::Php,
        Self::Cache,
        Self::Db,
        Self::App,
    ];

    /// The layers that are server programs, in the order a request meets them.
    pub const TIERS: [Self; 5] = [Self::Proxy, Self::Web, Self::Php, Self::Cache, Self::Db];

    /// The lower-case name used in scenario files, setting keys and reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Generator => "generator",
            Self::Proxy => "proxy",
            Self::Web => "web",
            Self::Php => "php",
            Self::Cache => "cache",
            Self::Db => "db",
            Self::App => "app",
        }
    }
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Layer {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|layer| layer.name() == text)
            .ok_or_else(|| {
                format!("`{text}` is not a tier; write proxy, web, php, cache, db or app")
            })
    }
}

/// What program serves a tier. A string newtype, not an enum: a new server is one new file in
/// `kneepoint-stack` and nothing here.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ServerKind(pub String);

impl ServerKind {
    /// The kind by its name: `nginx`, `fpm`, `redis`, `postgresql`.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self(name.to_owned())
    }

    /// The name as written in a scenario.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ServerKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// Where a server listens, or a client connects.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Address {
    /// A TCP address, within the network namespace of the tier's host.
    Tcp(SocketAddr),
    /// A Unix stream socket.
    Unix(PathBuf),
}

impl Address {
    /// Of a `struct sockaddr` as Linux has it (socket.h, in.h, un.h): IPv4, IPv6 or the path of a Unix socket; nothing
    /// of another family, or of a socket without a name.
    #[must_use]
    pub fn of_sockaddr(bytes: &[u8]) -> Option<Self> {
        const AF_UNIX: u16 = 1;
        const AF_INET: u16 = 2;
        const AF_INET6: u16 = 10;
        let port = || Some(u16::from_be_bytes(bytes.get(2..4)?.try_into().ok()?));
        match u16::from_ne_bytes(bytes.get(..2)?.try_into().ok()?) {
            AF_INET => {
                let ip = Ipv4Addr::from(<[u8; 4]>::try_from(bytes.get(4..8)?).ok()?);
                Some(Self::Tcp(SocketAddr::new(ip.into(), port()?)))
            }
            AF_INET6 => {
                let ip = Ipv6Addr::from(<[u8; 16]>::try_from(bytes.get(8..24)?).ok()?);
                Some(Self::Tcp(SocketAddr::new(ip.to_canonical(), port()?)))
            }
            AF_UNIX => {
                let path = bytes[2..].split(|b| *b == 0).next()?;
                let path = String::from_utf8_lossy(path);
                (!path.is_empty()).then(|| Self::Unix(path.into_owned().into()))
            }
            _ => None,
        }
    }

    /// Whether it is where nameservers listen (port 53, RFC 1035).
    #[must_use]
    pub fn is_nameserver(&self) -> bool {
        matches!(self, Self::Tcp(address) if address.port() == 53)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => write!(f, "{address}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl FromStr for Address {
    type Err = String;

    /// `unix:/path`, `/path`, `127.0.0.1:9000` or `[::1]:9000`.
    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            return Ok(Self::Unix(path.into()));
        }
        if text.starts_with('/') {
            return Ok(Self::Unix(text.into()));
        }
        text.parse().map(Self::Tcp).map_err(|_| {
            format!(
                "`{text}` is neither `unix:/path/to.sock` nor `ADDRESS:PORT` such as 127.0.0.1:9000"
            )
        })
    }
}

/// The name of one setting: the layer and the tunable's own name, written `php.pm.max_children`.
///
/// Names that start with `net.`, `vm.` or `fs.` are sysctls of the tier's host; those of [`change::Change`] are no setting
/// of a server; every other name belongs to the tier's server program, or (layer `app`) to the application.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SettingKey {
    /// The layer that holds the setting.
    pub layer: Layer,
    /// The tunable's name within the layer.
    pub name: String,
}

impl SettingKey {
    /// A key from its parts.
    #[must_use]
    pub fn new(layer: Layer, name: &str) -> Self {
        Self {
            layer,
            name: name.to_owned(),
        }
    }

    /// True for a kernel setting of the tier's host.
    #[must_use]
    pub fn is_sysctl(&self) -> bool {
        ["net.", "vm.", "fs."]
            .iter()
            .any(|prefix| self.name.starts_with(prefix))
    }
}

impl fmt::Display for SettingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.layer, self.name)
    }
}

impl FromStr for SettingKey {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (layer, name) = text
            .split_once('.')
            .ok_or_else(|| format!("`{text}` is not TIER.NAME such as php.pm.max_children"))?;
        Ok(Self::new(layer.parse()?, name))
    }
}

impl Serialize for SettingKey {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for SettingKey {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// A setting with its value, as text the way the program's configuration spells it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Setting {
    /// Which setting.
    pub key: SettingKey,
    /// The value, spelled as the configuration spells it: `static`, `40`, `128M`, `on`.
    pub value: String,
}

impl Setting {
    /// `Setting::new(Layer::Php, "pm.max_children", 40)`.
    #[must_use]
    pub fn new(layer: Layer, name: &str, value: impl fmt::Display) -> Self {
        Self {
            key: SettingKey::new(layer, name),
            value: value.to_string(),
        }
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {}", self.key, self.value)
    }
}

/// How a changed tunable takes effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Apply {
    /// At once, on the running system (a sysctl).
    Live,
    /// By a graceful reload.
    Reload,
    /// Only by a restart.
    Restart,
}

/// A named setting of a tier: what it is, what it may be, and how a change takes effect.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Tunable {
    /// The name within its layer: `pm.max_children`.
    pub name: String,
    /// One line on what it does.
    pub about: String,
    /// The values it takes.
    pub values: ValueKind,
    /// The value when nothing is configured, as the program documents it.
    pub default: Option<String>,
    /// How a change takes effect.
    pub apply: Apply,
}

impl Tunable {
    /// What a value means; the default is one as the program documents it.
    ///
    /// # Errors
    /// As [`ValueKind::check`].
    pub fn check(&self, value: &str) -> Result<Value, String> {
        let checked = self.values.check(value);
        match &self.default {
            Some(default) if checked.is_err() && default == value.trim() => {
                Ok(Value::Word(default.clone()))
            }
            _ => checked,
        }
    }
}

/// The saturation model of every runtime: workers that serve one request at a time, and a queue before them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WorkerPool {
    /// What one worker is: `FPM child`, `thread`.
    pub worker: String,
    /// Most workers that can exist.
    pub max_workers: u64,
    /// Workers there are before load arrives.
    pub start_workers: u64,
    /// Most workers that can be added in a second while the pool is saturated; `None` when all exist from the start.
    pub spawn_per_s: Option<f64>,
    /// The key that sets the size.
    pub size_key: SettingKey,
    /// Requests that fit the queue before a worker (the listener's backlog as configured).
    pub queue_limit: u64,
    /// Whether the runtime reads requests before a worker is free and keeps them in a queue of its own, so that the
    /// listener's queue does not show them.
    #[serde(default)]
    pub keeps_queue: bool,
}

/// One server program in the chain.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Tier {
    /// Where in the chain.
    pub layer: Layer,
    /// What program.
    pub server: ServerKind,
    /// The program's version, `8.2.35`; empty when not known.
    pub version: String,
    /// Effective settings by tunable name: configured values, and the documented defaults of the rest.
    pub settings: BTreeMap<String, String>,
    /// Everything that can be set.
    pub tunables: Vec<Tunable>,
    /// Where it listens for requests.
    pub listen: Option<Address>,
    /// The workers, where the tier is a pool of them.
    pub pool: Option<WorkerPool>,
    /// Cores the host may use (cgroup quota or all of the machine's).
    pub cpus: f64,
    /// Memory the host may use, in bytes (cgroup limit or all of the machine's).
    pub memory_bytes: u64,
    /// What the host's network takes from it, in megabits a second, where the scenario says so.
    #[serde(default)]
    pub link_mbit: Option<f64>,
    /// Whether the tier has a network namespace of its own. Without one, kernel rules stand aside.
    pub own_network: bool,
}

/// The chain of tiers under test, as configured.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Stack {
    /// The tiers in the order a request meets them.
    pub tiers: Vec<Tier>,
    /// What the application itself can be told: name, current value and the values it takes.
    pub app_settings: Vec<Tunable>,
    /// Current values of the application's settings, by name.
    pub app_values: BTreeMap<String, String>,
}

impl Stack {
    /// The tier at a layer, when the chain has one.
    #[must_use]
    pub fn tier(&self, layer: Layer) -> Option<&Tier> {
        self.tiers.iter().find(|tier| tier.layer == layer)
    }

    /// The effective value of a setting; `None` when nobody configured it and it has no default.
    #[must_use]
    pub fn setting(&self, layer: Layer, name: &str) -> Option<&str> {
        let values = match layer {
            Layer::App => &self.app_values,
            _ => &self.tier(layer)?.settings,
        };
        values.get(name).map(String::as_str)
    }

    /// A numeric setting; sizes with K, M or G are read as bytes.
    #[must_use]
    pub fn number(&self, layer: Layer, name: &str) -> Option<f64> {
        let text = self.setting(layer, name)?;
        text.parse().ok().or_else(|| {
            crate::units::parse_bytes(text)
                .ok()
                .map(|bytes| bytes as f64)
        })
    }

    /// Whether a switch is on, in any spelling.
    #[must_use]
    pub fn is_on(&self, layer: Layer, name: &str) -> Option<bool> {
        let text = self.setting(layer, name)?.to_ascii_lowercase();
        match text.as_str() {
            "1" | "on" | "yes" | "true" => Some(true),
            "0" | "off" | "no" | "false" | "" | "none" => Some(false),
            _ => None,
        }
    }

    /// The tunable behind a key.
    #[must_use]
    pub fn tunable(&self, key: &SettingKey) -> Option<&Tunable> {
        let tunables = match key.layer {
            Layer::App => &self.app_settings,
            layer => &self.tier(layer)?.tunables,
        };
        tunables.iter().find(|tunable| tunable.name == key.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_addresses_survive_a_round_trip() {
        for text in [
            "php.pm.max_children",
            "web.net.core.somaxconn",
            "app.redis.persistent",
        ] {
            let key: SettingKey = text.parse().expect(text);
            assert_eq!(key.to_string(), text);
        }
        assert!(
            "web.net.core.somaxconn"
                .parse::<SettingKey>()
                .expect("key")
                .is_sysctl()
        );
        assert!("nginx.worker".parse::<SettingKey>().is_err());
        assert_eq!(
            "/run/x.sock".parse::<Address>().expect("path").to_string(),
            "unix:/run/x.sock"
        );
        assert!("localhost".parse::<Address>().is_err());
    }

    #[test]
    fn addresses_are_read_as_the_kernel_writes_them() {
        let inet = [2, 0, 0x18, 0xeb, 10, 0, 0, 7];
        let mut inet6 = [0; 28];
        inet6[..4].copy_from_slice(&[10, 0, 0x18, 0xeb]);
        inet6[23] = 1;
        for (bytes, expected) in [
            (&inet[..], Some("10.0.0.7:6379")),
            (&inet6, Some("[::1]:6379")),
            (b"\x01\0/run/x.sock\0rest", Some("unix:/run/x.sock")),
            (b"\x01\0\0", None),
            (b"\x10\0\0\0", None),
            (&inet[..6], None),
            (&inet[..1], None),
        ] {
            let shown = Address::of_sockaddr(bytes).map(|address| address.to_string());
            assert_eq!(shown.as_deref(), expected, "{bytes:?}");
        }
    }
}
