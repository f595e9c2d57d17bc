//! The rate of a stretch of load in the unit that it is offered in: visits where visitors come, who make several requests
//! each, and requests where each stands for itself. The two are never mixed.

use super::LoadPoint;
use crate::units::{RateUnit, format_ms, format_rate, format_requests};

impl LoadPoint {
    /// Requests that a visit made on average: those of the window for each visit that began in it. `None` where every request
    /// stands for itself, and where no visit began.
    #[must_use]
    pub fn requests_a_visit(&self) -> Option<f64> {
        let began = self.sessions?.started;
        (began > 0 && self.arrivals > 0).then(|| self.arrivals as f64 / began as f64)
    }

    /// The offered rate per second in the unit that load is offered in: visits where there are any, else requests.
    #[must_use]
    pub fn rate_hz(&self) -> f64 {
        match self.sessions {
            Some(_) => self.visits_offered_hz.unwrap_or_else(|| self.drawn_hz()),
            None => self.offered_hz,
        }
    }

    /// What came per second, in the same unit: arrivals are random, and a stretch that drew more of them is a higher load. 0
    /// without a window.
    #[must_use]
    pub fn drawn_hz(&self) -> f64 {
        let came = self
            .sessions
            .map_or(self.arrivals, |sessions| sessions.started);
        if self.window_s > 0.0 {
            came as f64 / self.window_s
        } else {
            0.0
        }
    }

    /// `412/s offered, 411/s good, p95 38 ms, 0 errors` for journals; of visits, `26.0 visits/s (130 requests/s) offered`.
    #[must_use]
    pub fn describe(&self) -> String {
        let p95 = self.response.quantile_ms(0.95).map_or_else(
            || "no response".to_owned(),
            |ms| format!("p95 {}", format_ms(ms)),
        );
        let offered = match self.sessions {
            Some(_) => format!(
                "{} ({})",
                RateUnit::Visits.format(self.rate_hz()),
                format_requests(self.offered_hz)
            ),
            None => format_rate(self.offered_hz),
        };
        format!(
            "{offered} offered, {} good, {p95}, {} of {} failed",
            format_rate(self.goodput_hz()),
            self.outcomes.failed(),
            self.arrivals,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Outcome, OutcomeCounts, SessionCounts};

    /// Ten seconds in which 60 visits began and 240 requests came.
    fn visited() -> LoadPoint {
        let mut outcomes = OutcomeCounts::default();
        outcomes.by_outcome.insert(Outcome::Ok, 216);
        outcomes.by_outcome.insert(Outcome::HttpError, 24);
        LoadPoint {
            offered_hz: 24.0,
            window_s: 10.0,
            arrivals: 240,
            outcomes,
            sessions: Some(SessionCounts {
                started: 60,
                completed: 50,
                broken_off: 8,
            }),
            visits_offered_hz: Some(5.5),
            ..LoadPoint::default()
        }
    }

    #[test]
    fn visits_are_counted_in_visits() {
        let point = visited();
        let close = |seen: f64, expected: f64| assert!((seen - expected).abs() < 1e-9, "{seen}");
        close(point.requests_a_visit().expect("visits"), 4.0);
        close(point.rate_hz(), 5.5);
        close(point.drawn_hz(), 6.0);
        assert!(
            point
                .describe()
                .starts_with("5.5 visits/s (24.0 requests/s) offered")
        );
    }

    #[test]
    fn of_a_closed_loop_and_of_an_old_run_the_visits_that_began_are_the_rate() {
        let old = LoadPoint {
            visits_offered_hz: None,
            ..visited()
        };
        assert!((old.rate_hz() - 6.0).abs() < 1e-9);
    }

    #[test]
    fn requests_that_stand_for_themselves_are_counted_in_requests() {
        let point = LoadPoint {
            sessions: None,
            visits_offered_hz: None,
            ..visited()
        };
        assert_eq!(point.requests_a_visit(), None);
        assert!((point.rate_hz() - 24.0).abs() < 1e-9);
        assert!(point.describe().starts_with("24.0/s offered"));
        assert!(LoadPoint::default().drawn_hz().abs() < 1e-9);
    }
}
