//! Gathers what the probes read into the recording of a phase.

use crate::source::{Reading, Sink};
use kneepoint_model::{Layer, LogEvent, LogKind, SeriesSet};
use std::collections::BTreeMap;
use std::time::Instant;

/// Longest log example in bytes, as the model promises.
const EXAMPLE_BYTES: usize = 400;
/// Labels of one metric at one tier; further ones are counted under `other`.
const LABELS: usize = 64;

/// What was sampled during one phase.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Recording {
    /// The samples. Times are seconds since the phase began.
    pub series: SeriesSet,
    /// What the logs said, by tier and meaning.
    pub log: Vec<LogEvent>,
    /// CPU time all sources together used during the phase, in seconds.
    pub cost_s: f64,
    /// What could not be read, and why: one sentence a source and tier.
    pub notes: Vec<String>,
}

/// The recording under way.
#[derive(Debug)]
pub(crate) struct Recorder {
    epoch: Instant,
    set: SeriesSet,
    families: BTreeMap<(Layer, &'static str), Vec<f64>>,
    log: BTreeMap<(Layer, LogKind), LogEvent>,
    notes: BTreeMap<(Layer, &'static str, bool), String>,
}

impl Recorder {
    pub(crate) fn new(epoch: Instant) -> Self {
        Self {
            epoch,
            set: SeriesSet::default(),
            families: BTreeMap::new(),
            log: BTreeMap::new(),
            notes: BTreeMap::new(),
        }
    }

    /// Takes in what one source read at one tier at a moment.
    pub(crate) fn commit(&mut self, layer: Layer, source: &'static str, at: Instant, sink: Sink) {
        // A sample that was under way when the phase was marked belongs to its very start.
        let at_s = at.saturating_duration_since(self.epoch).as_secs_f64();
        for reading in sink.readings {
            match reading {
                Reading::One(metric, label, value) => {
                    self.set.push(layer, metric, &label, at_s, value);
                }
                Reading::Family(metric, values) => self.family(layer, metric, at_s, values),
                Reading::Log(kind, count, example) => self.log_lines(layer, kind, count, &example),
                Reading::Note(text) => self.remark(layer, source, false, &text),
            }
        }
    }

    /// Notes that a source failed; only the first reason of a phase is kept.
    pub(crate) fn failed(&mut self, layer: Layer, source: &'static str, why: &str) {
        self.remark(layer, source, true, why);
    }

    fn remark(&mut self, layer: Layer, source: &'static str, failure: bool, text: &str) {
        self.notes
            .entry((layer, source, failure))
            .or_insert_with(|| format!("{layer}: {source}: {text}"));
    }

    fn log_lines(&mut self, layer: Layer, kind: LogKind, count: u64, example: &str) {
        let event = self.log.entry((layer, kind)).or_insert_with(|| LogEvent {
            layer,
            kind,
            count: 0,
            example: shortened(example, EXAMPLE_BYTES).to_owned(),
        });
        event.count += count;
    }

    /// Every label gets a point at every tick of its family: a mean over a series is then a mean over time,
    /// though a label may be seen late or seldom.
    fn family(
        &mut self,
        layer: Layer,
        metric: kneepoint_model::Metric,
        at_s: f64,
        values: Vec<(String, f64)>,
    ) {
        let ticks = self.families.entry((layer, metric.name)).or_default();
        let mut known: Vec<String> = self
            .set
            .all(layer, metric)
            .map(|s| s.label.clone())
            .collect();
        let mut now: BTreeMap<String, f64> = known.iter().map(|l| (l.clone(), 0.0)).collect();
        for (label, value) in values {
            let full = known.len() >= LABELS && !now.contains_key(&label);
            let label = if full { "other".to_owned() } else { label };
            if !now.contains_key(&label) {
                for earlier in ticks.iter() {
                    self.set.push(layer, metric, &label, *earlier, 0.0);
                }
                known.push(label.clone());
            }
            *now.entry(label).or_default() += value;
        }
        for (label, value) in now {
            self.set.push(layer, metric, &label, at_s, value);
        }
        ticks.push(at_s);
    }

    /// Begins a phase now: what was sampled at `since` or later becomes its first sample, the rest is dropped.
    pub(crate) fn restart(&mut self, since: Instant, now: Instant) {
        let since_s = since.saturating_duration_since(self.epoch).as_secs_f64();
        let shift_s = now.saturating_duration_since(self.epoch).as_secs_f64();
        let moved = |at_s: f64| (at_s - shift_s).max(0.0);
        for series in &mut self.set.series {
            series.points.retain(|point| point.0 >= since_s);
            for point in &mut series.points {
                point.0 = moved(point.0);
            }
        }
        self.set.series.retain(|series| !series.points.is_empty());
        for ticks in self.families.values_mut() {
            ticks.retain(|at_s| *at_s >= since_s);
            ticks.iter_mut().for_each(|at_s| *at_s = moved(*at_s));
        }
        self.log.clear();
        self.epoch = now;
    }

    /// Forgets the notes, so that a source that still fails is noted again for the next phase.
    pub(crate) fn forget_notes(&mut self) {
        self.notes.clear();
    }

    /// The recording so far.
    pub(crate) fn recording(&self, cost_s: f64) -> Recording {
        Recording {
            series: self.set.clone(),
            log: self.log.values().cloned().collect(),
            cost_s,
            notes: self.notes.values().cloned().collect(),
        }
    }
}

/// The text cut to at most so many bytes, at a character.
fn shortened(text: &str, bytes: usize) -> &str {
    let mut end = text.len().min(bytes);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;
    use kneepoint_model::metric::{QUEUE, WORKERS_WAITING};
    use std::time::Duration;

    fn at(epoch: Instant, s: f64) -> Instant {
        epoch + Duration::from_secs_f64(s)
    }

    fn waiting(values: &[(&str, f64)]) -> Sink {
        let mut sink = Sink::default();
        let owned = values.iter().map(|(l, v)| ((*l).to_owned(), *v)).collect();
        sink.family(WORKERS_WAITING, owned);
        sink
    }

    #[test]
    fn a_label_seen_late_is_zero_before_and_after() {
        let epoch = Instant::now();
        let mut recorder = Recorder::new(epoch);
        for (s, values) in [
            (0.0, vec![("accept", 4.0)]),
            (1.0, vec![("recv cache", 4.0)]),
            (2.0, vec![("accept", 4.0)]),
        ] {
            recorder.commit(Layer::Php, "workers", at(epoch, s), waiting(&values));
        }
        let set = recorder.recording(0.0).series;
        let of = |label| {
            set.labelled(Layer::Php, WORKERS_WAITING, label)
                .expect(label)
        };
        assert_eq!(of("accept").points, [(0.0, 4.0), (1.0, 0.0), (2.0, 4.0)]);
        assert_eq!(
            of("recv cache").points,
            [(0.0, 0.0), (1.0, 4.0), (2.0, 0.0)]
        );
    }

    #[test]
    fn labels_without_bound_end_in_one() {
        let epoch = Instant::now();
        let mut recorder = Recorder::new(epoch);
        for n in 0..200 {
            let sink = waiting(&[(&format!("recv 10.0.0.1:{n}"), 1.0)]);
            recorder.commit(Layer::Php, "workers", at(epoch, f64::from(n)), sink);
        }
        let set = recorder.recording(0.0).series;
        assert_eq!(set.all(Layer::Php, WORKERS_WAITING).count(), LABELS + 1);
        let other = set
            .labelled(Layer::Php, WORKERS_WAITING, "other")
            .expect("other");
        assert_eq!(other.points.len(), 200);
    }

    #[test]
    fn a_phase_begins_with_the_sample_taken_for_it() {
        let epoch = Instant::now();
        let mut recorder = Recorder::new(epoch);
        let queue = |value| {
            let mut sink = Sink::default();
            sink.push(QUEUE, value);
            sink.log(LogKind::PhpFatal, 1, "PHP Fatal error: x".into());
            sink
        };
        recorder.commit(Layer::Php, "accept-queue", at(epoch, 1.0), queue(7.0));
        recorder.commit(Layer::Php, "accept-queue", at(epoch, 5.0), queue(8.0));
        recorder.restart(at(epoch, 4.9), at(epoch, 5.1));
        recorder.commit(Layer::Php, "accept-queue", at(epoch, 6.1), queue(9.0));
        let recording = recorder.recording(0.0);
        let points = &recording
            .series
            .get(Layer::Php, QUEUE)
            .expect("queue")
            .points;
        assert_eq!(points.len(), 2);
        assert_eq!(points[0], (0.0, 8.0));
        assert!((points[1].0 - 1.0).abs() < 1e-6 && points[1].1 == 9.0);
        assert_eq!(
            recording.log[0].count, 1,
            "lines before the phase are not its own"
        );
    }

    #[test]
    fn examples_are_cut_at_a_character_and_reasons_are_told_once() {
        let epoch = Instant::now();
        let mut recorder = Recorder::new(epoch);
        let mut sink = Sink::default();
        sink.log(LogKind::PhpFatal, 2, "ä".repeat(300));
        recorder.commit(Layer::Php, "logs", epoch, sink);
        recorder.failed(Layer::Db, "postgresql", "refused");
        recorder.failed(Layer::Db, "postgresql", "refused again");
        let recording = recorder.recording(0.0);
        assert_eq!(recording.log[0].example.len(), 400);
        assert_eq!(recording.notes, ["db: postgresql: refused"]);
    }
}
