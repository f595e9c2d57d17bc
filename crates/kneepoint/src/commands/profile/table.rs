//! A profile as a person reads it.

use kneepoint_model::units::format_share;
use kneepoint_profiler::{Cost, PhpProfile};

/// Requests that are listed.
const REQUESTS: usize = 10;
/// Widest name of a function, in characters; a longer one loses its beginning, which is the namespace.
const NAME: usize = 56;

/// What was sampled, and how far it is to be believed.
pub(super) fn head(profile: &PhpProfile) -> String {
    let counts = profile.counts;
    let share = |part: u64| format_share(ratio(part, counts.busy()));
    let mut text = format!(
        "{}, {} worker{}, {:.1} s at {} Hz: {} samples with a request, {} without\n",
        profile.php,
        profile.workers,
        if profile.workers == 1 { "" } else { "s" },
        profile.elapsed_s,
        profile.rate_hz,
        counts.busy(),
        counts.idle
    );
    if counts.busy() > 0 {
        text.push_str(&format!(
            "ok {} ({}), salvaged {} ({}), error {} ({}); sampling took {} of one core\n",
            counts.ok,
            share(counts.ok),
            counts.salvaged,
            share(counts.salvaged),
            counts.error,
            share(counts.error),
            format_share(if profile.elapsed_s > 0.0 {
                profile.cost_s / profile.elapsed_s
            } else {
                0.0
            }),
        ));
    } else {
        text.push_str("no worker had a request: is there load?\n");
    }
    if profile.missed > 0 {
        text.push_str(&format!(
            "{} moments were missed because sampling could not keep up: sample less often\n",
            profile.missed
        ));
    }
    let errors = profile
        .errors
        .iter()
        .map(|(why, count)| format!("{why} ({count})"));
    let errors: Vec<String> = errors.collect();
    if !errors.is_empty() {
        text.push_str(&format!("errors: {}\n", errors.join(", ")));
    }
    for note in &profile.notes {
        text.push_str(&format!("note: {note}\n"));
    }
    text
}

/// The functions that were innermost most often.
pub(super) fn functions(profile: &PhpProfile, top: usize) -> String {
    let costs = profile.costs();
    if costs.is_empty() {
        return String::new();
    }
    let all = profile.counts.ok + profile.counts.salvaged;
    let shown = &costs[..top.min(costs.len())];
    let width = shown
        .iter()
        .map(|cost| shortened(&cost.function).chars().count())
        .max()
        .unwrap_or(0)
        .max("function".len());
    let mut text = format!(
        "\n{:>7} {:>7}  {:<width$}  where\n",
        "self", "total", "function"
    );
    for cost in shown {
        let row = format!(
            "{:>7} {:>7}  {:<width$}  {}",
            format_share(ratio(cost.own, all)),
            format_share(ratio(cost.total, all)),
            shortened(&cost.function),
            place(cost)
        );
        text.push_str(row.trim_end());
        text.push('\n');
    }
    if costs.len() > shown.len() {
        text.push_str(&format!(
            "and {} more functions (--top)\n",
            costs.len() - shown.len()
        ));
    }
    text
}

/// The requests that were at work most.
pub(super) fn requests(profile: &PhpProfile) -> String {
    let requests = profile.requests();
    if requests.is_empty() {
        return String::new();
    }
    let all: u64 = requests.iter().map(|(_, count)| count).sum();
    let mut text = format!("\n{:>7}  request\n", "time");
    for (name, count) in requests.iter().take(REQUESTS) {
        text.push_str(&format!(
            "{:>7}  {name}\n",
            format_share(ratio(*count, all))
        ));
    }
    if requests.len() > REQUESTS {
        text.push_str(&format!(
            "and {} more requests\n",
            requests.len() - REQUESTS
        ));
    }
    text
}

fn ratio(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}

fn place(cost: &Cost) -> String {
    match (&cost.file, cost.line) {
        (Some(file), Some(line)) => format!("{file}:{line}"),
        (Some(file), None) => file.clone(),
        (None, _) => String::new(),
    }
}

fn shortened(name: &str) -> String {
    let length = name.chars().count();
    if length <= NAME {
        return name.to_owned();
    }
    let kept: String = name.chars().skip(length - NAME + 3).collect();
    format!("...{kept}")
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use expect_test::expect;
    use kneepoint_model::Place;
    use kneepoint_profiler::{Sample, SampleOutcome, State, WorkerRequest};

    /// Three samples of one request, one of another, and one that failed.
    pub(in crate::commands::profile) fn profile() -> PhpProfile {
        let mut profile = PhpProfile::new("PHP 8.2.35 (fpm-fcgi)".to_owned(), 99);
        profile.workers = 2;
        profile.elapsed_s = 10.0;
        profile.cost_s = 0.08;
        let frame = |function: &str, line: Option<u32>| Place {
            function: function.to_owned(),
            file: line.map(|_| "/srv/app/Kernel.php".to_owned()),
            line,
        };
        let mut sample = |outcome, stack: Vec<Place>, path: &str| {
            let request = WorkerRequest {
                method: Some("GET".to_owned()),
                path: Some(path.to_owned()),
                id: None,
            };
            let state = (State::Running, State::Running);
            profile.add(
                &Sample {
                    outcome,
                    stack,
                    request,
                    state,
                },
                None,
                false,
            );
        };
        let main = frame("main /srv/app/index.php", Some(3));
        for _ in 0..3 {
            let stack = vec![
                main.clone(),
                frame("App\\Kernel::handle", Some(41)),
                frame("usleep", None),
            ];
            sample(SampleOutcome::Ok, stack, "/orders");
        }
        sample(SampleOutcome::Salvaged, vec![main], "/");
        sample(
            SampleOutcome::Error("the chain does not end at its root"),
            Vec::new(),
            "/",
        );
        profile
    }

    #[test]
    fn a_profile_tells_functions_and_requests_and_how_far_to_believe_it() {
        let profile = profile();
        let text = head(&profile) + &functions(&profile, 3) + &requests(&profile);
        expect![[r#"
            PHP 8.2.35 (fpm-fcgi), 2 workers, 10.0 s at 99 Hz: 5 samples with a request, 0 without
            ok 3 (60 %), salvaged 1 (20 %), error 1 (20 %); sampling took 0.8 % of one core
            errors: the chain does not end at its root (1)

               self   total  function                 where
               75 %    75 %  usleep
               25 %   100 %  main /srv/app/index.php  /srv/app/Kernel.php:3
                0 %    75 %  App\Kernel::handle       /srv/app/Kernel.php:41

               time  request
               75 %  GET /orders
               25 %  GET /
        "#]]
        .assert_eq(&text);
    }

    #[test]
    fn a_profile_of_nobody_says_so() {
        let text = head(&PhpProfile::new("PHP 8.2.35".to_owned(), 99));
        expect![[r#"
            PHP 8.2.35, 0 workers, 0.0 s at 99 Hz: 0 samples with a request, 0 without
            no worker had a request: is there load?
        "#]]
        .assert_eq(&text);
        assert_eq!(functions(&PhpProfile::default(), 5), "");
    }

    #[test]
    fn a_long_name_keeps_its_end() {
        let name = format!("{}\\Handler::handle", "Vendor\\Package".repeat(9));
        let short = shortened(&name);
        assert_eq!(short.chars().count(), NAME);
        assert!(short.starts_with("...") && short.ends_with("Handler::handle"));
    }
}
