//! One visitor goes through every request of a workload before the load: to see that each answers as it should, and
//! to warm up.

use crate::plan::{LoadError, Target};
use crate::probe::single::{Exchange, Fetched, LARGEST_BODY};
use crate::request::{NoValue, RequestTemplate};
use crate::response::{FailedExpectation, Reply};
use crate::users::Users;
use kneepoint_model::VariableNames;
use kneepoint_model::{Workload, check_workload};
use std::path::PathBuf;
use std::time::Duration;

/// What came of one request of a rehearsal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rehearsed {
    /// Which of the workload's requests it is, counted from 0.
    pub index: usize,
    /// `GET /path`.
    pub request: String,
    /// The response.
    pub fetched: Fetched,
    /// What the response misses, as `expected a body with "visits"`; `None` when it is good.
    pub missed: Option<String>,
}

/// Sends each request of a workload once, as one user with his cookies and what he captured: session after session in
/// their order, then what is in no session, in the order of the workload.
#[derive(Debug)]
pub struct Rehearsal {
    target: Target,
    netns: Option<PathBuf>,
    timeout: Duration,
    templates: Vec<RequestTemplate>,
    /// The requests to come as indices, the next at the end; `None` begins with a new user.
    ahead: Vec<Option<usize>>,
    users: Users,
    user: u32,
    /// Whether all requests carry the user's cookies, as those of a session do.
    visits: bool,
}

impl Rehearsal {
    /// Makes ready; nothing is sent yet. Each response must come within `timeout`.
    ///
    /// # Errors
    /// The workload asks for something that cannot be sent.
    pub fn new(
        target: &Target,
        workload: &Workload,
        netns: Option<PathBuf>,
        timeout: Duration,
    ) -> Result<Self, LoadError> {
        check_workload(workload)?;
        let names = VariableNames::new(workload);
        let templates = workload.requests.iter();
        let mut users = Users::rehearsing(workload);
        Ok(Self {
            target: target.clone(),
            netns,
            timeout,
            templates: templates
                .map(|request| RequestTemplate::new(target, request, &names, &workload.feeders))
                .collect(),
            ahead: order(workload),
            user: users.take(),
            users,
            visits: workload.sessions.is_some(),
        })
    }

    fn send(&mut self, index: usize) -> Result<Rehearsed, LoadError> {
        let template = &self.templates[index];
        let mut request = Vec::new();
        let (values, scratch) = self.users.values_for(self.user, index as u64);
        let cookies = match self.visits || template.session {
            true => values.cookies(),
            false => "",
        };
        template
            .write_with_values(&values, cookies, scratch, &mut request)
            .map_err(|problem| LoadError::Fetch {
                request: template.name.clone(),
                address: self.target.address().to_string(),
                problem: match problem {
                    NoValue::Missing(name) => format!(
                        "it needs {{{{{name}}}}}, which no request before it captured; put the one that does first"
                    ),
                    NoValue::Unfit(name) => {
                        format!("the value of {{{{{name}}}}} holds a control character, which no header can")
                    }
                },
            })?;
        let exchange = Exchange {
            target: &self.target,
            template,
            request: &request,
            timeout: self.timeout,
        };
        let mut reply = Reply::keeping_body(LARGEST_BODY);
        reply.begin(template.expectations.as_ref(), true);
        let fetched = exchange.run(self.netns.as_deref(), &mut reply)?;
        let values = self.users.learn(self.user, &mut reply);
        let failed = match template.accepts(fetched.status) {
            true => reply.failed_expectation().or(values),
            false => Some(FailedExpectation::Status),
        };
        Ok(Rehearsed {
            index,
            request: template.name.clone(),
            fetched,
            missed: failed.map(|failed| failed.describe(&template.request)),
        })
    }
}

impl Iterator for Rehearsal {
    type Item = Result<Rehearsed, LoadError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.ahead.pop()? {
                Some(index) => return Some(self.send(index)),
                None => {
                    self.users.give_back(self.user);
                    self.user = self.users.take();
                }
            }
        }
    }
}

/// The order in which requests are sent, from the last to the first, with a `None` where somebody new begins.
fn order(workload: &Workload) -> Vec<Option<usize>> {
    let mut order = Vec::new();
    let scripts = workload.sessions.iter().flat_map(|s| &s.scripts);
    for script in scripts {
        order.extend(script.requests.iter().copied().map(Some));
        order.push(None);
    }
    let captures = |index: &usize| !workload.requests[*index].captures.is_empty();
    let rest = 0..workload.requests.len();
    let alone = rest.filter(|index| !order.contains(&Some(*index)));
    // What captures comes first: without sessions nobody says an order.
    let (first, then): (Vec<usize>, Vec<usize>) = alone.partition(captures);
    let alone: Vec<Option<usize>> = first.into_iter().chain(then).map(Some).collect();
    order.extend(alone);
    order.retain(|step| step.is_none_or(|index| index < workload.requests.len()));
    order.reverse();
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use kneepoint_model::{Capture, CaptureFrom, Request, Script, Sessions};

    #[test]
    fn sessions_come_in_their_order_and_captures_before_the_rest() {
        let mut workload = Workload::single("/");
        workload.requests = ["/a", "/b", "/c", "/d"].map(Request::get).into();
        workload.requests[3].captures = vec![Capture {
            name: "x".into(),
            from: CaptureFrom::Header("X".into()),
        }];
        let forward = |workload: &Workload| {
            let mut order = order(workload);
            order.reverse();
            order
        };
        assert_eq!(forward(&workload), [3, 0, 1, 2].map(Some));
        workload.sessions = Some(Sessions {
            scripts: vec![Script {
                name: "s".into(),
                weight: 1.0,
                requests: vec![2, 1],
            }],
            ..Sessions::default()
        });
        let expected = [Some(2), Some(1), None, Some(3), Some(0)];
        assert_eq!(forward(&workload), expected);
    }
}
