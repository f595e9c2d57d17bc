//! The step in flight: its finished seconds are on disk while it goes on, so that a program that is killed loses no more than
//! the second in which it was.

use super::store::{InFlight, Record, RunStore};
use kneepoint_load::Progress;
use kneepoint_model::redact::Secrets;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// Writes down the seconds of steps in flight, from wherever they are driven.
#[derive(Debug, Clone)]
pub struct Flight {
    store: Arc<Mutex<RunStore>>,
    began: Instant,
}

impl Flight {
    pub(super) fn new(store: Arc<Mutex<RunStore>>, began: Instant) -> Self {
        Self { store, began }
    }

    /// Writes down the seconds of a step at an arm that have been finished since progress was last told. That one cannot be
    /// written is told with the step: its own record cannot be, then.
    pub fn keep(&self, arm: &str, progress: &Progress) {
        let seconds = progress.completed.iter().zip(&progress.completed_response);
        for (second, response) in seconds {
            let record = Record::Second(Box::new(InFlight {
                arm: arm.to_owned(),
                second: second.clone(),
                response: response.clone(),
            }));
            let mut store = self.store.lock().unwrap_or_else(PoisonError::into_inner);
            // Numbers hold no secret, nor do names of arms.
            let _ = store.append(
                self.began.elapsed().as_secs_f64(),
                &record,
                &Secrets::default(),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kneepoint_model::run::{RUN_VERSION, Trial, TrialId};
    use kneepoint_model::{LatencyHistogram, LoadPoint, Run, Second};

    #[test]
    fn the_seconds_of_a_step_are_kept_until_its_end_is_written() {
        let run = Run {
            version: RUN_VERSION,
            id: "20260101-000000-load".into(),
            ..Run::default()
        };
        let directory = tempfile::tempdir().expect("temp dir");
        let store = RunStore::create(directory.path(), &run).expect("create");
        let path = store.path().to_owned();
        let store = Arc::new(Mutex::new(store));
        let append = |record: &Record| {
            let mut store = store.lock().expect("lock");
            store
                .append(0.0, record, &Secrets::default())
                .expect("written");
        };
        let flight = Flight::new(Arc::clone(&store), Instant::now());
        let second = |at_s: f64, offered| Second {
            at_s,
            offered,
            ..Second::default()
        };
        let keep = |seconds: Vec<Second>| {
            let mut response = LatencyHistogram::default();
            response.record_us(1000);
            flight.keep(
                "base",
                &Progress {
                    completed_response: vec![Some(Box::new(response)); seconds.len()],
                    completed: seconds,
                    ..Progress::default()
                },
            );
        };
        let read = || RunStore::read(&path).expect("reads").trials;
        append(&Record::Header(Box::new(run)));
        keep(vec![second(0.0, 9)]);
        let trial = Trial {
            id: TrialId(0),
            purpose: "load".into(),
            arm: "base".into(),
            at_s: 0.0,
            load: LoadPoint::default(),
            cpu: None,
        };
        append(&Record::Trial(Box::new(trial)));
        assert_eq!(read().len(), 1, "a step that has ended is there once");
        // Of a step without a point, such as one of a warm-up, nothing is left once another begins.
        keep(vec![second(0.0, 9)]);
        keep(vec![second(0.0, 3), second(1.0, 4)]);
        keep(vec![second(2.0, 5)]);
        let trials = read();
        let cut = &trials.last().expect("what was kept").load;
        assert_eq!((trials.len(), cut.arrivals, cut.window_s), (2, 12, 3.0));
        assert_eq!((cut.response.count(), cut.seconds.len()), (3, 3));
        assert!(!cut.validity.is_valid());
        append(&Record::End("finished".into()));
        assert_eq!(
            read().len(),
            1,
            "who came to his end says what it was himself"
        );
    }
}
