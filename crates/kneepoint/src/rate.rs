//! Rates as people write them at the command line.

use anyhow::{Context as _, Result, bail};
use kneepoint_model::units::parse_duration;

/// Reads `500`, `2k`, `500/s`, `3000/m`, `50/1s`: requests per second.
pub(crate) fn parse_rate(flag: &str, text: &str) -> Result<f64> {
    let wrong = || {
        format!(
            "{flag} {text}: write requests per second above 0, such as 500, or with a unit: 3000/m"
        )
    };
    let (count, per) = text.split_once('/').unwrap_or((text, "1s"));
    let per = match per.trim() {
        unit if unit.starts_with(|c: char| c.is_ascii_alphabetic()) => format!("1{unit}"),
        length => length.to_owned(),
    };
    let seconds = parse_duration(&per).with_context(wrong)?.as_secs_f64();
    let count = count.trim();
    let (digits, factor) = match count.strip_suffix(['k', 'K']) {
        Some(digits) => (digits, 1e3),
        None => (count, 1.0),
    };
    let rate = digits.parse::<f64>().with_context(wrong)? * factor / seconds;
    if rate.is_finite() && rate > 0.0 {
        Ok(rate)
    } else {
        bail!(wrong())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_come_with_and_without_a_unit() {
        let check = |text: &str, expected: f64| {
            let rate = parse_rate("-q", text).expect("a rate");
            assert!((rate - expected).abs() < 1e-9, "{text}: {rate}");
        };
        check("500", 500.0);
        check("2k", 2000.0);
        check("400/s", 400.0);
        check("3000/m", 50.0);
        check("50/2s", 25.0);
        for wrong in ["", "many", "0", "-1", "5/0s", "5/x"] {
            let error = parse_rate("--rate", wrong).expect_err(wrong).to_string();
            assert!(
                error.starts_with(&format!("--rate {wrong}: write")),
                "{error}"
            );
        }
    }
}
