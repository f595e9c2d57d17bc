//! A line a second, for logs and pipes.

use super::moment::Moment;
use kneepoint_model::units::format_ms;

/// The names of the columns.
const HEADER: [&str; 7] = ["second", "offered/s", "ok/s", "good/s", "p50", "p95", "p99"];

/// Writes each second once.
#[derive(Debug, Default)]
pub(super) struct Plain {
    /// The last second that was told.
    told: u64,
}

impl Plain {
    /// What stands above the lines.
    pub(super) fn header(name: &str) -> String {
        format!("{name}\n{}  errors", columns(HEADER.map(str::to_owned)))
    }

    /// The line of a second that is over, once.
    pub(super) fn tell(&mut self, moment: &Moment) -> Option<String> {
        let second = moment.second();
        (second > self.told).then(|| {
            self.told = second;
            line(second, moment)
        })
    }
}

fn line(second: u64, moment: &Moment) -> String {
    let rate = |per_second: f64| format!("{per_second:.1}");
    let ms = |ms: Option<f64>| ms.map_or_else(|| "-".to_owned(), format_ms);
    let cells = [
        second.to_string(),
        rate(moment.offered_hz),
        rate(moment.ok_hz),
        rate(moment.good_hz),
        ms(moment.p50_ms),
        ms(moment.p95_ms),
        ms(moment.p99_ms),
    ];
    format!("{}  {}", columns(cells), moment.errors())
}

fn columns(cells: [String; 7]) -> String {
    cells.map(|cell| format!("{cell:>10}")).concat()
}

#[cfg(test)]
mod tests {
    use super::super::moment::tests::moment;
    use super::*;
    use expect_test::expect;

    #[test]
    fn each_second_is_one_line() {
        let mut plain = Plain::default();
        let moment = moment();
        let line = plain.tell(&moment).expect("a second is over");
        assert_eq!(plain.tell(&moment), None, "told once");
        expect![[r#"
            http://x/
                second offered/s      ok/s    good/s       p50       p95       p99  errors
                     5     499.0     490.0     480.0   1.25 ms   12.5 ms         -  timeout 3, refused 1"#]]
        .assert_eq(&format!("{}\n{line}", Plain::header("http://x/")));
    }
}
