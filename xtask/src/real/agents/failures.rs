//! What becomes of a load when an agent, its network, the broker or the coordinator fails in the middle of it.

use super::stage::{Program, Stage};
use crate::program::load_point;
use anyhow::Context as _;
use kneepoint_experiment::RunStore;
use kneepoint_model::{LoadPoint, Validity};
use rustix::process::Signal;
use std::fmt::Write as _;
use std::fs;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// When the failure comes, after the load began.
const AT: Duration = Duration::from_secs(4);
/// How long a pause or a cut lasts.
const LASTS: Duration = Duration::from_secs(4);
const LENGTH_S: u32 = 12;
const RATE_HZ: u32 = 200;
const AGENTS: usize = 4;

/// A failure of the bench.
#[derive(Debug, Clone, Copy)]
pub(super) enum Failure {
    Killed,
    Paused,
    Cut,
    BrokerRestarted,
    CoordinatorKilled,
}

pub(super) const ALL: [Failure; 5] = [
    Failure::Killed,
    Failure::Paused,
    Failure::Cut,
    Failure::BrokerRestarted,
    Failure::CoordinatorKilled,
];

impl Failure {
    fn name(self) -> &'static str {
        match self {
            Self::Killed => "one of 4 agents is killed",
            Self::Paused => "one of 4 agents is stopped for 4 s (SIGSTOP)",
            Self::Cut => "the network of one of 4 agents is cut for 4 s",
            Self::BrokerRestarted => "nats-server is killed and started again",
            Self::CoordinatorKilled => "the coordinator is killed",
        }
    }

    /// Brings it about, and undoes what can be undone.
    fn strike(
        self,
        stage: &mut Stage,
        agents: &[Program],
        coordinator: &Program,
    ) -> anyhow::Result<()> {
        let victim = &agents[AGENTS - 1];
        match self {
            Self::Killed => victim.signal(Signal::KILL),
            Self::Paused => {
                victim.signal(Signal::STOP);
                thread::sleep(LASTS);
                victim.signal(Signal::CONT);
            }
            Self::Cut => {
                stage.cut(AGENTS - 1)?;
                thread::sleep(LASTS);
                stage.mend(AGENTS - 1)?;
            }
            Self::BrokerRestarted => {
                stage.kill_broker();
                stage.start_broker()?;
            }
            Self::CoordinatorKilled => coordinator.signal(Signal::KILL),
        }
        Ok(())
    }
}

/// Tries one, and tells what was said, lost and stopped.
pub(super) fn attempt(stage: &mut Stage, failure: Failure) -> anyhow::Result<String> {
    let agents = stage.agents(AGENTS)?;
    let _ = fs::remove_file(stage.result());
    let schedule = format!("const({RATE_HZ},{LENGTH_S})");
    let mut coordinator = Program::start(&mut stage.load("/", &schedule, Some(AGENTS), "even"))?;
    let begins = || {
        agents[0]
            .said
            .lines()
            .into_iter()
            .find(|(_, line)| line.contains("begins"))
    };
    let began = loop {
        if let Some((at, _)) = begins() {
            break at;
        }
        thread::sleep(Duration::from_millis(10));
    };
    thread::sleep((began + AT).saturating_duration_since(Instant::now()));
    let struck_s = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs_f64();
    failure.strike(stage, &agents, &coordinator)?;
    coordinator.wait(Duration::from_secs(60))?;
    if matches!(failure, Failure::CoordinatorKilled) {
        thread::sleep(Duration::from_secs(4));
    }
    let mut told = format!("{}\n", failure.name());
    let said = |told: &mut String, who: &str, program: &Program| {
        for (at, line) in program.said.lines() {
            let words = ["agent ", "broker", "stopped", "connect", "refuse"];
            if at >= began
                && words.iter().any(|word| line.contains(word))
                && !line.contains("requests, send lag")
            {
                let s = at.saturating_duration_since(began).as_secs_f64();
                let _ = writeln!(told, "  {s:6.2} s  {who}: {}", line.trim());
            }
        }
    };
    said(&mut told, "coordinator", &coordinator);
    said(&mut told, "agent g0", &agents[0]);
    said(&mut told, "agent g3", &agents[AGENTS - 1]);
    let last_s = stage.last_request_s()? - struck_s;
    let _ = writeln!(
        told,
        "          last request {last_s:+.2} s after the failure (planned {:+.0} s)",
        f64::from(LENGTH_S) - AT.as_secs_f64()
    );
    tell_outcome(&mut told, stage);
    Ok(told)
}

/// How much of the load there is, and whether it counts.
fn tell_outcome(told: &mut String, stage: &Stage) {
    match outcome(stage) {
        Ok((point, from)) => {
            let asked = RATE_HZ * LENGTH_S;
            let share = 100.0 * point.health.achieved_share;
            let _ = writeln!(
                told,
                "          {from}: {} of {asked} arrivals in {} s, achieved share {share:.1} %",
                point.arrivals, point.window_s
            );
            match point.validity {
                Validity::Valid => told.push_str("          the load counts\n"),
                Validity::Invalid { because } => {
                    for reason in because {
                        let _ = writeln!(told, "          invalid: {reason}");
                    }
                }
            }
        }
        Err(error) => {
            let _ = writeln!(told, "          no result: {error:#}");
        }
    }
}

/// What the load gave out at its end, or what its run file keeps of it.
fn outcome(stage: &Stage) -> anyhow::Result<(LoadPoint, &'static str)> {
    if let Ok(text) = fs::read_to_string(stage.result()) {
        return Ok((load_point(&text)?, "result"));
    }
    let files = RunStore::list(&stage.runs());
    let run = RunStore::read(files.last().context("there is no run file")?)?;
    let last = run.trials.last().context("the run file keeps nothing")?;
    Ok((last.load.clone(), "run file"))
}
