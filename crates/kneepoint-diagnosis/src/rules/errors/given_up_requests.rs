//! FPM-13: PHP goes on with requests that the server before it has given up.

use crate::rule::prelude::*;

/// How long nginx waits unless told otherwise, in seconds (ngx_http_fastcgi_module, ngx_http_proxy_module).
const NGINX_WAITS_S: f64 = 60.0;
/// PHP is told to end a request this share of the time earlier than nginx gives it up \[ours\].
const EARLIER: f64 = 0.9;

pub(crate) static RULE: Rule = Rule {
    code: "FPM-13",
    name: "given-up-requests",
    since: "0.1.0",
    layers: &[Layer::Php],
    stage: RuleStage::Errors,
    signal: UseSignal::Error,
    applies_to: AppliesTo::Server("fpm"),
    requires: &[],
    yields_to: &[],
    title: "PHP goes on with requests that nginx has given up",
    doc: RuleDoc {
        what_it_is: "nginx answers 504 after fastcgi_read_timeout (one that proxies: proxy_read_timeout) and lets go. PHP does \
            not notice: the worker works on for somebody who is gone, and is not there for others. Under overload most \
            workers may be busy with such requests. max_execution_time does not help: it does not count time spent waiting.",
        how_it_shows: "`upstream timed out (110: Connection timed out) while reading response header` in nginx's log, and \
            requests on FPM's status page that run longer than nginx waits.",
        how_it_is_confirmed: "Set request_terminate_timeout below fastcgi_read_timeout for one run: after an overload the stack \
            answers again at once.",
        what_to_write: "The inner limit a little below the outer:\n\n    ; in the pool\n    request_terminate_timeout = 50s\n\n    \
            # nginx\n    fastcgi_read_timeout 60s;",
        references: &[
            "https://www.php.net/manual/en/install.fpm.configuration.php",
            "https://www.netdata.cloud/guides/php-fpm/php-fpm-nginx-timeout-mismatch/",
        ],
    },
    check,
};

fn check(evidence: &Evidence) -> Option<Finding> {
    let given_up = evidence.logged(&[Layer::Web, Layer::Proxy], LogKind::UpstreamReadTimeout)?;
    let ends_s = evidence
        .stack
        .setting(Layer::Php, "request_terminate_timeout");
    let ends_s = ends_s.map_or(Some(0.0), seconds)?;
    // Each nginx gives up after a limit of its own.
    let (waiter, limit) = match given_up.layer {
        Layer::Proxy => (Layer::Proxy, "proxy_read_timeout"),
        _ => (Layer::Web, "fastcgi_read_timeout"),
    };
    let waits_s = evidence.stack.setting(waiter, limit);
    let waits_s = waits_s.map_or(Some(NGINX_WAITS_S), seconds)?;
    if ends_s > 0.0 && ends_s <= waits_s {
        return None;
    }
    let ended = (EARLIER * waits_s).floor().max(1.0);
    RULE.finds(Layer::Php, RULE.title)
        .configured(evidence.quote(Layer::Php, "request_terminate_timeout"))
        .configured(evidence.quote(waiter, limit))
        .logged(Some(given_up))
        // What made them slow is the cause; this keeps the stack from getting up again.
        .suspected_if(false)
        .refuted_by("no request on FPM's status page that runs longer than nginx waits")
        .remedy(
            Advice::new(
                evidence,
                format!(
                    "Have PHP end a request before nginx gives it up: request_terminate_timeout = {ended:.0}s, below \
                     {limit}."
                ),
            )
            .set(Layer::Php, "request_terminate_timeout", format!("{ended:.0}s"))
            .build(),
        )
        .done()
}

/// Seconds of `60s`, `2m`, `500ms` or a plain number.
fn seconds(text: &str) -> Option<f64> {
    let text = text.trim();
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let number: f64 = text[..end].parse().ok()?;
    let unit = match &text[end..] {
        "" | "s" => 1.0,
        "ms" => 1e-3,
        "m" => 60.0,
        "h" => 3_600.0,
        "d" => 86_400.0,
        _ => return None,
    };
    Some(number * unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(case: Case, expected: expect_test::Expect) {
        verify(&RULE, case, expected);
    }

    fn given_up(ends: &str) -> Case {
        Case::healthy()
            .set(Layer::Php, "request_terminate_timeout", ends)
            .set(Layer::Web, "fastcgi_read_timeout", "60s")
            .log(
                PhaseKind::Over,
                Layer::Web,
                LogKind::UpstreamReadTimeout,
                12,
                "upstream timed out (110: Connection timed out) while reading response header from upstream",
            )
    }

    #[test]
    fn notes_a_pool_that_works_for_nobody() {
        check(
            given_up("0"),
            expect![[r#"
            named: CAP-02
            noted php (0 %): PHP goes on with requests that nginx has given up
              saw php.request_terminate_timeout = 0
              saw web.fastcgi_read_timeout = 60s
              saw 12 log lines: upstream timed out (110: Connection timed out) while reading response header from upstream, at 240/s offered for 10 s
              set php.request_terminate_timeout = 54s
        "#]],
        );
    }

    #[test]
    fn compares_with_the_limit_of_the_nginx_that_gave_up() {
        let case = Case::healthy()
            .set(Layer::Php, "request_terminate_timeout", "50s")
            .set(Layer::Web, "fastcgi_read_timeout", "60s")
            .set(Layer::Proxy, "proxy_read_timeout", "30s")
            .log(
                PhaseKind::Over,
                Layer::Proxy,
                LogKind::UpstreamReadTimeout,
                12,
                "upstream timed out",
            );
        check(
            case,
            expect![[r#"
            named: CAP-02
            noted php (0 %): PHP goes on with requests that nginx has given up
              saw php.request_terminate_timeout = 50s
              saw proxy.proxy_read_timeout = 30s
              saw 12 log lines: upstream timed out, at 240/s offered for 10 s
              set php.request_terminate_timeout = 27s
        "#]],
        );
    }

    #[test]
    fn stays_silent_where_php_ends_first_or_nobody_gave_up() {
        stays_silent(&RULE, given_up("50s"));
        stays_silent(&RULE, Case::healthy());
    }

    #[test]
    fn times_are_read_in_their_units() {
        for (text, expected) in [
            ("60s", Some(60.0)),
            ("2m", Some(120.0)),
            ("500ms", Some(0.5)),
            ("0", Some(0.0)),
            ("soon", None),
        ] {
            assert_eq!(seconds(text), expected, "{text}");
        }
    }
}
