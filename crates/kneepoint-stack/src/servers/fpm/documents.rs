//! The files of an FPM master as one thing that can be asked and changed by tunable name.
//!
//! A php.ini directive can stand in three places, and the later ones win, as in PHP: php.ini, the files of the
//! scan directory in alphabetical order, and `php_value[...]` and its relatives in the pool.

mod lab;

use super::tunables;
use crate::php::PhpIni;
use crate::text::ini::{self, Ini, Section};
use crate::tunable_spec;
use crate::{StackError, TierContext};
use std::collections::BTreeMap;

pub(super) struct Documents {
    /// The lab's own main file: where the logs go, and which files follow.
    pub(super) main: Ini,
    /// The pool file, the user's or a default; it may have a `[global]` section too.
    pub(super) pool: Ini,
    pub(super) pool_name: String,
    pub(super) php: PhpIni,
}

/// In the order PHP lets them win: an administrator's value over the pool's.
const POOL_INI: [&str; 4] = ["php_admin_value", "php_admin_flag", "php_value", "php_flag"];

const DEFAULT_GLOBAL: &str = "[global]\nprocess_control_timeout = 10s\n";

impl Documents {
    /// The user's two files alone.
    pub(super) fn of_user(pool: &str, ini: &str) -> Result<Self, StackError> {
        let pool = parse("www.conf", pool)?;
        Ok(Self {
            main: Ini::default(),
            pool_name: pool_name(&pool).unwrap_or_else(|| "www".into()),
            pool,
            php: PhpIni::of_user(ini)?,
        })
    }

    pub(super) fn new(context: &TierContext) -> Result<Self, StackError> {
        let name = |config: &Option<crate::ConfigText>| {
            config
                .as_ref()
                .map_or_else(String::new, |config| config.name())
        };
        let (main, pool) = match &context.config {
            Some(config) => ("[global]\n", config.text.as_str()),
            None => (DEFAULT_GLOBAL, "[www]\n"),
        };
        let pool = parse(&name(&context.config), pool)?;
        let pool_name = pool_name(&pool).ok_or_else(|| StackError::Unusable {
            file: name(&context.config),
            what: "it has no pool section such as `[www]`; name the file that has the pool (often pool.d/www.conf)".into(),
        })?;
        Ok(Self {
            main: parse("php-fpm.conf", main)?,
            pool,
            pool_name,
            php: PhpIni::new(context)?,
        })
    }

    /// What the files set, by tunable name.
    pub(super) fn configured(&self) -> BTreeMap<String, String> {
        let specs = tunables::all("");
        tunable_spec::configured(&specs, |name| self.get(name))
    }

    pub(super) fn get(&self, name: &str) -> Option<String> {
        if is_in(tunables::GLOBAL, name) {
            let section = Section::Named("global");
            return self
                .pool
                .get(section, name)
                .or_else(|| self.main.get(section, name));
        }
        let pool = Section::Named(&self.pool_name);
        if is_in(tunables::POOL, name) {
            return self.pool.get(pool, name);
        }
        let in_pool = |kind: &&str| self.pool.get(pool, &format!("{kind}[{name}]"));
        let found = POOL_INI.iter().find_map(in_pool);
        found.or_else(|| self.php.get(name))
    }

    pub(super) fn set(&mut self, name: &str, value: &str) -> Result<(), StackError> {
        if is_in(tunables::GLOBAL, name) {
            let section = Section::Named("global");
            let in_pool = self.pool.get(section, name).is_some();
            let file = if in_pool {
                &mut self.pool
            } else {
                &mut self.main
            };
            file.set(section, name, value);
        } else if is_in(tunables::POOL, name) {
            self.pool.set(Section::Named(&self.pool_name), name, value);
        } else {
            self.set_ini(name, value)?;
        }
        Ok(())
    }

    /// Sets a php.ini directive where it is in effect, or in php.ini.
    fn set_ini(&mut self, name: &str, value: &str) -> Result<(), StackError> {
        let pool = Section::Named(&self.pool_name);
        for kind in POOL_INI {
            let key = format!("{kind}[{name}]");
            if self.pool.get(pool, &key).is_some() {
                self.pool.set(pool, &key, value);
                return Ok(());
            }
        }
        self.php.set(name, value)
    }
}

fn parse(file: &str, text: &str) -> Result<Ini, StackError> {
    ini::parse(text).map_err(|error| error.of(file))
}

/// The application's pool: `www`, or the first there is.
fn pool_name(pool: &Ini) -> Option<String> {
    let mut pools: Vec<&str> = pool.sections();
    pools.retain(|name| !name.eq_ignore_ascii_case("global"));
    let www = pools.iter().find(|name| **name == "www");
    www.or(pools.first()).map(|name| (*name).to_owned())
}

fn is_in(specs: &[tunable_spec::TunableSpec], name: &str) -> bool {
    specs.iter().any(|spec| spec.name == name)
}
