//! A planted fault as its file describes it.

use super::catalog::{self, Application};
use anyhow::{Context as _, ensure};
use serde::Deserialize;
use std::path::Path;

/// A mistake in an application, with the answers that are right for it.
#[derive(Debug, Clone)]
pub(super) struct Planted {
    /// The file's name without `.toml`.
    pub(super) name: String,
    /// What a person did wrong, in a line.
    pub(super) about: String,
    pub(super) application: Application,
    /// The codes of which one has to be named first.
    pub(super) codes: Vec<String>,
    /// Texts of which one has to be in the finding.
    pub(super) culprit: Vec<String>,
    /// What is changed in the application.
    pub(super) files: Vec<Change>,
    /// SQL that is run after the dump.
    pub(super) sql: Option<String>,
    /// Lines of a php.ini.
    pub(super) ini: Option<String>,
    /// Latency of the host outside the stack that `{{peer}}` names, as a scenario writes it; `None` without one.
    pub(super) peer_latency: Option<String>,
    /// PHP extension that is needed, by name.
    pub(super) extension: Option<String>,
    /// What is laid over the scenario, as TOML.
    pub(super) overlay: toml::Table,
}

/// A change of a file.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Change {
    /// Relative to the application's directory.
    pub(super) path: String,
    /// The whole file.
    pub(super) content: Option<String>,
    /// What is put at its end.
    pub(super) append: Option<String>,
    /// Text that has to be there; every occurrence is replaced.
    pub(super) find: Option<String>,
    pub(super) replace: Option<String>,
    /// How many such files, with `{n}` in path and content as the number of each.
    pub(super) copies: Option<u32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    about: String,
    application: String,
    expect: String,
    #[serde(default)]
    equally_right: Vec<String>,
    culprit: Vec<String>,
    /// Address of the public report it follows; it is there for whoever reads the file.
    report: Option<String>,
    #[serde(default)]
    file: Vec<Change>,
    sql: Option<String>,
    ini: Option<String>,
    peer_latency: Option<String>,
    extension: Option<String>,
    #[serde(default)]
    inject: toml::Table,
}

impl Planted {
    /// Reads the text of a fault file.
    ///
    /// # Errors
    /// Not TOML, an unknown or missing key, or keys that contradict each other.
    pub(super) fn read(path: &Path, text: &str) -> anyhow::Result<Self> {
        let written: Written = toml::from_str(text)?;
        let name = path
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let application = catalog::find(&written.application)
            .with_context(|| format!("there is no application `{}`", written.application))?;
        let mut codes = vec![written.expect];
        codes.extend(written.equally_right);
        for code in &codes {
            ensure!(
                crate::faults::is_code(code),
                "`{code}` is not the code of a rule such as \"OPC-01\""
            );
        }
        ensure!(
            !written.culprit.is_empty()
                && written.culprit.iter().all(|text| !text.trim().is_empty()),
            "`culprit` names nothing: write what a person would have to read in the finding"
        );
        ensure!(
            written
                .report
                .as_ref()
                .is_none_or(|address| address.starts_with("https://")),
            "`report` is not an address"
        );
        ensure!(
            written.sql.is_none() || application.dump.is_some(),
            "`sql` for {}, which has no dump",
            application.name
        );
        let changes = written.sql.is_some() || written.ini.is_some() || !written.file.is_empty();
        ensure!(changes || !written.inject.is_empty(), "nothing is planted");
        for change in &written.file {
            change.check()?;
        }
        if let Some(latency) = &written.peer_latency {
            kneepoint_model::units::parse_duration(latency)?;
        }
        Ok(Self {
            name,
            about: written.about,
            application,
            codes,
            culprit: written.culprit,
            files: written.file,
            sql: written.sql,
            ini: written.ini,
            peer_latency: written.peer_latency,
            extension: written.extension,
            overlay: written.inject,
        })
    }
}

impl Change {
    fn check(&self) -> anyhow::Result<()> {
        let path = Path::new(&self.path);
        let inside = path
            .components()
            .all(|part| matches!(part, std::path::Component::Normal(_)));
        ensure!(
            inside,
            "`{}` is not a path inside the application",
            self.path
        );
        let ways = [&self.content, &self.append, &self.find];
        ensure!(
            ways.iter().filter(|way| way.is_some()).count() == 1
                && self.find.is_some() == self.replace.is_some(),
            "`{}` has to have one of `content`, `append`, or `find` with `replace`",
            self.path
        );
        ensure!(
            self.copies.is_none() || (self.content.is_some() && self.path.contains("{n}")),
            "`{}` with `copies` has to have `{{n}}` in its path, and `content`",
            self.path
        );
        Ok(())
    }

    /// One of its copies.
    pub(super) fn numbered(&self, n: u32) -> Self {
        let fill = |text: &String| text.replace("{n}", &n.to_string());
        Self {
            path: fill(&self.path),
            content: self.content.as_ref().map(fill),
            copies: None,
            ..self.clone()
        }
    }
}

/// Every fault of a directory, in the order of their names.
///
/// # Errors
/// The directory or a file in it cannot be read, or there is no fault in it.
pub(super) fn read_dir(dir: &Path) -> anyhow::Result<Vec<Planted>> {
    let cannot = || format!("the faults in `{}` cannot be read", dir.display());
    let entries = std::fs::read_dir(dir).with_context(cannot)?;
    let paths: std::io::Result<Vec<_>> = entries.map(|entry| Ok(entry?.path())).collect();
    let mut paths = paths.with_context(cannot)?;
    paths.retain(|path| {
        path.extension()
            .is_some_and(|extension| extension == "toml")
    });
    ensure!(
        !paths.is_empty(),
        "there is no fault file (*.toml) in `{}`",
        dir.display()
    );
    paths.sort();
    let read = |path: &std::path::PathBuf| {
        let text = std::fs::read_to_string(path)?;
        Planted::read(path, &text)
            .with_context(|| format!("the fault `{}` cannot be used", path.display()))
    };
    paths.iter().map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    const HEAD: &str = "about = \"x\"\napplication = \"wordpress\"\nexpect = \"APP-10\"\nculprit = [\"wp_options\"]\n";

    #[track_caller]
    fn refused(text: &str, part: &str) {
        let error = Planted::read(Path::new("x.toml"), text).expect_err(text);
        assert!(format!("{error:#}").contains(part), "{error:#}");
    }

    #[test]
    fn a_planted_fault_is_read() {
        let text = format!(
            "{HEAD}equally_right = [\"MYS-03\"]\npeer_latency = \"150ms\"\nsql = \"SELECT 1;\"\n"
        );
        let fault = Planted::read(Path::new("/f/wordpress-x.toml"), &text).expect("fault");
        assert_eq!(fault.name, "wordpress-x");
        assert_eq!(fault.codes, ["APP-10", "MYS-03"]);
        assert_eq!(fault.peer_latency.as_deref(), Some("150ms"));
    }

    #[test]
    fn one_that_cannot_be_meant_is_refused() {
        refused(HEAD, "nothing is planted");
        refused(
            &HEAD.replace("wordpress", "joomla"),
            "no application `joomla`",
        );
        refused(
            &format!("{HEAD}[[file]]\npath = \"../x\"\ncontent = \"y\"\n"),
            "inside the application",
        );
        refused(
            &format!("{HEAD}[[file]]\npath = \"x\"\nfind = \"y\"\n"),
            "`find` with `replace`",
        );
        refused(
            &format!("{HEAD}[[file]]\npath = \"x\"\ncopies = 2\ncontent = \"y\"\n"),
            "`{n}` in its path",
        );
        refused(&HEAD.replace("\"wp_options\"", "\" \""), "names nothing");
        refused(
            &HEAD
                .replace("wordpress", "dokuwiki")
                .replace("culprit", "sql = \"x\"\nculprit"),
            "no dump",
        );
        refused(
            &HEAD.replace("about", "cpus = 2\nabout"),
            "unknown field `cpus`",
        );
    }

    #[test]
    fn every_application_of_the_bench_has_three_faults_of_different_kinds_and_twelve_follow_a_report()
     {
        let dir = crate::workspace().join("faults/apps");
        let faults = read_dir(&dir).expect("faults");
        let mut codes: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for fault in &faults {
            codes
                .entry(fault.application.name)
                .or_default()
                .push(&fault.codes[0]);
        }
        for (application, mut codes) in codes {
            codes.sort_unstable();
            codes.dedup();
            assert!(codes.len() >= 3, "{application} has only {codes:?}");
        }
        let reported = std::fs::read_dir(&dir).expect("directory").filter(|entry| {
            let path = entry.as_ref().expect("entry").path();
            std::fs::read_to_string(path).is_ok_and(|text| text.contains("\nreport = "))
        });
        assert!(faults.len() >= 30 && reported.count() >= 12);
    }
}
