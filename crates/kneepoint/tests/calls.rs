//! What a request of a real Laravel application does, call by call, without OPcache and with it. Needs root.

use kneepoint_experiment::Testbed;
use kneepoint_experiment::worker_insight::Fpm;
use kneepoint_model::{CallKind, CallTrace, Layer, Scenario, Setting};
use kneepoint_report::{Styles, calls_text};
use libtest_mimic::{Arguments, Failed, Trial};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Shows a trace to whoever runs the test.
#[expect(clippy::print_stdout, reason = "the table is what the test is run for")]
fn show(opcache: &str, trace: &CallTrace) {
    println!(
        "opcache.enable = {opcache}: {}",
        calls_text(trace, Styles::Plain)
    );
}

/// Traces the application with OPcache on or off.
fn traced(testbed: &mut Testbed, scenario: &Scenario, opcache: &str) -> Result<CallTrace, Failed> {
    let setting = Setting::new(Layer::Php, "opcache.enable", opcache);
    testbed.stand_up("arm", &scenario.with(&[setting])?)?;
    let fpm = Fpm::of(testbed, "arm")?.ok_or("the stack has no PHP-FPM")?;
    let trace = fpm.traced(testbed, "arm", "arm")??;
    testbed.tear_down("arm");
    show(opcache, &trace);
    Ok(trace)
}

/// What holds of every trace of this application.
fn check(trace: &CallTrace) {
    assert!(trace.requests() >= 5, "{:?}", trace.routes);
    let to = |kind, peer: &str| trace.of(kind).any(|call| call.peer == peer);
    assert!(
        to(CallKind::Command, "cache") && to(CallKind::Query, "db"),
        "sessions and visits"
    );
    // An answer of PostgreSQL has five bytes at least, and a row more.
    let mut queries = trace.of(CallKind::Query);
    assert!(
        queries.any(|call| call.answer_bytes >= 10 * call.count && call.waited_us > 0),
        "{:#?}",
        trace.of(CallKind::Query).collect::<Vec<_>>()
    );
    let by_php = trace.of(CallKind::Open).filter(|call| call.place.is_some());
    let by_php: u64 = by_php.map(|call| call.count).sum();
    let all: u64 = trace.of(CallKind::Open).map(|call| call.count).sum();
    assert!(
        by_php * 2 >= all,
        "{by_php} of {all} files are opened by a line of PHP"
    );
}

/// Field report S3 saw 880 files opened a request without OPcache, and 70 with it.
fn without_opcache_every_request_opens_the_whole_framework() -> Result<(), Failed> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../apps/laravel/kneepoint.toml");
    let scenario = kneepoint::config::load(&path).map_err(|errors| errors.to_string())?;
    let stop = Arc::new(AtomicBool::new(false));
    let mut testbed = Testbed::open(&scenario, true, None, stop, Arc::new(()))?;
    let off = traced(&mut testbed, &scenario, "0");
    let on = traced(&mut testbed, &scenario, "1");
    testbed.close();
    let opened = |trace: &CallTrace| {
        check(trace);
        trace
            .per_request(CallKind::Open)
            .map_or(0.0, |(done, failed)| done + failed)
    };
    let (off, on) = (opened(&off?), opened(&on?));
    assert!(off >= 100.0, "{off} files without OPcache");
    assert!(on <= off / 5.0, "{on} with OPcache, {off} without");
    Ok(())
}

fn main() -> ExitCode {
    kneepoint_lab::keeper_entry();
    let arguments = Arguments::from_args();
    let root = std::fs::metadata("/proc/self")
        .is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0);
    let trial = Trial::test(
        "without_opcache_every_request_opens_the_whole_framework",
        without_opcache_every_request_opens_the_whole_framework,
    );
    // Other processes may be traced by root only.
    libtest_mimic::run(&arguments, vec![trial.with_ignored_flag(!root)]).exit_code()
}
