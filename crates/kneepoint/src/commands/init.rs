//! `kneepoint init`: a first scenario, from looking at the application, in the lab too.

use crate::args::InitArgs;
use crate::init::{self, InitFacts, Visit, VisitOutcome};
use crate::progress::Terminal;
use crate::{FOUND, INTERRUPTED, session};
use anyhow::{Context as _, Result, bail};
use kneepoint_experiment::testbed::Advice;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

pub(super) fn run(args: &InitArgs) -> Result<ExitCode> {
    let root = args
        .root
        .canonicalize()
        .with_context(|| format!("cannot look at {}", args.root.display()))?;
    let target = root.join("kneepoint.toml");
    if target.exists() && !args.print {
        bail!("{}", is_there(&target));
    }
    let terminal = Arc::new(Terminal::new());
    let mut facts = init::look(&root)?;
    tell_facts(&terminal, &facts);
    let stop = session::stop_flag()?;
    let outcome = (!args.no_visit).then(|| visit(args, &root, &mut facts, &terminal, &stop));
    terminal.finish();
    if stop.load(Ordering::Relaxed) {
        return Ok(ExitCode::from(INTERRUPTED));
    }
    let outcome = outcome.transpose()?;
    let text = init::draft(&facts, outcome.as_ref());
    let failure = outcome
        .as_ref()
        .and_then(|outcome| outcome.failure.as_deref());
    if args.print {
        session::print(&text)?;
    } else {
        session::write_text(&target, &text)?;
        session::print(&next_step(&target, failure.is_some()))?;
    }
    match failure {
        None => Ok(ExitCode::SUCCESS),
        Some(failure) => {
            terminal.line(&format!("kneepoint: {failure}"));
            Ok(ExitCode::from(FOUND))
        }
    }
}

fn next_step(target: &Path, failed: bool) -> String {
    let target = target.display();
    match failed {
        false => format!("wrote {target}; look it over, then run: kneepoint tune {target}"),
        true => format!(
            "wrote {target}, but the application does not answer in the lab yet: see the next line. Mend the application, \
             remove that file and run init again; or mend the file, and try it without load: kneepoint lab up {target}"
        ),
    }
}

/// What to do about a scenario that is there already: one that init left as not ready may be tried, or written anew.
fn is_there(target: &Path) -> String {
    let text = std::fs::read_to_string(target).unwrap_or_default();
    let target = target.display();
    match text.contains(init::NOT_READY) {
        true => format!(
            "{target} is there already, and says that the application did not answer. Remove it to have another one \
             written; or mend it, and try it without load: kneepoint lab up {target}"
        ),
        false => format!(
            "{target} is there already; remove it, or use --print to see what would be written"
        ),
    }
}

fn tell_facts(terminal: &Terminal, facts: &InitFacts) {
    terminal.line(&format!("{}, front controller {}", facts.name, facts.front));
    if let Some(engine) = facts.engine {
        let told = facts
            .told_in
            .as_ref()
            .map_or(String::new(), |file| format!(", as {file} says"));
        terminal.line(&format!("database: {}{told}", engine.title()));
    }
    if let Some(seed) = &facts.seed {
        terminal.line(&format!("seed: {}, {}", seed.path, seed.why));
    }
    if facts.redis {
        terminal.line("cache: Redis, as its settings say");
    }
    for note in &facts.notes {
        terminal.line(&format!("note: {note}"));
    }
}

/// Visits the application, and tells what came of it. A site that sends everybody away who does not come over TLS is visited once
/// more, as if the visitor did.
fn visit(
    args: &InitArgs,
    root: &Path,
    facts: &mut InitFacts,
    terminal: &Arc<Terminal>,
    stop: &Arc<AtomicBool>,
) -> Result<VisitOutcome> {
    terminal.line("visiting it in the lab ...");
    let mut outcome = look_round(args, root, facts, terminal, stop)?;
    if outcome.wants_tls && facts.come_over_tls() {
        terminal.line("it sends visitors to https: visiting it once more with HTTPS = \"on\" ...");
        outcome = look_round(args, root, facts, terminal, stop)?;
    }
    tell_outcome(terminal, &outcome);
    Ok(outcome)
}

fn look_round(
    args: &InitArgs,
    root: &Path,
    facts: &InitFacts,
    terminal: &Arc<Terminal>,
    stop: &Arc<AtomicBool>,
) -> Result<VisitOutcome> {
    let draft = init::draft(facts, None);
    let asked = Visit {
        draft: &draft,
        dir: root,
        needs: &facts.needs,
        hosts: &facts.hosts,
        loopback: args.loopback,
    };
    let observer = Arc::<Terminal>::clone(terminal);
    init::visit(&asked, stop, observer)
}

fn tell_outcome(terminal: &Terminal, outcome: &VisitOutcome) {
    for told in &outcome.told {
        terminal.line(told);
    }
    for outsider in &outcome.outsiders {
        let what = match outsider.advice() {
            Advice::Double(..) => "a [[peer]] stands for it",
            Advice::Tier(_) => {
                "[app] unreachable names it; the lab has one of its kind, and it says there how to use it"
            }
            Advice::Unreachable(_) => "[app] unreachable names it",
        };
        terminal.line(&format!(
            "it tries to reach {}: in the scenario, {what}",
            outsider.describe()
        ));
    }
    for page in &outcome.pages {
        let mark = page.mark.as_deref();
        let mark = mark.unwrap_or("nothing in it tells it from an error page");
        terminal.line(&format!(
            "  GET {}: {mark}; {}",
            page.path,
            init::took(page)
        ));
    }
}
