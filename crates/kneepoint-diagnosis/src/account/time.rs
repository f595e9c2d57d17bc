//! Where a request's time goes: the waterfall, with PHP's work told from its waiting for a core, and waits by line.

use crate::account::waterfall::{RUNNING, RUNNING_OR_WAITING, UNSEEN, WAITING};
use kneepoint_model::account::{CpuOf, CpuPart, TimeKind, TimePart, WaitLine};
use kneepoint_model::run::{Waterfall, WaterfallPart};
use kneepoint_model::{CallKind, CallTrace, Layer, MetStack, Place, StackProfile};
use std::collections::BTreeMap;

/// Files whose locks are named.
const LOCKS: usize = 2;
/// Lines of a wait that are kept, and the share of it from which on they are \[ours\].
const LINES: usize = 3;
const WORTH_A_LINE: f64 = 0.05;
/// Less than this share of the response time is no part of its own \[ours\].
const NEGLIGIBLE: f64 = 0.0005;

/// The parts of the response time in the order a request meets them: those of a waterfall, with CPU time by control groups.
pub(super) fn parts(
    fall: &Waterfall,
    cpu: &[CpuPart],
    (stacks, calls): (Option<&StackProfile>, Option<&CallTrace>),
) -> Vec<TimePart> {
    let cpu_ms = |layer| {
        let of_layer = cpu.iter().find(|part| part.of == CpuOf::Tier(layer));
        of_layer.map_or(0.0, |part| part.ms)
    };
    let last = fall.parts.len().saturating_sub(1);
    let mut parts = Vec::new();
    for (at, part) in fall.parts.iter().enumerate() {
        let what = part.what.as_str();
        if at == last {
            let front_ms = cpu_ms(Layer::Proxy) + cpu_ms(Layer::Web);
            parts.extend(split(
                part,
                front_ms,
                (
                    TimeKind::Rest,
                    "not seen: the network, and servers without a core",
                ),
            ));
        } else if what == RUNNING {
            let core = (TimeKind::Core, "ready, but without a core");
            parts.extend(split(part, cpu_ms(Layer::Php), core));
        } else if what == RUNNING_OR_WAITING {
            let unseen = (TimeKind::Unseen, "busy, in a state not seen");
            parts.extend(split(part, cpu_ms(Layer::Php), unseen));
        } else if what == UNSEEN {
            parts.push(whole(part, TimeKind::Unseen, "busy, in a state not seen"));
        } else if let Some(wait) = what.strip_prefix(WAITING) {
            let mut waits = whole(part, TimeKind::Wait(wait.to_owned()), "");
            waits.what = format!("waiting: {wait}{}", locked(wait, calls));
            waits.lines = stacks.map_or_else(Vec::new, |stacks| lines(stacks, wait));
            parts.push(waits);
        } else {
            parts.push(whole(part, TimeKind::Queue, what));
        }
    }
    let all_ms: f64 = parts.iter().map(|part| part.ms).sum();
    for part in &mut parts {
        part.share = if all_ms > 0.0 { part.ms / all_ms } else { 0.0 };
    }
    parts.retain(|part| part.share >= NEGLIGIBLE);
    let kept: f64 = parts.iter().map(|part| part.share).sum();
    for part in parts.iter_mut().filter(|_| kept > 0.0) {
        part.share /= kept;
    }
    parts
}

fn whole(part: &WaterfallPart, kind: TimeKind, what: &str) -> TimePart {
    TimePart {
        layer: part.layer,
        kind,
        what: what.to_owned(),
        ms: part.ms,
        share: 0.0,
        lines: Vec::new(),
    }
}

/// What of a part is CPU time, and what the rest is. Control groups count all that a tier does, also besides requests and in
/// several processes at once, so that it may be more than the part: then the part is all CPU time.
fn split(part: &WaterfallPart, cpu_ms: f64, (rest, what): (TimeKind, &str)) -> [TimePart; 2] {
    let computing_ms = cpu_ms.clamp(0.0, part.ms.max(0.0));
    let mut computing = whole(part, TimeKind::Cpu, "computing");
    let mut rest = whole(part, rest, what);
    computing.ms = computing_ms;
    rest.ms = part.ms - computing_ms;
    [computing, rest]
}

/// ` of data/cache.lock`: the files whose locks requests ask for most often, for a wait for one.
fn locked(wait: &str, calls: Option<&CallTrace>) -> String {
    let files = calls.filter(|_| wait == "flock");
    let files = files.map_or_else(Vec::new, |calls| calls.sums(CallKind::Lock));
    let files: Vec<&str> = files.iter().take(LOCKS).map(|sum| sum.what).collect();
    match files[..] {
        [] => String::new(),
        _ => format!(" of {}", files.join(", ")),
    }
}

/// Where in the code workers were met in a wait.
fn lines(profile: &StackProfile, wait: &str) -> Vec<WaitLine> {
    let waits = |met: &&MetStack| profile.wait_of(met) == Some(wait);
    let mut places: BTreeMap<&Place, u64> = BTreeMap::new();
    let mut all = 0;
    for met in profile.stacks.iter().filter(waits) {
        all += met.count;
        let mut outwards = profile.places_of(met).rev();
        let own = profile.own_place_of(met);
        if let Some(place) = own.or_else(|| outwards.find(|place| place.file.is_some())) {
            *places.entry(place).or_default() += met.count;
        }
    }
    let mut lines: Vec<WaitLine> = places
        .into_iter()
        .map(|(place, count)| WaitLine {
            place: place.clone(),
            share: count as f64 / all.max(1) as f64,
        })
        .filter(|line| line.share >= WORTH_A_LINE)
        .collect();
    lines.sort_by(|a, b| b.share.total_cmp(&a.share));
    lines.truncate(LINES);
    lines
}
