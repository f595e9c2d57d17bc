//! APP-02: the application works for its developers on every page.

use crate::rule::prelude::*;
use kneepoint_model::SwitchKind;

/// Part of the CPU of all tiers from which on it is what binds \[ours\].
const BINDS: f64 = 0.1;
/// The same from which on it is worth a note where no setting says that debugging is on \[ours\].
const NOTICEABLE: f64 = 0.05;

/// Code that only debugging runs: beginnings of names of functions. From the applications and packages themselves:
/// MediaWiki (includes/debug), DebugBar, Laravel Telescope and Debugbar, Symfony's profiler and its decorators, Clockwork,
/// WordPress with SAVEQUERIES.
const FUNCTIONS: [&str; 19] = [
    "wfDebug",
    "wfLogProfilingData",
    "wfBacktrace",
    "MWDebug::",
    "MediaWiki\\Logger\\LegacyLogger::",
    "MediaWiki\\Logger\\LegacySpi::",
    "DebugBar\\",
    "Barryvdh\\Debugbar\\",
    "Fruitcake\\LaravelDebugbar\\",
    "Laravel\\Telescope\\",
    "Spatie\\LaravelIgnition\\",
    "Symfony\\Component\\HttpKernel\\DataCollector\\",
    "Symfony\\Component\\HttpKernel\\Profiler\\",
    "Symfony\\Component\\HttpKernel\\Debug\\",
    "Symfony\\Component\\ErrorHandler\\DebugClassLoader::",
    "Symfony\\Component\\EventDispatcher\\Debug\\",
    "Symfony\\Bundle\\WebProfilerBundle\\",
    "Clockwork\\",
    "wp_debug_backtrace_summary",
];

pub(crate) static RULE: Rule = Rule {
    code: "APP-02",
    name: "debug-switched-on",
    since: "0.1.0",
    layers: &[Layer::App],
    stage: RuleStage::Code,
    signal: UseSignal::Utilisation,
    applies_to: AppliesTo::Any,
    requires: &[],
    yields_to: &[],
    title: "the application debugs itself on every page",
    doc: RuleDoc {
        what_it_is: "A debug log, a toolbar, a profiler or an environment for developers was switched on to find something, and \
            stayed on. Each page then writes down what it does, keeps every query with its stack, and checks files that never \
            change. It can take several times the time and memory of the page.",
        how_it_shows: "The CPU is used up by PHP in functions of logging, of a toolbar or of a profiler; a log file grows with \
            every request; a setting of the application says that debugging is on.",
        how_it_is_confirmed: "Switch it off, clear the caches that were made meanwhile, and compare the limits.",
        what_to_write: "Laravel:\n\n    APP_ENV=production\n    APP_DEBUG=false\n\nSymfony: APP_ENV=prod, APP_DEBUG=0. WordPress: \
            define('WP_DEBUG', false). MediaWiki: no $wgDebugLogFile, no $wgDebugToolbar. Leave packages for developers out: \
            composer install --no-dev.",
        references: &[
            "https://github.com/laravel/telescope/issues/419",
            "https://www.mediawiki.org/wiki/Manual:How_to_debug",
        ],
    },
    check,
};

fn check(evidence: &Evidence) -> Option<Finding> {
    let on = evidence.switched(SwitchKind::DebugOn);
    let within = evidence.computing_in(&FUNCTIONS);
    let (share, of) = within.unwrap_or((0.0, 0));
    let part = share * evidence.part_of_tiers(Layer::Php);
    // Applications call such code when debugging is off, too: it sees that and returns.
    if on.is_empty() && part < NOTICEABLE {
        return None;
    }
    let mut verdict = RULE.finds(Layer::App, RULE.title);
    for switch in &on {
        verdict = verdict.configured(switch.to_string());
    }
    if within.is_some() {
        verdict = verdict.under(
            format!(
                "{} of {of} stacks that computed were in code that only debugging runs",
                format_share(share)
            ),
            evidence.code_sampled_under(),
        );
    }
    verdict
        .suspected_if(part >= BINDS)
        .weight(part)
        .refuted_by("the same limit with debugging off")
        .remedy(
            Advice::new(
                evidence,
                "Switch debugging off where visitors are, and leave packages for developers out of it.",
            )
            .set_all(on.iter().filter_map(|it| it.change()))
            .build(),
        )
        .done()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::{met, place, sampled};
    use kneepoint_model::AppSwitch;

    fn check(case: Case, expected: expect_test::Expect) {
        verify(&RULE, case, expected);
    }

    /// So many of a hundred stacks write a debug log, which a setting switches on.
    fn debugging(stacks: u64) -> Case {
        let stacks = sampled(
            50,
            vec![
                place("main index.php", "index.php", 3),
                place("wfDebugLog", "includes/GlobalFunctions.php", 900),
            ],
            vec![
                met("GET /index.php", &[0, 1], stacks),
                met("GET /index.php", &[0], 100 - stacks),
            ],
        );
        Case::healthy().with(|evidence| {
            evidence.stacks = Some(stacks);
            evidence.switches.push(AppSwitch {
                kind: SwitchKind::DebugOn,
                name: "$wgDebugLogFile".to_owned(),
                value: "'/tmp/debug.log'".to_owned(),
                file: "LocalSettings.php".to_owned(),
                line: 40,
                instead: Some("$wgDebugLogFile = '';".to_owned()),
            });
        })
    }

    #[test]
    fn fires_when_pages_write_a_debug_log() {
        check(
            debugging(30),
            expect![[r#"
                named: APP-07, APP-02
                suspected app (24 %): the application debugs itself on every page
                  saw $wgDebugLogFile = '/tmp/debug.log' (LocalSettings.php:40)
                  saw 30 % of 100 stacks that computed were in code that only debugging runs, sampled 50 times a second, at 240/s offered for 10 s
                  set app.line.LocalSettings.php:40 = $wgDebugLogFile = '';
            "#]],
        );
    }

    #[test]
    fn only_notes_a_switch_that_costs_little() {
        check(
            debugging(1),
            expect![[r#"
                named: APP-07
                noted app (0.8 %): the application debugs itself on every page
                  saw $wgDebugLogFile = '/tmp/debug.log' (LocalSettings.php:40)
                  saw 1.0 % of 100 stacks that computed were in code that only debugging runs, sampled 50 times a second, at 240/s offered for 10 s
                  set app.line.LocalSettings.php:40 = $wgDebugLogFile = '';
            "#]],
        );
    }

    #[test]
    fn stays_silent_when_nothing_is_switched_on() {
        let off = |stacks| debugging(stacks).with(|evidence| evidence.switches.clear());
        check(
            off(1),
            expect![[r#"
                named: APP-07
                silent
            "#]],
        );
        stays_silent(&RULE, Case::healthy());
    }
}
