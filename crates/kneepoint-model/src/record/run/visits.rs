//! R* of visitors who make several requests each: in visits, in requests, and in users who are online.

use super::{LimitResult, Run};
use crate::Interval;
use crate::units::{RateUnit, format_requests};

impl LimitResult {
    /// What its rates count.
    #[must_use]
    pub fn unit(&self) -> RateUnit {
        match self.requests_a_visit {
            Some(_) => RateUnit::Visits,
            None => RateUnit::Requests,
        }
    }

    /// One of its rates in requests per second.
    #[must_use]
    pub fn in_requests_hz(&self, rate_hz: f64) -> f64 {
        rate_hz * self.requests_a_visit.unwrap_or(1.0)
    }

    /// R* in requests per second.
    #[must_use]
    pub fn in_requests(&self) -> Interval {
        Interval {
            low: self.in_requests_hz(self.rate_hz.low),
            estimate: self.in_requests_hz(self.rate_hz.estimate),
            high: self.in_requests_hz(self.rate_hz.high),
        }
    }

    /// Visitors who are on the site at once at R*, by Little's law: so many begin a second and stay for so long. `None` where
    /// every request stands for itself.
    #[must_use]
    pub fn users_online(&self) -> Option<f64> {
        Some(self.rate_hz.estimate * self.visit_s?)
    }

    /// What R* of visits is besides: `130 requests/s, about 340 users online`; `None` where every request stands for itself.
    #[must_use]
    pub fn besides_visits(&self) -> Option<String> {
        self.requests_a_visit?;
        let requests = format_requests(self.in_requests_hz(self.rate_hz.estimate));
        let users = self.users_online().map_or_else(String::new, |users| {
            let users = users.round().max(1.0);
            let noun = if users > 1.0 { "users" } else { "user" };
            format!(", about {users:.0} {noun} online")
        });
        Some(format!("{requests}{users}"))
    }
}

impl Run {
    /// What the rates of its loads count.
    #[must_use]
    pub fn unit(&self) -> RateUnit {
        if self.trials.iter().any(|it| it.load.sessions.is_some()) {
            RateUnit::Visits
        } else {
            RateUnit::Requests
        }
    }

    /// Whether a limit was found by a version that took requests for visits: no rate of it can be told apart.
    #[must_use]
    pub fn mixes_units(&self, limit: &LimitResult) -> bool {
        self.unit() != limit.unit() && !limit.steps.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::run::TrialId;
    use crate::{LoadPoint, SessionCounts, Trial};

    fn limit(requests_a_visit: Option<f64>, visit_s: Option<f64>) -> LimitResult {
        LimitResult {
            rate_hz: Interval {
                low: 25.0,
                estimate: 26.0,
                high: 27.0,
            },
            requests_a_visit,
            visit_s,
            steps: vec![(26.0, 0.05, 900)],
            ..LimitResult::default()
        }
    }

    fn check(limit: &LimitResult, expected: Option<&str>) {
        assert_eq!(limit.besides_visits().as_deref(), expected);
    }

    #[test]
    fn a_limit_of_visits_says_requests_and_users_too() {
        check(
            &limit(Some(5.0), Some(13.0)),
            Some("130 requests/s, about 338 users online"),
        );
        check(&limit(Some(5.0), None), Some("130 requests/s"));
        check(
            &limit(Some(1.5), Some(0.01)),
            Some("39.0 requests/s, about 1 user online"),
        );
        check(&limit(None, None), None);
    }

    #[test]
    fn a_limit_of_an_older_version_is_known_by_what_it_does_not_say() {
        let run = |sessions| {
            let load = LoadPoint {
                sessions,
                ..LoadPoint::default()
            };
            let trial = Trial {
                id: TrialId(0),
                purpose: "limit: step".into(),
                arm: "base".into(),
                at_s: 0.0,
                load,
                cpu: None,
            };
            Run {
                trials: vec![trial],
                ..Run::default()
            }
        };
        let visits = Some(SessionCounts::default());
        assert!(!run(None).mixes_units(&limit(None, None)));
        assert!(run(visits).mixes_units(&limit(None, None)));
        assert!(!run(visits).mixes_units(&limit(Some(5.0), None)));
    }

    #[test]
    fn a_limit_of_an_older_run_file_is_read() {
        let mut json = serde_json::to_value(limit(None, None)).expect("it is written");
        let fields = json.as_object_mut().expect("an object");
        assert!(!fields.contains_key("requests_a_visit") && !fields.contains_key("visit_s"));
        let read: LimitResult = serde_json::from_value(json).expect("it is read");
        assert_eq!(read, limit(None, None));
    }
}
