//! The percentile distribution as HdrHistogram writes it (`.hgrm`), which its plotters read.

use kneepoint_model::LatencyHistogram;

/// Value in ms, percentile, count up to there, and 1/(1-percentile), a line a recorded value.
pub(super) fn table(times: &LatencyHistogram) -> String {
    let total = times.count() as f64;
    let mut out = String::from("       Value     Percentile TotalCount 1/(1-Percentile)\n\n");
    for (ms, share) in times.curve() {
        let count = (share * total).round();
        if count < total {
            let odds = 1.0 / (1.0 - share);
            out.push_str(&format!(
                "{ms:>12.3} {share:>14.12} {count:>10} {odds:>14.2}\n"
            ));
        } else {
            // The odds against exceeding the greatest are infinite, and HdrHistogram leaves them out.
            out.push_str(&format!("{ms:>12.3} {share:>14.12} {count:>10}\n"));
        }
    }
    let known = |value: Option<f64>| value.unwrap_or(0.0);
    out.push_str(&format!(
        "#[Mean    = {:>12.3}]\n#[Max     = {:>12.3}, Total count    = {:>12}]\n",
        known(times.mean_ms()),
        known(times.max_ms()),
        times.count()
    ));
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    #[test]
    fn each_recorded_value_has_its_line() {
        let mut times = LatencyHistogram::default();
        [500, 500, 500, 1000]
            .into_iter()
            .for_each(|us| times.record_us(us));
        expect![[r#"
                   Value     Percentile TotalCount 1/(1-Percentile)

                   0.500 0.750000000000          3           4.00
                   1.000 1.000000000000          4
            #[Mean    =        0.625]
            #[Max     =        1.000, Total count    =            4]
        "#]]
        .assert_eq(&table(&times));
    }
}
