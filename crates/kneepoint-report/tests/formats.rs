//! What every format owes its reader, on sample runs.

use crate::support;
use crate::support::{INJECTION, SECRET};
use expect_test::expect_file;
use kneepoint_model::{Confidence, Effect, Interval, Run, Verdict};
use kneepoint_report::{
    FORMATS, Format, LoadFormat, Options, RunOutcome, Styles, redact, render, render_load,
    summarise,
};

fn written(run: &Run, format: &str) -> String {
    let format = Format::named(format).unwrap_or_else(|| panic!("no format {format}"));
    render(run, format, &Options::default())
}

fn with_files() -> Options {
    Options {
        styles: Styles::Plain,
        files: vec![
            (
                "report".into(),
                "runs/2026-11-20-0312-shop/report.html".into(),
            ),
            (
                "diff".into(),
                "runs/2026-11-20-0312-shop/changes.diff".into(),
            ),
        ],
        against: None,
    }
}

#[test]
fn the_terminal_summary_tells_a_tune_from_verdict_to_files() {
    let terminal = Format::named("terminal").expect("listed");
    expect_file!["golden/tuned.txt"].assert_eq(&render(&support::tuned(), terminal, &with_files()));
}

#[test]
fn markdown_tells_a_tune_for_a_pull_request() {
    let markdown = Format::named("markdown").expect("listed");
    expect_file!["golden/tuned.md"].assert_eq(&render(&support::tuned(), markdown, &with_files()));
}

#[test]
fn the_terminal_summary_says_what_an_interrupted_run_lacks() {
    expect_file!["golden/interrupted.txt"].assert_eq(&written(&support::interrupted(), "terminal"));
}

#[test]
fn the_comment_on_a_pull_request_begins_with_the_gate() {
    expect_file!["golden/gated.md"].assert_eq(&written(&support::gated(0.12), "markdown"));
}

#[test]
fn the_terminal_summary_tells_the_gate_with_its_grounds() {
    expect_file!["golden/gated.txt"].assert_eq(&written(&support::gated_elsewhere(), "terminal"));
}

#[test]
fn junit_has_a_test_for_the_run_each_limit_and_each_claim() {
    expect_file!["golden/gated.xml"].assert_eq(&written(&support::gated(0.12), "junit"));
}

#[test]
fn what_is_not_known_is_skipped_unless_it_is_to_fail() {
    let count = |run: &Run, what: &str| written(run, "junit").matches(what).count();
    let unclear = support::gated(0.04);
    assert_eq!(
        count(&unclear, "<skipped"),
        2,
        "{}",
        written(&unclear, "junit")
    );
    assert_eq!(count(&unclear, "<failure"), 0);
    let elsewhere = support::gated_elsewhere();
    assert_eq!(
        count(&elsewhere, "<failure"),
        1,
        "{}",
        written(&elsewhere, "junit")
    );
    let interrupted = support::interrupted();
    assert_eq!(
        count(&interrupted, "<error"),
        1,
        "{}",
        written(&interrupted, "junit")
    );
}

#[test]
fn every_format_renders_every_run() {
    for (name, run) in support::all() {
        for format in FORMATS {
            let text = render(&run, format, &with_files());
            assert!(
                text.ends_with('\n') || text.ends_with('>'),
                "{name} as {}",
                format.name
            );
        }
    }
}

#[test]
fn formats_have_names_and_endings_of_their_own() {
    for (i, format) in FORMATS.iter().enumerate() {
        let others = &FORMATS[i + 1..];
        assert!(
            others
                .iter()
                .all(|other| other.name != format.name && other.extension != format.extension)
        );
        assert_eq!(
            Format::named(format.name).map(|found| found.about),
            Some(format.about)
        );
    }
    assert!(Format::named("papyrus").is_none());
}

#[test]
fn no_secret_is_in_any_format() {
    for (name, run) in support::all() {
        for format in FORMATS {
            let text = render(&run, format, &Options::default());
            assert!(
                !text.contains(SECRET),
                "{name} as {} gives the secret away",
                format.name
            );
        }
    }
}

#[test]
fn the_terminal_summary_keeps_to_100_columns_and_obeys_nothing_in_the_data() {
    for (name, run) in support::all() {
        let text = written(&run, "terminal");
        let longest = text
            .lines()
            .map(|line| line.chars().count())
            .max()
            .unwrap_or(0);
        assert!(longest <= 100, "{name}: {longest} columns");
        assert!(
            !text.chars().any(|c| c.is_control() && c != '\n'),
            "{name} has control characters"
        );
    }
}

#[test]
fn colour_changes_no_word() {
    let terminal = Format::named("terminal").expect("listed");
    let coloured = Options {
        styles: Styles::Ansi,
        ..Options::default()
    };
    let text = render(&support::tuned(), terminal, &coloured);
    assert!(
        text.contains("\u{1b}[32mR* rose"),
        "the verdict is in colour"
    );
    let mut plain = String::new();
    for (i, piece) in text.split('\u{1b}').enumerate() {
        let piece = if i == 0 {
            piece
        } else {
            piece.split_once('m').map_or("", |(_, rest)| rest)
        };
        plain.push_str(piece);
    }
    assert_eq!(plain, written(&support::tuned(), "terminal"));
}

#[test]
fn json_has_a_schema_and_gives_the_run_back() {
    let run = support::tuned();
    let document: serde_json::Value = serde_json::from_str(&written(&run, "json")).expect("JSON");
    assert_eq!(document["schema"], "kneepoint.run/1");
    assert_eq!(document["summary"]["outcome"], "improved");
    assert_eq!(document["summary"]["trials_invalid"], 1);
    let back: Run = serde_json::from_value(document["run"].clone()).expect("a run");
    let redacted = redact(&run);
    assert_eq!(
        (back.journal, back.diff, back.best),
        (redacted.journal, redacted.diff, redacted.best)
    );
    assert_eq!(back.trials.len(), run.trials.len());
    assert_eq!(
        back.trials[3].load.response.quantile_ms(0.95),
        run.trials[3].load.response.quantile_ms(0.95)
    );
}

#[test]
fn csv_has_a_line_a_step() {
    let run = support::tuned();
    assert_eq!(written(&run, "csv").lines().count(), run.trials.len() + 1);
}

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
    let seen = run.observations.last().map(|seen| seen.trial);
    let mut trials = run.trials.iter_mut();
    let trial = trials.find(|trial| Some(trial.id) == seen);
    let load = &mut trial.expect("its step").load;
    load.good = load.arrivals / 2;
    for format in ["terminal", "markdown", "html"] {
        assert!(told(&run, format), "{format}");
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

#[test]
fn markup_in_data_stays_text() {
    let run = support::hostile();
    for format in ["html", "markdown"] {
        let text = written(&run, format);
        let outside_fences: String = text.split("```").step_by(2).collect();
        let text = if format == "markdown" {
            outside_fences
        } else {
            text
        };
        assert!(
            !text.contains("<script>alert"),
            "{format} lets markup through"
        );
        assert!(
            text.contains("&lt;script&gt;"),
            "{format} shows the text: {INJECTION}"
        );
    }
}

#[test]
fn a_load_is_told_whole_in_every_format() {
    for (name, run) in support::loads::all() {
        let told = |format| render_load(&run, format, Styles::Plain);
        let seconds: usize = run.hops.iter().map(|hop| hop.point.seconds.len()).sum();
        assert_eq!(told(LoadFormat::Csv).lines().count(), 1 + seconds, "{name}");
        let json: serde_json::Value = serde_json::from_str(&told(LoadFormat::Json)).expect("JSON");
        let text = told(LoadFormat::Text);
        for (index, hop) in run.hops.iter().enumerate() {
            assert_eq!(json[index]["target"], hop.name, "{name}");
            assert_eq!(json[index]["summary"]["requests"], hop.point.arrivals);
            assert!(text.contains(&hop.name), "{name}: {text}");
        }
        for line in text.lines() {
            assert!(line.chars().count() <= 100, "{name}: {line}");
        }
    }
}
