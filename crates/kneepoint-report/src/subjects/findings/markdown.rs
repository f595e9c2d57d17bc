//! Findings as a table.

use super::{LEGEND, ORDER, told};
use crate::markdown::{line, section, table};
use crate::words;
use kneepoint_model::Run;

/// Each cause once; nothing where none was found.
pub(crate) fn findings(out: &mut String, run: &Run) {
    let all = told(run);
    if all.is_empty() {
        return;
    }
    section(out, "Findings");
    line(out, &format!("{ORDER} {}.\n", words::sentence(LEGEND)));
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
            let settings: Vec<_> = remedy.settings.iter().map(words::owners_setting).collect();
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
        &["code", "finding", "tier", "confidence", "seen", "remedy"],
        rows,
    );
}
