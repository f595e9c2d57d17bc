//! Before any load: the stack is the one that was started, each request answers with the page that is meant, and what
//! serves it is warm.

pub(super) mod nowhere;
pub(super) mod outsiders;
pub(super) mod tripwire;

use super::arm::Arm;
use super::seen::{Seen, Told, tell};
use super::{Testbed, log};
use crate::error::ExperimentError;
use crate::record::{BASE, Record, Recorder};
use kneepoint_lab::HostInfo;
use kneepoint_load::{Fetched, LoadError, Rehearsal, Rehearsed, identify};
use kneepoint_model::{Layer, Request, RunningTier, Scenario, Workload};
use kneepoint_telemetry::CpuAccount;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Where a target answers with the run's nonce (DESIGN section 16).
const IDENTITY: &str = "/.well-known/kneepoint";
/// Rounds of the whole mix sent one by one before an arm counts as warm: every worker of a small pool sees
/// each script, and OPcache holds all of them.
const WARM_ROUNDS: usize = 8;
/// Longest wait for one warm-up response. The first one compiles the whole application.
const FIRST_RESPONSE: Duration = Duration::from_secs(20);
/// What a worker does behind a response, its CPU time included, is over after this.
const SETTLE: Duration = Duration::from_millis(2);

/// How long a watched round goes on behind a request that failed. What is behind it may try to reach others, whom the same
/// refusal then names; but each of many requests may wait for [`FIRST_RESPONSE`].
const LONGEST_GATHERING: Duration = Duration::from_secs(60);

/// Longest time for filling caches before a load: of very many or very slow pages only the first are asked for \[ours\].
const LONGEST_FILLING: Duration = Duration::from_secs(3);

/// What came of a rehearsal.
#[derive(Debug, Default)]
pub(super) struct Rehearsals {
    /// The first request of all.
    first_response: Option<Duration>,
    /// One per request.
    seen: Vec<Seen>,
    /// What a watch over it has to say that ends nothing.
    doubts: Vec<String>,
}

/// Which round of a rehearsal is watched, in the lab with this directory. What is cached is asked for in the first; but that
/// it is watched takes time.
#[derive(Debug, Clone, Copy)]
pub(super) enum Watched<'l> {
    First(&'l Path),
    /// One more, behind those that are timed.
    Last(&'l Path),
}

/// What of a scenario decides whom its application tries to reach.
pub(super) fn what_tells(scenario: &Scenario) -> Scenario {
    let mut what = scenario.clone();
    what.hosts.clear();
    what.tiers.iter_mut().for_each(|tier| tier.settings.clear());
    what
}

/// The requests that only look at a page, each by itself.
fn only_pages(workload: &Workload) -> Workload {
    let captures = workload
        .requests
        .iter()
        .any(|request| !request.captures.is_empty());
    // What an answer before it was to give is not there.
    let needs = |request: &Request| {
        let headers = request.headers.iter().map(|(_, value)| value);
        captures
            && headers
                .chain([&request.path])
                .any(|text| text.contains("{{"))
    };
    let reads =
        |request: &&Request| request.method.0 == "GET" && !request.session && !needs(request);
    Workload {
        requests: workload.requests.iter().filter(reads).cloned().collect(),
        sessions: None,
        ..workload.clone()
    }
}

impl Arm {
    /// Makes sure that the target is this arm, that it answers as the scenario says and with no error page, and that it is
    /// warm. Where it is watched, also that it tries to reach nobody outside of the lab.
    pub(super) fn check_and_warm(
        &self,
        client: &HostInfo,
        stop: &AtomicBool,
        watch: Option<Watched<'_>>,
    ) -> Result<Rehearsals, ExperimentError> {
        let netns = client.netns.as_deref();
        self.check_identity(netns)?;
        let mut rehearsals = Rehearsals::default();
        for round in 0..WARM_ROUNDS {
            match watch {
                Some(Watched::First(lab)) if round == 0 => {
                    self.rehearse_watched(netns, stop, (round, lab), &mut rehearsals)?;
                    rehearsals.first_response = None;
                }
                Some(Watched::Last(lab)) => {
                    let rehearsed = self.rehearse(netns, stop, round, &mut rehearsals);
                    self.or_outsiders(rehearsed, netns, stop, (round, lab))?;
                }
                _ => self.rehearse(netns, stop, round, &mut rehearsals)?,
            }
        }
        if let Some(Watched::Last(lab)) = watch {
            self.rehearse_watched(netns, stop, (WARM_ROUNDS, lab), &mut rehearsals)?;
        }
        Ok(rehearsals)
    }

    /// A round that failed before any was watched: once more under a watch, since whom it did not reach may be why.
    fn or_outsiders(
        &self,
        rehearsed: Result<(), ExperimentError>,
        netns: Option<&Path>,
        stop: &AtomicBool,
        (round, lab): (usize, &Path),
    ) -> Result<(), ExperimentError> {
        if rehearsed.is_ok() || matches!(rehearsed, Err(ExperimentError::Interrupted)) {
            return rehearsed;
        }
        self.rehearse_watched(netns, stop, (round, lab), &mut Rehearsals::default())?;
        rehearsed
    }

    /// A round under a watch, which stretches it: nothing is timed. That somebody was not reached goes before what the
    /// application then says of it, and a request that fails is not the last: one refusal names all whom any of them sought.
    fn rehearse_watched(
        &self,
        netns: Option<&Path>,
        stop: &AtomicBool,
        (round, lab): (usize, &Path),
        rehearsals: &mut Rehearsals,
    ) -> Result<(), ExperimentError> {
        let watch = self.watch();
        let rehearsed = self.rehearse_for(LONGEST_GATHERING, netns, stop, round, rehearsals);
        if matches!(rehearsed, Err(ExperimentError::Interrupted)) {
            return rehearsed;
        }
        match self.outsiders(watch, lab) {
            Ok(outsiders) if outsiders.is_empty() => {}
            Ok(outsiders) if netns.is_none() => {
                rehearsals.doubts.push(outsiders::warning(&outsiders));
            }
            Ok(outsiders) => {
                let untried = self.untried(&outsiders, lab);
                let refusal = outsiders::refusal(&outsiders, &untried);
                return Err(ExperimentError::Unfit(refusal));
            }
            Err(why) => rehearsals.doubts.extend((!why.is_empty()).then_some(why)),
        }
        rehearsed
    }

    /// Asks for each page once, behind a reset: what the application keeps in its database or cache was emptied, and a site that
    /// has run for a while has it. Of what goes wrong the load that follows tells.
    pub(super) fn fill_caches(
        &self,
        client: &HostInfo,
        stop: &AtomicBool,
    ) -> Result<(), ExperimentError> {
        let netns = client.netns.clone();
        let pages = only_pages(&self.workload);
        let Ok(rehearsal) = Rehearsal::new(&self.target, &pages, netns, LONGEST_FILLING) else {
            return Ok(());
        };
        let began = Instant::now();
        for _answer in rehearsal {
            if stop.load(Ordering::Relaxed) {
                return Err(ExperimentError::Interrupted);
            }
            if began.elapsed() >= LONGEST_FILLING {
                break;
            }
        }
        Ok(())
    }

    fn check_identity(&self, netns: Option<&Path>) -> Result<(), ExperimentError> {
        let answer = identify(&self.target, IDENTITY, netns, Duration::from_secs(5))?;
        if answer.trim() == self.nonce {
            return Ok(());
        }
        Err(ExperimentError::Unfit(format!(
            "the server at {} is not the one this run started: it does not echo the run's nonce",
            self.target.address()
        )))
    }

    /// Sends each request once, up to the first that fails.
    fn rehearse(
        &self,
        netns: Option<&Path>,
        stop: &AtomicBool,
        round: usize,
        rehearsals: &mut Rehearsals,
    ) -> Result<(), ExperimentError> {
        self.rehearse_for(Duration::ZERO, netns, stop, round, rehearsals)
    }

    /// Sends each request once. The first failure is the round's; it goes on behind it for so long.
    fn rehearse_for(
        &self,
        behind_failure: Duration,
        netns: Option<&Path>,
        stop: &AtomicBool,
        round: usize,
        rehearsals: &mut Rehearsals,
    ) -> Result<(), ExperimentError> {
        let netns = netns.map(Path::to_owned);
        let mut rehearsal = Rehearsal::new(&self.target, &self.workload, netns, FIRST_RESPONSE)?;
        let clock = PhpClock::of(&self.running);
        let began = Instant::now();
        let mut failed: Option<(ExperimentError, Instant)> = None;
        loop {
            let goes_on = |(_, since): &(_, Instant)| since.elapsed() < behind_failure;
            let before = clock.read();
            let next = failed
                .as_ref()
                .is_none_or(goes_on)
                .then(|| rehearsal.next());
            let Some(rehearsed) = next.flatten() else {
                return failed.map_or(Ok(()), |(error, _)| Err(error));
            };
            if round == 0 {
                let first = &mut rehearsals.first_response;
                first.get_or_insert_with(|| began.elapsed());
            }
            if stop.load(Ordering::Relaxed) {
                return Err(ExperimentError::Interrupted);
            }
            let took = || clock.ms_since(before.as_ref());
            if let Err(error) = self.note(rehearsed, round, took, rehearsals) {
                failed.get_or_insert_with(|| (error, Instant::now()));
            }
        }
    }

    /// Notes what came of a request. The first round is judged; the others warm, and show what stays the same.
    fn note(
        &self,
        rehearsed: Result<Rehearsed, LoadError>,
        round: usize,
        ms: impl FnOnce() -> Option<f64>,
        rehearsals: &mut Rehearsals,
    ) -> Result<(), ExperimentError> {
        let rehearsed = rehearsed
            .map_err(|error| ExperimentError::Unfit(format!("{error}{}", self.last_words())))?;
        let judged = (round == 0).then(|| self.judge(&rehearsed)).transpose()?;
        let mut seen = rehearsals.seen.iter_mut();
        match (seen.find(|seen| seen.is_of(rehearsed.index)), judged) {
            (Some(seen), None) => seen.again(&rehearsed.fetched, ms()),
            // Several visits may ask for it.
            (Some(seen), Some(_)) => seen.again(&rehearsed.fetched, None),
            (None, judged) => rehearsals.seen.extend(judged),
        }
        Ok(())
    }

    /// What was seen of a first answer, where it is one that may be measured.
    fn judge(&self, rehearsed: &Rehearsed) -> Result<Seen, ExperimentError> {
        let request = &self.workload.requests[rehearsed.index];
        let seen = Seen::new(rehearsed, request, &self.workload);
        let wrong = match &rehearsed.missed {
            Some(missed) => Some(self.failure(rehearsed, missed)),
            None => seen.problem(request),
        };
        match wrong {
            Some(wrong) => Err(ExperimentError::Unfit(format!(
                "{wrong}{}",
                self.last_words()
            ))),
            None => Ok(seen),
        }
    }

    /// An answer that is not what the scenario expects, in words.
    fn failure(&self, rehearsed: &Rehearsed, missed: &str) -> String {
        let Rehearsed {
            request, fetched, ..
        } = rehearsed;
        let status = fetched.status;
        let what = format!(
            "the application answers {request} with status {status} before any load, {missed}"
        );
        match fetched.redirect() {
            Some(to) => format!(
                "{what}: {}",
                redirected(to, self.host(rehearsed.index), status)
            ),
            None => format!("{what}: fix that first. {}", says(fetched)),
        }
    }

    /// By what name a request asks for the site.
    fn host(&self, index: usize) -> &str {
        let mut headers = self.workload.requests[index].headers.iter();
        let own = headers.find(|(name, _)| name.eq_ignore_ascii_case("host"));
        own.map_or(self.target.host(), |(_, host)| host)
    }

    /// Keeps what a rehearsal taught, and asks answers from now on for the piece of the title that all had.
    pub(super) fn learn(&mut self, rehearsals: Rehearsals) {
        self.cold_start.first_response = rehearsals.first_response;
        // Before the marks are in it: they are not what the scenario says.
        self.told = tell(&rehearsals.seen, &self.workload);
        self.told.doubts.extend(rehearsals.doubts);
        for (index, mark) in rehearsals.seen.iter().filter_map(Seen::mark) {
            if let Some(request) = self.workload.requests.get_mut(index) {
                request.expect.body_contains.push(mark.to_owned());
            }
        }
    }

    /// The last lines of the tiers' logs, where the cause of a 500 is told.
    pub(super) fn last_words(&self) -> String {
        self.without_copy(&log::last_words(&self.running))
    }

    /// A text with the application's files named as they are in the user's directory: the copy is gone when somebody reads it.
    pub(super) fn without_copy(&self, text: &str) -> String {
        match &self.copy {
            Some(copy) => text.replace(&format!("{}/", copy.root.display()), ""),
            None => text.to_owned(),
        }
    }
}

/// What to do about a redirect that nobody expects.
fn redirected(to: &str, host: &str, status: u16) -> String {
    let meant = format!("expect = {{ status = {status} }} where the redirect itself is meant");
    let behind = to.split_once("://").map(|(_, rest)| rest);
    let Some(behind) = behind.or_else(|| to.strip_prefix("//")) else {
        return format!(
            "it redirects to {to}. Write path = {to:?} for the page behind it, or {meant}"
        );
    };
    let (other, path) = behind
        .find('/')
        .map_or((behind, "/"), |at| (&behind[..at], &behind[at..]));
    if other.eq_ignore_ascii_case(host) {
        return format!(
            "it redirects to {to}. Write path = {path:?} for the page behind it, or {meant}"
        );
    }
    format!(
        "it redirects to {to}, and was asked for as {host}. Where it must be asked for as {other}, write headers = {{ Host = \
         {other:?} }}; otherwise tell the application its address, or write {meant}"
    )
}

/// What a page says, in its own words.
fn says(fetched: &Fetched) -> String {
    let page = fetched.page();
    let text = page.error().unwrap_or(page.text);
    match (text.as_str(), page.title) {
        ("", Some(title)) => format!("It says: {title}"),
        ("", None) if fetched.body.is_empty() => "Its body is empty".to_owned(),
        ("", None) => format!("Its {} bytes hold no text", fetched.body.len()),
        (text, _) => format!("It says: {text}"),
    }
}

/// The CPU time of PHP, where its host has an account to the microsecond.
struct PhpClock<'t> {
    tier: Option<&'t RunningTier>,
}

impl<'t> PhpClock<'t> {
    fn of(running: &'t [RunningTier]) -> Self {
        let mut tiers = running.iter();
        let exact = |tier: &&RunningTier| {
            let has = tier.cgroup.cpu.is_some() || tier.cgroup.cpuacct.is_some();
            tier.layer == Layer::Php && has
        };
        Self {
            tier: tiers.find(exact),
        }
    }

    fn read(&self) -> Option<CpuAccount> {
        CpuAccount::read([self.tier?])
    }

    /// CPU time since then in ms, when what follows a response is over.
    fn ms_since(&self, before: Option<&CpuAccount>) -> Option<f64> {
        let before = before?;
        std::thread::sleep(SETTLE);
        Some(self.read()?.tiers_s_since(before) * 1e3)
    }
}

impl Testbed {
    /// Stands an arm up: every tier started, its state reset, its identity checked, warmed up. Whom the application tries to
    /// reach meanwhile is watched, the first time.
    ///
    /// # Errors
    /// A program is missing or refuses its configuration, the application does not answer as expected, or it tries to reach
    /// somebody outside of the lab.
    pub fn stand_up(&mut self, name: &str, scenario: &Scenario) -> Result<(), ExperimentError> {
        let what = what_tells(scenario);
        let watch = !self.watched.contains(&what);
        self.stand_up_watched(name, scenario, |lab| watch.then_some(Watched::First(lab)))?;
        if watch {
            self.watched.push(what);
        }
        Ok(())
    }

    /// The same with the watch behind the first answer, which it would stretch: for [`Self::cold_start`].
    ///
    /// # Errors
    /// As [`Self::stand_up`].
    pub fn stand_up_timed(
        &mut self,
        name: &str,
        scenario: &Scenario,
    ) -> Result<(), ExperimentError> {
        self.stand_up_watched(name, scenario, |lab| Some(Watched::Last(lab)))
    }

    fn stand_up_watched(
        &mut self,
        name: &str,
        scenario: &Scenario,
        watch: impl Fn(&Path) -> Option<Watched<'_>>,
    ) -> Result<(), ExperimentError> {
        self.stand_up_unasked(name, scenario)?;
        let watch = watch(self.lab.dir());
        let checked = self.arms[name].check_and_warm(&self.client, &self.stop, watch);
        let stood = checked.and_then(|rehearsed| {
            if let Some(arm) = self.arms.get_mut(name) {
                arm.learn(rehearsed);
                arm.settle()?;
            }
            self.start_jobs(name)
        });
        stood.inspect_err(|_| self.tear_down(name))
    }

    /// Stands the scenario's stack up as the arm `base`, and writes down what it is.
    ///
    /// # Errors
    /// As [`Testbed::stand_up`].
    pub fn stand_up_base(
        &mut self,
        scenario: &Scenario,
        recorder: &mut Recorder<'_>,
    ) -> Result<(), ExperimentError> {
        recorder.stage("Stand up the stack");
        self.stand_up(BASE, scenario)?;
        self.introduce(BASE, recorder)
    }

    /// Writes down what an arm is, and what will be measured of it: each request with its page.
    ///
    /// # Errors
    /// There is no such arm.
    pub fn introduce(
        &self,
        name: &str,
        recorder: &mut Recorder<'_>,
    ) -> Result<(), ExperimentError> {
        recorder.write(Record::Base(Box::new(self.arm(name)?.stack.clone())));
        self.tell_pages(name, recorder)
    }

    /// Writes down what will be measured of an arm, and what is doubtful about it.
    ///
    /// # Errors
    /// There is no such arm.
    pub fn tell_pages(
        &self,
        name: &str,
        recorder: &mut Recorder<'_>,
    ) -> Result<(), ExperimentError> {
        let Told { results, doubts } = self.arm(name)?.told.clone();
        for result in results {
            recorder.result(result);
        }
        for doubt in doubts {
            recorder.warn(doubt);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};
    use kneepoint_model::{Capture, CaptureFrom};

    fn check(to: &str, expected: Expect) {
        expected.assert_eq(&redirected(to, "10.1.0.2", 302));
    }

    #[test]
    fn caches_are_filled_by_pages_that_change_nothing() {
        let mut workload = Workload::single("/");
        let with = |path: &str, change: fn(&mut Request)| {
            let mut request = Request::get(path);
            change(&mut request);
            request
        };
        workload.requests.extend([
            with("/order", |request| request.method.0 = "POST".into()),
            with("/cart", |request| request.session = true),
            Request::get("/news?page={{page}}"),
        ]);
        let paths = |workload: &Workload| {
            let pages = only_pages(workload).requests.into_iter();
            pages.map(|request| request.path).collect::<Vec<_>>()
        };
        assert_eq!(paths(&workload), ["/", "/news?page={{page}}"]);
        workload.requests[0].captures.push(Capture {
            name: "page".into(),
            from: CaptureFrom::Cookie("page".into()),
        });
        assert_eq!(paths(&workload), ["/"]);
    }

    #[test]
    fn a_redirect_tells_what_to_write() {
        check(
            "/wiki/Main_Page",
            expect![[
                r#"it redirects to /wiki/Main_Page. Write path = "/wiki/Main_Page" for the page behind it, or expect = { status = 302 } where the redirect itself is meant"#
            ]],
        );
        check(
            "http://10.1.0.2/doku.php?id=start",
            expect![[
                r#"it redirects to http://10.1.0.2/doku.php?id=start. Write path = "/doku.php?id=start" for the page behind it, or expect = { status = 302 } where the redirect itself is meant"#
            ]],
        );
        check(
            "https://blog.example.org/",
            expect![[
                r#"it redirects to https://blog.example.org/, and was asked for as 10.1.0.2. Where it must be asked for as blog.example.org, write headers = { Host = "blog.example.org" }; otherwise tell the application its address, or write expect = { status = 302 } where the redirect itself is meant"#
            ]],
        );
    }
}
