//! APP-03: PHP runs with an extension that watches every call.

use crate::rule::prelude::*;
use kneepoint_model::Setting;

/// What an extension costs a request's CPU time.
struct Watcher {
    /// Its name, as it is loaded.
    name: &'static str,
    /// What it is.
    what: &'static str,
    /// Part of PHP's CPU time that is its own; nothing where that depends on what it was told to do.
    part: Option<f64>,
}

/// Part of PHP's CPU time that Xdebug takes with a mode other than off: a page of 3.6 ms took 11.9 ms with
/// develop,debug.
const DEBUGGER: f64 = 0.7;
/// Part that the coverage driver's hooks take while nothing is collected \[ours\].
const COVERAGE: f64 = 0.1;

/// Extensions that hook every call or every file. Profilers and agents are often wanted, and cost what they are told to
/// do: they are only noted.
const WATCHERS: [Watcher; 8] = [
    watcher("xdebug", "a debugger", Some(DEBUGGER)),
    watcher("pcov", "a coverage driver", Some(COVERAGE)),
    watcher("xhprof", "a profiler", None),
    watcher("spx", "a profiler", None),
    watcher("blackfire", "a profiler", None),
    watcher("tideways", "a profiler", None),
    watcher("newrelic", "a monitoring agent", None),
    watcher("ddtrace", "a monitoring agent", None),
];

const fn watcher(name: &'static str, what: &'static str, part: Option<f64>) -> Watcher {
    Watcher { name, what, part }
}

pub(crate) static RULE: Rule = Rule {
    code: "APP-03",
    name: "tracing-extension",
    since: "0.1.0",
    layers: &[Layer::Php],
    stage: RuleStage::Code,
    signal: UseSignal::Error,
    applies_to: AppliesTo::Any,
    requires: &[],
    yields_to: &[],
    title: "PHP runs with an extension that watches every call",
    doc: RuleDoc {
        what_it_is: "Debuggers, coverage drivers and profilers hook into PHP's engine, so that something of theirs runs \
            at every call or every line. Xdebug made a page of 3.6 ms take 11.9 ms. On a developer's machine that is \
            wanted; a package or an image brings it to a server by mistake. With xdebug.mode = off it costs little, \
            which is not nothing; PCOV with pcov.enabled = 0 costs nothing.",
        how_it_shows: "php -v names the extension, and every page is slower, whatever it does. No function of the \
            application stands out.",
        how_it_is_confirmed: "Leave the extension out and compare CPU time a request at the same rate.",
        what_to_write: "On Debian: phpdismod -s fpm xdebug; elsewhere take the line out of php.ini or conf.d, and \
            restart PHP:\n\n    ;zend_extension=xdebug.so",
        references: &[
            "https://xdebug.org/docs/install#mode",
            "https://github.com/EasyEngine/easyengine/issues/483",
        ],
    },
    check,
};

fn check(evidence: &Evidence) -> Option<Finding> {
    let is_loaded = |it: &&Watcher| {
        let key = format!("extension.{}", it.name);
        evidence.stack.is_on(Layer::Php, &key) == Some(true)
    };
    let loaded: Vec<&Watcher> = WATCHERS.iter().filter(is_loaded).collect();
    let worst = loaded
        .iter()
        .max_by(|a, b| part(evidence, a).total_cmp(&part(evidence, b)))?;
    let weight = part(evidence, worst) * php_share(evidence);
    let mut verdict = RULE.finds(
        Layer::Php,
        format!("PHP runs with {}, {}", worst.name, worst.what),
    );
    for it in &loaded {
        let key = format!("extension.{}", it.name);
        verdict = verdict.configured(evidence.quote(Layer::Php, &key));
    }
    match worst.name {
        "xdebug" => verdict = verdict.configured(evidence.quote(Layer::Php, MODE)),
        "pcov" => verdict = verdict.configured(evidence.quote(Layer::Php, COLLECTS)),
        _ => {}
    }
    if weight > 0.0 {
        verdict = verdict.gain(format!(
            "about {} of the CPU, from what {} cost elsewhere; the A/B says what it costs here",
            format_share(weight),
            worst.name
        ));
    }
    let names: Vec<&str> = loaded.iter().map(|it| it.name).collect();
    verdict
        .suspected_if(weight > 0.0)
        .weight(weight)
        .refuted_by("the same CPU time a request without the extension")
        .remedy(
            Advice::new(
                evidence,
                format!(
                    "Do not load {} where it is not needed to debug or measure.",
                    names.join(", ")
                ),
            )
            .set_all(
                loaded
                    .iter()
                    .map(|it| Setting::new(Layer::Php, &format!("extension.{}", it.name), "off")),
            )
            .build(),
        )
        .done()
}

/// The directive that says what Xdebug does; `off` is next to nothing.
const MODE: &str = "xdebug.mode";
/// The directive without which PCOV puts no hooks in (its README).
const COLLECTS: &str = "pcov.enabled";

/// Part of PHP's CPU time that is the extension's; 0 where it is not known or switched off.
fn part(evidence: &Evidence, it: &Watcher) -> f64 {
    let mode = evidence.stack.setting(Layer::Php, MODE);
    let is_off = match it.name {
        "xdebug" => mode.is_some_and(|mode| mode.trim() == "off"),
        "pcov" => evidence.stack.is_on(Layer::Php, COLLECTS) == Some(false),
        _ => false,
    };
    it.part.filter(|_| !is_off).unwrap_or(0.0)
}

/// PHP's part of the CPU time used; all of it where nobody measured.
fn php_share(evidence: &Evidence) -> f64 {
    let measured = evidence.knee().and_then(|phase| {
        let php = phase.cores_used(Layer::Php)?;
        Some(evidence.part_of_cpu(phase, &[(Layer::Php, php)]))
    });
    measured.unwrap_or(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(case: Case, expected: expect_test::Expect) {
        verify(&RULE, case, expected);
    }

    fn loaded(name: &str) -> Case {
        Case::healthy().set(Layer::Php, &format!("extension.{name}"), "on")
    }

    #[test]
    fn fires_when_the_debugger_is_loaded() {
        check(
            loaded("xdebug").set(Layer::Php, "xdebug.mode", "develop,debug"),
            expect![[r#"
                named: APP-03
                suspected php (52 %): PHP runs with xdebug, a debugger
                  saw php.extension.xdebug = on
                  saw php.xdebug.mode = develop,debug
                  set php.extension.xdebug = off
            "#]],
        );
    }

    #[test]
    fn only_notes_a_debugger_that_is_off_and_what_measures_for_somebody() {
        check(
            loaded("xdebug").set(Layer::Php, "xdebug.mode", "off"),
            expect![[r#"
                named: CAP-02
                noted php (0 %): PHP runs with xdebug, a debugger
                  saw php.extension.xdebug = on
                  saw php.xdebug.mode = off
                  set php.extension.xdebug = off
            "#]],
        );
        check(
            loaded("pcov").set(Layer::Php, "pcov.enabled", "0"),
            expect![[r#"
                named: CAP-02
                noted php (0 %): PHP runs with pcov, a coverage driver
                  saw php.extension.pcov = on
                  saw php.pcov.enabled = 0
                  set php.extension.pcov = off
            "#]],
        );
        check(
            loaded("newrelic"),
            expect![[r#"
            named: CAP-02
            noted php (0 %): PHP runs with newrelic, a monitoring agent
              saw php.extension.newrelic = on
              set php.extension.newrelic = off
        "#]],
        );
    }

    #[test]
    fn stays_silent_without_one() {
        stays_silent(&RULE, Case::healthy());
        let off = Case::healthy().set(Layer::Php, "extension.xdebug", "off");
        stays_silent(&RULE, off);
    }
}
