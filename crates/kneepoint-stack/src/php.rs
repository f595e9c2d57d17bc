//! PHP's own configuration, whichever program runs PHP: php.ini, and the files of the scan directory, which win over it.

mod outside;
pub(crate) mod runtime_config;
pub(crate) mod tunables;

use crate::text::ini::{self, Ini, Section};
use crate::tunable_spec::{Spelling, version};
use crate::{ConfigFile, RenderedTier, StackError, TierContext};
use kneepoint_model::{CommandSpec, Commands};
use std::collections::BTreeMap;
use std::path::Path;

/// How PHP spells sizes and durations.
pub(crate) const SPELLING: Spelling = Spelling {
    sizes: ["K", "M", "G"],
    seconds: "s",
    milliseconds: None,
};

/// A script that says what the interpreter it runs in is like: OPcache, ini values, extensions.
pub(crate) const PROBE: &str = include_str!("php/probe.php");

/// Names the front controller to the runtime's first process, for whoever looks at its environment.
pub(crate) const FRONT_VARIABLE: &str = "KNEEPOINT_FRONT";

/// Errors go to the log and not into responses; the rest is as PHP documents it.
const DEFAULT_INI: &str = "[PHP]\nexpose_php = 0\ndisplay_errors = 0\nlog_errors = 1\n";

/// The file of the scan directory that loads OPcache where the system's has none.
const OPCACHE_FILE: &str = "10-opcache.ini";

/// php.ini and its scan directory as one thing that can be asked and changed by directive.
pub(crate) struct PhpIni {
    pub(crate) ini: Ini,
    /// Copies of the system's scan directory: name and content.
    pub(crate) scan: Vec<(String, Ini)>,
    php: [u32; 3],
}

impl PhpIni {
    /// The user's php.ini alone.
    pub(crate) fn of_user(ini: &str) -> Result<Self, StackError> {
        Ok(Self {
            ini: parse("php.ini", ini)?,
            scan: Vec::new(),
            php: [0; 3],
        })
    }

    /// What the tier starts from: the user's php.ini or a sane one, and the system's scan directory.
    pub(crate) fn new(context: &TierContext) -> Result<Self, StackError> {
        let name = context
            .ini
            .as_ref()
            .map_or_else(String::new, |ini| ini.name());
        let ini = context.ini.as_ref().map_or(DEFAULT_INI, |ini| &ini.text);
        let copies = context.program.files.iter();
        let scan = copies.map(|(name, text)| Ok((name.clone(), parse(name, text)?)));
        let mut php = Self {
            ini: parse(&name, ini)?,
            scan: scan.collect::<Result<_, StackError>>()?,
            php: version(&context.program.version),
        };
        // Always there, so that switching the extension on and off leaves no file behind.
        let needs_loader = php.php < [8, 5, 0];
        if needs_loader && php.loaders("opcache").next().is_none() {
            let file = parse(OPCACHE_FILE, ";zend_extension=opcache.so\n")?;
            php.scan.push((OPCACHE_FILE.into(), file));
        }
        Ok(php)
    }

    /// The value of a directive that is in effect; of `extension.NAME`, whether it is loaded.
    pub(crate) fn get(&self, name: &str) -> Option<String> {
        if let Some(extension) = name.strip_prefix("extension.") {
            return self.loaded(extension);
        }
        let in_scan = || {
            let mut files = self.scan.iter().rev();
            files.find_map(|(_, file)| file.get(Section::Any, name))
        };
        in_scan().or_else(|| self.ini.get(Section::Any, name))
    }

    /// Sets a directive where it is in effect, or in php.ini; `extension.NAME` loads an extension or does not.
    ///
    /// # Errors
    /// An extension that the system does not load, or that is built in.
    pub(crate) fn set(&mut self, name: &str, value: &str) -> Result<(), StackError> {
        if let Some(extension) = name.strip_prefix("extension.") {
            return self.set_extension(extension, crate::tunable_spec::switch(value) == Some(true));
        }
        let mut files = self.scan.iter_mut().rev().map(|(_, file)| file);
        let last = files.find(|file| file.get(Section::Any, name).is_some());
        last.unwrap_or(&mut self.ini).set(Section::Any, name, value);
        Ok(())
    }

    /// The files: php.ini, and the scan directory below `conf.d`.
    pub(crate) fn files(&self, context: &TierContext) -> Vec<ConfigFile> {
        let name = context
            .ini
            .as_ref()
            .map_or_else(|| "php.ini".to_owned(), |ini| ini.name());
        let mut files = vec![ConfigFile::new(
            context.dir.join("php.ini"),
            Some(name),
            self.ini.to_string(),
        )];
        files.push(outside::no_mail(context));
        files.extend(self.scan.iter().map(|(name, text)| {
            let name = format!("conf.d/{name}");
            ConfigFile::new(context.dir.join(&name), Some(name), text.to_string())
        }));
        files
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

/// What sends all that PHP itself writes into the private directory, and what it reaches for by itself into the lab:
/// directives and values.
///
/// # Errors
/// Sessions are kept where the lab has nothing.
pub(crate) fn private_values(
    context: &TierContext,
    get: impl Fn(&str) -> Option<String>,
) -> Result<Vec<(&'static str, String)>, StackError> {
    let is_set = |name: &str| get(name).is_some_and(|value| !value.is_empty());
    let mut values = vec![
        ("error_log", context.path("log/php-error.log")),
        ("sys_temp_dir", context.path("tmp")),
    ];
    if is_set("upload_tmp_dir") {
        values.push(("upload_tmp_dir", context.path("tmp")));
    }
    values.extend(outside::sessions(context, &get)?);
    if is_set("opcache.file_cache") {
        values.push(("opcache.file_cache", context.path("opcache")));
    }
    let held = get("open_basedir").filter(|dirs| !["", "none"].contains(&dirs.trim()));
    if let Some(dirs) = held {
        values.push(("open_basedir", with_the_labs(dirs.trim(), context)));
    }
    values.extend(outside::defaults(context));
    Ok(values)
}

/// Directories that PHP is held within, with those that the application and its sessions have in the lab.
fn with_the_labs(dirs: &str, context: &TierContext) -> String {
    let (root, own) = (context.app.root.display(), context.dir.display());
    format!("{dirs}:{root}:{own}")
}

/// The application's environment, with a place to write.
#[must_use]
pub fn app_env(context: &TierContext) -> BTreeMap<String, String> {
    let storage = context.path("storage");
    // Names by which Laravel (the second) and its deployments to read-only directories (the first) take a place to
    // write; nobody wants a measurement to write into the application.
    let mut env: BTreeMap<String, String> = ["APP_STORAGE", "LARAVEL_STORAGE_PATH"]
        .map(|name| (name.to_owned(), storage.clone()))
        .into();
    env.extend(context.app.env.clone());
    env
}

/// Whether the user PHP runs as can read the application and our probe.
///
/// # Errors
/// It cannot; the error names the file and what to do.
pub(crate) fn check_readable(
    program: &'static str,
    tier: &RenderedTier,
    commands: &dyn Commands,
) -> Result<(), StackError> {
    for path in must_read(tier) {
        let mut command = CommandSpec::new("/usr/bin/test").args(["-r", &path]);
        command.user = worker_user(tier);
        let output = commands.run(&command).map_err(StackError::Command)?;
        if !output.success() {
            let user = command.user.unwrap_or_else(|| "the current user".into());
            return Err(StackError::Refused {
                program,
                file: tier.files[0].path.clone(),
                words: format!(
                    "`{path}` cannot be read by {user}; let others read it and pass through the directories above (chmod o+rX)"
                ),
            });
        }
    }
    Ok(())
}

/// The scripts PHP's workers must be able to read.
fn must_read(tier: &RenderedTier) -> Vec<String> {
    let probe = tier
        .files
        .iter()
        .filter(|file| file.path.ends_with("probe.php"));
    let mut paths: Vec<String> = probe
        .map(|file| file.path.to_string_lossy().into_owned())
        .collect();
    let env = tier.process.env.iter();
    let front = env.filter(|(name, _)| name == FRONT_VARIABLE);
    paths.extend(front.map(|(_, value)| value.clone()));
    paths
}

/// The user PHP's workers run as; `None` is the caller's.
fn worker_user(tier: &RenderedTier) -> Option<String> {
    tier.dirs.iter().find_map(|dir| dir.owner.clone())
}

/// The small ini files of a scan directory, in the order PHP reads them.
pub(crate) fn read_scan_dir(dir: &Path) -> Result<Vec<(String, String)>, StackError> {
    let entries = std::fs::read_dir(dir).map_err(|error| StackError::io("read", dir, &error))?;
    let mut files = Vec::new();
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.ends_with(".ini") {
            let text = std::fs::read(entry.path())
                .map_err(|error| StackError::io("read", &entry.path(), &error))?;
            files.push((name, String::from_utf8_lossy(&text).into_owned()));
        }
    }
    files.sort();
    Ok(files)
}

fn parse(file: &str, text: &str) -> Result<Ini, StackError> {
    ini::parse(text).map_err(|error| error.of(file))
}

/// Whether a value of `extension=` means an extension: `opcache`, `opcache.so`, `/usr/lib/php/opcache.so`.
fn names(value: &str, extension: &str) -> bool {
    let file = value.rsplit('/').next().unwrap_or(value);
    file.trim_end_matches(".so") == extension
}
