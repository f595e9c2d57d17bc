//! The order in which several causes are best mended, in words.

use crate::html::Section;
use crate::markdown::list;
use crate::text::{Page, Style};
use kneepoint_model::Run;
use kneepoint_model::mending::{Mending, MendingStep};
use kneepoint_model::units::format_share;
use maud::html;

const TITLE: &str = "Order of mending";
/// What the numbers rest on, in every form.
const BASIS: &str = "Expected from the causes' shares, not measured. What each is worth counts once those before it are mended.";
/// Gains that are less than this are no gain to speak of.
const NOTHING: f64 = 1.005;

/// The order of the first configuration: what bound when the run began.
fn told(run: &Run) -> Option<&Mending> {
    run.mendings.first().filter(|it| it.steps.len() > 1)
}

/// A step in words: `OPC-06 ... (30 % of its resource): 1.43 times the limit`.
fn in_words(step: &MendingStep) -> String {
    let share = format_share(step.share);
    let worth = if step.after < NOTHING {
        "no more of the limit: something else binds".to_owned()
    } else {
        format!("{:.2} times the limit", step.after)
    };
    let alone = if (step.alone - step.after).abs() < NOTHING - 1.0 {
        String::new()
    } else if step.alone < NOTHING {
        "; alone it would change nothing".to_owned()
    } else {
        format!("; alone {:.2} times", step.alone)
    };
    format!("{} {} ({share}): {worth}{alone}", step.code, step.title)
}

fn lines(order: &Mending) -> Vec<String> {
    let steps = order.steps.iter().enumerate();
    steps
        .map(|(nth, step)| {
            let then = if nth == 0 { "first " } else { "then " };
            format!("{then}{}", in_words(step))
        })
        .collect()
}

/// On the terminal.
pub(crate) fn terminal(page: &mut Page, run: &Run) {
    let Some(order) = told(run) else {
        return;
    };
    page.heading(TITLE);
    for line in lines(order) {
        page.columns(&[("  -", 4, Some(Style::Strong))], &line, None);
    }
    page.columns(&[("", 4, None)], BASIS, Some(Style::Faint));
}

/// In Markdown.
pub(crate) fn markdown(out: &mut String, run: &Run) {
    let Some(order) = told(run) else {
        return;
    };
    let mut lines = lines(order);
    lines.push(BASIS.to_owned());
    list(out, TITLE, &lines);
}

/// On the page.
pub(crate) fn html(run: &Run) -> Option<Section> {
    let order = told(run)?;
    Some(Section {
        id: "mending",
        title: TITLE,
        body: html! {
            ol { @for step in &order.steps { li { (in_words(step)) } } }
            p class="caption" { (BASIS) }
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Styles;
    use kneepoint_model::Layer;

    fn step(code: &str, share: f64, alone: f64, after: f64) -> MendingStep {
        MendingStep {
            code: code.to_owned(),
            layer: Layer::Php,
            title: "something is wrong".to_owned(),
            share,
            alone,
            after,
        }
    }

    fn run(steps: Vec<MendingStep>) -> Run {
        Run {
            mendings: vec![Mending {
                arm: "base".to_owned(),
                steps,
            }],
            ..Run::default()
        }
    }

    #[test]
    fn every_form_tells_what_the_second_is_worth_after_the_first() {
        let run = run(vec![
            step("APP-17", 0.8, 2.5, 2.5),
            step("OPC-06", 0.5, 1.0, 2.0),
            step("APP-07", 0.1, 1.2, 1.0),
        ]);
        let mut page = Page::new(100, Styles::Plain);
        terminal(&mut page, &run);
        let mut text = String::new();
        markdown(&mut text, &run);
        let body = html(&run).expect("an order").body.into_string();
        for form in [page.finish(), text, body] {
            let form = form.split_whitespace().collect::<Vec<_>>().join(" ");
            for part in [
                "APP-17 something is wrong (80 %): 2.50 times the limit",
                "OPC-06 something is wrong (50 %): 2.00 times the limit; alone it would change nothing",
                "APP-07 something is wrong (10 %): no more of the limit: something else binds; alone 1.20 times",
                "not measured",
            ] {
                assert!(form.contains(part), "{part}: {form}");
            }
        }
    }

    #[test]
    fn one_cause_is_no_order() {
        let run = run(vec![step("APP-17", 0.8, 2.5, 2.5)]);
        assert!(html(&run).is_none());
        let mut text = String::new();
        markdown(&mut text, &run);
        assert!(text.is_empty());
    }
}
