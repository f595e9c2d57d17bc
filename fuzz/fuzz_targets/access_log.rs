//! Access logs: the first line of the input is the format (empty: to be found out), the others are the log.

#![no_main]

use kneepoint_access_log::{LearnOptions, LineFormat, learn, parse_line};

libfuzzer_sys::fuzz_target!(|text: &str| {
    let (format, log) = text.split_once('\n').unwrap_or((text, ""));
    if let Ok(format) = LineFormat::parse(format) {
        for entry in log
            .lines()
            .filter_map(|line| parse_line(&format, line).ok())
        {
            assert!(entry.start_us <= entry.end_us, "{entry:?}");
            let request = entry.request.as_ref();
            assert!(
                request.is_none_or(|request| request.target.starts_with('/')),
                "{entry:?}"
            );
        }
    }
    let options = LearnOptions {
        format: (!format.is_empty()).then(|| format.to_owned()),
        ..LearnOptions::default()
    };
    if let Ok(learned) = learn(log.as_bytes(), &options) {
        assert!(
            !learned.workload.requests.is_empty(),
            "nothing learnt must be an error"
        );
        assert!(learned.schedule_at(2.0).total_area().is_finite());
    }
});
