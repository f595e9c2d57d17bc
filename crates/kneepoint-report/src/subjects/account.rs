//! The account of CPU and time, as rows that every format can show.

pub(crate) mod html;
pub(crate) mod markdown;
pub(crate) mod terminal;

use crate::subjects::stack::waterfall::{self, phase};
use crate::words;
use kneepoint_model::account::{
    Account, CodeAccount, CpuPart, FunctionShare, NativeAccount, TimePart,
};
use kneepoint_model::{Layer, Run, metric};

/// Smallest share that has a row of its own; what is smaller is summed up.
const WORTH_A_ROW: f64 = 0.01;

/// Share below which a row says nothing: it would be told as none.
const NOTHING: f64 = 0.0005;

/// The accounts of a run: the first configuration's, and the last one's where that is another. The latest of each.
pub(crate) fn told(run: &Run) -> Vec<&Account> {
    let accounts = || run.accounts.iter().filter(|account| !account.is_empty());
    let Some(first) = accounts().next() else {
        return Vec::new();
    };
    let first = accounts().rev().find(|account| account.arm == first.arm);
    let last = accounts().next_back();
    let last = last.filter(|last| first.is_some_and(|first| first.arm != last.arm));
    first.into_iter().chain(last).collect()
}

/// A part with what it takes.
pub(crate) struct Row {
    /// What takes it.
    pub(crate) what: String,
    /// For each request in ms; `None` where that says nothing.
    pub(crate) ms: Option<f64>,
    /// Share of the whole; `None` for what is no part of it.
    pub(crate) share: Option<f64>,
    /// Where, by whom, with what.
    pub(crate) details: String,
    /// Whether it is what is not explained.
    pub(crate) is_unexplained: bool,
}

impl Row {
    fn of(what: impl Into<String>, ms: f64, share: f64) -> Self {
        Self {
            what: what.into(),
            ms: Some(ms),
            share: Some(share),
            details: String::new(),
            is_unexplained: false,
        }
    }
}

/// `At 36.2/s a request takes 56.1 ms of the stack's CPU; 92 % of that is explained.`
pub(crate) fn cpu_sentence(account: &Account) -> String {
    let explained = account.explained_share().map_or_else(
        || "it was not measured".to_owned(),
        |share| format!("{} of that is explained", words::share(share)),
    );
    format!(
        "At {} a request takes {} of the stack's CPU; {explained}.",
        words::rate(account.offered_hz),
        words::ms(Some(account.stack_ms()))
    )
}

/// `A request takes 84.0 ms on average; 88 % of that is explained.`
pub(crate) fn time_sentence(account: &Account) -> String {
    let explained = account.time_explained_share().unwrap_or(0.0);
    format!(
        "A request takes {} on average; {} of that is explained.",
        words::ms(Some(account.response_ms)),
        words::share(explained)
    )
}

/// That the SLO did not hold in the step which the account is of; `None` where it held.
pub(crate) fn overload(run: &Run, account: &Account) -> Option<String> {
    waterfall::overload(run, phase(run, &account.arm, &account.phase)?)
}

/// The tiers, and what else ran on the machine, which is no part of the stack's CPU.
pub(crate) fn cpu_rows(account: &Account) -> Vec<Row> {
    let row = |part: &CpuPart| Row {
        share: Some(part.share).filter(|share| *share > 0.0),
        details: format!("{:.2} cores", part.cores),
        ..Row::of(part.of.name(), part.ms, part.share)
    };
    account.cpu.iter().map(row).collect()
}

/// What PHP's CPU is in ms for each request.
fn php_ms(account: &Account) -> f64 {
    let php = account.tiers().find(|(layer, _)| *layer == Layer::Php);
    php.map_or(0.0, |(_, part)| part.ms)
}

/// PHP's CPU by owner of the code; what has none stands last.
pub(crate) fn owner_rows(account: &Account, code: &CodeAccount) -> Vec<Row> {
    let all_ms = php_ms(account);
    let mut rows: Vec<Row> = Vec::new();
    let mut smaller = (0, 0.0);
    for one in &code.owners {
        if one.share.max(one.with_calls) < WORTH_A_ROW {
            smaller = (smaller.0 + 1, smaller.1 + one.share);
            continue;
        }
        rows.push(Row {
            details: with_calls(one.share, one.with_calls),
            ..Row::of(one.owner.to_string(), one.share * all_ms, one.share)
        });
    }
    if smaller.1 >= NOTHING {
        let what = words::counted(smaller.0, "other owner", "other owners");
        rows.push(Row::of(what, smaller.1 * all_ms, smaller.1));
    }
    rows.push(Row {
        is_unexplained: true,
        details:
            "requests begin and end, the first file is compiled, or the stack could not be read"
                .to_owned(),
        ..Row::of("unexplained", code.unnamed * all_ms, code.unnamed)
    });
    rows
}

/// `84 % with what it calls`; nothing where it calls nothing else.
fn with_calls(own: f64, all: f64) -> String {
    match all - own {
        calls if calls < WORTH_A_ROW => String::new(),
        _ => format!("{} with what it calls", words::share(all)),
    }
}

/// PHP's CPU by function.
pub(crate) fn function_rows(account: &Account, code: &CodeAccount) -> Vec<Row> {
    let all_ms = php_ms(account);
    let worth = |one: &&FunctionShare| one.share >= WORTH_A_ROW;
    let rows = code.functions.iter().filter(worth).map(|one| Row {
        details: [one.owner.to_string(), with_calls(one.share, one.with_calls)]
            .into_iter()
            .filter(|part| !part.is_empty())
            .collect::<Vec<_>>()
            .join(", "),
        ..Row::of(function(one), one.share * all_ms, one.share)
    });
    rows.collect()
}

/// `Rates\show at wp-content/plugins/rates/rates.php:31`, `password_verify by Rates\check at ...:9`.
pub(crate) fn function(one: &FunctionShare) -> String {
    match &one.caller {
        Some(caller) => format!("{} by {caller}", one.place),
        None => one.place.to_string(),
    }
}

/// PHP's CPU by file.
pub(crate) fn file_rows(account: &Account, code: &CodeAccount) -> Vec<Row> {
    let all_ms = php_ms(account);
    let worth = code.files.iter().filter(|one| one.share >= WORTH_A_ROW);
    worth
        .map(|one| Row::of(one.file.clone(), one.share * all_ms, one.share))
        .collect()
}

/// How far PHP's shares are to be believed: `By 412 stacks that computed, sampled at load near R*; a share is right
/// within 4.8 points.`
pub(crate) fn code_basis(code: &CodeAccount) -> String {
    let phase = match code.phase.as_str() {
        "over" => "beyond R*",
        _ => "near R*",
    };
    format!(
        "By {} that computed, sampled at load {phase}; a share is right within {:.1}\u{a0}points.",
        words::counted(code.stacks, "stack", "stacks"),
        code.margin() * 100.0
    )
}

/// Whose share the compiling of files is in, where OPcache was off: 80 % at the line that loads classes looks like what the
/// application does there. `None` where it was on, or nobody asked.
pub(crate) fn compiling(run: &Run, account: &Account) -> Option<&'static str> {
    let seen = phase(run, &account.arm, &account.phase)?;
    let is_on = seen.series.last(Layer::Php, metric::OPCACHE_ENABLED)?;
    (is_on == 0.0).then_some(
        "OPcache is off: the time in which PHP compiles a file is counted at the line that loads \
         the file.",
    )
}

/// A tier's CPU by mapped file, with the symbols of each that take most.
pub(crate) fn native_rows(account: &Account, native: &NativeAccount) -> Vec<Row> {
    /// Symbols of a file that are named.
    const SYMBOLS: usize = 4;
    let all = native.samples.max(1) as f64;
    let of_layer = |layer| account.tiers().find(|(one, _)| *one == layer);
    let tier_ms = native
        .layer
        .and_then(of_layer)
        .map_or(0.0, |(_, part)| part.ms);
    let rows = native.objects.iter().map(|object| {
        let symbols = native
            .symbols
            .iter()
            .filter(|one| one.object == object.object);
        let symbols: Vec<String> = symbols
            .filter_map(|one| Some((one.symbol.as_ref()?, one.samples as f64 / all)))
            .filter(|(_, share)| *share >= WORTH_A_ROW)
            .take(SYMBOLS)
            .map(|(symbol, share)| format!("{symbol} {}", words::share(share)))
            .collect();
        let share = object.samples as f64 / all;
        Row {
            details: symbols.join(", "),
            ..Row::of(object.object.clone(), share * tier_ms, share)
        }
    });
    rows.filter(|row| row.share.is_some_and(|share| share >= WORTH_A_ROW))
        .collect()
}

/// The parts of the response time, in the order a request meets them.
pub(crate) fn time_rows(account: &Account) -> Vec<Row> {
    let row = |part: &TimePart| {
        let lines = part.lines.iter();
        let lines: Vec<String> = lines
            .map(|line| format!("{} {}", line.place, words::share(line.share)))
            .collect();
        Row {
            details: lines.join("; "),
            is_unexplained: !part.kind.is_explained(),
            ..Row::of(format!("{} {}", part.layer, part.what), part.ms, part.share)
        }
    };
    account.time.iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use kneepoint_model::SeriesSet;
    use kneepoint_model::run::{Observation, TrialId};

    #[test]
    fn who_is_charged_for_compiling_is_said_where_opcache_was_off() {
        let account = Account {
            phase: "knee".to_owned(),
            arm: "base".to_owned(),
            ..Account::default()
        };
        let said = |enabled: f64| {
            let mut series = SeriesSet::default();
            series.push(Layer::Php, metric::OPCACHE_ENABLED, "", 0.0, enabled);
            let run = Run {
                observations: vec![Observation {
                    phase: "knee".to_owned(),
                    arm: "base".to_owned(),
                    trial: TrialId(1),
                    series,
                    waterfall: None,
                }],
                ..Run::default()
            };
            compiling(&run, &account)
        };
        assert!(said(0.0).is_some_and(|note| note.starts_with("OPcache is off")));
        assert_eq!(said(1.0), None);
        assert_eq!(compiling(&Run::default(), &account), None);
    }
}
