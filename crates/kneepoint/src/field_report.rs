//! Reads a field report's file (`scenarios/field-reports/*.toml`) into what is to be replayed.
//!
//! A report names a scenario, the loads that its authors drove in the syntax of their tool, and the stages they went
//! through, each a piece of TOML laid over the one before. It says what they measured, which cause they found, and what
//! they claim. It starts nothing and measures nothing.

use crate::config::{self, Patch};
use anyhow::{Context as _, Result, anyhow, bail};
use kneepoint_diagnosis::RULES;
use kneepoint_experiment::sequences::compare::variants::on_runtime;
use kneepoint_experiment::sequences::replay::{Offered, Played, Staged};
use kneepoint_model::capacity::Population;
use kneepoint_model::replay::{Claim, Gap, Measure, Needs, PlayedLoad, Replay, Stage};
use kneepoint_model::{Layer, Scenario, units};
use kneepoint_planner::capacity::Asked;
use kneepoint_schedules::{Imported, ImportedLoad};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// Longest turn of a load.
const LONGEST: Duration = Duration::from_secs(600);
/// How long a closed loop may take in a turn where the file does not say.
const USUAL: &str = "20s";
/// Most rounds.
const MOST_ROUNDS: u32 = 100;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    report: String,
    title: String,
    told: String,
    scenario: String,
    #[serde(default)]
    differs: Vec<String>,
    #[serde(default)]
    overlay: toml::Table,
    load: Vec<LoadText>,
    stage: Vec<StageText>,
    #[serde(default)]
    claim: Vec<ClaimText>,
    #[serde(default)]
    gap: Vec<GapText>,
    hosts: Option<HostsText>,
    plan: Option<PlanText>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LoadText {
    name: String,
    text: String,
    rounds: u32,
    longest: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StageText {
    name: String,
    did: String,
    #[serde(default)]
    reported: BTreeMap<Measure, f64>,
    cause: Option<Vec<String>>,
    #[serde(default)]
    also: Vec<String>,
    runtime: Option<String>,
    /// Settings of that runtime.
    #[serde(default)]
    settings: BTreeMap<String, String>,
    #[serde(default)]
    overlay: toml::Table,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ClaimText {
    what: String,
    measure: Measure,
    /// Under which load; the first when left out.
    load: Option<String>,
    from: String,
    to: String,
    /// What the report says one is of the other, where that is not what it says of the stages.
    reported_ratio: Option<f64>,
    needs: Needs,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GapText {
    what: String,
    measure: Measure,
    stages: [String; 3],
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HostsText {
    before: f64,
    after: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PlanText {
    users: f64,
    think: String,
    requests_per_page: f64,
}

/// Reads a report's file, with the scenario that its first stage is.
///
/// # Errors
/// The file, its scenario or a stage is wrong; the message says which and what to write instead.
pub fn read(path: &Path) -> Result<(Played, Scenario)> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("cannot read the field report {}", path.display()))?;
    parse(&text, path).with_context(|| format!("the field report {}", path.display()))
}

fn parse(text: &str, path: &Path) -> Result<(Played, Scenario)> {
    let file: File = toml::from_str(text)?;
    let loads = file.load.iter().map(offered).collect::<Result<Vec<_>>>()?;
    let stages = staged(&file, path)?;
    let Some(first) = stages.first().filter(|_| !loads.is_empty()) else {
        bail!("it needs a [[stage]] and a [[load]] at least");
    };
    let scenario = Scenario {
        name: file.report.clone(),
        ..first.scenario.clone()
    };
    let replay = described(&file)?;
    let positive = |number: f64| number.is_finite() && number > 0.0;
    let hosts = file.hosts.map(|hosts| (hosts.before, hosts.after));
    if hosts.is_some_and(|(before, after)| !positive(before) || !positive(after)) {
        bail!("[hosts]: write numbers above 0");
    }
    let asked = file.plan.map(|plan| {
        let think = units::parse_duration(&plan.think).context("[plan] think")?;
        if !positive(plan.users) || !positive(plan.requests_per_page) {
            bail!("[plan]: write numbers above 0");
        }
        Ok(Asked::Users(Population {
            users: plan.users,
            think_s: think.as_secs_f64(),
            requests_per_page: plan.requests_per_page,
            peak: 1.0,
        }))
    });
    let played = Played {
        replay,
        stages,
        loads,
        hosts,
        asked: asked.transpose()?,
    };
    Ok((played, scenario))
}

fn offered(load: &LoadText) -> Result<Offered> {
    let place = || format!("[[load]] `{}`", load.name);
    let imported: Imported = load
        .text
        .parse()
        .map_err(|error| anyhow!("{error}"))
        .with_context(place)?;
    let longest = load.longest.as_deref().unwrap_or(USUAL);
    let longest = units::parse_duration(longest).with_context(place)?;
    if longest.is_zero() || longest > LONGEST {
        bail!(
            "{}: `longest` is above 0 and at most {} s",
            place(),
            LONGEST.as_secs()
        );
    }
    if let ImportedLoad::Open { schedule, .. } = &imported.load
        && schedule.duration() > LONGEST
    {
        bail!("{}: a turn takes {} s at most", place(), LONGEST.as_secs());
    }
    if !(1..=MOST_ROUNDS).contains(&load.rounds) {
        bail!("{}: `rounds` is 1 to {MOST_ROUNDS}", place());
    }
    Ok(Offered {
        profile: imported.load,
        longest,
    })
}

/// The stages' stacks: each overlay is laid over all before it.
fn staged(file: &File, path: &Path) -> Result<Vec<Staged>> {
    let dir = path.parent().unwrap_or(Path::new("."));
    let base = dir.join(&file.scenario);
    let mut texts = vec![("[overlay]".to_owned(), file.overlay.to_string())];
    let mut stages: Vec<Staged> = Vec::new();
    for stage in &file.stage {
        let name = format!("[[stage]] `{}`", stage.name);
        texts.push((name.clone(), stage.overlay.to_string()));
        let patches: Vec<Patch<'_>> = texts
            .iter()
            .map(|(name, text)| Patch { name, dir, text })
            .collect();
        let mut scenario =
            config::load_with_patches(&base, &patches).map_err(|errors| anyhow!("{errors}"))?;
        if let Some(runtime) = &stage.runtime {
            scenario = on_runtime(&scenario, runtime).context(name.clone())?.0;
            set(&mut scenario, runtime, &stage.settings).context(name.clone())?;
        } else if !stage.settings.is_empty() {
            bail!(
                "{name}: `settings` are those of another `runtime`, and none is named; use overlay.stack"
            );
        }
        if stages
            .first()
            .is_some_and(|first| first.scenario.slo != scenario.slo)
        {
            bail!("{name}: another [slo] than that of the first stage; all are judged alike");
        }
        for code in stage.cause.iter().flatten().chain(&stage.also) {
            if !RULES.iter().any(|rule| rule.code == code) {
                bail!("{name}: there is no rule `{code}`; `kneepoint rules` lists them");
            }
        }
        stages.push(Staged {
            scenario,
            cause: stage.cause.clone(),
            also: stage.also.clone(),
        });
    }
    Ok(stages)
}

/// Sets what a runtime has, and PHP on it.
fn set(scenario: &mut Scenario, runtime: &str, settings: &BTreeMap<String, String>) -> Result<()> {
    let known = kneepoint_stack::server(runtime)?.tunables(Layer::Php, "");
    for name in settings.keys() {
        if !known.iter().any(|tunable| tunable.name == *name) {
            let names: Vec<&str> = known.iter().map(|tunable| tunable.name.as_str()).collect();
            bail!(
                "{runtime} has no setting `{name}`; it has {}",
                names.join(", ")
            );
        }
    }
    let mut tiers = scenario.tiers.iter_mut();
    if let Some(php) = tiers.find(|tier| tier.layer == Layer::Php) {
        php.settings.extend(settings.clone());
    }
    Ok(())
}

/// The report without what is to be measured.
fn described(file: &File) -> Result<Replay> {
    let stages: Vec<Stage> = file.stage.iter().map(stage).collect();
    for (at, stage) in stages.iter().enumerate() {
        if stages[..at].iter().any(|other| other.name == stage.name) {
            bail!("two stages are called `{}`", stage.name);
        }
    }
    let find = |place: &str, name: &str| {
        let found = stages.iter().find(|stage| stage.name == name);
        found.with_context(|| format!("{place}: there is no stage `{name}`"))
    };
    let mut claims = Vec::new();
    for claim in &file.claim {
        let place = format!("[[claim]] `{}`", claim.what);
        let reported =
            |name: &str| Ok::<_, anyhow::Error>(find(&place, name)?.reported.get(&claim.measure));
        let (from, to) = (reported(&claim.from)?, reported(&claim.to)?);
        let ratio = from.zip(to).filter(|(from, _)| **from > 0.0);
        let load = match &claim.load {
            None => 0,
            Some(name) => file
                .load
                .iter()
                .position(|load| load.name == *name)
                .with_context(|| format!("{place}: there is no load `{name}`"))?,
        };
        // What stages report is of the first load.
        let ratio = ratio.filter(|_| load == 0).map(|(from, to)| to / from);
        claims.push(Claim {
            what: claim.what.clone(),
            measure: claim.measure,
            load,
            from: claim.from.clone(),
            to: claim.to.clone(),
            needs: claim.needs,
            reported_ratio: claim.reported_ratio.or(ratio),
            measured_ratio: None,
            measured: (None, None),
            is_met: None,
        });
    }
    let mut gaps = Vec::new();
    for gap in &file.gap {
        for name in &gap.stages {
            find(&format!("[[gap]] `{}`", gap.what), name)?;
        }
        gaps.push(Gap {
            what: gap.what.clone(),
            measure: gap.measure,
            stages: gap.stages.clone(),
            share: None,
        });
    }
    Ok(Replay {
        report: file.report.clone(),
        title: file.title.clone(),
        told: file.told.trim().to_owned(),
        differs: file.differs.clone(),
        loads: file.load.iter().map(load).collect(),
        stages,
        claims,
        gaps,
        hosts: None,
    })
}

fn stage(text: &StageText) -> Stage {
    Stage {
        name: text.name.clone(),
        did: text.did.clone(),
        reported: text.reported.clone(),
        ..Stage::default()
    }
}

fn load(text: &LoadText) -> PlayedLoad {
    PlayedLoad {
        name: text.name.clone(),
        text: text.text.clone(),
        rounds: text.rounds,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = r#"
report = "T1"
title = "A test"
told = "It was slow."
scenario = "apps/plain/kneepoint.toml"

[[load]]
name = "users"
text = "ab -n 100 -c 10"
rounds = 6
longest = "5s"

[[stage]]
name = "before"
did = "nothing"
reported = { throughput_hz = 33 }
cause = ["OPC-01"]
overlay.stack.php.settings = { "opcache.enable" = "0" }

[[stage]]
name = "after"
did = "OPcache on"
reported = { throughput_hz = 310 }
overlay.stack.php.settings = { "opcache.enable" = "1" }

[[claim]]
what = "served"
measure = "throughput_hz"
from = "before"
to = "after"
needs = { ratio_at_least = 9.0 }
"#;

    fn parsed(text: &str) -> Result<(Played, Scenario)> {
        // Paths are relative to the source tree.
        let tree = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        parse(text, &tree.join("report.toml"))
    }

    #[test]
    fn a_report_is_read() {
        let (played, scenario) = parsed(REPORT).expect("the report is right");
        assert_eq!(scenario.name, "T1");
        assert_eq!(played.stages.len(), 2);
        let setting = |nth: usize| {
            let tiers = &played.stages[nth].scenario.tiers;
            let php = tiers
                .iter()
                .find(|tier| tier.settings.contains_key("opcache.enable"));
            php.and_then(|tier| tier.settings.get("opcache.enable").cloned())
        };
        assert_eq!(setting(0).as_deref(), Some("0"));
        assert_eq!(setting(1).as_deref(), Some("1"));
        let ratio = played.replay.claims[0]
            .reported_ratio
            .expect("both are reported");
        assert!((ratio - 310.0 / 33.0).abs() < 1e-9);
        assert_eq!(played.loads[0].longest, Duration::from_secs(5));
    }

    #[test]
    fn a_claim_names_its_load() {
        let claim = |load: &str| {
            let more = format!("load = \"{load}\"\nreported_ratio = 1.5\nneeds =");
            parsed(&REPORT.replace("needs =", &more))
        };
        let (played, _) = claim("users").expect("there is such a load");
        let claim_read = &played.replay.claims[0];
        assert_eq!((claim_read.load, claim_read.reported_ratio), (0, Some(1.5)));
        let error = claim("robots").expect_err("there is none");
        assert!(format!("{error:#}").contains("there is no load `robots`"));
    }

    #[test]
    fn every_report_of_the_tree_is_right() {
        let reports = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/field-reports");
        let mut count = 0;
        for entry in std::fs::read_dir(reports).expect("there are reports") {
            let path = entry.expect("an entry").path();
            if path.extension().is_some_and(|end| end == "toml") {
                read(&path).unwrap_or_else(|error| panic!("{error:#}"));
                count += 1;
            }
        }
        assert_eq!(count, 5);
    }

    #[test]
    fn what_is_wrong_is_said() {
        let check = |from: &str, to: &str, words: &str| {
            let error = parsed(&REPORT.replace(from, to)).expect_err(to);
            let said = format!("{error:#}");
            assert!(said.contains(words), "expected `{words}` in: {said}");
        };
        check(
            "to = \"after\"",
            "to = \"later\"",
            "there is no stage `later`",
        );
        check("\"OPC-01\"", "\"OPC-99\"", "there is no rule `OPC-99`");
        check("ab -n 100 -c 10", "ab -n many", "`users`");
        check("rounds = 6", "rounds = 0", "`rounds` is 1 to 100");
        check("longest = \"5s\"", "longest = \"2h\"", "at most 600 s");
        check(
            "name = \"after\"",
            "name = \"before\"",
            "two stages are called `before`",
        );
        check(
            "did = \"nothing\"",
            "done = \"nothing\"",
            "unknown field `done`",
        );
        check(
            "throughput_hz = 33",
            "speed = 33",
            "unknown variant `speed`",
        );
        check(
            "\"opcache.enable\" = \"1\"",
            "\"opcache.on\" = \"1\"",
            "opcache.on",
        );
        check("kneepoint.toml", "missing.toml", "missing.toml");
    }
}
