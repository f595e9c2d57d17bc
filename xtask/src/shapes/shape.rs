//! A shape as its file describes it: a stack that stands in places, and what is wrong with it.

use super::place::Place;
use anyhow::{Context as _, ensure};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Which of the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Twin {
    /// With nothing wrong.
    Healthy,
    /// With everything that is planted.
    Faulty,
}

impl Twin {
    /// The word on the command line.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Healthy => "healthy",
            Self::Faulty => "faulty",
        }
    }
}

/// A stack, twice.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Shape {
    /// The file's name without `.toml`.
    pub(super) name: String,
    /// The directory of the file.
    pub(super) dir: PathBuf,
    /// As it should be.
    pub(super) healthy: Standing,
    /// With what `[faulty]` lays over it.
    pub(super) faulty: Standing,
}

/// One twin of a shape.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Standing {
    /// What it is, in a line.
    pub(super) about: String,
    /// Files of this machine without which it is left out.
    #[serde(default)]
    requires: Vec<PathBuf>,
    /// Packages of this machine whose files its images hold.
    #[serde(default)]
    pub(super) image: Vec<String>,
    /// Every server program that must be found, as often as it runs.
    pub(super) services: Vec<String>,
    /// Who must be seen to ask whom: `web/nginx > php/php-fpm www`.
    #[serde(default)]
    pub(super) chain: Vec<String>,
    /// What must be named: a code, and words that must stand in the finding.
    #[serde(default)]
    pub(super) planted: Vec<String>,
    /// Settings of the kernel in the host's network.
    #[serde(default)]
    pub(super) sysctl: BTreeMap<String, String>,
    /// The places in the order in which they are started.
    pub(super) start: Vec<String>,
    /// Where its programs run.
    pub(super) place: BTreeMap<String, Place>,
}

impl Shape {
    /// One of the two.
    pub(super) fn twin(&self, twin: Twin) -> &Standing {
        match twin {
            Twin::Healthy => &self.healthy,
            Twin::Faulty => &self.faulty,
        }
    }

    /// Reads the text of a file.
    ///
    /// # Errors
    /// It is no shape: where, and what is wrong.
    pub(super) fn read(path: &Path, text: &str) -> anyhow::Result<Self> {
        let name = path
            .file_stem()
            .map(|stem| stem.to_string_lossy().into_owned());
        let mut base: toml::Table = text.parse().context("it is no TOML")?;
        let overlay = base
            .remove("faulty")
            .and_then(|value| value.as_table().cloned())
            .context("it has no table `faulty`: what is wrong with this stack?")?;
        let healthy: Standing = base.clone().try_into().context("as it is healthy")?;
        lay_over(&mut base, overlay);
        let faulty: Standing = base.try_into().context("as it is faulty")?;
        ensure!(
            healthy.planted.is_empty() && !faulty.planted.is_empty(),
            "`planted` belongs into `[faulty]`"
        );
        for standing in [&healthy, &faulty] {
            standing.sound()?;
        }
        Ok(Self {
            name: name.unwrap_or_default(),
            dir: path.parent().unwrap_or(Path::new(".")).to_owned(),
            healthy,
            faulty,
        })
    }
}

impl Standing {
    /// The first thing it needs that this machine has not.
    pub(super) fn missing(&self) -> Option<String> {
        let file = self.requires.iter().find(|path| !path.exists());
        let engine = self.place.values().find_map(|place| place.engine.missing());
        file.map(|path| path.display().to_string())
            .or_else(|| engine.map(str::to_owned))
    }

    /// The programs that make its places, each once.
    pub(super) fn engines(&self) -> String {
        let mut names: Vec<&str> = self
            .place
            .values()
            .map(|place| place.engine.name())
            .collect();
        names.sort_unstable();
        names.dedup();
        names.join(", ")
    }

    fn sound(&self) -> anyhow::Result<()> {
        for name in self.place.keys() {
            ensure!(
                self.start.iter().filter(|one| *one == name).count() == 1,
                "place `{name}` must stand in `start` once"
            );
        }
        for name in &self.start {
            let place = self.place.get(name);
            let place = place.with_context(|| format!("there is no place `{name}`"))?;
            place.sound().with_context(|| format!("place `{name}`"))?;
        }
        for planted in &self.planted {
            let code = planted.split(' ').next().unwrap_or_default();
            ensure!(crate::faults::is_code(code), "`{code}` is no code");
        }
        Ok(())
    }
}

/// Tables are merged key by key; everything else replaces what was there.
fn lay_over(base: &mut toml::Table, overlay: toml::Table) {
    for (key, value) in overlay {
        match (base.get_mut(&key), value) {
            (Some(toml::Value::Table(below)), toml::Value::Table(above)) => lay_over(below, above),
            (_, value) => {
                base.insert(key, value);
            }
        }
    }
}

/// Every shape of a directory, by name.
///
/// # Errors
/// The directory or one of its files cannot be read, or a file is no shape.
pub(super) fn read_dir(dir: &Path) -> anyhow::Result<Vec<Shape>> {
    let entries = std::fs::read_dir(dir)
        .with_context(|| format!("there are no shapes at `{}`", dir.display()))?;
    let mut paths: Vec<PathBuf> = entries
        .map(|entry| Ok(entry?.path()))
        .collect::<std::io::Result<_>>()?;
    paths.retain(|path| path.extension().is_some_and(|ending| ending == "toml"));
    paths.sort();
    paths
        .iter()
        .map(|path| {
            let text = std::fs::read_to_string(path);
            text.map_err(anyhow::Error::from)
                .and_then(|text| Shape::read(path, &text))
                .with_context(|| format!("`{}` cannot be used", path.display()))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
        about = "x"
        services = ["nginx"]
        start = ["web"]
        [place.web]
        run = [["nginx"]]
        files."/a" = "1"
        files."/b" = "2"
        [faulty]
        planted = ["NGX-01 pool x"]
        place.web.files."/b" = "3"
    "#;

    fn read(text: &str) -> anyhow::Result<Shape> {
        Shape::read(Path::new("/s/one.toml"), text)
    }

    #[test]
    fn the_faulty_twin_is_laid_over_the_healthy_one() {
        let shape = read(TEXT).expect("a shape");
        assert_eq!(shape.name, "one");
        assert_eq!(shape.healthy.place["web"].files["/b"], "2");
        assert_eq!(shape.faulty.place["web"].files["/a"], "1");
        assert_eq!(shape.twin(Twin::Faulty).place["web"].files["/b"], "3");
        assert_eq!(
            (shape.healthy.engines(), shape.healthy.missing()),
            ("host".into(), None)
        );
    }

    #[test]
    fn slips_are_named() {
        let refused = |from: &str, to: &str, part: &str| {
            let error = read(&TEXT.replace(from, to)).expect_err(part);
            assert!(format!("{error:#}").contains(part), "{error:#}");
        };
        refused("NGX-01", "nginx", "`nginx` is no code");
        refused("start = [\"web\"]", "start = []", "must stand in `start`");
        refused("about", "abuot", "abuot");
        refused(
            "[faulty]\n        planted",
            "[faulty]\n        about = \"y\"\n        [faulty.x]\n        planted",
            "unknown field",
        );
    }

    #[test]
    fn the_shapes_of_this_repository_can_be_read() {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shapes");
        let shapes = read_dir(&dir).expect("shapes");
        let planted: usize = shapes.iter().map(|shape| shape.faulty.planted.len()).sum();
        assert!(shapes.len() >= 9 && planted >= 40, "{planted} faults");
    }
}
