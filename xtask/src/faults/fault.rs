//! A fault as its file describes it.

use anyhow::{Context, ensure};
use serde::Deserialize;
use serde::de::IntoDeserializer as _;
use std::collections::BTreeMap;
use std::hash::{Hash as _, Hasher as _};
use std::path::{Path, PathBuf};

/// A misconfiguration with the answer that is right for it, or a healthy stack.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Fault {
    /// The file's name without `.toml`.
    pub(super) name: String,
    /// What a person did wrong, in a line.
    pub(super) about: String,
    /// The base scenario, absolute.
    pub(super) scenario: PathBuf,
    /// What the diagnosis must answer.
    pub(super) expect: Expectation,
    /// What else it must say, and what it must not.
    pub(super) demands: Demands,
    /// Whether the remedy of the finding that is named first must win its A/B.
    pub(super) remedy_must_win: bool,
    /// What the machine must have for it to show.
    pub(super) requires: Vec<Requirement>,
    /// What is laid over the scenario, as TOML. [`FILES`] in it stands for the directory of `files`; what [`HERE`] stands for
    /// is there already.
    pub(super) overlay: String,
    /// Files that the overlay names, by name: configurations, seeds.
    pub(super) files: BTreeMap<String, String>,
}

/// What stands in an overlay for the directory in which a fault's `[files]` lie.
pub(super) const FILES: &str = "{files}";

/// What stands in an overlay, as it is written, for the directory of the fault's file.
const HERE: &str = "{here}";

/// What a diagnosis must say beside the first code, and what it must not.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Demands {
    /// Codes that must be suspected as well: a fault with two causes.
    pub(super) also: Vec<String>,
    /// Codes that must be told, if only as a note.
    pub(super) noted: Vec<String>,
    /// Codes that nobody may suspect.
    pub(super) never: Vec<String>,
    /// Texts that the first finding must hold: a table, a file, a directive.
    pub(super) mentions: Vec<String>,
}

/// What the diagnosis of a fault must answer.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Expectation {
    /// Nothing is wrong with the stack.
    Healthy,
    /// One of these codes is named first: the expected one, then those that are equally right.
    First(Vec<String>),
}

impl Expectation {
    /// `OPC-01`, `FPM-07 or FPM-01`, `healthy`.
    pub(super) fn in_words(&self) -> String {
        match self {
            Self::Healthy => "healthy".into(),
            Self::First(codes) => codes.join(" or "),
        }
    }
}

/// The keys of a fault file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    about: String,
    scenario: PathBuf,
    expect: String,
    #[serde(default)]
    equally_right: Vec<String>,
    #[serde(default)]
    also: Vec<String>,
    #[serde(default)]
    noted: Vec<String>,
    #[serde(default)]
    never: Vec<String>,
    #[serde(default)]
    must_mention: Texts,
    #[serde(default)]
    files: BTreeMap<String, String>,
    #[serde(default)]
    remedy_raises_limit: bool,
    #[serde(default)]
    requires: Texts,
    #[serde(default)]
    inject: toml::Table,
}

/// One text, or several.
#[derive(Deserialize)]
#[serde(untagged)]
enum Texts {
    One(String),
    Several(Vec<String>),
}

impl Default for Texts {
    fn default() -> Self {
        Self::Several(Vec::new())
    }
}

impl Texts {
    fn into_list(self) -> Vec<String> {
        match self {
            Self::One(text) => vec![text],
            Self::Several(texts) => texts,
        }
    }
}

/// What a machine may lack.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Requirement {
    /// The lab has namespaces and control groups only then.
    Root,
    /// The program, in the path.
    Composer,
}

impl Requirement {
    fn named(name: &str) -> Result<Self, serde::de::value::Error> {
        Self::deserialize(name.into_deserializer())
    }

    /// What is told of a machine that does not have it; `None` where it is there.
    pub(super) fn lacking(self) -> Option<&'static str> {
        let (is_there, lacking) = match self {
            Self::Root => (rustix::process::geteuid().is_root(), "needs root"),
            Self::Composer => (is_in_path("composer"), "needs composer in the path"),
        };
        (!is_there).then_some(lacking)
    }
}

/// A directory as text within a string of TOML.
fn here(dir: &Path) -> anyhow::Result<String> {
    let dir = std::env::current_dir()?.join(dir);
    let dir = std::path::absolute(dir)?.display().to_string();
    ensure!(
        !dir.contains(['"', '\'', '\\', '\n']),
        "`{dir}` has a character that a path in an overlay cannot have"
    );
    Ok(dir)
}

fn is_in_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join(program).is_file())
}

impl Fault {
    /// Reads the text of a fault file. A relative `scenario` starts at the file's directory.
    ///
    /// # Errors
    /// Not TOML, an unknown or missing key, or keys that contradict each other.
    pub(super) fn read(path: &Path, text: &str) -> anyhow::Result<Self> {
        let written: Written = toml::from_str(text)?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let dir = path.parent().unwrap_or(Path::new(""));
        ensure!(!written.about.trim().is_empty(), "`about` is empty");
        let demands = Demands {
            also: written.also,
            noted: written.noted,
            never: written.never,
            mentions: written.must_mention.into_list(),
        };
        demands.check()?;
        check_names(&written.files)?;
        let requires = written.requires.into_list().into_iter();
        let requires = requires.map(|name| Requirement::named(&name));
        let expect = if written.expect == "healthy" {
            ensure!(
                written.equally_right.is_empty() && !written.remedy_raises_limit,
                "a healthy stack has neither `equally_right` nor `remedy_raises_limit`"
            );
            ensure!(
                demands == Demands::default(),
                "a healthy stack has none of `also`, `noted`, `never` and `must_mention`: whatever it names is a false alarm"
            );
            Expectation::Healthy
        } else {
            let mut codes = vec![written.expect];
            codes.extend(written.equally_right);
            check_codes(&codes)?;
            Expectation::First(codes)
        };
        // Only an overlay that has it must bear the path of the checkout.
        let overlay = toml::to_string(&written.inject)?;
        let overlay = match overlay.contains(HERE) {
            true => overlay.replace(HERE, &here(dir)?),
            false => overlay,
        };
        Ok(Self {
            demands,
            files: written.files,
            name: name.into_owned(),
            about: written.about,
            scenario: std::path::absolute(dir.join(written.scenario))?,
            expect,
            remedy_must_win: written.remedy_raises_limit,
            requires: requires.collect::<Result<_, _>>()?,
            overlay,
        })
    }
}

impl Fault {
    /// Another one for a file of other content, its own or the base scenario: results that are kept are those of this fault
    /// only.
    pub(super) fn digest(&self) -> String {
        let scenario = std::fs::read_to_string(&self.scenario).unwrap_or_default();
        let mut hasher = std::hash::DefaultHasher::new();
        format!("{self:?}").hash(&mut hasher);
        scenario.hash(&mut hasher);
        format!("{:016x}", hasher.finish())
    }
}

impl Demands {
    fn check(&self) -> anyhow::Result<()> {
        check_codes(&self.also)?;
        check_codes(&self.noted)?;
        check_codes(&self.never)?;
        let both = self.also.iter().find(|code| self.never.contains(code));
        ensure!(
            both.is_none(),
            "`{}` is in `also` and in `never`",
            both.map_or("", String::as_str)
        );
        ensure!(
            self.mentions.iter().all(|text| !text.trim().is_empty()),
            "an empty `must_mention` is met by everything"
        );
        Ok(())
    }
}

fn check_codes(codes: &[String]) -> anyhow::Result<()> {
    for code in codes {
        ensure!(
            is_code(code),
            "`{code}` is not the code of a rule such as \"OPC-01\" (`kneepoint rules` lists them)"
        );
    }
    Ok(())
}

/// A file lies in the directory that is made for it, and nowhere else.
fn check_names(files: &BTreeMap<String, String>) -> anyhow::Result<()> {
    for name in files.keys() {
        ensure!(
            !name.is_empty() && !name.starts_with('.') && !name.contains('/'),
            "`{name}` in [files] is not the name of a file"
        );
    }
    Ok(())
}

/// Two to four capitals, a hyphen, two digits.
pub(crate) fn is_code(text: &str) -> bool {
    text.split_once('-').is_some_and(|(area, number)| {
        (2..=4).contains(&area.len())
            && area.bytes().all(|byte| byte.is_ascii_uppercase())
            && number.len() == 2
            && number.bytes().all(|byte| byte.is_ascii_digit())
    })
}

/// Every fault of a directory: its `*.toml` in the order of their names, without those of directories in it.
///
/// # Errors
/// The directory or a file in it cannot be read, or there is no fault in it.
pub(super) fn read_dir(dir: &Path) -> anyhow::Result<Vec<Fault>> {
    let cannot = || format!("the faults in `{}` cannot be read", dir.display());
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(dir).with_context(cannot)? {
        let path = entry.with_context(cannot)?.path();
        if path
            .extension()
            .is_some_and(|extension| extension == "toml")
        {
            paths.push(path);
        }
    }
    ensure!(
        !paths.is_empty(),
        "there is no fault file (*.toml) in `{}`",
        dir.display()
    );
    paths.sort();
    paths
        .iter()
        .map(|path| {
            let text = std::fs::read_to_string(path)?;
            let fault = Fault::read(path, &text)?;
            ensure!(
                fault.scenario.is_file(),
                "there is no scenario at `{}`: `scenario` is a path from the fault file's directory",
                fault.scenario.display()
            );
            Ok(fault)
        })
        .zip(&paths)
        .map(|(fault, path): (anyhow::Result<Fault>, _)| {
            fault.with_context(|| format!("the fault `{}` cannot be used", path.display()))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "about = \"x\"\nscenario = \"../apps/a.toml\"\n";

    #[track_caller]
    fn refused(rest: &str, part: &str) {
        let error = Fault::read(Path::new("/f/x.toml"), &format!("{HEAD}{rest}")).expect_err(rest);
        assert!(error.to_string().contains(part), "{error}");
    }

    #[test]
    fn a_fault_is_read_with_its_overlay() {
        let text = format!(
            "{HEAD}expect = \"FPM-07\"\nequally_right = [\"FPM-01\"]\nrequires = \"root\"\n\
             [inject.stack.php.settings]\n\"listen.backlog\" = \"8\"\n\
             [[inject.request]]\npath = \"/sleep?ms=40\"\n"
        );
        let fault = Fault::read(Path::new("/f/queue.toml"), &text).expect("fault");
        assert_eq!(fault.name, "queue");
        assert_eq!(fault.scenario, Path::new("/f/../apps/a.toml"));
        assert_eq!(fault.expect.in_words(), "FPM-07 or FPM-01");
        assert_eq!(fault.requires, [Requirement::Root]);
        assert!(!fault.remedy_must_win);
        let overlay: toml::Table = fault.overlay.parse().expect("overlay");
        assert_eq!(
            overlay["stack"]["php"]["settings"]["listen.backlog"].as_str(),
            Some("8")
        );
        assert_eq!(overlay["request"][0]["path"].as_str(), Some("/sleep?ms=40"));
    }

    #[test]
    fn a_fault_that_cannot_be_meant_is_refused() {
        refused("", "missing field `expect`");
        refused("expect = \"opcache\"", "is not the code of a rule");
        refused("expect = \"OPC-01\"\ncpus = 2", "unknown field `cpus`");
        refused(
            "expect = \"OPC-01\"\nrequires = \"luck\"",
            "unknown variant `luck`",
        );
        refused(
            "expect = \"healthy\"\nequally_right = [\"CAP-02\"]",
            "a healthy stack",
        );
    }

    #[test]
    fn what_must_be_said_and_what_must_not_is_read() {
        let text = format!(
            "{HEAD}expect = \"PG-03\"\nalso = [\"OPC-06\"]\nnoted = [\"OPC-05\"]\nnever = [\"FPM-01\"]\nmust_mention = \"stock\"\n\
             requires = [\"root\", \"composer\"]\n\
             [files]\n\"nginx.conf\" = \"events {{}}\"\n[inject.stack.web]\nconfig = \"{{files}}/nginx.conf\"\n"
        );
        let fault = Fault::read(Path::new("/f/two.toml"), &text).expect("fault");
        assert_eq!(fault.demands.also, ["OPC-06"]);
        assert_eq!(fault.demands.noted, ["OPC-05"]);
        assert_eq!(fault.requires, [Requirement::Root, Requirement::Composer]);
        assert_eq!(fault.demands.never, ["FPM-01"]);
        assert_eq!(fault.demands.mentions, ["stock"]);
        assert_eq!(fault.files["nginx.conf"], "events {}");
        assert!(fault.overlay.contains("{files}/nginx.conf"));
        let beside = format!("{HEAD}expect = \"PG-03\"\n[inject.app]\nroot = \"{{here}}/shop\"\n");
        let fault = Fault::read(Path::new("/f/x.toml"), &beside).expect("fault");
        assert!(fault.overlay.contains("\"/f/shop\""), "{}", fault.overlay);
        let several = format!("{HEAD}expect = \"PG-03\"\nmust_mention = [\"a\", \"b\"]\n");
        let fault = Fault::read(Path::new("/f/x.toml"), &several).expect("fault");
        assert_eq!(fault.demands.mentions, ["a", "b"]);
    }

    #[test]
    fn a_path_that_an_overlay_cannot_have_is_refused_where_it_has_it() {
        let read = |rest: &str| {
            let text = format!("{HEAD}expect = \"PG-03\"\n{rest}");
            Fault::read(Path::new("/it's/x.toml"), &text)
        };
        assert!(read("").is_ok());
        let error = read("[inject.app]\nroot = \"{here}/shop\"\n").expect_err("a quote");
        assert!(error.to_string().contains("has a character"), "{error}");
    }

    #[test]
    fn the_digest_is_of_the_base_scenario_too() {
        let dir = tempfile::tempdir().expect("directory");
        let text = "about = \"x\"\nscenario = \"s.toml\"\nexpect = \"PG-03\"\n";
        let fault = Fault::read(&dir.path().join("x.toml"), text).expect("fault");
        let digest_of = |scenario: &str| {
            std::fs::write(&fault.scenario, scenario).expect("written");
            fault.digest()
        };
        let first = digest_of("users = 1\n");
        assert_ne!(digest_of("users = 2\n"), first);
        assert_eq!(digest_of("users = 1\n"), first);
    }

    #[test]
    fn demands_that_cannot_be_meant_are_refused() {
        refused("expect = \"PG-03\"\nalso = [\"slow\"]", "is not the code");
        refused(
            "expect = \"PG-03\"\nalso = [\"OPC-06\"]\nnever = [\"OPC-06\"]",
            "in `also` and in `never`",
        );
        refused("expect = \"PG-03\"\nmust_mention = \" \"", "an empty");
        refused(
            "expect = \"healthy\"\nnever = [\"OPC-06\"]",
            "a healthy stack has none of `also`",
        );
        refused(
            "expect = \"PG-03\"\n[files]\n\"../a\" = \"x\"",
            "is not the name of a file",
        );
    }

    #[test]
    fn every_fault_of_the_bench_can_be_used() {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../faults");
        let faults = read_dir(&dir).expect("faults");
        let healthy = faults
            .iter()
            .filter(|fault| fault.expect == Expectation::Healthy)
            .count();
        // A bench without one of the two kinds would pass by naming everything, or nothing.
        assert!(healthy > 0 && healthy < faults.len());
        for fault in &faults {
            let scenario = std::fs::read_to_string(&fault.scenario).expect("scenario");
            let scenario: toml::Table = scenario.parse().expect("scenario is TOML");
            let overlay: toml::Table = fault.overlay.parse().expect("overlay is TOML");
            let known = [
                "app", "stack", "hosts", "request", "users", "mix", "slo", "tune", "peer", "job",
                "changes",
            ];
            for section in scenario.keys().chain(overlay.keys()) {
                assert!(
                    known.contains(&section.as_str()),
                    "{}: `{section}`",
                    fault.name
                );
            }
        }
    }

    #[test]
    fn an_unusable_file_is_named() {
        let dir = tempfile::tempdir().expect("directory");
        let error = read_dir(dir.path()).expect_err("empty");
        assert!(error.to_string().contains("no fault file"), "{error}");
        std::fs::write(
            dir.path().join("a.toml"),
            format!("{HEAD}expect = \"OPC-01\""),
        )
        .expect("file");
        let error = format!("{:#}", read_dir(dir.path()).expect_err("no scenario"));
        assert!(
            error.contains("a.toml") && error.contains("there is no scenario at"),
            "{error}"
        );
    }
}
