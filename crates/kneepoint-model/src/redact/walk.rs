//! Visits every text of a run. The record is taken apart field by field, so that a field added to it does not
//! compile until somebody decided here whether it can hold a secret.

use super::names::{is_harmless_field, is_harmless_header};
use super::scan::{Grammar, is_placeholder};
use super::{HIDDEN, Secrets};
use crate::mending::Mending;
use crate::replay::{Replay, Stage};
use crate::run::{Decision, FileDiff, LimitResult, Observation};
use crate::scenario::FilePatch;
use crate::{
    Account, AppSetting, Body, CallTrace, CapacityPlan, CaptureFrom, Change, Contest, Effect,
    Expect, Finding, GateResult, HeaderExpectation, JobSpec, JournalEntry, Layer, LoadPoint,
    PartContent, Place, Request, Run, Scenario, SeriesSet, Setting, SettingKey, Stack,
    StackProfile, Trial, Tunable, Validity, ValueKind,
};
use std::collections::BTreeMap;

/// A part of the record that texts can be taken out of.
pub trait Redact {
    /// Replaces every secret in it by [`HIDDEN`].
    fn redact(&mut self, secrets: &Secrets);
}

macro_rules! redacts {
    ($($part:ty => $walk:path),* $(,)?) => {
        $(impl Redact for $part {
            fn redact(&mut self, secrets: &Secrets) {
                $walk(self, secrets);
            }
        })*
    };
}

redacts! {
    Run => run,
    Request => request,
    Stack => stack,
    JournalEntry => entry,
    Trial => trial,
    LoadPoint => load,
    SeriesSet => labels,
    LimitResult => limit,
    Observation => observation,
    CallTrace => trace,
    StackProfile => profile,
    Account => account,
    Finding => finding,
    Mending => mending,
    Decision => decision,
    Effect => effect,
    FileDiff => diff,
    GateResult => gate,
    CapacityPlan => plan,
    Contest => contest,
    Replay => replay,
}

impl<T: Redact> Redact for [T] {
    fn redact(&mut self, secrets: &Secrets) {
        self.iter_mut().for_each(|it| it.redact(secrets));
    }
}

fn entry(JournalEntry { text, .. }: &mut JournalEntry, secrets: &Secrets) {
    secrets.prose(text);
}

fn trial(trial: &mut Trial, secrets: &Secrets) {
    load(&mut trial.load, secrets);
}

fn limit(LimitResult { warnings, .. }: &mut LimitResult, secrets: &Secrets) {
    warnings.iter_mut().for_each(|text| secrets.prose(text));
}

fn diff(FileDiff { diff, .. }: &mut FileDiff, secrets: &Secrets) {
    secrets.hide(diff, Grammar::Configuration);
}

fn mending(Mending { steps, .. }: &mut Mending, secrets: &Secrets) {
    steps
        .iter_mut()
        .for_each(|step| secrets.prose(&mut step.title));
}

fn plan(CapacityPlan { doubts, .. }: &mut CapacityPlan, secrets: &Secrets) {
    doubts.iter_mut().for_each(|text| secrets.prose(text));
}

fn run(run: &mut Run, secrets: &Secrets) {
    let Run {
        version: _,
        id: _,
        command: _,
        tool_version: _,
        started_at: _,
        elapsed_s: _,
        ended,
        machine: _,
        scenario: asked,
        base,
        best,
        journal,
        trials,
        limits,
        observations,
        calls,
        stacks,
        accounts,
        findings,
        mendings,
        decisions,
        proof,
        restarted,
        diff: files,
        gate: asked_gate,
        capacity,
        contest: compared,
        replay: replayed,
    } = run;
    secrets.prose(ended);
    asked.iter_mut().for_each(|asked| scenario(asked, secrets));
    [base, best]
        .into_iter()
        .flatten()
        .for_each(|it| stack(it, secrets));
    journal.redact(secrets);
    trials.redact(secrets);
    limits.redact(secrets);
    observations
        .iter_mut()
        .for_each(|it| observation(it, secrets));
    calls.iter_mut().for_each(|it| trace(it, secrets));
    stacks.iter_mut().for_each(|it| profile(it, secrets));
    accounts.iter_mut().for_each(|it| account(it, secrets));
    mendings.iter_mut().for_each(|it| mending(it, secrets));
    findings.iter_mut().for_each(|it| finding(it, secrets));
    decisions.iter_mut().for_each(|it| decision(it, secrets));
    [proof, restarted]
        .into_iter()
        .flatten()
        .for_each(|it| effect(it, secrets));
    files.redact(secrets);
    asked_gate.iter_mut().for_each(|it| gate(it, secrets));
    capacity.iter_mut().for_each(|it| plan(it, secrets));
    compared.iter_mut().for_each(|it| contest(it, secrets));
    replayed.iter_mut().for_each(|it| replay(it, secrets));
}

fn decision(decision: &mut Decision, secrets: &Secrets) {
    settings(&mut decision.settings, secrets);
    effect(&mut decision.effect, secrets);
    decision
        .leave_one_out
        .iter_mut()
        .for_each(|it| effect(it, secrets));
    secrets.prose(&mut decision.reason);
}

/// What was found, and what a server said when it died.
fn replay(Replay { stages, .. }: &mut Replay, secrets: &Secrets) {
    for Stage {
        diagnosed,
        last_words,
        ..
    } in stages
    {
        last_words.iter_mut().for_each(|it| secrets.prose(it));
        let found = diagnosed.iter_mut().flat_map(|it| &mut it.found);
        found.for_each(|it| secrets.prose(&mut it.seen));
    }
}

/// What was changed, and what a server said when it died.
fn contest(Contest { contestants, .. }: &mut Contest, secrets: &Secrets) {
    for it in contestants {
        settings(&mut it.tuned, secrets);
        it.against_first
            .iter_mut()
            .for_each(|it| effect(it, secrets));
        it.last_words.iter_mut().for_each(|it| secrets.prose(it));
    }
}

/// Values are not in the record, but a path may hold one that is known.
fn trace(trace: &mut CallTrace, secrets: &Secrets) {
    let CallTrace {
        arm: _,
        php: _,
        routes,
        calls,
        notes,
    } = trace;
    notes.iter_mut().for_each(|text| secrets.prose(text));
    let routes = routes.iter_mut().map(|traced| &mut traced.route);
    routes.for_each(|route| secrets.prose(route));
    for call in calls {
        for text in [&mut call.what, &mut call.route, &mut call.peer] {
            secrets.prose(text);
        }
    }
}

fn profile(profile: &mut StackProfile, secrets: &Secrets) {
    let StackProfile {
        places,
        stacks,
        notes,
        slow,
        ..
    } = profile;
    notes.iter_mut().for_each(|text| secrets.prose(text));
    for at in places {
        // The outermost place of a request is its route.
        match at.function.contains(" /") {
            true => secrets.prose(&mut at.function),
            false => place(at, secrets),
        }
    }
    let slow = slow.iter_mut().flat_map(|slow| &mut slow.met);
    let routes = stacks.iter_mut().map(|met| &mut met.route);
    routes
        .chain(slow.map(|met| &mut met.route))
        .for_each(|route| secrets.prose(route));
}

/// Where the CPU and the time went. Names of functions and files hold no values, but a path may hold one that is known.
fn account(account: &mut Account, secrets: &Secrets) {
    let Account {
        time, notes, code, ..
    } = account;
    notes.iter_mut().for_each(|text| secrets.prose(text));
    for part in time {
        secrets.prose(&mut part.what);
        let lines = part.lines.iter_mut();
        lines.for_each(|line| place(&mut line.place, secrets));
    }
    if let Some(code) = code {
        let owners = code.owners.iter_mut();
        owners.for_each(|one| secrets.known(&mut one.owner.name));
        let files = code.files.iter_mut();
        files.for_each(|one| secrets.known(&mut one.file));
        for one in &mut code.functions {
            secrets.known(&mut one.owner.name);
            let places = [&mut one.place].into_iter().chain(&mut one.caller);
            places.for_each(|at| place(at, secrets));
        }
    }
}

fn place(place: &mut Place, secrets: &Secrets) {
    secrets.known(&mut place.function);
    place.file.iter_mut().for_each(|file| secrets.known(file));
}

fn gate(gate: &mut GateResult, secrets: &Secrets) {
    let GateResult {
        baseline,
        max_loss: _,
        claims,
        verdict: _,
        inconclusive_as: _,
        obstacles,
        notes,
    } = gate;
    secrets.prose(baseline);
    for claim in claims {
        secrets.prose(&mut claim.conditions);
    }
    obstacles
        .iter_mut()
        .chain(notes)
        .for_each(|text| secrets.prose(text));
}

fn values(layer: Option<Layer>, values: &mut BTreeMap<String, String>, secrets: &Secrets) {
    for (name, value) in values {
        match layer.map(|layer| SettingKey::new(layer, name)) {
            Some(key) => setting(&key, value, secrets),
            None => secrets.value(name, value),
        }
    }
}

fn settings(settings: &mut [Setting], secrets: &Secrets) {
    for Setting { key, value } in settings {
        setting(key, value, secrets);
    }
}

/// The name of a change says what it is made to, an index of tokens too: its text is hidden by what stands in it.
fn setting(key: &SettingKey, value: &mut String, secrets: &Secrets) {
    match Change::of(key) {
        Some(Change::Line { .. }) => secrets.hide(value, Grammar::Configuration),
        Some(Change::Statement { .. } | Change::Command { .. }) => secrets.prose(value),
        None => secrets.value(&key.name, value),
    }
}

fn scenario(scenario: &mut Scenario, secrets: &Secrets) {
    let Scenario {
        name: _,
        root: _,
        front: _,
        kind: _,
        env,
        app_settings,
        app_files,
        changes,
        unreachable: _,
        generators: _,
        peers,
        jobs,
        tiers,
        hosts,
        workload,
        slo: _,
        budget: _,
    } = scenario;
    for (name, value) in env {
        secrets.variable(name, value);
    }
    for AppSetting { name, env, values } in app_settings {
        let secret = if secrets.is_secret(env) { env } else { name };
        values
            .iter_mut()
            .for_each(|value| secrets.value(secret, value));
    }
    for FilePatch { find, text, .. } in app_files {
        find.iter_mut()
            .for_each(|text| secrets.hide(text, Grammar::Configuration));
        secrets.hide(text, Grammar::Configuration);
    }
    for (key, text) in changes {
        setting(key, text, secrets);
    }
    for peer in peers {
        // What the real one answers may stand here.
        if !peer.body.is_empty() {
            peer.body = format!("{HIDDEN} ({} bytes)", peer.body.len());
        }
    }
    jobs.iter_mut().for_each(job);
    for tier in tiers {
        values(None, &mut tier.settings, secrets);
    }
    for host in hosts.values_mut() {
        values(None, &mut host.sysctl, secrets);
    }
    workload
        .requests
        .iter_mut()
        .for_each(|it| request(it, secrets));
}

/// Takes the command out of a job: a password may stand in it as a word of its own. A hidden one stays as it is.
pub(crate) fn job(job: &mut JobSpec) {
    if !job.run.starts_with(HIDDEN) {
        job.run = format!("{HIDDEN} ({} bytes)", job.run.len());
    }
}

fn request(request: &mut Request, secrets: &Secrets) {
    let Request {
        name: _,
        path,
        weight: _,
        method: _,
        headers,
        body: carried,
        expect,
        session: _,
        captures,
        client_mbit: _,
    } = request;
    secrets.prose(path);
    for (name, value) in headers {
        secrets.unless(is_harmless_header(name), name, value);
    }
    carried.iter_mut().for_each(|it| body(it, secrets));
    let Expect {
        status: _,
        headers,
        body_contains,
        body_lacks,
        body_min_bytes: _,
    } = expect;
    for HeaderExpectation { name, contains } in headers {
        secrets.value(name, contains);
    }
    let texts = body_contains.iter_mut().chain(body_lacks);
    texts.for_each(|text| secrets.prose(text));
    for capture in captures {
        if let CaptureFrom::BodyBetween { before, after } = &mut capture.from {
            secrets.prose(before);
            secrets.prose(after);
        }
    }
}

fn body(body: &mut Body, secrets: &Secrets) {
    match body {
        // How long it is tells another body from the same one.
        Body::Text(text) | Body::Json(text) => {
            if !is_placeholder(text) && !text.starts_with(HIDDEN) && !text.is_empty() {
                *text = format!("{HIDDEN} ({} bytes)", text.len());
            }
        }
        Body::Form(fields) => {
            for (name, value) in fields {
                secrets.unless(is_harmless_field(name), name, value);
            }
        }
        Body::Multipart(parts) => {
            for part in parts {
                // A file's content is not in the record.
                if let PartContent::Value(value) = &mut part.content {
                    secrets.unless(is_harmless_field(&part.name), &part.name, value);
                }
            }
        }
        // Bytes cannot be searched for names, so none of them may go out.
        Body::Bytes(bytes) => bytes.clear(),
        Body::File(_) => {}
    }
}

fn stack(stack: &mut Stack, secrets: &Secrets) {
    for tier in &mut stack.tiers {
        values(Some(tier.layer), &mut tier.settings, secrets);
        tier.tunables.iter_mut().for_each(|it| tunable(it, secrets));
    }
    values(Some(Layer::App), &mut stack.app_values, secrets);
    stack
        .app_settings
        .iter_mut()
        .for_each(|it| tunable(it, secrets));
}

fn tunable(tunable: &mut Tunable, secrets: &Secrets) {
    let name = &tunable.name;
    tunable
        .default
        .iter_mut()
        .for_each(|value| secrets.value(name, value));
    if let ValueKind::Choice { of } = &mut tunable.values {
        of.iter_mut().for_each(|value| secrets.value(name, value));
    }
}

pub(super) fn load(load: &mut LoadPoint, secrets: &Secrets) {
    let said = load.examples.iter_mut().chain(&mut load.doubts);
    said.chain(&mut load.stopped_because)
        .for_each(|text| secrets.prose(text));
    if let Validity::Invalid { because } = &mut load.validity {
        because.iter_mut().for_each(|text| secrets.prose(text));
    }
}

fn observation(observation: &mut Observation, secrets: &Secrets) {
    labels(&mut observation.series, secrets);
    if let Some(waterfall) = &mut observation.waterfall {
        secrets.prose(&mut waterfall.little);
        waterfall
            .parts
            .iter_mut()
            .for_each(|part| secrets.prose(&mut part.what));
    }
}

fn labels(series: &mut SeriesSet, secrets: &Secrets) {
    for series in &mut series.series {
        secrets.prose(&mut series.label);
    }
}

fn effect(effect: &mut Effect, secrets: &Secrets) {
    secrets.prose(&mut effect.change);
    settings(&mut effect.settings, secrets);
    secrets.prose(&mut effect.conditions);
    for measure in &mut effect.measures {
        secrets.prose(&mut measure.quantity);
    }
}

fn finding(finding: &mut Finding, secrets: &Secrets) {
    secrets.prose(&mut finding.title);
    for seen in &mut finding.seen {
        secrets.prose(&mut seen.what);
        secrets.prose(&mut seen.conditions);
    }
    secrets.prose(&mut finding.refuted_by);
    if let Some(remedy) = &mut finding.remedy {
        secrets.prose(&mut remedy.text);
        settings(&mut remedy.settings, secrets);
    }
    secrets.prose(&mut finding.expected_gain);
    secrets.prose(&mut finding.source);
    finding
        .effects
        .iter_mut()
        .for_each(|it| effect(it, secrets));
}
