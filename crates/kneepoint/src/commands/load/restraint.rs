//! What keeps a load from doing harm that nobody asked for: it ends when nothing works any more, and a host that is not this
//! machine is asked no faster than was allowed.

use super::target::Foreign;
use crate::args::LoadArgs;
use crate::rate::parse_rate;
use anyhow::{Result, bail};
use kneepoint_linux::machine::MemoryLeft;
use kneepoint_load::{ConsentWatch, LoadPlan, StopWhen, host_of};
use kneepoint_model::Second;
use kneepoint_model::autostop::Observed;
use kneepoint_model::units::format_rate;

/// Seconds in a row in which nothing but failures ends a load.
const HOPELESS_S: u32 = 10;
/// Seconds in a row in which this machine is short of memory that end a load.
const SHORT_S: u32 = 3;
/// The highest rate at a host that is not this machine, where nobody allowed more.
const FOREIGN_HZ: f64 = 1000.0;
/// What `--max-rate` says where any rate is allowed.
const ANY: &str = "none";

/// Counts the seconds in a row in which every request failed.
#[derive(Debug, Default)]
pub(super) struct Hopeless {
    seconds: u32,
}

impl Hopeless {
    /// Takes the next second; a sentence ends the load. A second in which nothing was asked says nothing.
    pub(super) fn second(&mut self, second: &Second) -> Option<String> {
        let asked = second.outcomes.total();
        if asked > 0 {
            let all_failed = second.outcomes.failed() == asked;
            self.seconds = if all_failed { self.seconds + 1 } else { 0 };
        }
        (self.seconds >= HOPELESS_S).then(|| {
            format!("every request failed for {HOPELESS_S} s (--go-on loads on all the same)")
        })
    }
}

/// Counts the seconds in a row in which this machine was short of memory.
#[derive(Debug, Default)]
pub(super) struct Short {
    seconds: u32,
}

impl Short {
    /// Takes what the machine has left after a second; a sentence ends the load.
    pub(super) fn second(&mut self, left: Option<MemoryLeft>) -> Option<String> {
        let shortage = left.and_then(|left| left.shortage());
        self.seconds = if shortage.is_some() {
            self.seconds + 1
        } else {
            0
        };
        shortage.filter(|_| self.seconds >= SHORT_S)
    }
}

/// The highest rate that `--max-rate` allows, or that is usual where a person says whose hosts are loaded; `None` where any is
/// allowed.
///
/// # Errors
/// It is no rate.
pub(super) fn allowed_hz(asked: Option<&str>, is_foreign: bool) -> Result<Option<f64>> {
    match asked {
        Some(ANY) => Ok(None),
        Some(text) => parse_rate("--max-rate", text).map(Some),
        None => Ok(is_foreign.then_some(FOREIGN_HZ)),
    }
}

/// Whether a load is no faster than was allowed.
///
/// # Errors
/// It is faster, or nobody can tell how fast it will be.
pub(super) fn check(args: &LoadArgs, plan: &LoadPlan) -> Result<()> {
    let asked = args.max_rate.as_deref();
    let Some(allowed) = allowed_hz(asked, !args.i_own.is_empty())? else {
        return Ok(());
    };
    let Some(highest) = plan.highest_hz() else {
        bail!(
            "the answers decide how many requests a second closed loops and visits make, and at most {} are allowed: write a \
             rate, such as -q 100, or allow any: --max-rate {ANY}",
            format_rate(allowed)
        );
    };
    if highest <= allowed * (1.0 + 1e-9) {
        return Ok(());
    }
    let (highest, allowed) = (format_rate(highest), format_rate(allowed));
    match asked {
        Some(_) => bail!("the load goes up to {highest}, and --max-rate allows {allowed}"),
        None => bail!(
            "the load goes up to {highest}; a host that is not this machine is sent at most {allowed} unless you allow \
             more: --max-rate {highest}"
        ),
    }
}

/// Asks each host that requests name and nobody said to own whether it may be loaded, and has the load end when one says so no
/// more. What they allow is told in words, a line each.
///
/// # Errors
/// One does not allow it, or nobody can tell how fast the load will be.
pub(super) fn consented(
    args: &LoadArgs,
    foreign: &Foreign,
    plan: &mut LoadPlan,
) -> Result<Vec<String>> {
    let hosts = foreign.unowned(plan, &args.i_own)?;
    let Some(first) = hosts.first() else {
        return Ok(Vec::new());
    };
    let why = &foreign.why;
    let own = format!(
        "If it is yours and may be loaded, say so: --i-own {}",
        host_of(first)
    );
    let Some(highest) = plan.highest_hz() else {
        bail!(
            "{why}, and this load has no highest rate that it could allow: write a rate, such as -q 100. {own}"
        );
    };
    let named: Vec<&str> = hosts.iter().map(String::as_str).collect();
    let (consents, watch) = ConsentWatch::start(&plan.target, &named, highest)
        .map_err(|refused| anyhow::anyhow!("{why}. {own}. Or let the machine say so: {refused}"))?;
    let withdrawn = move |_: &Observed<'_>| {
        let why = watch.withdrawn();
        why.map(|why| format!("it may be loaded no more: {why}"))
    };
    plan.stop_when = Some(match plan.stop_when.take() {
        Some(rule) => rule.or(withdrawn),
        None => StopWhen::new(withdrawn),
    });
    let told = consents.iter().map(|consent| {
        format!(
            "{} allows at most {} until {}; it is asked again every minute",
            consent.host,
            format_rate(consent.highest_hz),
            consent.until
        )
    });
    Ok(told.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use kneepoint_model::{Outcome, OutcomeCounts};

    fn second(ok: u64, failed: u64) -> Second {
        let mut outcomes = OutcomeCounts::default();
        outcomes.by_outcome.insert(Outcome::Ok, ok);
        outcomes.by_outcome.insert(Outcome::HttpError, failed);
        Second {
            outcomes,
            ..Second::default()
        }
    }

    #[test]
    fn a_machine_that_stays_short_of_memory_ends_a_load() {
        let left = |available| {
            let stalled = 0.0;
            Some(MemoryLeft { available, stalled })
        };
        let mut short = Short::default();
        for available in [0.01, 0.01, 0.5, 0.01, 0.01] {
            assert_eq!(short.second(left(available)), None);
        }
        assert!(short.second(left(0.01)).is_some());
        assert_eq!(Short::default().second(None), None);
    }

    #[test]
    fn only_seconds_in_a_row_in_which_nothing_worked_end_a_load() {
        let mut hopeless = Hopeless::default();
        for _ in 0..9 {
            assert_eq!(hopeless.second(&second(0, 5)), None);
        }
        assert_eq!(hopeless.second(&second(1, 99)), None);
        for _ in 0..9 {
            assert_eq!(hopeless.second(&second(0, 5)), None);
            assert_eq!(hopeless.second(&second(0, 0)), None);
        }
        let said = hopeless.second(&second(0, 1)).expect("the tenth");
        assert!(said.contains("--go-on"), "{said}");
    }
}
