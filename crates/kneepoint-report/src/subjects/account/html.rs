//! Where the CPU goes, and where a request's time goes: parts with their shares, and what is not explained.

use crate::html::Section;
use crate::subjects::account::{self, Row};
use crate::subjects::inside::flame;
use crate::subjects::{arm_name, tone, tuning_note};
use crate::words;
use kneepoint_model::Run;
use kneepoint_model::account::{Account, CodeAccount, NativeAccount};
use maud::{Markup, html};

/// The accounts of the first and the last configuration; `None` where there is none.
pub(crate) fn section(run: &Run) -> Option<Section> {
    let accounts = account::told(run);
    if accounts.is_empty() {
        return None;
    }
    let arms: Vec<&str> = accounts.iter().map(|one| one.arm.as_str()).collect();
    Some(Section {
        id: "account",
        title: "Where the CPU and the time go",
        body: html! {
            @if let Some(note) = tuning_note(run, &arms) { p class="caption" { (note) } }
            @for account in accounts { (figure(run, account)) }
        },
    })
}

fn figure(run: &Run, account: &Account) -> Markup {
    let name = arm_name(run, &account.arm);
    html! {
        div class={ "account " (tone(&account.arm)) } {
            h3 { "Where the CPU goes, " (name) }
            @if account.cpu.is_empty() { p { "The CPU of the tiers was not measured." } }
            @else {
                p class="caption" {
                    (account::cpu_sentence(account)) " A tier's CPU is that of its control group, and PHP's is explained as \
                    far as sampled stacks name the code at work."
                }
                (table("tier", &account::cpu_rows(account)))
            }
            @if let Some(code) = &account.code { (of_code(run, account, code)) }
            @for native in &account.native {
                (of_kernel(run, account, native))
                @let rows = account::native_rows(account, native);
                @if let (Some(layer), false) = (native.layer, rows.is_empty()) {
                    details {
                        summary { "The CPU of " (layer) " by program file, of " (words::counted(native.samples, "sample", "samples")) }
                        (table("file", &rows))
                    }
                }
            }
            @if !account.time.is_empty() {
                h3 { "Where the time goes, " (name) }
                p class="caption" {
                    (account::time_sentence(account))
                    @if let Some(said) = account::overload(run, account) { " " (said) }
                }
                (table("part", &account::time_rows(account)))
            }
            @for note in &account.notes { p class="caption" { (words::sentence(note)) "." } }
        }
    }
}

/// Samples of the kernel from which on a picture of them says something \[ours\].
const ENOUGH: u64 = 50;

/// The kernel's work for a tier as a flame graph; told from that of the first configuration where this is another.
fn of_kernel(run: &Run, account: &Account, native: &NativeAccount) -> Markup {
    let samples: u64 = native.kernel.iter().map(|stack| stack.samples).sum();
    let Some(layer) = native.layer.filter(|_| samples >= ENOUGH) else {
        return html! {};
    };
    let first = account::told(run).into_iter().next();
    let first = first.filter(|first| first.arm != account.arm);
    let before = first.and_then(|first| {
        let native = first.native.iter().find(|one| one.layer == native.layer)?;
        (!native.kernel.is_empty()).then_some(native.kernel.as_slice())
    });
    let share = samples as f64 / native.samples.max(1) as f64;
    html! {
        details {
            summary { "What the kernel does for " (layer) ", " (words::share(share)) " of its CPU" }
            p class="caption" {
                "Width is CPU time at R*, of " (words::counted(samples, "sample", "samples")) ". A function lies below the one that called it."
                @if before.is_some() { " Orange is a larger share than before, blue a smaller one." }
            }
            (flame::of_kernel(&format!("the kernel for {layer}"), &native.kernel, before.map(|before| (before, "before"))))
        }
    }
}

fn of_code(run: &Run, account: &Account, code: &CodeAccount) -> Markup {
    let functions = account::function_rows(account, code);
    let files = account::file_rows(account, code);
    html! {
        h4 { "Of PHP's CPU, by owner of the code" }
        p class="caption" {
            (account::code_basis(code))
            @if let Some(note) = account::compiling(run, account) { " " (note) }
        }
        (table("owner", &account::owner_rows(account, code)))
        @if !functions.is_empty() {
            h4 { "By function" }
            (table("function", &functions))
        }
        @if !files.is_empty() {
            details { summary { "By file" } (table("file", &files)) }
        }
    }
}

fn table(first: &str, rows: &[Row]) -> Markup {
    html! {
        table class="shares" {
            thead { tr {
                th scope="col" { (first) }
                th scope="col" class="num" { "a request" }
                th scope="col" class="num" { "share" }
                th scope="col" class="bar" { span class="hidden" { "share as a bar" } }
            } }
            tbody { @for row in rows { (line(row)) } }
        }
    }
}

fn line(row: &Row) -> Markup {
    let share = row.share.map_or_else(String::new, words::share);
    html! {
        tr class=(if row.is_unexplained { "unexplained" } else { "" }) {
            th scope="row" {
                (row.what)
                @if !row.details.is_empty() { br; small { (row.details) } }
            }
            td class="num" { (row.ms.map_or_else(String::new, |ms| words::ms(Some(ms)))) }
            td class="num" { (share) }
            td class="bar" { @if let Some(part) = row.share { (bar(part)) } }
        }
    }
}

fn bar(share: f64) -> Markup {
    let share = if share.is_nan() {
        0.0
    } else {
        share.clamp(0.0, 1.0)
    };
    let width = format!("{:.2}%", share * 100.0);
    html! {
        svg aria-hidden="true" width="100%" height="12" {
            rect class="knee" x="0" y="1" width=(width) height="10" {}
        }
    }
}
