//! The head of the Markdown: the verdict, and what it holds for.

use super::Summary;
use crate::markdown::{escaped, line};
use crate::words;
use kneepoint_model::Run;

/// The verdict first, then facts as a list.
pub(crate) fn head(out: &mut String, run: &Run, summary: &Summary) {
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
    if let Some(confirmed) = summary.confirmed() {
        line(
            out,
            &format!("- Confirming stretch: {}", escaped(&confirmed)),
        );
    }
    if let Some((code, title)) = &summary.bound_by {
        line(
            out,
            &format!(
                "- {}: {} {}",
                if crate::subjects::is_compared(run) {
                    "Limited at first by"
                } else {
                    "Limited by"
                },
                escaped(code),
                escaped(title)
            ),
        );
    }
    if let Some(now) = &summary.limited_now {
        line(out, &format!("- Limited now by: {}", escaped(now)));
    }
    if let Some(now) = &summary.bound_now {
        line(out, &format!("- Time: {}", escaped(now)));
    }
    if let Some(next) = super::next(run) {
        line(out, &format!("- Next: {}", escaped(&next)));
    }
    let machine = &run.machine;
    if machine.cores > 0 {
        let shared = if machine.shared_with_generator {
            ", shared with the generator"
        } else {
            ""
        };
        let cores = machine.cores_in_words();
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
