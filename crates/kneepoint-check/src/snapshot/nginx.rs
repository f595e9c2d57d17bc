//! What nginx is configured to do: its servers, where it hands requests on, and to which groups of servers.

use super::{SettingSource, SettingValue, Settings};

/// A server of nginx.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct WebService {
    /// Its names.
    pub names: Vec<String>,
    /// Its `listen` directives.
    pub listens: Vec<SettingValue>,
    /// Its settings, those around it included.
    pub settings: Settings,
}

/// A place where nginx hands requests on.
#[derive(Debug, Clone, PartialEq)]
pub struct Pass {
    /// The directive: `fastcgi_pass`, `proxy_pass`.
    pub directive: String,
    /// What it names.
    pub target: SettingValue,
    /// Whether it is written with a variable: nginx then looks a name up while it runs.
    pub by_variable: bool,
    /// Position of the upstream block it names.
    pub upstream: Option<usize>,
    /// Settings in force there.
    pub settings: Settings,
    /// Whether its own level sets headers for whom it asks (`proxy_set_header`): then none from around it hold.
    pub sets_headers: bool,
    /// Name of its server.
    pub server: String,
}

/// A group of servers behind nginx.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Upstream {
    /// Its name.
    pub name: String,
    /// Its servers, with their parameters.
    pub servers: Vec<SettingValue>,
    /// Its other directives.
    pub settings: Settings,
    /// Where it begins.
    pub at: Option<SettingSource>,
}

/// What nginx is configured to do.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Nginx {
    /// Its servers.
    pub servers: Vec<WebService>,
    /// Where it hands requests on.
    pub passes: Vec<Pass>,
    /// Its upstream blocks.
    pub upstreams: Vec<Upstream>,
}

impl Nginx {
    /// The upstream block that a pass names.
    #[must_use]
    pub fn upstream_of(&self, pass: &Pass) -> Option<&Upstream> {
        self.upstreams.get(pass.upstream?)
    }
}
