//! Which format a log has, from its first lines.

use crate::format::{LineFormat, parse_line};

/// How many lines are looked at.
pub(crate) const SAMPLE_LINES: usize = 50;

/// Combined lines with nginx's `$request_time` behind them, and the same behind a forwarded address.
const TIMED: &[(&str, &str)] = &[
    (
        "combined with $request_time",
        r#"$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent" $request_time"#,
    ),
    (
        "main with $request_time",
        r#"$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent" "$http_x_forwarded_for" $request_time"#,
    ),
];

/// The format most of the lines have, the more telling one first; `None` when it is not that of at least half.
#[must_use]
pub fn detect(lines: &[String]) -> Option<LineFormat> {
    let lines: Vec<&str> = lines.iter().map(|line| line.trim_ascii()).collect();
    let lines: Vec<&str> = lines.into_iter().filter(|line| !line.is_empty()).collect();
    let mut best: Option<(usize, LineFormat)> = None;
    for format in candidates(&lines) {
        let fitting = lines
            .iter()
            .filter(|line| parse_line(&format, line).is_ok())
            .count();
        if best.as_ref().is_none_or(|(most, _)| fitting > *most) {
            best = Some((fitting, format));
        }
    }
    let (fitting, format) = best?;
    (fitting > 0 && 2 * fitting >= lines.len()).then_some(format)
}

fn candidates(lines: &[&str]) -> Vec<LineFormat> {
    let mut candidates = vec![LineFormat::json()];
    let open = |name: &str, text: &str| LineFormat::parse(text).ok().map(|f| f.open_ended(name));
    if !lines.is_empty() && lines.iter().all(|line| ends_with_seconds(line)) {
        // The longer one first: the shorter one fits where there is no forwarded address.
        candidates.extend(
            TIMED
                .iter()
                .rev()
                .filter_map(|(name, text)| open(name, text)),
        );
    }
    let names = ["vhost_combined", "main", "combined"];
    candidates.extend(names.iter().filter_map(|name| open(name, name)));
    candidates.extend(LineFormat::parse("common"));
    candidates
}

/// Whether seconds with three decimals, as nginx writes durations, follow the last quoted value.
fn ends_with_seconds(line: &str) -> bool {
    let tail = line.rsplit('"').next().unwrap_or_default();
    let first = tail.split_ascii_whitespace().next().unwrap_or_default();
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    first
        .split_once('.')
        .is_some_and(|(whole, decimals)| digits(whole) && digits(decimals) && decimals.len() == 3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(lines: &[&str], expected: Option<&str>) {
        let lines: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
        let found = detect(&lines);
        assert_eq!(found.as_ref().map(LineFormat::name), expected);
    }

    const COMMON: &str = r#"::1 - - [21/Nov/2026:01:15:12 +0000] "GET / HTTP/1.1" 200 5"#;

    #[test]
    fn the_format_is_seen_in_the_first_lines() {
        let combined = format!("{COMMON} \"-\" \"curl/8\"");
        let main = format!("{combined} \"10.0.0.1\"");
        check(&[COMMON], Some("common"));
        check(&[&combined], Some("combined"));
        check(&[&main], Some("main"));
        check(
            &[&format!("{combined} 0.012")],
            Some("combined with $request_time"),
        );
        check(
            &[&format!("{main} 0.012 0.011 .")],
            Some("main with $request_time"),
        );
        check(&[&format!("{combined} 512 \"gzip\"")], Some("combined"));
        check(&[&format!("{combined} host=shop.test")], Some("combined"));
        check(
            &[&format!("shop.test:80 {combined}")],
            Some("vhost_combined"),
        );
        check(
            &[r#"{"time":"2026-11-21T01:15:12Z","request_uri":"/"}"#],
            Some("json"),
        );
    }

    #[test]
    fn a_few_bad_lines_do_not_hide_it_and_no_log_has_none() {
        check(&["rubbish", COMMON, "", COMMON], Some("common"));
        check(&["rubbish", "more", COMMON], None);
        check(&["Nov 21 01:15:12 host sshd[1]: Accepted"], None);
        check(&[], None);
    }
}
