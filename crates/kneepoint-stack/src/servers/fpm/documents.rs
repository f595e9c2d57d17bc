//! The files of an FPM master as one thing that can be asked and changed by tunable name.
//!
//! A php.ini directive can stand in three places, and the later ones win, as in PHP: php.ini, the files of the
//! scan directory in alphabetical order, and `php_value[...]` and its relatives in the pool.

mod lab;

use super::knobs;
use crate::knob::{self, version};
use crate::text::ini::{self, Ini, Section};
use crate::{StackError, TierContext};
use std::collections::BTreeMap;

pub(super) struct Documents {
    /// The lab's own main file: where the logs go, and which files follow.
    pub(super) main: Ini,
    /// The pool file, the user's or a default; it may have a `[global]` section too.
    pub(super) pool: Ini,
    pub(super) pool_name: String,
    pub(super) ini: Ini,
    /// Copies of the system's scan directory: name and content.
    pub(super) scan: Vec<(String, Ini)>,
    php: [u32; 3],
}

/// In the order PHP lets them win: an administrator's value over the pool's.
const POOL_INI: [&str; 4] = ["php_admin_value", "php_admin_flag", "php_value", "php_flag"];

const DEFAULT_GLOBAL: &str = "[global]\nprocess_control_timeout = 10s\n";

/// Errors go to the log and not into responses; the rest is as PHP documents it.
const DEFAULT_INI: &str = "[PHP]\nexpose_php = 0\ndisplay_errors = 0\nlog_errors = 1\n";

/// The file of the scan directory that loads OPcache where the system's has none.
const OPCACHE_FILE: &str = "10-opcache.ini";

impl Documents {
    /// The user's two files alone.
    pub(super) fn of_user(pool: &str, ini: &str) -> Result<Self, StackError> {
        let pool = parse("www.conf", pool)?;
        Ok(Self {
            main: Ini::default(),
            pool_name: pool_name(&pool).unwrap_or_else(|| "www".into()),
            pool,
            ini: parse("php.ini", ini)?,
            scan: Vec::new(),
            php: [0; 3],
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
        let ini = context.ini.as_ref().map_or(DEFAULT_INI, |ini| &ini.text);
        let copies = context.program.files.iter();
        let scan = copies.map(|(name, text)| Ok((name.clone(), parse(name, text)?)));
        let mut documents = Self {
            main: parse("php-fpm.conf", main)?,
            pool,
            pool_name,
            ini: parse(&name(&context.ini), ini)?,
            scan: scan.collect::<Result<_, StackError>>()?,
            php: version(&context.program.version),
        };
        // Always there, so that switching the extension on and off leaves no file behind.
        let needs_loader = documents.php < [8, 5, 0];
        if needs_loader && documents.loaders("opcache").next().is_none() {
            let file = parse(OPCACHE_FILE, ";zend_extension=opcache.so\n")?;
            documents.scan.push((OPCACHE_FILE.into(), file));
        }
        Ok(documents)
    }

    /// What the files set, by tunable name.
    pub(super) fn configured(&self) -> BTreeMap<String, String> {
        let knobs = knobs::all("");
        knob::configured(&knobs, &knobs::SPELLING, |name| self.get(name))
    }

    pub(super) fn get(&self, name: &str) -> Option<String> {
        if let Some(extension) = name.strip_prefix("extension.") {
            return self.loaded(extension);
        }
        if is_in(knobs::GLOBAL, name) {
            let section = Section::Named("global");
            return self
                .pool
                .get(section, name)
                .or_else(|| self.main.get(section, name));
        }
        let pool = Section::Named(&self.pool_name);
        if is_in(knobs::POOL, name) {
            return self.pool.get(pool, name);
        }
        let in_pool = |kind: &&str| self.pool.get(pool, &format!("{kind}[{name}]"));
        let in_scan = || {
            let mut files = self.scan.iter().rev();
            files.find_map(|(_, file)| file.get(Section::Any, name))
        };
        let found = POOL_INI.iter().find_map(in_pool);
        found
            .or_else(in_scan)
            .or_else(|| self.ini.get(Section::Any, name))
    }

    pub(super) fn set(&mut self, name: &str, value: &str) -> Result<(), StackError> {
        if let Some(extension) = name.strip_prefix("extension.") {
            return self.set_extension(extension, knob::switch(value) == Some(true));
        }
        if is_in(knobs::GLOBAL, name) {
            let section = Section::Named("global");
            let in_pool = self.pool.get(section, name).is_some();
            let file = if in_pool {
                &mut self.pool
            } else {
                &mut self.main
            };
            file.set(section, name, value);
        } else if is_in(knobs::POOL, name) {
            self.pool.set(Section::Named(&self.pool_name), name, value);
        } else {
            self.set_ini(name, value);
        }
        Ok(())
    }

    /// Sets a php.ini directive where it is in effect, or in php.ini.
    fn set_ini(&mut self, name: &str, value: &str) {
        let pool = Section::Named(&self.pool_name);
        for kind in POOL_INI {
            let key = format!("{kind}[{name}]");
            if self.pool.get(pool, &key).is_some() {
                return self.pool.set(pool, &key, value);
            }
        }
        let mut files = self.scan.iter_mut().rev().map(|(_, file)| file);
        let last = files.find(|file| file.get(Section::Any, name).is_some());
        last.unwrap_or(&mut self.ini).set(Section::Any, name, value);
    }

    /// The lines that load an extension: 0 is php.ini, the rest are the scan directory's files.
    fn loaders(&self, extension: &str) -> impl Iterator<Item = (usize, &'static str)> {
        let files = std::iter::once(&self.ini).chain(self.scan.iter().map(|(_, file)| file));
        let mut found = Vec::new();
        for (at, file) in files.enumerate() {
            for key in ["zend_extension", "extension"] {
                let lines = file.all(Section::Any, key);
                if lines.iter().any(|value| names(value, extension)) {
                    found.push((at, key));
                }
            }
        }
        found.into_iter()
    }

    fn loaded(&self, extension: &str) -> Option<String> {
        let built_in = extension == "opcache" && self.php >= [8, 5, 0];
        let on = built_in || self.loaders(extension).next().is_some();
        // A user's two files alone do not say what the system loads.
        let known = on || self.php != [0; 3];
        known.then(|| if on { "on" } else { "off" }.to_owned())
    }

    fn set_extension(&mut self, extension: &str, on: bool) -> Result<(), StackError> {
        if self.loaded(extension).as_deref() == Some(if on { "on" } else { "off" }) {
            return Ok(());
        }
        let unusable = |what: &str| {
            Err(StackError::Unusable {
                file: format!("extension.{extension}"),
                what: what.into(),
            })
        };
        match (on, extension) {
            (false, "opcache") if self.php >= [8, 5, 0] => {
                unusable("PHP 8.5 and later have it built in; set opcache.enable = 0")
            }
            (false, _) => {
                let loaders: Vec<_> = self.loaders(extension).collect();
                for (at, key) in loaders {
                    let file = match at.checked_sub(1) {
                        Some(at) => &mut self.scan[at].1,
                        None => &mut self.ini,
                    };
                    file.disable(Section::Any, key, |value| names(value, extension));
                }
                Ok(())
            }
            (true, "opcache") => {
                let file = self.scan.iter_mut().find(|(name, _)| name == OPCACHE_FILE);
                if let Some((_, file)) = file {
                    file.set(Section::Any, "zend_extension", "opcache.so");
                }
                Ok(())
            }
            (true, _) => {
                unusable("the system does not load it; install and enable its package first")
            }
        }
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

fn is_in(knobs: &[knob::Knob], name: &str) -> bool {
    knobs.iter().any(|knob| knob.name == name)
}

/// Whether a value of `extension=` means an extension: `opcache`, `opcache.so`, `/usr/lib/php/opcache.so`.
fn names(value: &str, extension: &str) -> bool {
    let file = value.rsplit('/').next().unwrap_or(value);
    file.trim_end_matches(".so") == extension
}
