//! Makes the user's files the lab's: private addresses, users, logs and sockets, and nothing that leads outside.

use super::Documents;
use crate::php::private_values;
use crate::servers::fpm::{PING_PATH, STATUS_PATH, USER};
use crate::text::ini::Section;
use crate::{StackError, TierContext};
use kneepoint_model::Address;

/// What a pool cannot have in a lab: another root, other clients, other owners.
const REMOVED: &[&str] = &[
    "prefix",
    "chroot",
    "listen.allowed_clients",
    "listen.acl_users",
    "listen.acl_groups",
    "include",
];

impl Documents {
    /// Makes the pool the lab's: its addresses, its user, its logs.
    pub(in crate::servers::fpm) fn adapt(&mut self, context: &TierContext, listen: &Address) {
        let others: Vec<String> = self
            .pool
            .sections()
            .into_iter()
            .filter(|name| *name != self.pool_name)
            .map(str::to_owned)
            .collect();
        for name in &others {
            let section = Section::Named(name);
            self.pool.disable(section, "include", |_| true);
            if name.eq_ignore_ascii_case("global") {
                self.adapt_global(context);
            } else {
                self.cut_off(context, name);
            }
        }
        let name = self.pool_name.clone();
        self.set_user(context, &name);
        self.adapt_pool(context, listen);
        for file in [("log/fpm.log", "error_log"), ("run/fpm.pid", "pid")] {
            self.main
                .set(Section::Named("global"), file.1, &context.path(file.0));
        }
        self.main
            .set(Section::Named("global"), "log_level", "notice");
        self.main.set(Section::Named("global"), "daemonize", "no");
    }

    /// Makes a pool one that nobody reaches and that writes into the private directory only: FPM opens the logs of every
    /// pool.
    fn cut_off(&mut self, context: &TierContext, name: &str) {
        let section = Section::Named(name);
        for key in REMOVED.iter().chain(&["chdir", "pm.status_listen"]) {
            self.pool.disable(section, key, |_| true);
        }
        let socket = format!("run/other-{name}.sock");
        self.pool.set(section, "listen", &context.path(&socket));
        for (key, kind) in [("slowlog", "slow"), ("access.log", "access")] {
            if self.pool.get(section, key).is_some() {
                let file = context.path(&format!("log/{kind}-{name}.log"));
                self.pool.set(section, key, &file);
            }
        }
        self.set_user(context, name);
    }

    fn adapt_global(&mut self, context: &TierContext) {
        let section = Section::Named("global");
        for (key, value) in [
            ("error_log", context.path("log/fpm.log")),
            ("pid", context.path("run/fpm.pid")),
            ("log_level", "notice".into()),
            ("daemonize", "no".into()),
        ] {
            if self.pool.get(section, key).is_some() {
                self.pool.set(section, key, &value);
            }
        }
    }

    fn set_user(&mut self, context: &TierContext, name: &str) {
        let section = Section::Named(name);
        for key in ["user", "group", "listen.owner", "listen.group"] {
            if context.as_root {
                self.pool.set(section, key, USER);
            } else {
                self.pool.disable(section, key, |_| true);
            }
        }
    }

    fn adapt_pool(&mut self, context: &TierContext, listen: &Address) {
        let section = Section::Named(&self.pool_name);
        let pool = &mut self.pool;
        for key in REMOVED {
            pool.disable(section, key, |_| true);
        }
        for name in context.app.env.keys() {
            // Of two entries FPM takes the first; the application's is in a file of its own.
            pool.disable(section, &format!("env[{name}]"), |_| true);
        }
        let address = match listen {
            Address::Tcp(address) => address.to_string(),
            Address::Unix(path) => path.to_string_lossy().into_owned(),
        };
        for (key, value) in [
            ("listen", address.as_str()),
            ("pm.status_path", STATUS_PATH),
            ("pm.status_listen", &context.path("run/status.sock")),
            ("ping.path", PING_PATH),
            ("ping.response", &context.nonce),
            ("slowlog", &context.path("log/slow.log")),
        ] {
            pool.set(section, key, value);
        }
        if pool.get(section, "access.log").is_some() {
            pool.set(section, "access.log", &context.path("log/access.log"));
        }
        if pool.get(section, "chdir").is_some() {
            let root = context.app.document_root();
            pool.set(section, "chdir", &root.to_string_lossy());
        }
    }

    /// Sends what PHP itself writes into the private directory.
    ///
    /// # Errors
    /// As [`Documents::set`].
    pub(in crate::servers::fpm) fn keep_private(
        &mut self,
        context: &TierContext,
    ) -> Result<(), StackError> {
        for (name, value) in private_values(context, |name| self.get(name))? {
            self.set_ini(name, &value)?;
        }
        Ok(())
    }
}
