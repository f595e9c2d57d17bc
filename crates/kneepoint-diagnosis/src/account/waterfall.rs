//! Where a request's time goes, layer by layer, from what queues and workers were doing.
//!
//! Every part is a mean number of requests in some state over the throughput, which by Little's law is the mean
//! time a request spends in that state. What the parts do not cover is the rest: proxy, web server, network. Both are over
//! one time: that in which telemetry looked, from before the load until what it left was done. Over the load's own window
//! more would finish in a second than in the time that the means are of, by as much as an overloaded stack takes to drain.

use crate::evidence::Phase;
use crate::saturation::pool::queued;
use kneepoint_model::run::{Waterfall, WaterfallPart};
use kneepoint_model::units::{format_ms, format_rate};
use kneepoint_model::{LatencyHistogram, Layer, Stack, metric};

/// Fewer requests in flight than this are too few to check Little's law with: one more or less is the whole number.
const FEWEST_IN_FLIGHT: f64 = 0.5;
/// Workers that are busy in a state nobody saw, as a share of the busy ones, from which on they get a part.
const UNSEEN_SHARE: f64 = 0.1;
/// Parts that exceed the measured mean by more than this are mentioned.
const OVERSHOOT: f64 = 0.05;

/// Parts of a waterfall, as they are called: workers on a CPU or ready to run, the same where nobody told them from those
/// that wait, those whose state nobody saw, and those that wait for what is named behind it.
pub(crate) const RUNNING: &str = "PHP running";
pub(crate) const RUNNING_OR_WAITING: &str = "PHP, running or waiting";
pub(crate) const UNSEEN: &str = "PHP, in a state not seen";
pub(crate) const WAITING: &str = "PHP waiting: ";

/// Splits the mean response time of a phase by layer, with a check by Little's law (method.md section 4).
///
/// The parts are never negative and add up to the measured mean. Where they would exceed it (sampling error, or
/// requests that failed and are not in the mean) all are cut in proportion, and `little` says by how much. What
/// telemetry did not deliver is named in `little` and stays within the rest.
#[must_use]
pub fn waterfall(phase: &Phase, stack: &Stack) -> Waterfall {
    of_whole(&phase.whole(), stack)
}

/// The same of a phase with all that was sampled.
pub(crate) fn of_whole(phase: &Phase, stack: &Stack) -> Waterfall {
    let (response_ms, finished_hz) = mean_response(phase);
    let mut parts = Vec::new();
    let mut remarks = Vec::new();
    if finished_hz > 0.0 {
        let per_request = |in_state: f64| {
            let ms = in_state / finished_hz * 1e3;
            if ms.is_finite() { ms.max(0.0) } else { 0.0 }
        };
        queues(phase, stack, &per_request, &mut parts);
        workers(phase, stack, &per_request, &mut parts, &mut remarks);
    } else {
        remarks.push("no request finished, so there is nothing to split".to_owned());
    }
    close(&mut parts, response_ms, stack, &mut remarks);
    let (little, little_error) = little(phase, stack, response_ms, finished_hz);
    remarks.insert(0, little);
    Waterfall {
        offered_hz: phase.load.offered_hz,
        response_ms,
        parts,
        little: remarks.join("; "),
        little_error,
    }
}

/// Mean response time of everything that finished (failed requests held workers too), and how many did in a second of the
/// time that telemetry looked.
fn mean_response(phase: &Phase) -> (f64, f64) {
    let sum = |times: &LatencyHistogram| times.mean_ms().unwrap_or(0.0) * times.count() as f64;
    let load = &phase.load;
    let count = (load.response.count() + load.failed_response.count()) as f64;
    if count == 0.0 || load.window_s <= 0.0 {
        return (0.0, 0.0);
    }
    let mean_ms = (sum(&load.response) + sum(&load.failed_response)) / count;
    (mean_ms, count / looked_s(phase).unwrap_or(load.window_s))
}

/// How long telemetry looked at queues and workers, in seconds; `None` where that is not longer than the load's window, as
/// where it looked too seldom to say.
fn looked_s(phase: &Phase) -> Option<f64> {
    let gauges = [
        (Layer::Php, metric::WORKERS_RUNNING),
        (Layer::Php, metric::QUEUE),
        (Layer::Php, metric::WORKERS_BUSY),
    ];
    let span = |(layer, of)| {
        let points = &phase.series.get(layer, of)?.points;
        Some(points.last()?.0 - points.first()?.0)
    };
    let longest = gauges.into_iter().filter_map(span).reduce(f64::max)?;
    (longest > phase.load.window_s).then_some(longest)
}

fn queues(
    phase: &Phase,
    stack: &Stack,
    per_request: &dyn Fn(f64) -> f64,
    parts: &mut Vec<WaterfallPart>,
) {
    for layer in [Layer::Proxy, Layer::Web, Layer::Php] {
        if stack.tier(layer).is_none() {
            continue;
        }
        let Some(length) = phase.largest_mean(layer, metric::QUEUE) else {
            continue;
        };
        if length > 0.0 || layer == Layer::Php {
            parts.push(WaterfallPart {
                layer,
                what: "accept queue".to_owned(),
                ms: per_request(length),
            });
        }
    }
    if let Some(length) = phase.series.mean(Layer::Php, metric::WORKERS_QUEUED) {
        parts.push(part(
            Layer::Php,
            "queue of the runtime",
            per_request(length),
        ));
    }
}

fn workers(
    phase: &Phase,
    stack: &Stack,
    per_request: &dyn Fn(f64) -> f64,
    parts: &mut Vec<WaterfallPart>,
    remarks: &mut Vec<String>,
) {
    if stack.tier(Layer::Php).is_none() {
        return;
    }
    if phase.largest_mean(Layer::Php, metric::QUEUE).is_none() {
        remarks.push("the accept queue before PHP was not sampled".to_owned());
    }
    let mean = |of| phase.series.mean(Layer::Php, of);
    let pinned = phase.pinned().unwrap_or(0.0);
    let busy = mean(metric::WORKERS_BUSY).map(|busy| (busy - pinned).max(0.0));
    let Some(running) = mean(metric::WORKERS_RUNNING) else {
        match busy {
            Some(busy) => {
                remarks.push("wait states of workers were not sampled".to_owned());
                parts.push(part(Layer::Php, RUNNING_OR_WAITING, per_request(busy)));
            }
            None => remarks.push("workers were not sampled, so PHP is in the rest".to_owned()),
        }
        return;
    };
    parts.push(part(Layer::Php, RUNNING, per_request(running)));
    let mut seen = running;
    for wait in phase.waits() {
        seen += wait.workers;
        let layer = wait.layer().unwrap_or(Layer::Php);
        let what = format!("{WAITING}{}", wait.label());
        parts.push(part(layer, &what, per_request(wait.workers)));
    }
    let unseen = busy.map_or(0.0, |busy| busy - seen);
    if unseen > UNSEEN_SHARE * seen.max(1.0) {
        parts.push(part(Layer::Php, UNSEEN, per_request(unseen)));
    }
}

fn part(layer: Layer, what: &str, ms: f64) -> WaterfallPart {
    WaterfallPart {
        layer,
        what: what.to_owned(),
        ms,
    }
}

/// Makes the parts add up: the rest goes to the servers in front, an excess is taken from all.
fn close(
    parts: &mut Vec<WaterfallPart>,
    response_ms: f64,
    stack: &Stack,
    remarks: &mut Vec<String>,
) {
    let sum: f64 = parts.iter().map(|part| part.ms).sum();
    if sum > response_ms {
        let factor = if sum > 0.0 { response_ms / sum } else { 0.0 };
        parts.iter_mut().for_each(|part| part.ms *= factor);
        if response_ms > 0.0 && sum > response_ms * (1.0 + OVERSHOOT) {
            remarks.push(format!(
                "the parts sampled add up to {}, {:.0} % more than the mean, and were cut in proportion",
                format_ms(sum),
                (sum / response_ms - 1.0) * 100.0
            ));
        }
    }
    let front: Vec<Layer> = [Layer::Proxy, Layer::Web]
        .into_iter()
        .filter(|layer| stack.tier(*layer).is_some())
        .collect();
    let names: Vec<&str> = front.iter().map(|layer| layer.name()).collect();
    let what = match names[..] {
        [] => "network and generator".to_owned(),
        _ => format!("{} and network", names.join(", ")),
    };
    let kept: f64 = parts.iter().map(|part| part.ms).sum();
    let layer = front.first().copied().unwrap_or(Layer::Generator);
    parts.push(part(layer, &what, (response_ms - kept).max(0.0)));
}

/// N against X R: requests in flight by telemetry, against rate times time by the generator.
fn little(
    phase: &Phase,
    stack: &Stack,
    response_ms: f64,
    finished_hz: f64,
) -> (String, Option<f64>) {
    let expected = finished_hz * response_ms / 1e3;
    let Some((counted, whose)) = in_flight(phase, stack) else {
        return (
            "Little's law could not be checked: nothing counted the requests in flight".to_owned(),
            None,
        );
    };
    let words = format!(
        "{whose} held {counted:.1} requests on average; {} times {} makes {expected:.1}",
        format_rate(finished_hz),
        format_ms(response_ms)
    );
    if counted < FEWEST_IN_FLIGHT || expected < FEWEST_IN_FLIGHT {
        return (format!("{words}, too few to check by Little's law"), None);
    }
    let error = (counted - expected).abs() / counted;
    (
        format!("{words}, a difference of {:.0} %", error * 100.0),
        Some(error),
    )
}

/// Requests in flight, by whoever was looked at most often: the first nginx by its status page (which counts the
/// proxy and the web server too), or the PHP pool with its queue. A handful of looks at a number that swings
/// between nothing and a full pool is no mean.
fn in_flight(phase: &Phase, stack: &Stack) -> Option<(f64, &'static str)> {
    let looks = |layer, of| {
        phase
            .series
            .get(layer, of)
            .map_or(0, |series| series.points.len())
    };
    let writing = [Layer::Proxy, Layer::Web]
        .into_iter()
        .filter(|layer| stack.tier(*layer).is_some())
        .find_map(|layer| {
            Some((
                phase.series.mean(layer, metric::NGINX_WRITING)?,
                looks(layer, metric::NGINX_WRITING),
            ))
        });
    let queued = queued(phase);
    let pool = stack.tier(Layer::Php).and_then(|tier| tier.pool.as_ref());
    let is_hidden = pool.is_some_and(|pool| pool.keeps_queue);
    let states = phase
        .series
        .mean(Layer::Php, metric::WORKERS_RUNNING)
        // Of a runtime that reads ahead, only the server before it sees all requests.
        .filter(|_| !is_hidden || writing.is_none())
        .map(|running| {
            let waiting: f64 = phase.waits().iter().map(|wait| wait.workers).sum();
            (
                running + waiting + queued,
                looks(Layer::Php, metric::WORKERS_RUNNING),
            )
        });
    match (writing, states) {
        (Some((_, seldom)), Some((held, often))) if often > seldom => {
            Some((held, "PHP and its queue"))
        }
        // The status request that asks is itself being answered.
        (Some((writing, _)), _) => Some(((writing - 1.0).max(0.0), "the first nginx")),
        (None, Some((held, _))) => Some((held, "PHP and its queue")),
        (None, None) => {
            let busy = phase.series.mean(Layer::Php, metric::WORKERS_BUSY)?;
            let pinned = phase.pinned().unwrap_or(0.0);
            Some(((busy - pinned).max(0.0) + queued, "PHP and its queue"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PhaseKind;
    use crate::test_support::Case;
    use expect_test::{Expect, expect};

    fn check(case: Case, expected: Expect) {
        let evidence = case.evidence();
        let phase = evidence.phase(PhaseKind::Knee).expect("a knee");
        let fall = waterfall(phase, &evidence.stack);
        let sum: f64 = fall.parts.iter().map(|part| part.ms).sum();
        assert!((sum - fall.response_ms).abs() < 1e-6, "{sum} {fall:?}");
        assert!(fall.parts.iter().all(|part| part.ms >= 0.0));
        let mut text = format!("{} in all\n", format_ms(fall.response_ms));
        for part in &fall.parts {
            text.push_str(&format!(
                "{} {} {}\n",
                format_ms(part.ms),
                part.layer,
                part.what
            ));
        }
        text.push_str(&format!("{}\n", fall.little));
        expected.assert_eq(&text);
    }

    #[test]
    fn parts_name_queue_running_and_each_wait() {
        check(
            Case::healthy(),
            expect![[r#"
            40.0 ms in all
            3.16 ms php accept queue
            19.0 ms php PHP running
            2.10 ms db PHP waiting: recv db
            0.90 ms cache PHP waiting: recv cache
            14.9 ms proxy proxy, web and network
            the first nginx held 7.6 requests on average; 190/s times 40.0 ms makes 7.6, a difference of 0 %
        "#]],
        );
    }

    #[test]
    fn parts_that_exceed_the_mean_are_cut_and_it_is_said() {
        check(
            Case::healthy().gauge(PhaseKind::Knee, Layer::Php, metric::QUEUE, "", 20.0),
            expect![[r#"
                40.0 ms in all
                33.1 ms php accept queue
                5.97 ms php PHP running
                0.66 ms db PHP waiting: recv db
                0.28 ms cache PHP waiting: recv cache
                0.00 ms proxy proxy, web and network
                the first nginx held 7.6 requests on average; 190/s times 40.0 ms makes 7.6, a difference of 0 %; the parts sampled add up to 127 ms, 218 % more than the mean, and were cut in proportion
            "#]],
        );
    }

    /// Telemetry goes on until what the load left is done: its means are over a longer time than the load's window.
    #[test]
    fn what_is_served_after_the_load_is_over_is_within_the_law() {
        let longer = |evidence: &mut crate::Evidence| {
            for phase in &mut evidence.phases {
                let window_s = phase.load.window_s;
                for series in &mut phase.series.series {
                    let value = series.mean().unwrap_or(0.0);
                    // As long again without a request: half of what the mean was.
                    let samples = (0..80).map(|nth| {
                        let at_s = 2.0 * window_s * f64::from(nth) / 79.0;
                        (at_s, if nth < 40 { value } else { 0.0 })
                    });
                    if series.kind == metric::Kind::Gauge {
                        series.points = samples.collect();
                    }
                }
            }
        };
        let evidence = Case::healthy()
            .without(metric::NGINX_WRITING)
            .with(longer)
            .evidence();
        let phase = evidence.phase(PhaseKind::Knee).expect("a knee");
        let fall = waterfall(phase, &evidence.stack);
        let usual = Case::healthy().without(metric::NGINX_WRITING).evidence();
        let usual = waterfall(usual.phase(PhaseKind::Knee).expect("a knee"), &usual.stack);
        for (part, usual) in fall.parts.iter().zip(&usual.parts) {
            assert!(
                (part.ms / usual.ms - 1.0).abs() < 0.03,
                "{part:?} {usual:?}"
            );
        }
        let (error, usual) = (fall.little_error, usual.little_error);
        assert!((error.expect("told") - usual.expect("told")).abs() < 0.03);
    }

    #[test]
    fn what_is_missing_is_said() {
        let case = Case::healthy()
            .without(metric::WORKERS_RUNNING)
            .without(metric::NGINX_WRITING);
        check(
            case,
            expect![[r#"
            40.0 ms in all
            3.16 ms php accept queue
            22.0 ms php PHP, running or waiting
            14.9 ms proxy proxy, web and network
            PHP and its queue held 4.8 requests on average; 190/s times 40.0 ms makes 7.6, a difference of 59 %; wait states of workers were not sampled
        "#]],
        );
        let blind = Case::healthy()
            .without(metric::WORKERS_RUNNING)
            .without(metric::WORKERS_BUSY)
            .without(metric::QUEUE)
            .without(metric::NGINX_WRITING);
        check(
            blind,
            expect![[r#"
            40.0 ms in all
            40.0 ms proxy proxy, web and network
            Little's law could not be checked: nothing counted the requests in flight; the accept queue before PHP was not sampled; workers were not sampled, so PHP is in the rest
        "#]],
        );
    }

    #[test]
    fn a_phase_in_which_nothing_finished_has_no_parts_but_the_rest() {
        let case = Case::healthy().load(PhaseKind::Knee, |load| {
            load.response.clear();
            load.failed_response.clear();
        });
        check(
            case,
            expect![[r#"
            0.00 ms in all
            0.00 ms proxy proxy, web and network
            the first nginx held 7.6 requests on average; 0.0/s times 0.00 ms makes 0.0, too few to check by Little's law; no request finished, so there is nothing to split
        "#]],
        );
    }
}
