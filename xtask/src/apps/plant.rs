//! A fault, planted into a private copy of its application and diagnosed.

use super::PATIENCE;
use super::catalog::{Source, copy, scratch};
use super::planted::{Change, Planted};
use super::program::Program;
use super::record::Record;
use super::score::{Outcome, Row};
use anyhow::{Context as _, bail, ensure};
use serde_json::Value;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Who is asked outside of the stack: a name that nobody has (RFC 6761), so that only a double can answer to it.
const PEER: &str = "peer.example.test";

/// What stands in a fault's texts for what is only known when it runs.
#[derive(Default)]
struct Places {
    /// `{{peer}}`: the host outside of the stack.
    peer: Option<String>,
    /// `{{extension}}`: path of the shared object.
    extension: Option<String>,
    /// `{{app}}`: the copy of the application.
    app: Option<String>,
}

impl Places {
    /// What is known before the application was copied.
    fn asked(fault: &Planted) -> Self {
        Self {
            peer: fault.peer_latency.as_ref().map(|_| PEER.to_owned()),
            ..Self::default()
        }
    }

    fn fill(&self, text: &str) -> String {
        let mut text = text.to_owned();
        let known = [
            ("{{peer}}", &self.peer),
            ("{{extension}}", &self.extension),
            ("{{app}}", &self.app),
        ];
        for (name, value) in known {
            if let Some(value) = value {
                text = text.replace(name, value);
            }
        }
        text
    }
}

/// Plants a fault and has it diagnosed.
///
/// # Errors
/// The fault does not fit the application, or the temporary directory cannot be used. What the program says is in the row.
pub(super) fn run(program: &Program, source: &Source, fault: &Planted) -> anyhow::Result<Row> {
    let row = |outcome| Row {
        name: fault.name.clone(),
        expected: fault.codes.join(" or "),
        elapsed: std::time::Duration::ZERO,
        outcome,
    };
    if let Some(said) = program.evidence.judged(&program.binary, &fault.name) {
        return Ok(row(judged(fault, &Places::asked(fault), said)));
    }
    let dir = match source.directory(&fault.application) {
        Ok(dir) => dir,
        Err(why) => return Ok(row(Outcome::Skipped(why))),
    };
    let extension = match fault
        .extension
        .as_deref()
        .map(|name| source.extension(name))
        .transpose()
    {
        Ok(path) => path,
        Err(why) => return Ok(row(Outcome::Skipped(why))),
    };
    let scratch = scratch()?;
    let own = scratch.path().join(fault.application.name);
    copy(&dir, &own)?;
    // A host of the lab sees none of the directories for temporary files, where the bench may keep it: it comes with the
    // application.
    let extension = extension.map(|from| bring(&from, &own)).transpose()?;
    let places = Places {
        extension: extension.map(|path| path.display().to_string()),
        app: Some(own.display().to_string()),
        ..Places::asked(fault)
    };
    plant(fault, &own, &places)
        .with_context(|| format!("the fault `{}` does not fit", fault.name))?;
    let began = Instant::now();
    let found = diagnose(program, fault, &own, scratch.path(), &places, began)?;
    Ok(Row {
        elapsed: began.elapsed(),
        ..row(judged(fault, &places, found))
    })
}

/// What a diagnosis named, compared with what is right.
fn judged(fault: &Planted, places: &Places, found: Result<Value, String>) -> Outcome {
    let culprits: Vec<String> = fault.culprit.iter().map(|text| places.fill(text)).collect();
    match found {
        Err(words) => Outcome::Failed(words),
        Ok(value) => {
            let record = Record(&value);
            Outcome::judge(&fault.codes, &culprits, record.named(), record.limit())
        }
    }
}

/// Puts a file into the application; returns where.
fn bring(from: &Path, own: &Path) -> anyhow::Result<PathBuf> {
    let to = own.join(from.file_name().context("it has no name")?);
    fs::copy(from, &to).with_context(|| format!("`{}` cannot be copied", from.display()))?;
    Ok(to)
}

/// The record of the diagnosis, or why there is none.
fn diagnose(
    program: &Program,
    fault: &Planted,
    own: &Path,
    scratch: &Path,
    places: &Places,
    began: Instant,
) -> anyhow::Result<Result<Value, String>> {
    if let Err(words) = program.init(own, PATIENCE) {
        return Ok(Err(format!("init: {words}")));
    }
    let scenario = own.join("kneepoint.toml");
    let overlay = scratch.join("overlay.toml");
    fs::write(&overlay, overlay_text(fault, &scenario, scratch, places)?)?;
    let kept = program.evidence.arguments(&fault.name);
    let mut more = vec![OsStr::new("--overlay"), overlay.as_os_str()];
    more.extend(kept.iter().map(OsStr::new));
    let left = PATIENCE.saturating_sub(began.elapsed());
    let record = program.measure("diagnose", &scenario, &more, scratch, left)?;
    Ok(record.and_then(|value| Record(&value).finished().map(|()| value)))
}

/// Makes the changes in a copy.
///
/// # Errors
/// A file that is to be changed is not there, or lacks the text that is to be replaced.
fn plant(fault: &Planted, own: &Path, places: &Places) -> anyhow::Result<()> {
    for change in &fault.files {
        apply(change, own, places)
            .with_context(|| format!("`{}` cannot be changed", change.path))?;
    }
    if let (Some(sql), Some(dump)) = (&fault.sql, fault.application.dump) {
        let path = own.join(dump);
        let mut text = fs::read(&path).with_context(|| format!("there is no dump `{dump}`"))?;
        text.extend_from_slice(format!("\n{}\n", places.fill(sql).trim()).as_bytes());
        fs::write(&path, text)?;
    }
    Ok(())
}

fn apply(change: &Change, own: &Path, places: &Places) -> anyhow::Result<()> {
    if let Some(copies) = change.copies {
        for n in 1..=copies {
            apply(&change.numbered(n), own, places)?;
        }
        return Ok(());
    }
    let path = own.join(&change.path);
    let text = match (
        &change.content,
        &change.append,
        &change.find,
        &change.replace,
    ) {
        (Some(content), ..) => {
            let dir = path.parent().context("it has no directory")?;
            fs::create_dir_all(dir)?;
            places.fill(content)
        }
        (_, Some(append), ..) => fs::read_to_string(&path)? + &places.fill(append),
        (_, _, Some(find), Some(replace)) => {
            let text = fs::read_to_string(&path)?;
            ensure!(text.contains(find.as_str()), "it does not contain `{find}`");
            text.replace(find.as_str(), &places.fill(replace))
        }
        _ => bail!("nothing is to be changed in it"),
    };
    Ok(fs::write(&path, text)?)
}

/// What is laid over the scenario: the fault's own, and its php.ini as a file of the scenario.
fn overlay_text(
    fault: &Planted,
    scenario: &Path,
    scratch: &Path,
    places: &Places,
) -> anyhow::Result<String> {
    let mut overlay = fault.overlay.clone();
    if let Some(latency) = &fault.peer_latency {
        let text = fs::read_to_string(scenario)?;
        overlay.insert("peer".into(), peers(&text, latency)?.into());
    }
    if let Some(ini) = &fault.ini {
        let path = scratch.join("php.ini");
        fs::write(&path, places.fill(ini))?;
        let php = table(table(&mut overlay, "stack")?, "php")?;
        php.insert("ini".into(), path.display().to_string().into());
    }
    Ok(toml::to_string(&overlay)?)
}

/// The doubles that `init` wrote, that of the fault's host with its latency.
///
/// # Errors
/// The scenario is no TOML.
fn peers(scenario: &str, latency: &str) -> anyhow::Result<toml::value::Array> {
    let scenario: toml::Table = toml::from_str(scenario)?;
    let written = scenario.get("peer").and_then(toml::Value::as_array);
    let mut peers = written.cloned().unwrap_or_default();
    peers.retain(|peer| peer.get("host").and_then(toml::Value::as_str) != Some(PEER));
    let slow = [("host", PEER), ("kind", "http"), ("latency", latency)];
    let slow = slow.map(|(name, value)| (name.to_owned(), value.into()));
    peers.push(toml::Value::Table(slow.into_iter().collect()));
    Ok(peers)
}

/// The table of this name, made when it is not there.
fn table<'a>(parent: &'a mut toml::Table, name: &str) -> anyhow::Result<&'a mut toml::Table> {
    parent
        .entry(name)
        .or_insert_with(|| toml::Value::Table(toml::Table::new()))
        .as_table_mut()
        .with_context(|| format!("`{name}` of the fault's [inject] is not a table"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(rest: &str) -> Planted {
        let text = format!(
            "about = \"x\"\napplication = \"wordpress\"\nexpect = \"APP-10\"\nculprit = [\"x\"]\n{rest}"
        );
        Planted::read(Path::new("x.toml"), &text).expect("fault")
    }

    #[test]
    fn an_extension_comes_with_the_application() {
        let dir = tempfile::tempdir().expect("directory");
        let (kept, own) = (dir.path().join("xdebug.so"), dir.path().join("app"));
        fs::write(&kept, "ELF").expect("file");
        fs::create_dir(&own).expect("directory");
        assert_eq!(bring(&kept, &own).expect("brought"), own.join("xdebug.so"));
        assert_eq!(fs::read(own.join("xdebug.so")).expect("a file"), b"ELF");
        assert!(bring(&dir.path().join("gone.so"), &own).is_err());
    }

    #[test]
    fn changes_are_made_in_the_copy_with_places_filled_in() {
        let dir = tempfile::tempdir().expect("directory");
        fs::write(dir.path().join("a.php"), "<?php one();").expect("file");
        fs::write(dir.path().join("wordpress.sql"), b"\xff;").expect("file");
        let fault = fault(
            "sql = \"SELECT 2;\"\n\
             [[file]]\npath = \"a.php\"\nfind = \"one\"\nreplace = \"two\"\n\
             [[file]]\npath = \"a.php\"\nappend = \" // {{peer}}\"\n\
             [[file]]\npath = \"new/b{n}.php\"\ncopies = 2\ncontent = \"<?php b({n});\"\n",
        );
        let places = Places {
            peer: Some(PEER.into()),
            ..Places::default()
        };
        plant(&fault, dir.path(), &places).expect("planted");
        let read = |path: &str| fs::read(dir.path().join(path)).expect(path);
        assert_eq!(read("a.php"), b"<?php two(); // peer.example.test");
        assert_eq!(read("new/b1.php"), b"<?php b(1);");
        assert_eq!(read("new/b2.php"), b"<?php b(2);");
        assert_eq!(read("wordpress.sql"), b"\xff;\nSELECT 2;\n");
    }

    #[test]
    fn a_change_that_finds_nothing_is_an_error() {
        let dir = tempfile::tempdir().expect("directory");
        fs::write(dir.path().join("a.php"), "<?php").expect("file");
        let fault = fault("[[file]]\npath = \"a.php\"\nfind = \"one\"\nreplace = \"two\"\n");
        let error = plant(&fault, dir.path(), &Places::default()).expect_err("no such text");
        assert!(
            format!("{error:#}").contains("does not contain `one`"),
            "{error:#}"
        );
    }

    #[test]
    fn the_doubles_of_the_scenario_stay_and_the_one_of_the_fault_is_slow() {
        let dir = tempfile::tempdir().expect("directory");
        let scenario = dir.path().join("kneepoint.toml");
        let written = "[[peer]]\nhost = \"a.test\"\nkind = \"smtp\"\n\n[[peer]]\nhost = \"peer.example.test\"\nkind = \"http\"\n";
        fs::write(&scenario, written).expect("file");
        let fault =
            fault("peer_latency = \"150ms\"\n[[file]]\npath = \"a.php\"\ncontent = \"<?php\"\n");
        let text =
            overlay_text(&fault, &scenario, dir.path(), &Places::default()).expect("overlay");
        let overlay: toml::Table = text.parse().expect("TOML");
        let peers = overlay["peer"].as_array().expect("an array");
        assert_eq!(
            (peers.len(), peers[0]["host"].as_str()),
            (2, Some("a.test"))
        );
        assert_eq!(peers[1]["latency"].as_str(), Some("150ms"));
    }

    #[test]
    fn a_php_ini_becomes_a_file_of_the_scenario() {
        let dir = tempfile::tempdir().expect("directory");
        let fault = fault(
            "ini = \"zend_extension={{extension}}\"\n[inject.stack.php.settings]\n\"pm\" = \"static\"\n",
        );
        let places = Places {
            extension: Some("/x.so".into()),
            ..Places::default()
        };
        let scenario = dir.path().join("kneepoint.toml");
        let text = overlay_text(&fault, &scenario, dir.path(), &places).expect("overlay");
        let overlay: toml::Table = text.parse().expect("TOML");
        let php = &overlay["stack"]["php"];
        assert_eq!(php["settings"]["pm"].as_str(), Some("static"));
        let ini = fs::read_to_string(php["ini"].as_str().expect("a path")).expect("file");
        assert_eq!(ini, "zend_extension=/x.so");
    }
}
