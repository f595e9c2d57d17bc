//! APP-26: an agent of a monitoring service is loaded.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "APP-26",
    name: "apm-agent-loaded",
    title: "An agent of a monitoring service runs in every worker",
    what_it_is: "The agents of New Relic, Datadog, Blackfire, Tideways, Elastic and OpenTelemetry sit in each worker \
        of PHP, measure its functions and send what they saw. Somebody wants that. It costs something in every \
        request, more where everything is traced and nothing sampled, and most where a page makes thousands of small \
        calls.",
    how_it_shows: "`kneepoint profile` shows the agent's library; pages are faster with the extension left out.",
    unless: "What it tells is worth what it takes: measure once with and once without.",
    what_to_write: "A sampling rate of one in ten or a hundred, and tracing of single functions off.",
    check,
};

/// Agents, by the name of their extension.
const AGENTS: [&str; 10] = [
    "newrelic",
    "ddtrace",
    "datadog-profiling",
    "blackfire",
    "tideways",
    "elastic_apm",
    "opentelemetry",
    "scoutapm",
    "appdynamics_agent",
    "instana",
];

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    for (at, service) in snapshot.services.iter().enumerate() {
        let Some(php) = &service.php else { continue };
        let agents = AGENTS
            .iter()
            .filter_map(|name| php.loaded.get_key_value(*name));
        for (name, path) in agents {
            let workers: u64 = service.pools.iter().filter_map(FpmPool::max_children).sum();
            RULE.at(snapshot, at, Severity::Note)
                .title(format!("The agent {name} runs in every worker"))
                .seen(
                    format!("{path} is mapped into memory"),
                    format!("/proc/{}/maps", service.pid),
                )
                .cost(format!(
                    "a part of each request of {}, not measured here: `kneepoint profile` names it",
                    counted(workers, "worker")
                ))
                .fix(Fix::words(format!(
                    "Measure with and without {name}; then set its sampling rate."
                )))
                .weight(0.04)
                .tell(found);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sick_and_healthy() {
        let agent = Case::healthy().with(|all| {
            let php = all.services[1].php.as_mut().expect("PHP");
            php.loaded
                .insert("newrelic".into(), "/lib/newrelic.so".into());
        });
        verify(&RULE, &[(agent, Severity::Note, "20 workers")]);
    }
}
