//! What a report says of how sure it is: verdicts, what is not known, not tried, not certain.

use crate::formats::written;
use crate::support;
use kneepoint_model::run::{LimitResult, MissedAlone};
use kneepoint_model::{
    Confidence, Effect, Interval, LatencyHistogram, Run, SessionCounts, Verdict,
};
use kneepoint_report::{FORMATS, RunOutcome, summarise};

#[test]
fn verdicts_say_no_more_than_was_measured() {
    let check = |run: Run, outcome, verdict: &str| {
        let summary = summarise(&run);
        assert_eq!(
            (summary.outcome, summary.verdict.as_str()),
            (outcome, verdict)
        );
    };
    check(
        support::tuned(),
        RunOutcome::Improved,
        "R* rose from 38.5/s (37.2 to 39.8) to 118/s (114 to 121), a factor of 3.05 (2.87 to 3.26).",
    );
    let mut close = support::tuned();
    close.limits[1].rate_hz = close.limits[0].rate_hz;
    check(
        close,
        RunOutcome::Unchanged,
        "R* did not change measurably: from 38.5/s (37.2 to 39.8) to 38.5/s (37.2 to 39.8), a factor of 1.000 \
         (0.935 to 1.070).",
    );
    let mut worse = support::tuned();
    worse.limits.swap(0, 1);
    worse.limits[0].arm = "base".into();
    worse.limits[1].arm = "best".into();
    check(
        worse,
        RunOutcome::Worse,
        "R* fell from 118/s (114 to 121) to 38.5/s (37.2 to 39.8), a factor of 0.33 (0.31 to 0.35).",
    );
    check(
        support::gated(0.12),
        RunOutcome::Worse,
        "Fail: throughput at saturation changed by -12 % (-15 to -9.0), and at most 5.0 % may be lost. R* is 38.5/s \
         (37.2 to 39.8).",
    );
    check(
        support::limit_only(),
        RunOutcome::Limit,
        "R* is 38.5/s (37.2 to 39.8).",
    );
    check(
        support::healthy(),
        RunOutcome::Limit,
        "R* is 118/s (114 to 121); what limits it was not found.",
    );
    check(
        support::diagnosed(),
        RunOutcome::Diagnosis,
        "What limits: The pool is too small for its waiting time (FPM-01, proved; its remedy measured x1.33 (1.28 to 1.39): \
         better).",
    );
    check(
        Run::default(),
        RunOutcome::Nothing,
        "Nothing has been measured.",
    );
    let mut ended_early = support::limit_only();
    ended_early.limits.clear();
    ended_early.trials.truncate(4);
    check(
        ended_early,
        RunOutcome::Nothing,
        "R* was not found: the run ended after 4 steps.",
    );
}

/// The words of a report with single spaces between them.
fn words(run: &Run, format: &str) -> String {
    let text = written(run, format);
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_run_with_undecided_remedies_says_so_beside_its_result() {
    let mut run = support::tuned();
    run.decisions[2].effect.verdict = Verdict::Inconclusive;
    assert_eq!(
        summarise(&run).verdict,
        "R* rose from 38.5/s (37.2 to 39.8) to 118/s (114 to 121), a factor of 3.05 (2.87 to 3.26). Undecided, because the \
         run was too short or the machine too busy: NGX-04."
    );
    let told = "Undecided, because the run was too short or the machine too busy: NGX-04.";
    for format in ["terminal", "html", "markdown"] {
        assert!(words(&run, format).contains(told), "{format}");
        assert!(!words(&support::tuned(), format).contains("Undecided, because"));
    }
}

#[test]
fn what_stands_below_a_table_of_markdown_is_no_row_of_it() {
    let mut run = support::tuned();
    run.findings[0].confidence = Confidence::Suspected;
    let decision = &mut run.decisions[0];
    (decision.kept, decision.leave_one_out) = (false, None);
    decision.effect.verdict = Verdict::Inconclusive;
    let text = written(&run, "markdown");
    for part in ["\n\nThe factors measure", "\n\nRecommended all the same"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let lines: Vec<&str> = text.lines().collect();
    for two in lines.windows(2).filter(|two| two[0].starts_with("| ")) {
        assert!(two[1].is_empty() || two[1].starts_with("| "), "{two:?}");
    }
}

#[test]
fn a_change_that_was_not_tried_is_called_so_everywhere() {
    let mut run = support::tuned();
    let decision = &mut run.decisions[2];
    decision.reason = "with 95 s left there was no time".into();
    decision.effect = Effect {
        change: decision.effect.change.clone(),
        quantity: "capacity".into(),
        ..Effect::default()
    };
    let told = "Not tried, because there was no time left: NGX-04.";
    assert!(summarise(&run).verdict.ends_with(told));
    assert_eq!(summarise(&run).undecided, ["NGX-04"], "for the exit code");
    for format in ["terminal", "html", "markdown"] {
        let text = words(&run, format);
        assert!(text.contains(told), "{format}");
        assert!(!text.contains("Undecided, because"), "{format}");
        assert!(!text.contains("0 pairs"), "{format}: {text}");
    }
    assert!(words(&run, "terminal").contains("NGX-04 not tried web.upstream.keepalive"));
    assert!(words(&run, "markdown").contains("| not tried | NGX-04 |"));
    assert!(words(&run, "html").contains("· remedy not tried"));
    // The same of what is only noted makes no run undecided, and is told as well.
    let mut noted = run.clone();
    noted.findings[2].confidence = Confidence::Noted;
    let summary = summarise(&noted);
    let told = "Undecided or not tried, and not suspected to limit: NGX-04.";
    assert!(summary.verdict.ends_with(told), "{}", summary.verdict);
    assert!(summary.undecided.is_empty());
}

#[test]
fn a_change_that_the_stack_failed_with_is_listed_with_the_reason_and_leaves_nothing_open() {
    let mut run = support::tuned();
    let reason = "the stack did not start with it: nginx refuses its configuration: invalid value";
    let decision = &mut run.decisions[2];
    (decision.failed, decision.reason) = (true, reason.into());
    decision.effect = Effect {
        change: decision.effect.change.clone(),
        quantity: "capacity".into(),
        ..Effect::default()
    };
    let told = "Not tried, because the stack failed with it: NGX-04.";
    let summary = summarise(&run);
    assert!(summary.verdict.ends_with(told), "{}", summary.verdict);
    assert!(summary.undecided.is_empty(), "more time decides nothing");
    for format in ["terminal", "html", "markdown", "json"] {
        let text = words(&run, format);
        assert!(text.contains(told) && text.contains(reason), "{format}");
        assert!(!text.contains("because there was no time"), "{format}");
        assert!(!text.contains("Undecided or not tried"), "{format}");
    }
    assert!(words(&run, "terminal").contains("NGX-04 not tried web.upstream.keepalive"));
    assert!(words(&run, "terminal").contains(&format!("note {reason}")));
    assert!(words(&run, "markdown").contains("| not tried | NGX-04 |"));
    assert!(words(&run, "json").contains("\"failed\": true"));
    // A diagnosis has no other changes, and lists this one all the same.
    let diagnosed = Run {
        decisions: vec![run.decisions.remove(2)],
        ..support::diagnosed()
    };
    for format in ["terminal", "html", "markdown", "json"] {
        assert!(words(&diagnosed, format).contains(reason), "{format}");
    }
}

#[test]
fn a_kept_change_that_may_be_chance_is_marked_wherever_it_is_listed() {
    let mut run = support::tuned();
    let marked = |run: &Run, format: &str| {
        let text = words(run, format);
        text.matches("not certain: see Doubts").count()
    };
    for format in ["terminal", "html", "markdown"] {
        assert_eq!(marked(&run, format), 0, "{format}");
    }
    run.decisions[1].effect.e_value = 25.0;
    // At the top of the page, too.
    for (format, times) in [("terminal", 1), ("html", 2), ("markdown", 1)] {
        assert_eq!(marked(&run, format), times, "{format}");
        let text = words(&run, format);
        assert!(text.contains("That is likely, not certain"), "{format}");
    }
}

#[test]
fn a_limit_that_is_hardly_known_has_one_interval_and_what_was_confirmed_everywhere() {
    let mut run = support::tuned();
    run.limits[1].rate_hz = Interval {
        low: 111.0,
        estimate: 205.0,
        high: 380.0,
    };
    run.limits[1].soak_hz = 75.8;
    let check = |format: &str, expected: &[&str]| {
        let text = words(&run, format).replace("R\\*", "R*");
        for part in expected {
            assert!(text.contains(part), "{format}: {part} in {text}");
        }
    };
    let confirmed = "failed in 1 min 00 s at 75.8/s, p95 172 ms (the new R* is at least that; 205/s was not confirmed)";
    let closed = "with 10 virtual users that never pause, the stack served 134/s in one step of 6.0 s, less than R*";
    check("terminal", &["to 205/s (111 to 380)", confirmed, closed]);
    check(
        "markdown",
        &["to 205/s (111 to 380)", "111 to 380/s", confirmed],
    );
    check(
        "html",
        &[
            "now sustains about 205 requests per second (111 to 380), about 5.32 times",
            "to 205/s (111 to 380)",
            "205/s was not confirmed, a lower rate was: 0 of 6846 failed",
            "R* after 205/s (111 to 380)",
        ],
    );
}

#[test]
fn what_limits_after_the_changes_is_told_or_that_it_is_not_known() {
    let check = |run: &Run, expected: &str| {
        for (format, label) in [
            ("terminal", "Limit now"),
            ("markdown", "Limited now by:"),
            ("html", "<dt>Limited now by</dt><dd>"),
        ] {
            let text = words(run, format);
            let (_, rest) = text.split_once(label).unwrap_or_else(|| panic!("{text}"));
            assert!(rest.trim_start().starts_with(expected), "{format}: {rest}");
        }
    };
    let mut run = support::tuned();
    check(&run, "not known");
    let mut found = run.findings[0].clone();
    (found.code, found.arm) = ("APP-01".into(), "best".into());
    (found.confidence, found.effects) = (Confidence::Suspected, Vec::new());
    run.findings.push(found);
    check(&run, "APP-01 OPcache is off (suspected)");
}

#[test]
fn a_look_near_r_star_at_which_the_slo_did_not_hold_is_told_as_an_overload() {
    let said = "At 112/s the SLO did not hold: 50 % of the requests failed or were late.";
    let mut run = support::tuned();
    let told = |run: &Run, format: &str| words(run, format).contains(said);
    for format in ["terminal", "markdown", "html"] {
        assert!(!told(&run, format), "{format}");
    }
    // Gives the last look at this load this share of good requests.
    let look = |run: &mut Run, phase: &str, good: f64| {
        let mut looks = run.observations.iter().rev();
        let seen = looks.find(|seen| seen.phase == phase);
        let seen = seen.map(|seen| seen.trial);
        let mut trials = run.trials.iter_mut();
        let trial = trials.find(|trial| Some(trial.id) == seen);
        let load = &mut trial.expect("its step").load;
        load.good = (load.arrivals as f64 * good) as u64;
    };
    let more_load = |run: &Run, format: &str| {
        words(run, format).contains("more load than it could serve in time")
    };
    look(&mut run, "knee", 0.93);
    for format in ["terminal", "markdown", "html"] {
        assert!(words(&run, format).contains("the SLO did not hold: 7."));
        assert!(!more_load(&run, format), "it may be chance: {format}");
    }
    look(&mut run, "knee", 0.5);
    for format in ["terminal", "markdown", "html"] {
        assert!(told(&run, format), "{format}");
        assert!(more_load(&run, format), "{format}");
    }
    let mut always_slow = run.clone();
    look(&mut always_slow, "low", 0.5);
    for format in ["terminal", "markdown", "html"] {
        assert!(told(&always_slow, format), "{format}");
        assert!(!more_load(&always_slow, format), "{format}");
    }
    let now = summarise(&run).bound_now.unwrap_or_default();
    assert!(
        now.ends_with("at 112/s, where the SLO did not hold"),
        "{now}"
    );
}

#[test]
fn what_was_read_from_the_stack_is_recommended_though_its_comparison_did_not_end() {
    let mut run = support::tuned();
    run.findings[0].confidence = Confidence::Suspected;
    let decision = &mut run.decisions[0];
    (decision.kept, decision.leave_one_out) = (false, None);
    decision.effect.verdict = Verdict::Inconclusive;
    let heading = "Recommended all the same, because what is wrong was read from the stack itself";
    for format in ["terminal", "html", "markdown"] {
        let text = words(&run, format);
        let (_, rest) = text.split_once(heading).unwrap_or_else(|| panic!("{text}"));
        let what: String = rest.chars().take(100).collect();
        assert!(what.contains("OPC-01"), "{format}: {what}");
    }
    // What was only concluded from how the stack behaved under load is undecided and no more.
    run.findings[0]
        .seen
        .retain(|seen| !seen.conditions.is_empty());
    for format in ["terminal", "html", "markdown"] {
        assert!(!words(&run, format).contains(heading), "{format}");
    }
}

#[test]
fn an_effect_has_no_number_that_its_pairs_do_not_tell() {
    let check = |ratio: Option<[f64; 3]>, expected: &str| {
        let mut run = support::tuned();
        (run.proof, run.restarted) = (None, None);
        run.decisions.retain(|decision| !decision.kept);
        for finding in &mut run.findings {
            finding.effects.clear();
        }
        let effect = &mut run.decisions[0].effect;
        effect.verdict = Verdict::Inconclusive;
        effect.ratio = ratio.map(|[low, estimate, high]| Interval {
            low,
            estimate,
            high,
        });
        effect.smallest_visible = ratio.map(|[.., high]| high - 1.0);
        for format in FORMATS {
            let text = words(&run, format.name);
            let is_inf = |word: &str| matches!(word, "inf" | "unbounded");
            let mut single = text.split(|c: char| !c.is_alphanumeric());
            assert!(!single.any(is_inf), "{}: {text}", format.name);
            for no in ["visible from", "smallest visible", "would hardly show"] {
                assert!(!text.contains(no), "{}: {no}", format.name);
            }
            let is_for_people = ["terminal", "html", "markdown"].contains(&format.name);
            assert!(!is_for_people || text.contains(expected), "{}", format.name);
        }
    };
    check(None, "not known");
    check(Some([1.3, 2.0, f64::INFINITY]), "at least 1.30");
    // Of three pairs that scatter much.
    check(Some([1e-8, 1.1, 485_165_195.0]), "not known");
}

#[test]
fn a_suspicion_that_was_tried_in_vain_is_told_and_is_not_what_limits() {
    let check = |run: &Run, words: &str| {
        let verdict = summarise(run).verdict;
        assert!(verdict.contains(words), "{words} in {verdict}");
    };
    let tuned = support::tuned();
    let mut tried = tuned.decisions.iter().map(|decision| &decision.effect);
    let in_vain = tried.find(|effect| effect.verdict == Verdict::Equivalent);
    let mut suspected = tuned.findings[0].clone();
    suspected.code = "FPM-03".into();
    suspected.confidence = Confidence::Suspected;
    suspected.effects = vec![in_vain.expect("one made no difference").clone()];
    let mut else_it_is = suspected.clone();
    else_it_is.code = "CAP-02".into();
    else_it_is.effects.clear();

    let mut run = support::healthy();
    run.findings = vec![suspected];
    check(
        &run,
        "what limits it was not found; FPM-03 was suspected, and its remedy did not help",
    );
    run.findings.push(else_it_is);
    check(&run, "What limits it: OPcache is off (CAP-02, suspected)");
}

#[test]
fn an_slo_that_one_request_misses_is_out_of_reach_at_any_rate() {
    let mut run = support::healthy();
    let scenario = run.scenario.as_mut().expect("a scenario");
    scenario.slo.response_time = std::time::Duration::from_millis(2);
    let verdict = summarise(&run).verdict;
    for part in [
        "One request alone misses the SLO, which cannot be met at any rate",
        "and 2.00",
        "% of it is",
    ] {
        assert!(verdict.contains(part), "{part} in {verdict}");
    }
}

#[test]
fn where_one_request_at_a_time_misses_the_slo_no_rate_is_told() {
    let mut run = support::limit_only();
    let missed = MissedAlone {
        requests: 8,
        late: 8,
        quantile: 0.95,
        took_ms: 309.0,
        allowed_ms: 200.0,
    };
    run.limits[0].missed_alone = Some(missed);
    let told =
        "No rate meets the SLO: one request at a time has a p95 of 309 ms, and 200 ms are allowed";
    let verdict = summarise(&run).verdict;
    assert!(
        verdict.starts_with(told) && !verdict.contains("R* is"),
        "{verdict}"
    );
    assert_eq!(summarise(&run).base_hz, None);
    for format in ["terminal", "html", "markdown"] {
        let text = words(&run, format);
        assert!(text.contains(told), "{format}: {text}");
    }
    // The curves show what was driven, and no R*.
    let html = written(&run, "html");
    let curves = html.split("id=\"curves\"").nth(1).expect("curves");
    assert!(!curves.contains("interval of R*"), "{curves}");
    let junit = written(&run, "junit");
    assert!(
        junit.contains("there is no rate at which the SLO holds"),
        "{junit}"
    );
    let mut run = support::tuned();
    let base = run.limits.iter_mut().find(|limit| limit.arm == "base");
    base.expect("a limit").missed_alone = Some(missed);
    let verdict = summarise(&run).verdict;
    let both = format!("Before the changes: {told}. After them: R* is ");
    assert!(verdict.starts_with(&both), "{verdict}");
    assert_eq!(run.gain(), None);
}

#[test]
fn a_stack_that_serves_nothing_is_not_told_as_a_limit_of_zero() {
    let mut run = support::limit_only();
    run.limits = vec![LimitResult {
        arm: "base".into(),
        ..LimitResult::default()
    }];
    let told =
        "No rate was found at which the SLO holds: no request succeeded, not even one at a time.";
    assert_eq!(summarise(&run).verdict, told);
    for (format, not) in [
        ("terminal", "breaks the SLO first"),
        ("html", "sustains 0.0 requests"),
    ] {
        let text = words(&run, format);
        assert!(text.contains(told), "{format}: {text}");
        assert!(!text.contains(not), "{format}: {text}");
    }
}

#[test]
fn an_slo_that_few_requests_missed_or_only_before_the_changes_is_not_called_out_of_reach() {
    let slow = |mut run: Run, quantile: f64, requests: u64| {
        let slo = &mut run.scenario.as_mut().expect("a scenario").slo;
        slo.response_time = std::time::Duration::from_millis(2);
        slo.quantile = quantile;
        let mut seen = run.observations.iter().rev();
        let low = seen.find(|seen| seen.phase == "low");
        let low = low.expect("low load").trial;
        let trial = run.trials.iter_mut().find(|trial| trial.id == low);
        let load = &mut trial.expect("its trial").load;
        load.response = LatencyHistogram::default();
        (0..requests).for_each(|_| load.response.record_us(90_000));
        load.sessions = Some(SessionCounts::default());
        run
    };
    let check = |run: Run, expected: Option<&str>| {
        let verdict = summarise(&run).verdict;
        let told = verdict.split("One request alone misses the SLO").nth(1);
        assert_eq!(told.is_some(), expected.is_some(), "{verdict}");
        assert!(verdict.contains(expected.unwrap_or_default()), "{verdict}");
    };
    check(slow(support::healthy(), 0.95, 3), None);
    check(
        slow(support::healthy(), 0.95, 4),
        Some("at any rate: p95 is 90.0 ms at 35.4 requests/s"),
    );
    check(slow(support::healthy(), 0.999, 3), None);
    check(slow(support::healthy(), 0.999, 4), Some("p99.9 is 90.0 ms"));
    // What the changes left is slow, and nobody looked at it.
    let mut run = slow(support::tuned(), 0.95, 400);
    check(run.clone(), Some("p95 is 90.0 ms"));
    run.observations.retain(|seen| seen.arm == "base");
    check(run, None);
}

#[test]
fn what_is_missing_is_said_in_every_format_for_people() {
    let complete = summarise(&support::tuned()).missing;
    assert!(complete.is_empty(), "{complete:?}");
    assert!(summarise(&support::healthy()).missing.is_empty());
    for run in [
        support::limit_only(),
        support::interrupted(),
        support::diagnosed(),
        Run::default(),
    ] {
        let missing = summarise(&run).missing;
        assert!(!missing.is_empty());
        for format in ["terminal", "html", "markdown"] {
            let text = written(&run, format)
                .replace("R\\*", "R*")
                .split_whitespace()
                .collect::<Vec<_>>()
                .join(" ");
            for sentence in &missing {
                assert!(text.contains(sentence), "{format} does not say: {sentence}");
            }
        }
    }
}
