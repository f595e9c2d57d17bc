//! A load second by second, for spreadsheets and plots of one's own.

use super::LoadRun;
use crate::csv::quoted;
use kneepoint_model::{Outcome, Second};

/// The seconds of every target, by intended start, as CSV (RFC 4180) with a header line. The columns are the same
/// for every load. A quantile is empty where no request of the second ended ok.
pub(crate) fn seconds_csv(run: &LoadRun) -> String {
    let mut out = String::from("second,offered,ok");
    for outcome in failures() {
        out.push(',');
        out.push_str(&outcome.name().replace(' ', "_"));
    }
    out.push_str(",good,p50_ms,p90_ms,p95_ms,p99_ms,max_ms,target\r\n");
    for hop in &run.hops {
        for second in &hop.point.seconds {
            out.push_str(&line(second));
            out.push_str(&quoted(&hop.name));
            out.push_str("\r\n");
        }
    }
    out
}

fn failures() -> impl Iterator<Item = Outcome> {
    let all = Outcome::ALL.into_iter();
    all.filter(|outcome| *outcome != Outcome::Ok)
}

/// All columns but the last.
fn line(second: &Second) -> String {
    let ms = |value: Option<f64>| value.map_or_else(String::new, |ms| format!("{ms:.3}"));
    let mut fields = vec![
        format!("{:.0}", second.at_s),
        second.offered.to_string(),
        second.outcomes.of(Outcome::Ok).to_string(),
    ];
    fields.extend(failures().map(|outcome| second.outcomes.of(outcome).to_string()));
    fields.push(second.good.to_string());
    let times = [
        second.p50_ms,
        second.p90_ms,
        second.p95_ms,
        second.p99_ms,
        second.max_ms,
    ];
    fields.extend(times.map(ms));
    fields.push(String::new());
    fields.join(",")
}

#[cfg(test)]
mod tests {
    use super::super::tests::run;
    use super::*;

    #[test]
    fn every_second_of_every_target_is_a_line_of_equal_width() {
        let csv = seconds_csv(&run(&["http://127.0.0.1/", "fastcgi a,b"]));
        let lines: Vec<&str> = csv.lines().collect();
        assert_eq!(lines.len(), 1 + 2 * 10);
        assert!(lines[0].starts_with("second,offered,ok,http_error,"));
        assert!(lines[0].ends_with(",good,p50_ms,p90_ms,p95_ms,p99_ms,max_ms,target"));
        assert!(lines[10].starts_with("9,50,48,2,0,"), "{}", lines[10]);
        assert!(
            lines[10].ends_with(",48,5.750,6.000,6.125,6.250,6.375,http://127.0.0.1/"),
            "{}",
            lines[10]
        );
        assert!(lines[11].ends_with(",\"fastcgi a,b\""), "{}", lines[11]);
        let columns = lines[0].split(',').count();
        assert!(
            lines[1..=10]
                .iter()
                .all(|line| line.split(',').count() == columns)
        );
    }
}
