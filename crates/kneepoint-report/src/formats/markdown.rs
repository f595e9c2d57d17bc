//! Markdown for a pull request: the verdict, the changes, the findings and the diff.

mod account;
mod contest;
mod gate;
mod plan;
mod replay;

use crate::markdown::{escaped, fenced, html_text, line, list, section, table};
use crate::summary;
use crate::words::{self, plain};
use crate::{Format, Options, Summary, summarise};
use kneepoint_model::Run;

/// For a pull request.
pub(super) static FORMAT: Format = Format {
    name: "markdown",
    extension: "md",
    about: "the verdict, the changes and the diff, for a pull request",
    render,
};

fn render(run: &Run, options: &Options) -> String {
    let summary = summarise(run);
    let mut out = String::new();
    head(&mut out, run, &summary);
    gate::gate(&mut out, run);
    replay::replay(&mut out, run);
    plan::plan(&mut out, run);
    contest::contest(&mut out, run);
    limits(&mut out, run);
    decisions(&mut out, run);
    account::account(&mut out, run);
    findings(&mut out, run);
    list(&mut out, "Not in this run", &summary.missing);
    list(&mut out, "Doubts", &summary.doubts);
    diff(&mut out, run);
    if !options.files.is_empty() {
        let files = options
            .files
            .iter()
            .map(|(what, path)| format!("{what}: {path}"))
            .collect::<Vec<_>>();
        list(&mut out, "Results", &files);
    }
    plain(&out)
}

fn head(out: &mut String, run: &Run, summary: &Summary) {
    line(
        out,
        &format!(
            "## Kneepoint {}: {}\n",
            escaped(&run.command),
            escaped(&summary.subject)
        ),
    );
    line(out, &format!("**{}**\n", escaped(&summary.verdict)));
    if let Some(slo) = &summary.slo {
        line(out, &format!("- SLO: {}", escaped(slo)));
    }
    if let Some(confirmation) = &summary.confirmation {
        line(
            out,
            &format!(
                "- Confirming stretch: {}",
                escaped(&confirmation.sentence())
            ),
        );
    }
    if let Some((code, title)) = &summary.bound_by {
        line(
            out,
            &format!("- Bound at first by: {} {}", escaped(code), escaped(title)),
        );
    }
    if let Some(now) = &summary.bound_now {
        line(out, &format!("- Time: {}", escaped(now)));
    }
    let machine = &run.machine;
    if machine.cores > 0 {
        let shared = if machine.shared_with_generator {
            ", shared with the generator"
        } else {
            ""
        };
        let cores = words::counted(machine.cores.into(), "core", "cores");
        line(
            out,
            &format!("- Machine: {cores} of {}{shared}", escaped(&machine.cpu)),
        );
    }
    line(
        out,
        &format!(
            "- Measured: {}, {}, {}",
            words::counted(summary.trials as u64, "step", "steps"),
            words::counted(summary.requests, "request", "requests"),
            words::duration(run.elapsed_s),
        ),
    );
}

fn limits(out: &mut String, run: &Run) {
    let measured: Vec<_> = ["base", "best"]
        .iter()
        .filter_map(|arm| run.limit(arm))
        .collect();
    if measured.is_empty() {
        return;
    }
    section(out, "R*");
    let rows = measured.into_iter().map(|limit| {
        let rate = |hz| words::rate_in(limit.unit(), hz);
        vec![
            limit.arm.clone(),
            match limit.besides_visits() {
                Some(besides) => format!("{} ({besides})", rate(limit.rate_hz.estimate)),
                None => rate(limit.rate_hz.estimate),
            },
            words::range_in(limit.unit(), &limit.rate_hz),
            limit.bound_by.clone(),
            rate(limit.saturation_hz),
            format!(
                "{} of {}{}",
                words::count(limit.soak_failed),
                words::count(limit.soak_arrivals),
                if limit.soak_held {
                    ""
                } else {
                    " (not confirmed)"
                }
            ),
            words::limit_basis(&run.limit_basis(limit)),
        ]
    });
    let columns = [
        "configuration",
        "R*",
        "95 % interval",
        "bound by",
        "saturation",
        "failed below R*",
        "measured",
    ];
    table(out, &columns, rows);
}

fn decisions(out: &mut String, run: &Run) {
    if run.decisions.is_empty() {
        return;
    }
    section(out, "Changes");
    let rows = run.decisions.iter().map(|decision| {
        vec![
            decision.standing().name().into(),
            decision.code.clone(),
            decision.effect.change.clone(),
            format!(
                "{} {}, {}",
                decision.effect.quantity,
                words::factor(&decision.effect),
                words::effect_basis(&decision.effect)
            ),
            decision.leave_one_out.as_ref().map_or_else(
                || "not made".into(),
                |effect| format!("{}, {}", words::factor(effect), words::effect_basis(effect)),
            ),
            decision.reason.clone(),
        ]
    });
    let columns = [
        "",
        "finding",
        "change",
        "factor (95 % interval)",
        "leave-one-out",
        "why",
    ];
    table(out, &columns, rows);
    for (decision, finding) in summary::recommended(run) {
        let what = format!(
            "Recommended, though its gain could not be measured: {} ({}: {}).",
            decision.effect.change, decision.code, finding.title
        );
        line(out, &what);
    }
}

fn findings(out: &mut String, run: &Run) {
    let all = summary::told(run);
    if all.is_empty() {
        return;
    }
    section(out, "Findings");
    let rows = all.iter().map(|told| {
        let finding = told.finding;
        let seen = finding
            .seen
            .iter()
            .map(|seen| match seen.conditions.as_str() {
                "" => seen.what.clone(),
                conditions => format!("{} ({conditions})", seen.what),
            });
        let seen: Vec<_> = seen.collect();
        let remedy = finding.remedy.as_ref().map_or_else(String::new, |remedy| {
            let settings: Vec<_> = remedy.settings.iter().map(ToString::to_string).collect();
            match settings.is_empty() {
                true => remedy.text.clone(),
                false => settings.join("; "),
            }
        });
        vec![
            finding.code.clone(),
            finding.title.clone(),
            finding.layer.to_string(),
            finding.confidence.name().into(),
            seen.join("; "),
            remedy,
        ]
    });
    table(
        out,
        &["code", "finding", "layer", "confidence", "seen", "remedy"],
        rows,
    );
}

fn diff(out: &mut String, run: &Run) {
    if run.diff.is_empty() {
        return;
    }
    section(out, "Configuration diff");
    for file in &run.diff {
        line(
            out,
            &format!("<details><summary>{}</summary>\n", html_text(&file.file)),
        );
        fenced(out, "diff", &file.diff);
        line(out, "\n</details>\n");
    }
}
