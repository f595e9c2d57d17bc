//! What was seen from within the workers, as rows that every format can show.

pub(crate) mod flame;
pub(crate) mod html;
pub(crate) mod terminal;

use crate::words;
use kneepoint_model::{CallKind, CallTrace, Place, TracedCall};

/// Rows of each list.
const ROWS: usize = 10;

/// The kinds of calls, with what several of them are called.
const KINDS: [(CallKind, &str); 9] = [
    (CallKind::Open, "files opened"),
    (CallKind::Look, "paths looked up"),
    (CallKind::Connect, "connections made"),
    (CallKind::Query, "queries"),
    (CallKind::Command, "Redis commands"),
    (CallKind::Http, "HTTP requests"),
    (CallKind::Send, "other sends"),
    (CallKind::Lock, "locks asked for"),
    (CallKind::Sleep, "sleeps"),
];

/// How often a kind of call was made.
pub(crate) struct Total {
    /// What several of them are called.
    pub(crate) name: &'static str,
    /// Those that succeeded, for each request.
    pub(crate) each: f64,
    /// Those that failed, for each request.
    pub(crate) failed: f64,
}

/// The kinds of calls that were made at all, per request.
pub(crate) fn totals(trace: &CallTrace) -> Vec<Total> {
    KINDS
        .iter()
        .filter_map(|(kind, name)| {
            let (each, failed) = trace.per_request(*kind)?;
            (each + failed > 0.0).then_some(Total { name, each, failed })
        })
        .collect()
}

/// Calls about one thing.
pub(crate) struct Row {
    /// How often, for each request: of all of them, or of the route that is named.
    pub(crate) each: f64,
    /// What it is about.
    pub(crate) what: String,
    /// From where, to whom, in which requests.
    pub(crate) details: String,
}

/// A list of calls of one kind, most first.
pub(crate) struct List {
    /// Its heading.
    pub(crate) title: String,
    /// Its rows.
    pub(crate) rows: Vec<Row>,
    /// How many more there are.
    pub(crate) more: usize,
}

/// The lists of a trace that are not empty.
pub(crate) fn lists(trace: &CallTrace) -> Vec<List> {
    let lists = KINDS.iter().map(|(kind, name)| {
        let rows = match kind {
            CallKind::Open | CallKind::Look => by_what(trace, *kind),
            _ => by_call(trace, *kind),
        };
        let more = rows.len().saturating_sub(ROWS);
        List {
            title: words::sentence(name),
            rows: rows.into_iter().take(ROWS).collect(),
            more,
        }
    });
    lists.filter(|list| !list.rows.is_empty()).collect()
}

fn by_what(trace: &CallTrace, kind: CallKind) -> Vec<Row> {
    let sums = trace.sums(kind).into_iter();
    sums.map(|sum| {
        let mut details = vec![place(sum.most_from.place.as_ref())];
        if sum.failed_per_request > 0.0 {
            details.push(format!("{} failed", times(sum.failed_per_request)));
        }
        Row {
            each: sum.per_request,
            what: sum.what.to_owned(),
            details: details.join("; "),
        }
    })
    .collect()
}

fn by_call(trace: &CallTrace, kind: CallKind) -> Vec<Row> {
    let each = |call: &TracedCall| {
        let requests = trace.requests_of(&call.route).max(1);
        call.count as f64 / requests as f64
    };
    let mut calls: Vec<&TracedCall> = trace.of(kind).collect();
    calls.sort_by(|a, b| each(b).total_cmp(&each(a)));
    let rows = calls.into_iter().map(|call| {
        let mut details = vec![place(call.named_place())];
        if !call.through.is_empty() {
            details.push(format!("through {}", call.through));
        }
        if !call.peer.is_empty() && call.peer != call.what {
            details.push(format!("to {}", call.peer));
        }
        details.push(format!("in {}", call.route));
        if call.failed > 0 {
            details.push(format!("{} of {} failed", call.failed, call.count));
        }
        Row {
            each: each(call),
            what: match call.what.as_str() {
                "" => "data of no known protocol".to_owned(),
                what => what.to_owned(),
            },
            details: details.join(", "),
        }
    });
    rows.collect()
}

fn place(place: Option<&Place>) -> String {
    place.map_or_else(|| "the engine itself".to_owned(), Place::to_string)
}

/// `880`, `3.1`, `0.25`.
pub(crate) fn times(each: f64) -> String {
    match each {
        each if each >= 99.5 => words::count(each.round() as u64),
        each if (each - each.round()).abs() < 1e-9 => format!("{each:.0}"),
        each if each >= 1.0 => format!("{each:.1}"),
        each => format!("{each:.2}"),
    }
}

/// How many requests of which routes were traced: `34 requests traced from beginning to end: 22 GET /, 12 GET /visits`.
pub(crate) fn traced(trace: &CallTrace) -> String {
    let routes = trace.routes.iter().take(ROWS);
    let routes: Vec<String> = routes
        .map(|route| format!("{} {}", route.requests, route.route))
        .collect();
    let mut text = format!(
        "{} traced from beginning to end",
        words::counted(trace.requests(), "request", "requests")
    );
    if !routes.is_empty() {
        text.push_str(&format!(": {}", routes.join(", ")));
    }
    if trace.routes.len() > ROWS {
        text.push_str(&format!(" and {} other routes", trace.routes.len() - ROWS));
    }
    text
}
