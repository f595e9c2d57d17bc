//! What every command that runs a scenario shares: read it, open the testbed, watch, write the results.

use crate::args::{OutputArgs, RunArgs};
use crate::progress::Terminal;
use crate::{FAILED, FOUND, INCONCLUSIVE, INTERRUPTED, UNDECIDED, config};
use anyhow::{Context as _, Result};
use kneepoint_experiment::{ExperimentError, Recorder, Testbed};
use kneepoint_model::{GateVerdict, Run, Scenario, Setting, SettingKey, units};
use kneepoint_report::{Format, Options, Styles, render};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

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
        format!("--set {text}: write LAYER.NAME=VALUE, such as php.pm.max_children=20")
    })?;
    let key: SettingKey = key
        .trim()
        .parse()
        .map_err(|error| anyhow::anyhow!("--set {text}: {error}"))?;
    let setting = Setting {
        key,
        value: value.trim().to_owned(),
    };
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
            format!(
                "--set {text}: {} has no setting `{}`",
                tier.server, setting.key.name
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
    loopback: bool,
    output: &OutputArgs,
    job: impl FnOnce(&mut Testbed, &mut Recorder<'_>) -> Result<(), ExperimentError>,
) -> Result<ExitCode> {
    let stop = stop_flag()?;
    watched(command, scenario, output, &stop, |terminal, recorder| {
        recorder.progress(
            "checking the load generator against a null server",
            0.0,
            None,
        );
        let observer = Arc::<Terminal>::clone(terminal);
        let mut testbed = Testbed::open(scenario, loopback, Arc::clone(&stop), observer)?;
        for note in testbed.notes() {
            recorder.warn(note.clone());
        }
        recorder.machine(testbed.machine().clone());
        let outcome = job(&mut testbed, recorder);
        recorder.progress("stopping the stack", 1.0, None);
        testbed.close();
        outcome
    })
}

/// Stands the scenario's stack up as the arm `base`, and writes down what it is.
///
/// # Errors
/// As [`Testbed::stand_up`].
pub fn stand_up(
    testbed: &mut Testbed,
    recorder: &mut Recorder<'_>,
    scenario: &Scenario,
) -> Result<(), ExperimentError> {
    recorder.stage("Stand up the stack");
    testbed.stand_up("base", scenario)?;
    recorder.base(testbed.stack("base")?.clone());
    Ok(())
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
        Err(error) => format!("failed: {error}"),
    };
    terminal.finish();
    let incomplete = recorder.store_error().map(str::to_owned);
    let run = recorder.end(&ended);
    write_results(&run, output, path.as_deref(), &terminal)?;
    if let Some(error) = incomplete {
        terminal.line(&format!("kneepoint: the run file is incomplete: {error}"));
        return Ok(ExitCode::from(FAILED));
    }
    match outcome {
        _ if interrupted => Ok(ExitCode::from(INTERRUPTED)),
        Ok(()) => Ok(judged(&run)),
        Err(error) => {
            terminal.line(&format!("kneepoint: {error}"));
            Ok(ExitCode::from(FAILED))
        }
    }
}

/// The exit code of a run that went well: what its gate says, where it has one; that remedies could not be judged, where it
/// tried some.
fn judged(run: &Run) -> ExitCode {
    match run
        .gate
        .as_ref()
        .map(kneepoint_model::GateResult::counts_as)
    {
        None if !run.undecided().is_empty() => ExitCode::from(UNDECIDED),
        None | Some(GateVerdict::Pass) => ExitCode::SUCCESS,
        Some(GateVerdict::Fail) => ExitCode::from(FOUND),
        Some(GateVerdict::Inconclusive) => ExitCode::from(INCONCLUSIVE),
    }
}

fn write_results(
    run: &Run,
    output: &OutputArgs,
    path: Option<&Path>,
    terminal: &Terminal,
) -> Result<()> {
    let mut files: Vec<(String, String)> = Vec::new();
    if let Some(path) = path {
        files.push(("run file".into(), path.display().to_string()));
    }
    if !output.no_report {
        let page = output.runs.join(format!("{}.html", run.id));
        match std::fs::write(&page, rendered(run, "html", &Options::default())?) {
            Ok(()) => files.push(("report".into(), page.display().to_string())),
            Err(error) => terminal.line(&format!(
                "kneepoint: cannot write the report {}: {error}",
                page.display()
            )),
        }
    }
    let asked = [
        ("json", &output.json),
        ("markdown", &output.markdown),
        ("junit", &output.junit),
    ];
    let asked = asked.map(|(format, target)| Some((format, target.as_deref()?)));
    for (format, target) in asked.into_iter().flatten() {
        write_text(target, &rendered(run, format, &Options::default())?)?;
    }
    if !asked
        .into_iter()
        .flatten()
        .any(|(_, target)| target == Path::new("-"))
    {
        print(&rendered(
            run,
            "terminal",
            &Options {
                styles: styles(),
                files,
                against: None,
            },
        )?)?;
    }
    Ok(())
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

/// Writes text to a file, or to standard output for `-`.
///
/// # Errors
/// The file cannot be written.
pub fn write_text(target: &Path, text: &str) -> Result<()> {
    if target == Path::new("-") {
        return print(text);
    }
    std::fs::write(target, text).with_context(|| format!("cannot write {}", target.display()))
}

/// Prints to standard output.
///
/// # Errors
/// Standard output is gone.
pub fn print(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    if !text.ends_with('\n') {
        out.write_all(b"\n")?;
    }
    out.flush()?;
    Ok(())
}
