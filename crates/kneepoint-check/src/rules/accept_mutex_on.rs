//! NGX-16: accept_mutex is on.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "NGX-16",
    name: "accept-mutex-on",
    title: "Processes of nginx take turns to accept connections",
    what_it_is: "With accept_mutex only one process of nginx accepts connections at a time, and the others wait up \
        to accept_mutex_delay, half a second, before they try. It was on before nginx 1.11.3; since then the kernel \
        wakes one process by itself. In a burst one process does all the work.",
    how_it_shows: "One process of nginx is busy and the others idle; single requests wait for up to 0.5 s.",
    unless: "Connections come slowly, or the kernel is older than Linux 4.5.",
    what_to_write: "accept_mutex off; and `listen 80 reuseport;` where connections are many.",
    check,
};

const MUTEX: Directive = Directive {
    home: Home::Program(ServiceKind::Nginx),
    name: "accept_mutex",
    usual: "off",
    beside: &[("accept_mutex_delay", "500ms")],
    severity: Severity::Note,
    costs: |value, around| {
        (value.is_on() == Some(true)).then(|| {
            let delay = around.settings.or("accept_mutex_delay", "500ms");
            format!(
                "a connection waits for up to {} while another process accepts",
                delay.text
            )
        })
    },
    better: |_| "accept_mutex off;".into(),
    weight: 0.03,
};

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    MUTEX.check(&RULE, snapshot, found);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sick_and_healthy() {
        verify(
            &RULE,
            &[(
                Case::healthy().nginx_with(
                    "worker_connections 4096;",
                    "worker_connections 4096;\n accept_mutex on;",
                ),
                Severity::Note,
                "500ms",
            )],
        );
    }
}
