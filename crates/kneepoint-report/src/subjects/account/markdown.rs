//! Where the CPU and a request's time go.

use crate::markdown::{escaped, line, section, table};
use crate::subjects::account::{self, Row};
use crate::words;
use kneepoint_model::Run;
use kneepoint_model::account::Account;

/// Functions that are listed.
const FUNCTIONS: usize = 5;

/// The account of the last configuration.
pub(crate) fn account(out: &mut String, run: &Run) {
    let Some(account) = account::told(run).pop() else {
        return;
    };
    if !account.cpu.is_empty() {
        section(out, "Where the CPU goes");
        cpu(out, run, account);
    }
    if !account.time.is_empty() {
        section(out, "Where a request's time goes");
        let overload = account::overload(run, account).map(|said| format!(" {said}"));
        let said = account::time_sentence(account) + &overload.unwrap_or_default();
        line(out, &format!("{}\n", escaped(&said)));
        rows(
            out,
            ["part", "a request", "share", "where"],
            account::time_rows(account),
        );
    }
}

fn cpu(out: &mut String, run: &Run, account: &Account) {
    line(
        out,
        &format!("{}\n", escaped(&account::cpu_sentence(account))),
    );
    rows(
        out,
        ["", "a request", "share", ""],
        account::cpu_rows(account),
    );
    let Some(code) = &account.code else { return };
    let mut basis = account::code_basis(code);
    if let Some(note) = account::compiling(run, account) {
        basis = format!("{basis} {note}");
    }
    line(out, &format!("\n{}\n", escaped(&basis)));
    let owners = account::owner_rows(account, code);
    rows(out, ["PHP's CPU", "a request", "share", ""], owners);
    let mut functions = account::function_rows(account, code);
    functions.truncate(FUNCTIONS);
    if !functions.is_empty() {
        line(out, "");
        rows(out, ["function", "a request", "share", "whose"], functions);
    }
    for native in &account.native {
        let Some(layer) = native.layer else { continue };
        line(out, "");
        let column = format!("program file, {layer}");
        let files = account::native_rows(account, native);
        rows(
            out,
            [column.as_str(), "a request", "share", "symbols"],
            files,
        );
    }
}

fn rows(out: &mut String, columns: [&str; 4], rows: Vec<Row>) {
    let cells = rows.into_iter().map(|row| {
        vec![
            row.what,
            row.ms.map_or_else(String::new, |ms| words::ms(Some(ms))),
            row.share.map_or_else(String::new, words::share),
            row.details,
        ]
    });
    table(out, &columns, cells);
}
