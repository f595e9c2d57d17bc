//! APP-08: the application does anew, on every page, what a cache of its own would keep.

use crate::causes::{Saved, most_saved_work};
use crate::rule::prelude::*;
use kneepoint_model::SwitchKind;

/// Part of the CPU of all tiers from which on it is what binds \[ours\].
const BINDS: f64 = 0.15;
/// The same from which on it is worth a note \[ours\]: a cache that is warm still does a little of its work.
const NOTICEABLE: f64 = 0.05;

pub(crate) static RULE: Rule = Rule {
    code: "APP-08",
    name: "cache-switched-off",
    since: "0.1.0",
    layers: &[Layer::App],
    stage: RuleStage::Code,
    signal: UseSignal::Utilisation,
    applies_to: AppliesTo::Any,
    requires: &[],
    // Compiling PHP itself is another matter.
    yields_to: &["OPC-01", "OPC-03", "OPC-04"],
    title: "pages do anew what a cache would keep",
    doc: RuleDoc {
        what_it_is: "Applications keep what is dear to make and seldom changes: parsed wikitext, compiled templates, the \
            container of services, metadata. When that cache is switched off, has no place where it may write, or is thrown \
            away by an extension, every page does the work again.",
        how_it_shows: "The CPU is used up by PHP, in functions that a warm application does not run: parsers and compilers of \
            templates. A setting of the application says that a cache is off, or its directory cannot be written.",
        how_it_is_confirmed: "Switch the cache on and visit each page once before measuring: the limit rises by the share of \
            the work.",
        what_to_write: "In MediaWiki:\n\n    $wgMainCacheType = CACHE_ACCEL;\n    $wgParserCacheType = CACHE_DB;\n\nIn DokuWiki \
            leave cachetime at 86400. For templates: a directory that PHP's user may write, kept between deployments or filled \
            by one (php artisan view:cache, bin/console cache:warmup).",
        references: &[
            "https://www.mediawiki.org/wiki/Manual:Caching",
            "https://www.dokuwiki.org/caching",
            "https://symfony.com/doc/current/performance.html",
        ],
    },
    check,
};

fn check(evidence: &Evidence) -> Option<Finding> {
    let done = most_saved_work(evidence)?;
    let part = done.share * evidence.part_of_tiers(Layer::Php);
    if part < NOTICEABLE {
        return None;
    }
    let off = evidence.switched(SwitchKind::CacheOff);
    let Saved { work, kept_by, .. } = done.saved;
    let share = format_share(done.share);
    let mut verdict = RULE
        .finds(
            Layer::App,
            format!("pages do anew what a cache would keep: {work} takes {share} of PHP's CPU"),
        )
        .under(
            format!("{share} of {} stacks that computed were {work}", done.of),
            evidence.code_sampled_under(),
        );
    for switch in &off {
        verdict = verdict.configured(switch.to_string());
    }
    let text = if off.is_empty() {
        format!(
            "It is kept by {kept_by}. See whether that is on, may be written, and keeps these pages."
        )
    } else {
        format!("Switch the cache on. It is kept by {kept_by}.")
    };
    verdict
        .suspected_if(part >= BINDS)
        .weight(part)
        .refuted_by("the same limit with the cache on and filled")
        .remedy(
            Advice::new(evidence, text)
                .set_all(off.iter().filter_map(|it| it.change()))
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

    /// So many of a hundred stacks parse.
    fn parsing(stacks: u64) -> Case {
        let stacks = sampled(
            50,
            vec![
                place("main index.php", "index.php", 3),
                place(
                    "WikitextContentHandler::fillParserOutput",
                    "includes/content/WikitextContentHandler.php",
                    300,
                ),
            ],
            vec![
                met("GET /index.php", &[0, 1], stacks),
                met("GET /index.php", &[0], 100 - stacks),
            ],
        );
        Case::healthy().with(|evidence| evidence.stacks = Some(stacks))
    }

    #[test]
    fn fires_when_every_page_is_parsed_and_says_which_setting_keeps_nothing() {
        let switched = parsing(40).with(|evidence| {
            evidence.switches.push(AppSwitch {
                kind: SwitchKind::CacheOff,
                name: "$wgParserCacheType".to_owned(),
                value: "CACHE_NONE".to_owned(),
                file: "LocalSettings.php".to_owned(),
                line: 12,
                instead: Some("$wgParserCacheType = CACHE_DB;".to_owned()),
            });
        });
        check(
            switched,
            expect![[r#"
                named: APP-07, APP-08
                suspected app (31 %): pages do anew what a cache would keep: parsing wikitext takes 40 % of PHP's CPU
                  saw 40 % of 100 stacks that computed were parsing wikitext, sampled 50 times a second, at 240/s offered for 10 s
                  saw $wgParserCacheType = CACHE_NONE (LocalSettings.php:12)
                  set app.line.LocalSettings.php:12 = $wgParserCacheType = CACHE_DB;
            "#]],
        );
        check(
            parsing(40),
            expect![[r#"
            named: APP-07, APP-08
            suspected app (31 %): pages do anew what a cache would keep: parsing wikitext takes 40 % of PHP's CPU
              saw 40 % of 100 stacks that computed were parsing wikitext, sampled 50 times a second, at 240/s offered for 10 s
              do: It is kept by MediaWiki's parser cache ($wgParserCacheType, $wgMainCacheType; an extension can keep a page out of it). See whether that is on, may be written, and keeps these pages.
        "#]],
        );
    }

    #[test]
    fn only_notes_a_little_of_it() {
        check(
            parsing(14),
            expect![[r#"
            named: APP-07
            noted app (11 %): pages do anew what a cache would keep: parsing wikitext takes 14 % of PHP's CPU
              saw 14 % of 100 stacks that computed were parsing wikitext, sampled 50 times a second, at 240/s offered for 10 s
              do: It is kept by MediaWiki's parser cache ($wgParserCacheType, $wgMainCacheType; an extension can keep a page out of it). See whether that is on, may be written, and keeps these pages.
        "#]],
        );
    }

    #[test]
    fn stays_silent_when_the_cache_is_warm() {
        check(
            parsing(2),
            expect![[r#"
            named: APP-07
            silent
        "#]],
        );
        stays_silent(&RULE, Case::healthy());
    }
}
