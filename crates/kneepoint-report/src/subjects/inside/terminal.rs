//! What requests do, call by call.

use super::{lists, times, totals, traced};
use crate::Styles;
use crate::text::{Page, Style};
use kneepoint_model::CallTrace;

const COLUMNS: usize = 100;

/// What requests do, as text of at most 100 columns.
#[must_use]
pub fn calls_text(trace: &CallTrace, styles: Styles) -> String {
    let mut page = Page::new(COLUMNS, styles);
    page.columns(
        &[],
        &format!("{}, {}", trace.php, traced(trace)),
        Some(Style::Strong),
    );
    for note in &trace.notes {
        page.columns(&[("note:", 6, Some(Style::Alert))], note, None);
    }
    if trace.requests() == 0 {
        page.columns(
            &[],
            "no request was seen whole: is there load?",
            Some(Style::Alert),
        );
        return page.finish();
    }
    page.blank();
    let row = |page: &mut Page, cells: [&str; 3], style| {
        let [each, failed, name] = cells;
        let each = format!("{each:>10}");
        let failed = format!("{failed:>10}");
        page.columns(&[(&each, 11, style), (&failed, 12, style)], name, style);
    };
    row(&mut page, ["a request", "failed", ""], Some(Style::Faint));
    for total in totals(trace) {
        let failed = match total.failed {
            failed if failed > 0.0 => times(failed),
            _ => String::new(),
        };
        row(&mut page, [&times(total.each), &failed, total.name], None);
    }
    for list in lists(trace) {
        page.heading(&list.title);
        for row in &list.rows {
            let each = format!("{:>8}", times(row.each));
            page.columns(&[(&each, 10, Some(Style::Strong))], &row.what, None);
            page.columns(&[("", 10, None)], &row.details, Some(Style::Faint));
        }
        if list.more > 0 {
            page.columns(
                &[("", 10, None)],
                &format!("and {} more", list.more),
                Some(Style::Faint),
            );
        }
    }
    page.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;
    use kneepoint_model::{CallKind, Place, TracedCall, TracedRoute};

    fn call(kind: CallKind, what: &str, count: u64, failed: u64) -> TracedCall {
        let place = Place {
            function: "App\\Orders::list".to_owned(),
            file: Some("app/Orders.php".to_owned()),
            line: Some(31),
        };
        TracedCall {
            route: "GET /orders/{n}".to_owned(),
            kind,
            what: what.to_owned(),
            peer: "db".to_owned(),
            through: "PDOStatement::execute".to_owned(),
            place: Some(place.clone()),
            own: Some(place),
            count,
            failed,
            most: count,
            answer_bytes: 0,
            waited_us: 0,
        }
    }

    #[test]
    fn a_trace_is_told_by_kind_and_by_what_it_is_about() {
        let mut script = call(CallKind::Open, "public/index.php", 4, 0);
        (script.place, script.own) = (None, None);
        let trace = CallTrace {
            php: "PHP 8.2.35 (fpm-fcgi)".to_owned(),
            routes: vec![TracedRoute {
                route: "GET /orders/{n}".to_owned(),
                requests: 4,
            }],
            calls: vec![
                call(CallKind::Open, "config/app.php", 72, 0),
                script,
                call(CallKind::Look, "absent.php", 5, 5),
                call(
                    CallKind::Query,
                    "select * from items where order_id = ?",
                    204,
                    0,
                ),
                call(CallKind::Send, "", 4, 0),
            ],
            ..CallTrace::default()
        };
        expect![[r#"
            PHP 8.2.35 (fpm-fcgi), 4 requests traced from beginning to end: 4 GET /orders/{n}

             a request     failed
                    19             files opened
                     0        1.2  paths looked up
                    51             queries
                     1             other sends

            Files opened
                  18  config/app.php
                      App\Orders::list at app/Orders.php:31
                   1  public/index.php
                      the engine itself

            Paths looked up
                 1.2  absent.php
                      App\Orders::list at app/Orders.php:31; 1.2 failed

            Queries
                  51  select * from items where order_id = ?
                      App\Orders::list at app/Orders.php:31, through PDOStatement::execute, to db, in GET
                      /orders/{n}

            Other sends
                   1  data of no known protocol
                      App\Orders::list at app/Orders.php:31, through PDOStatement::execute, to db, in GET
                      /orders/{n}
        "#]].assert_eq(&calls_text(&trace, Styles::Plain));
    }

    #[test]
    fn a_trace_of_nothing_says_so() {
        let trace = CallTrace {
            php: "PHP 8.2.35 (fpm-fcgi)".to_owned(),
            notes: vec!["process 7 has ended".to_owned()],
            ..CallTrace::default()
        };
        expect![[r#"
            PHP 8.2.35 (fpm-fcgi), 0 requests traced from beginning to end
            note: process 7 has ended
            no request was seen whole: is there load?
        "#]]
        .assert_eq(&calls_text(&trace, Styles::Plain));
    }
}
