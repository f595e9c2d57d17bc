//! The text of Apache's configuration.

use super::MODULES;
use crate::php::runtime_config::{PROBE_PATH, USER};
use crate::tier::IDENTITY_PATH;
use crate::tunable_spec::TunableSpec;
use crate::{StackError, TierContext};
use kneepoint_model::{Address, Layer};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The modules a PHP site needs, by the names of their files.
const LOADED: &[(&str, &str)] = &[
    ("mpm_prefork", "mpm_prefork"),
    ("authz_core", "authz_core"),
    ("alias", "alias"),
    ("dir", "dir"),
    ("env", "env"),
    ("headers", "headers"),
    ("mime", "mime"),
    ("negotiation", "negotiation"),
    ("rewrite", "rewrite"),
    ("setenvif", "setenvif"),
];

/// Apache's own settings by name: documented values, and what was set over them.
pub(super) struct Sizes {
    values: BTreeMap<String, String>,
}

impl Sizes {
    pub(super) fn of(specs: &[TunableSpec]) -> Self {
        let named = specs
            .iter()
            .filter_map(|spec| Some((spec.name.to_owned(), spec.default?.to_owned())));
        Self {
            values: named.collect(),
        }
    }

    /// Sets a value; false where it is none of Apache's.
    pub(super) fn set(&mut self, name: &str, value: &str) -> bool {
        let known = self.values.get_mut(name);
        let is_known = known.is_some();
        if let Some(known) = known {
            value.clone_into(known);
        }
        is_known
    }

    pub(super) fn values(&self) -> &BTreeMap<String, String> {
        &self.values
    }

    fn text(&self, name: &str) -> &str {
        self.values.get(name).map_or("", String::as_str)
    }

    fn number(&self, name: &str) -> u64 {
        self.text(name).parse().unwrap_or(0)
    }

    /// Apache raises or lowers sizes that contradict each other and says so in its log only.
    pub(super) fn check(&self, layer: Layer) -> Result<(), StackError> {
        let (min, max) = (
            self.number("MinSpareServers"),
            self.number("MaxSpareServers"),
        );
        if max > min {
            return Ok(());
        }
        Err(StackError::Inconsistent {
            layer,
            rule: format!("MaxSpareServers ({max}) must be larger than MinSpareServers ({min})"),
        })
    }
}

/// What Apache cannot do, said before anything is written.
pub(super) fn usable(context: &TierContext) -> Result<(), StackError> {
    let unusable = |file: String, what: &str| {
        Err(StackError::Unusable {
            file,
            what: what.into(),
        })
    };
    if let Some(config) = &context.config {
        return unusable(
            config.name(),
            "a configuration of Apache cannot be made the lab's yet; leave `config` out and write what differs from \
             Debian's defaults below `settings`",
        );
    }
    if context.unix_socket {
        return unusable(
            "socket".into(),
            "Apache listens on TCP only; leave `socket` out",
        );
    }
    let breaks = |text: &str| text.contains(['\n', '\r', '\0']);
    let bad = |(name, value): &(&String, &String)| {
        breaks(name) || breaks(value) || name.is_empty() || name.contains([' ', '=', '"'])
    };
    match context.app.env.iter().find(bad) {
        Some((name, _)) => unusable(
            format!("app.env.{name}"),
            "Apache cannot pass on a value with a line break, nor a name with a space, `=` or a quote",
        ),
        None => Ok(()),
    }
}

/// The whole file.
pub(super) fn main(context: &TierContext, sizes: &Sizes, listen: &Address) -> String {
    let mut text = String::new();
    let mut line = |words: &str| {
        text.push_str(words);
        text.push('\n');
    };
    line(&format!("ServerRoot {}", quoted(&context.path(""))));
    line("ServerName localhost");
    line(&format!(
        "PidFile {}",
        quoted(&context.path("run/apache2.pid"))
    ));
    line(&format!(
        "DefaultRuntimeDir {}",
        quoted(&context.path("run"))
    ));
    line(&format!(
        "ErrorLog {}",
        quoted(&context.path("log/error.log"))
    ));
    line("LogLevel warn");
    if let Address::Tcp(address) = listen {
        line(&format!("Listen {address}"));
    }
    if context.as_root {
        line(&format!("User {USER}"));
        line(&format!("Group {USER}"));
    }
    for (module, file) in LOADED {
        line(&format!(
            "LoadModule {module}_module {MODULES}/mod_{file}.so"
        ));
    }
    line(&format!(
        "LoadModule php_module {}",
        quoted(context.program.fact("php_module"))
    ));
    line(&format!("PHPIniDir {}", quoted(&context.path("php.ini"))));
    // Beyond 256 it takes a second directive.
    line(&format!("ServerLimit {}", sizes.text("MaxRequestWorkers")));
    for (name, value) in sizes.values() {
        if name != "AllowOverride" {
            // Timeouts are in seconds, and take no unit.
            let value = match name.ends_with("Timeout") {
                true => value.trim_end_matches('s'),
                false => value,
            };
            line(&format!("{name} {value}"));
        }
    }
    text.push_str(&site(context, sizes.text("AllowOverride")));
    text
}

/// The application: files where there are some, its front controller for all else.
fn site(context: &TierContext, overrides: &str) -> String {
    let root = context.app.document_root();
    let root = quoted(&root.to_string_lossy());
    let front = context.app.front_name();
    let index = context.app.index_names();
    format!(
        "TypesConfig /etc/mime.types\n\
         <FilesMatch \"\\.php$\">\n    SetHandler application/x-httpd-php\n</FilesMatch>\n\
         <Directory />\n    Require all denied\n</Directory>\n\
         <Directory {dir}>\n    Require all granted\n</Directory>\n\
         <Directory {root}>\n    Require all granted\n    AllowOverride {overrides}\n    \
         Options FollowSymLinks\n    FallbackResource /{front}\n</Directory>\n\
         DocumentRoot {root}\n\
         DirectoryIndex {index} index.html\n\
         Alias {PROBE_PATH} {probe}\n\
         Alias {IDENTITY_PATH} {identity}\n\
         Include {env}\n",
        dir = quoted(context.path("").trim_end_matches('/')),
        probe = quoted(&context.path("probe.php")),
        identity = quoted(&context.path("identity.txt")),
        env = quoted(&context.path("app-env.conf")),
    )
}

/// The application's environment.
pub(super) fn app_env(context: &TierContext) -> String {
    let mut text = String::new();
    for (name, value) in crate::php::app_env(context) {
        let _ = writeln!(text, "SetEnv {name} {}", quoted(&value));
    }
    text
}

/// A word in double quotes, as Apache reads it.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}
