//! What every command that runs a scenario shares: read it, open the testbed, watch, write the results.

pub(crate) mod fleet;
pub(crate) mod results;

use crate::args::{GroundArgs, OutputArgs, RunArgs, is_stdout};
use crate::progress::Terminal;
use crate::{FAILED, FOUND, INCONCLUSIVE, INTERRUPTED, UNDECIDED, config};
use anyhow::{Context as _, Result};
use kneepoint_agents::FleetGenerator;
use kneepoint_experiment::{ExperimentError, Record, Recorder, Testbed};
use kneepoint_load::Generator;
use kneepoint_model::run::LimitResult;
use kneepoint_model::{Change, GateVerdict, Run, Scenario, Setting, SettingKey, units};
use kneepoint_report::{Format, Options, Styles, render};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How a run that failed says why.
const FAILURE: &str = "failed: ";

/// A flag that Ctrl-C or SIGTERM raises. The second Ctrl-C ends the program at once; the lab's keeper cleans
/// up either way.
///
/// # Errors
/// The signal handlers cannot be installed.
pub fn stop_flag() -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(
            signal,
            i32::from(INTERRUPTED),
            Arc::clone(&stop),
        )?;
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    Ok(stop)
}

/// Reads the scenario of a command with its overlays and settings.
///
/// # Errors
/// The file, an overlay or a setting is wrong; the message says where and what to write instead.
pub fn read_scenario(args: &RunArgs) -> Result<Scenario> {
    let overlays = args
        .overlay
        .iter()
        .map(|path| {
            let text = std::fs::read_to_string(path)
                .with_context(|| format!("cannot read the overlay {}", path.display()))?;
            Ok((
                path.display().to_string(),
                path.parent().unwrap_or(Path::new(".")).to_owned(),
                text,
            ))
        })
        .collect::<Result<Vec<_>>>()?;
    let patches: Vec<config::Patch<'_>> = overlays
        .iter()
        .map(|(name, dir, text)| config::Patch { name, dir, text })
        .collect();
    let mut scenario = config::load_with_patches(&args.scenario, &patches)
        .map_err(|errors| anyhow::anyhow!("{errors}"))?;
    if let Some(budget) = &args.budget {
        scenario.budget.time = units::parse_duration(budget)?;
    }
    let settings = args
        .set
        .iter()
        .map(|text| parse_setting(text, &scenario))
        .collect::<Result<Vec<_>>>()?;
    scenario
        .with(&settings)
        .map_err(|error| anyhow::anyhow!("--set: {error}"))
}

/// What the whole command may take, where somebody said so.
#[must_use]
pub fn asked_budget(args: &RunArgs, scenario: &Scenario) -> Option<Duration> {
    args.budget.as_ref().map(|_| scenario.budget.time)
}

fn parse_setting(text: &str, scenario: &Scenario) -> Result<Setting> {
    let (key, value) = text.split_once('=').with_context(|| {
        format!("--set {text}: write TIER.NAME=VALUE, such as php.pm.max_children=20")
    })?;
    let key: SettingKey = key
        .trim()
        .parse()
        .map_err(|error| anyhow::anyhow!("--set {text}: {error}"))?;
    let setting = Setting {
        key,
        value: value.trim().to_owned(),
    };
    if Change::of(&setting.key).is_some() {
        let checked = config::check_change(&setting.key, &scenario.tiers);
        checked
            .and_then(|()| config::check_change_text(&setting.key, &setting.value))
            .map_err(|error| anyhow::anyhow!("--set {text}: {error}"))?;
        return Ok(setting);
    }
    let Some(tier) = scenario
        .tiers
        .iter()
        .find(|tier| tier.layer == setting.key.layer)
    else {
        return Ok(setting);
    };
    if !setting.key.is_sysctl() {
        let tunables = kneepoint_stack::server(tier.server.as_str())?.tunables(tier.layer, "");
        let tunable = tunables
            .iter()
            .find(|tunable| tunable.name == setting.key.name);
        let tunable = tunable.with_context(|| {
            let names: Vec<&str> = tunables
                .iter()
                .map(|tunable| tunable.name.as_str())
                .collect();
            format!(
                "--set {text}: {} has no setting `{}`; it has: {}",
                tier.server,
                setting.key.name,
                names.join(", ")
            )
        })?;
        config::check_value(tunable, &setting.value)
            .map_err(|error| anyhow::anyhow!("--set {text}: {error}"))?;
    }
    Ok(setting)
}

/// What comes along with the program: below the current directory, or above the program.
#[must_use]
pub fn bundled(name: &str) -> Option<PathBuf> {
    let program = std::env::current_exe().unwrap_or_default();
    let above = program.ancestors().skip(1).map(Path::to_owned);
    let mut places = std::iter::once(PathBuf::from(".")).chain(above);
    places.find_map(|place| {
        let path = place.join(name);
        path.exists().then_some(path)
    })
}

/// Runs a job on a scenario's testbed, watched and written down, and prints the results.
///
/// # Errors
/// The scenario is wrong or the run file cannot be made. A job that fails half-way is not an error here:
/// what was measured is kept and printed, and the exit code says so.
pub fn run(
    command: &str,
    scenario: &Scenario,
    ground: &GroundArgs,
    output: &OutputArgs,
    job: impl FnOnce(&mut Testbed, &mut Recorder<'_>) -> Result<(), ExperimentError>,
) -> Result<ExitCode> {
    results::check(output)?;
    let stop = stop_flag()?;
    let fleet = fleet::gather(&ground.fleet)?;
    watched(command, scenario, output, &stop, |terminal, recorder| {
        recorder.progress(
            "checking the load generator against a null server",
            0.0,
            None,
        );
        let observer = Arc::<Terminal>::clone(terminal);
        let given = fleet.map(|fleet| {
            fleet::told(&fleet)
                .iter()
                .for_each(|line| terminal.line(line));
            let terminal = Arc::clone(terminal);
            let tell = move |words: &str| terminal.line(&format!("         {words}"));
            Box::new(FleetGenerator::new(fleet, tell)) as Box<dyn Generator>
        });
        let loopback = ground.loopback;
        let mut testbed = Testbed::open(scenario, loopback, given, Arc::clone(&stop), observer)?;
        testbed.keep_seconds(recorder.flight());
        for note in testbed.notes() {
            recorder.warn(note.clone());
        }
        recorder.write(Record::Machine(testbed.machine().clone()));
        let outcome = job(&mut testbed, recorder);
        testbed.tell_nowhere(recorder);
        recorder.progress("stopping the stack", 1.0, None);
        testbed.close();
        outcome
    })
}

/// Runs a job that needs no testbed, watched and written down, and prints the results.
///
/// # Errors
/// As [`run`].
pub fn run_without_testbed(
    command: &str,
    scenario: &Scenario,
    output: &OutputArgs,
    job: impl FnOnce(&mut Recorder<'_>) -> Result<(), ExperimentError>,
) -> Result<ExitCode> {
    results::check(output)?;
    let stop = stop_flag()?;
    watched(command, scenario, output, &stop, |_, recorder| {
        job(recorder)
    })
}

fn watched(
    command: &str,
    scenario: &Scenario,
    output: &OutputArgs,
    stop: &Arc<AtomicBool>,
    job: impl FnOnce(&Arc<Terminal>, &mut Recorder<'_>) -> Result<(), ExperimentError>,
) -> Result<ExitCode> {
    let terminal = Arc::new(Terminal::new());
    let mut recorder = Recorder::new(
        command,
        scenario,
        Some(&output.runs),
        &*terminal,
        Arc::clone(stop),
    )?;
    let path = recorder.path().map(Path::to_owned);
    let outcome = job(&terminal, &mut recorder);
    let interrupted =
        stop.load(Ordering::Relaxed) || matches!(outcome, Err(ExperimentError::Interrupted));
    let ended = match &outcome {
        _ if interrupted => "interrupted".to_owned(),
        Ok(()) => "finished".to_owned(),
        Err(error) => format!("{FAILURE}{error}"),
    };
    terminal.finish();
    let (run, incomplete) = recorder.end(&ended);
    let is_written = results::write(&run, output, path.as_deref(), &terminal);
    if let Some(error) = &incomplete {
        terminal.line(&format!("kneepoint: the run file is incomplete: {error}"));
    }
    let code = match outcome {
        _ if interrupted => ExitCode::from(INTERRUPTED),
        Ok(()) => judged(&run),
        Err(_) => {
            // As the run says it, without secrets.
            let why = run.ended.strip_prefix(FAILURE).unwrap_or(&run.ended);
            terminal.line(&format!("kneepoint: {why}"));
            ExitCode::from(FAILED)
        }
    };
    let is_kept = is_written && incomplete.is_none();
    Ok(if is_kept {
        code
    } else {
        ExitCode::from(FAILED)
    })
}

/// The exit code of a run that went well: what its gate says, where it has one; that remedies could not be judged, where it
/// tried some; an error, where the stack served nothing.
fn judged(run: &Run) -> ExitCode {
    match run
        .gate
        .as_ref()
        .map(kneepoint_model::GateResult::counts_as)
    {
        None if found_no_rate(run) => ExitCode::from(FAILED),
        None if !run.undecided().is_empty() => ExitCode::from(UNDECIDED),
        None | Some(GateVerdict::Pass) => ExitCode::SUCCESS,
        Some(GateVerdict::Fail) => ExitCode::from(FOUND),
        Some(GateVerdict::Inconclusive) => ExitCode::from(INCONCLUSIVE),
    }
}

/// Whether a run that was to find R* of one stack ended with a stack that serves nothing.
fn found_no_rate(run: &Run) -> bool {
    let last = run.limit("best").or_else(|| run.limit("base"));
    run.contest.is_none() && last.is_some_and(LimitResult::serves_nothing)
}

/// The run as its summary is printed here: why it failed is said on standard error, and once is enough.
fn without_its_failure(run: &Run) -> Run {
    let mut run = run.clone();
    if run.ended.starts_with(FAILURE) {
        run.ended = "failed".into();
    }
    run
}

/// Colour for a terminal, none for a file or a pipe.
#[must_use]
pub fn styles() -> Styles {
    if console::Term::stdout().is_term() && console::colors_enabled() {
        Styles::Ansi
    } else {
        Styles::Plain
    }
}

/// A run in a format by its name.
///
/// # Errors
/// There is no such format; the message lists those there are.
pub fn rendered(run: &Run, format: &str, options: &Options) -> Result<String> {
    let found = Format::named(format).with_context(|| {
        let names: Vec<&str> = kneepoint_report::FORMATS
            .iter()
            .map(|format| format.name)
            .collect();
        format!(
            "there is no format `{format}`; there are: {}",
            names.join(", ")
        )
    })?;
    Ok(render(run, found, options))
}

/// Writes a file that is not there yet. The directory of runs may be part of the application, whose author could have put
/// links there with the names that runs are going to have.
fn write_new(path: &Path, text: &str) -> std::io::Result<()> {
    let mut file = std::fs::File::create_new(path)?;
    file.write_all(text.as_bytes())
}

/// Writes text to a file, or to standard output for `-`.
///
/// # Errors
/// The file cannot be written.
pub fn write_text(target: &Path, text: &str) -> Result<()> {
    if is_stdout(target) {
        return print(text);
    }
    replace(target, text).with_context(|| format!("cannot write {}", target.display()))
}

/// Writes a file in one go: who looks at it meanwhile, or after a disk got full, finds what was there before. What is no
/// regular file, such as `/dev/stderr` or a pipe, is written as it is, and so is one whose place nothing else can take.
fn replace(target: &Path, text: &str) -> std::io::Result<()> {
    let known = target.symlink_metadata().ok();
    if known.as_ref().is_some_and(|known| !known.is_file()) {
        return std::fs::write(target, text);
    }
    let mut name = target.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.new", std::process::id()));
    let beside = target.with_file_name(name);
    let Ok(mut file) = made_like(&beside, known.as_ref()) else {
        return std::fs::write(target, text);
    };
    let written = file.write_all(text.as_bytes());
    let is_in_place = written.is_ok() && std::fs::rename(&beside, target).is_ok();
    if !is_in_place {
        let _ = std::fs::remove_file(&beside);
    }
    match written {
        // A file that was mounted by itself into a container can be written, and not replaced.
        Ok(()) if !is_in_place => std::fs::write(target, text),
        other => other,
    }
}

/// A new file that those may read who could read the one it is to replace.
fn made_like(path: &Path, known: Option<&std::fs::Metadata>) -> std::io::Result<std::fs::File> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    let Some(known) = known else {
        return options.open(path);
    };
    let file = options.mode(0o600).open(path)?;
    let alike = std::os::unix::fs::fchown(&file, Some(known.uid()), Some(known.gid()))
        .and_then(|()| file.set_permissions(std::fs::Permissions::from_mode(known.mode() & 0o777)));
    match alike {
        Ok(()) => Ok(file),
        Err(why) => {
            let _ = std::fs::remove_file(path);
            Err(why)
        }
    }
}

/// Prints to standard output. That its reader has left, as `head` does, is no failure; nor does it make one good: the exit
/// code is what it would have been.
///
/// # Errors
/// Standard output cannot be written.
pub fn print(text: &str) -> Result<()> {
    print_to(&mut std::io::stdout().lock(), text)
}

fn print_to(out: &mut impl Write, text: &str) -> Result<()> {
    let newline = if text.ends_with('\n') { "" } else { "\n" };
    let printed = out
        .write_all(text.as_bytes())
        .and_then(|()| out.write_all(newline.as_bytes()))
        .and_then(|()| out.flush());
    match printed {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        other => other.context("cannot write to standard output"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kneepoint_model::run::Decision;
    use kneepoint_model::{Confidence, Effect, Finding, GateResult, Interval, Layer};

    #[test]
    fn a_report_is_not_written_through_a_planted_link() {
        let directory = tempfile::tempdir().expect("temp dir");
        let [victim, page] = ["victim", "page.html"].map(|name| directory.path().join(name));
        std::fs::write(&victim, "as it was").expect("written");
        std::os::unix::fs::symlink(&victim, &page).expect("planted");
        assert!(write_new(&page, "report").is_err());
        std::fs::remove_file(&page).expect("removed");
        write_new(&page, "report").expect("written");
        let read = |path| std::fs::read_to_string(path).expect("readable");
        assert_eq!(
            (read(&victim), read(&page)),
            ("as it was".into(), "report".into())
        );
    }

    #[test]
    fn results_take_the_place_of_older_ones_and_keep_who_may_read_them() {
        let directory = tempfile::tempdir().expect("temp dir");
        let place = |name: &str| directory.path().join(name);
        let check = |name: &str, mode: u32, is_link: bool| {
            replace(&place(name), "new").expect("written");
            let about = place(name).symlink_metadata().expect("a file");
            assert_eq!(about.is_symlink(), is_link, "{name}");
            let about = place(name).metadata().expect("a file");
            assert_eq!(about.permissions().mode() & 0o777, mode, "{name}");
            assert_eq!(std::fs::read(place(name)).expect("readable"), b"new");
        };
        std::fs::write(place("old"), "a longer text").expect("written");
        std::fs::set_permissions(place("old"), std::fs::Permissions::from_mode(0o640))
            .expect("set");
        check("old", 0o640, false);
        std::os::unix::fs::symlink(place("old"), place("link")).expect("linked");
        check("link", 0o640, true);
        assert!(replace(&place("nowhere/file"), "new").is_err());
        let left: Vec<_> = std::fs::read_dir(directory.path())
            .expect("a directory")
            .collect();
        assert_eq!(left.len(), 2, "{left:?}");
    }

    /// A run that is judged to have this exit code.
    fn check(run: Run, expected: u8) {
        // An exit code can be shown, and not compared.
        let shown = |code: ExitCode| format!("{code:?}");
        assert_eq!(shown(judged(&run)), shown(ExitCode::from(expected)));
    }

    /// A run whose gate says this.
    fn gated(verdict: GateVerdict, inconclusive_as: GateVerdict) -> Run {
        Run {
            gate: Some(GateResult {
                baseline: "the commit before".into(),
                max_loss: 0.05,
                claims: Vec::new(),
                verdict,
                inconclusive_as,
                obstacles: Vec::new(),
                notes: Vec::new(),
            }),
            ..Run::default()
        }
    }

    /// A run that tried the remedy of one finding, and could not tell what it did.
    fn undecided(confidence: Confidence) -> Run {
        let mut run = Run::default();
        run.findings.push(Finding {
            code: "OPC-01".into(),
            arm: String::new(),
            title: "OPcache is off".into(),
            layer: Layer::Php,
            seen: Vec::new(),
            refuted_by: String::new(),
            remedy: None,
            expected_gain: String::new(),
            confidence,
            weight: 1.0,
            source: String::new(),
            effects: Vec::new(),
        });
        run.decisions.push(Decision {
            code: "OPC-01".into(),
            layer: None,
            settings: Vec::new(),
            effect: Effect::default(),
            ..Decision::default()
        });
        run
    }

    #[test]
    fn a_run_that_ended_well_has_the_exit_code_of_what_it_found() {
        use GateVerdict::{Fail, Inconclusive, Pass};
        check(Run::default(), 0);
        check(undecided(Confidence::Noted), 0);
        check(undecided(Confidence::Suspected), 4);
        let mut failed = undecided(Confidence::Suspected);
        failed.decisions[0].failed = true;
        check(failed, 0);
        // A stack that does not answer is an error.
        let serving = |estimate: f64| Run {
            limits: vec![LimitResult {
                arm: "base".into(),
                rate_hz: Interval {
                    estimate,
                    ..Interval::default()
                },
                ..LimitResult::default()
            }],
            ..Run::default()
        };
        check(serving(0.0), 2);
        check(serving(40.0), 0);
        check(gated(Pass, Inconclusive), 0);
        check(gated(Fail, Inconclusive), 1);
        check(gated(Inconclusive, Inconclusive), 3);
        check(gated(Inconclusive, Pass), 0);
        check(gated(Inconclusive, Fail), 1);
        // What a gate says goes first: it was asked for.
        let gate = gated(Pass, Inconclusive).gate;
        check(
            Run {
                gate,
                ..undecided(Confidence::Suspected)
            },
            0,
        );
    }

    #[test]
    fn only_a_reader_that_has_left_is_no_failure_of_printing() {
        struct Broken(ErrorKind);
        impl Write for Broken {
            fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
                Err(self.0.into())
            }
            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }
        assert!(print_to(&mut Broken(ErrorKind::BrokenPipe), "R*").is_ok());
        assert!(print_to(&mut Broken(ErrorKind::StorageFull), "R*").is_err());
        let mut out = Vec::new();
        print_to(&mut out, "R*").expect("a vector takes all");
        assert_eq!(out, b"R*\n");
    }

    #[test]
    fn a_summary_leaves_the_reason_of_a_failure_to_standard_error() {
        let ended = |ended: &str| {
            let run = Run {
                ended: ended.into(),
                ..Run::default()
            };
            without_its_failure(&run).ended
        };
        assert_eq!(ended("failed: port 80 is taken"), "failed");
        assert_eq!(ended("interrupted"), "interrupted");
    }
}
