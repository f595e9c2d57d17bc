//! A replayed field report.

use crate::markdown::{escaped, line, list, section, table};
use crate::subjects::replay;
use kneepoint_model::Run;

/// What was found and measured beside what was reported; nothing where no report was replayed.
pub(crate) fn replay(out: &mut String, run: &Run) {
    let Some(it) = &run.replay else { return };
    section(out, &escaped(&it.title));
    line(out, &escaped(&it.told));
    let named = |items: Vec<(String, String)>| -> Vec<String> {
        let lines = items.into_iter();
        lines
            .map(|(name, text)| format!("{name}: {text}"))
            .collect()
    };
    list(
        out,
        "What was found without being told",
        &named(replay::causes(it)),
    );
    for it in replay::tables(it) {
        section(out, &escaped(&it.title));
        let columns: Vec<&str> = it.columns.iter().map(String::as_str).collect();
        table(out, &columns, it.rows);
    }
    list(out, "What was done", &named(replay::steps(it)));
    list(out, "Where it differs, and why", &replay::notes(it));
}

#[cfg(test)]
mod tests {
    use super::*;
    use kneepoint_model::replay::Replay;

    #[test]
    fn a_title_is_no_markup() {
        let told = Replay {
            title: "a <img src=x>\n# b".into(),
            ..Replay::default()
        };
        let run = Run {
            replay: Some(told),
            ..Run::default()
        };
        let mut out = String::new();
        replay(&mut out, &run);
        let heading = out.trim_start().lines().next();
        assert_eq!(heading, Some("### a &lt;img src=x&gt; \\# b"));
    }
}
