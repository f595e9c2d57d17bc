//! Where the CPU and a request's time go, in a dozen lines.

use crate::subjects::account::{self, Row};
use crate::text::{Page, Style};
use crate::words;
use kneepoint_model::Run;
use kneepoint_model::account::{Account, CodeAccount};

/// Tiers that have a line each; the others share one.
const TIERS: usize = 3;
/// Owners and functions that are named.
const NAMED: usize = 4;
const FUNCTIONS: usize = 2;
/// Parts of the time that are named.
const TIMES: usize = 5;

/// The account of the last configuration.
pub(crate) fn account(page: &mut Page, run: &Run) {
    let Some(account) = account::told(run).pop() else {
        return;
    };
    if !account.cpu.is_empty() {
        page.heading("Where the CPU goes");
        indented(page, &account::cpu_sentence(account));
        cpu(page, run, account);
    }
    if !account.time.is_empty() {
        page.heading("Where a request's time goes");
        indented(page, &account::time_sentence(account));
        if let Some(said) = account::overload(run, account) {
            page.columns(&[("", 2, None)], &said, Some(Style::Alert));
        }
        let parts = largest(account::time_rows(account), TIMES);
        let parts: Vec<String> = parts.iter().map(named).collect();
        indented(page, &format!("{}.", parts.join(", ")));
    }
}

fn indented(page: &mut Page, text: &str) {
    page.columns(&[("", 2, None)], text, None);
}

fn cpu(page: &mut Page, run: &Run, account: &Account) {
    let rows = account::cpu_rows(account);
    let (tiers, besides): (Vec<Row>, Vec<Row>) =
        rows.into_iter().partition(|row| row.share.is_some());
    for row in tiers.iter().take(TIERS) {
        let ms = words::ms(row.ms);
        let share = row.share.map_or_else(String::new, words::share);
        let code = account.code.as_ref().filter(|_| row.what == "php");
        page.columns(
            &[
                ("", 2, None),
                (&row.what, 11, Some(Style::Strong)),
                (&format!("{ms:>8}"), 10, None),
                (&format!("{share:>6}"), 8, None),
            ],
            &code.map_or_else(String::new, |code| owners(account, code)),
            None,
        );
        if let Some(code) = code.filter(|code| !code.functions.is_empty()) {
            page.columns(
                &[("", 31, None)],
                &functions(account, code),
                Some(Style::Faint),
            );
            if let Some(note) = account::compiling(run, account) {
                page.columns(&[("", 31, None)], note, Some(Style::Faint));
            }
        }
    }
    let smaller = with_ms(tiers.get(TIERS..).unwrap_or_default());
    if !smaller.is_empty() {
        let others = [("", 2, None), ("others", 12, Some(Style::Faint))];
        page.columns(&others, &smaller, None);
    }
    let besides = with_ms(&besides);
    if !besides.is_empty() {
        let stack = words::ms(Some(account.stack_ms()));
        indented(page, &format!("Not counted in the {stack}: {besides}."));
    }
}

/// `proxy 0.36 ms, cache 0.32 ms`.
fn with_ms(rows: &[Row]) -> String {
    let rows = rows.iter();
    let told: Vec<String> = rows
        .map(|row| format!("{} {}", row.what, words::ms(row.ms)))
        .collect();
    told.join(", ")
}

/// `plugin rates 71 % (84 % with what it calls), WordPress core 21 %, unexplained 2.0 %`.
fn owners(account: &Account, code: &CodeAccount) -> String {
    let rows = account::owner_rows(account, code).into_iter();
    let (mut rest, owned): (Vec<Row>, Vec<Row>) = rows.partition(|row| row.is_unexplained);
    let mut owned = largest(owned, NAMED);
    owned.append(&mut rest);
    let owned = owned.iter().map(|row| match row.details.as_str() {
        details if details.is_empty() || row.is_unexplained => named(row),
        details => format!("{} ({details})", named(row)),
    });
    owned.collect::<Vec<_>>().join(", ")
}

fn functions(account: &Account, code: &CodeAccount) -> String {
    let rows = account::function_rows(account, code);
    let rows: Vec<String> = rows.iter().take(FUNCTIONS).map(named).collect();
    format!("most in {}", rows.join("; in "))
}

fn named(row: &Row) -> String {
    let share = row.share.map_or_else(String::new, words::share);
    format!("{} {share}", row.what)
}

/// The largest, in the order they had.
fn largest(rows: Vec<Row>, most: usize) -> Vec<Row> {
    let mut shares: Vec<f64> = rows.iter().filter_map(|row| row.share).collect();
    shares.sort_by(|a, b| b.total_cmp(a));
    let bar = shares.get(most).copied().unwrap_or(-1.0);
    let kept = rows
        .into_iter()
        .filter(|row| row.share.is_some_and(|share| share > bar));
    kept.take(most).collect()
}
