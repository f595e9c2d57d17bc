//! What every format owes its reader, on sample runs.

use crate::support;
use crate::support::{INJECTION, SECRET};
use expect_test::expect_file;
use kneepoint_model::Run;
use kneepoint_report::{FORMATS, Format, LoadFormat, Options, Styles, redact, render, render_load};

pub(crate) fn written(run: &Run, format: &str) -> String {
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
