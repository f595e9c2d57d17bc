//! APP-06: pages make and send large answers.

use crate::rule::prelude::*;
use kneepoint_model::units::format_bytes;

/// Part of the CPU of all tiers that making text takes, from which on it is what binds \[ours\].
const BINDS: f64 = 0.15;
/// The same from which on it is worth a note \[ours\].
const NOTICEABLE: f64 = 0.05;
/// Bytes of a response, on average, from which on it is large: twice the HTML of most pages
/// (<https://almanac.httparchive.org/en/2024/page-weight>).
const LARGE_BYTES: f64 = 64.0 * 1024.0;

/// Functions of PHP itself that turn values into text and back, by the beginnings of their names.
const FUNCTIONS: [&str; 14] = [
    "json_encode",
    "json_decode",
    "serialize",
    "unserialize",
    "var_export",
    "print_r",
    "igbinary_",
    "msgpack_",
    "xmlrpc_",
    "SimpleXMLElement::",
    "DOMDocument::save",
    "XMLWriter::",
    "fputcsv",
    "gzencode",
];

pub(crate) static RULE: Rule = Rule {
    code: "APP-06",
    name: "large-payload",
    since: "0.1.0",
    layers: &[Layer::App],
    stage: RuleStage::Code,
    signal: UseSignal::Utilisation,
    applies_to: AppliesTo::Any,
    requires: &[],
    yields_to: &["OPC-01", "OPC-03", "OPC-04", "OPC-06"],
    title: "pages make and send large answers",
    doc: RuleDoc {
        what_it_is: "A list without pages, an interface that answers with whole objects, a feed of everything: what is sent is \
            made first, field by field, and read again by the one who asked. It grows with the data, and costs the CPU of PHP, \
            memory of each worker, buffers of nginx and the link.",
        how_it_shows: "Responses of hundreds of kB, workers met in json_encode, serialize or an XML writer, memory that grows \
            with the answer.",
        how_it_is_confirmed: "Ask for a tenth of it (a limit, fewer fields) for one run: the limit rises by what making it took.",
        what_to_write: "Send pages of a list and the fields that are shown:\n\n    \
            Article::select('id', 'title')->cursorPaginate(50);\n\nKeep the finished text where all visitors get the same, in a \
            cache or as a file that nginx sends.",
        references: &[
            "https://almanac.httparchive.org/en/2024/page-weight",
            "https://www.php.net/manual/en/function.json-encode.php",
        ],
    },
    check,
};

fn check(evidence: &Evidence) -> Option<Finding> {
    let phase = evidence.knee()?;
    let bytes = phase.load.response_bytes()?;
    let (share, of) = evidence.computing_in(&FUNCTIONS)?;
    let part = share * evidence.part_of_tiers(Layer::Php);
    if bytes < LARGE_BYTES || part < NOTICEABLE {
        return None;
    }
    RULE.finds(Layer::App, RULE.title)
        .measured(
            format!(
                "{} in each response, on average",
                format_bytes(bytes as u64)
            ),
            phase,
        )
        .under(
            format!(
                "{} of {of} stacks that computed turned values into text or back",
                format_share(share)
            ),
            evidence.code_sampled_under(),
        )
        .inside(evidence.seen_computing_in(&FUNCTIONS))
        .suspected_if(part >= BINDS)
        .weight(part)
        .refuted_by("the same limit with answers of a tenth of the size")
        .remedy(
            Advice::new(
                evidence,
                "Send pages of a list, and the fields that are shown; keep the finished text where all visitors get the same.",
            )
            .build(),
        )
        .done()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::{builtin, met, place, sampled};

    fn check(case: Case, expected: expect_test::Expect) {
        verify(&RULE, case, expected);
    }

    /// So many of a hundred stacks encode an answer of so many bytes.
    fn encoding(stacks: u64, bytes: u64) -> Case {
        let profile = sampled(
            50,
            vec![
                place("App\\Api::articles", "app/Api.php", 12),
                builtin("json_encode"),
                place("App\\Db::all", "app/Db.php", 7),
            ],
            vec![
                met("GET /api", &[0, 1], 10 * stacks),
                met("GET /api", &[0, 2], 10 * (100 - stacks)),
            ],
        );
        Case::healthy()
            .load(PhaseKind::Knee, |load| {
                load.bytes_received = bytes * load.outcomes.of(Outcome::Ok);
            })
            .with(|evidence| evidence.stacks = Some(profile))
    }

    #[test]
    fn fires_with_the_line_that_makes_a_large_answer() {
        check(
            encoding(60, 400_000),
            expect![[r#"
            named: APP-06
            suspected app (47 %): pages make and send large answers
              saw 390.6 KiB in each response, on average, at 190/s offered for 10 s
              saw 60 % of 1000 stacks that computed turned values into text or back, sampled 50 times a second, at 240/s offered for 10 s
              saw 100 % of them in App\Api::articles at app/Api.php:12, sampled 50 times a second, at 240/s offered for 10 s
              do: Send pages of a list, and the fields that are shown; keep the finished text where all visitors get the same.
        "#]],
        );
    }

    #[test]
    fn stays_silent_when_answers_are_small_or_cheap() {
        check(
            encoding(60, 2_000),
            expect![[r#"
            named: APP-07
            silent
        "#]],
        );
        check(
            encoding(2, 400_000),
            expect![[r#"
            named: APP-07
            silent
        "#]],
        );
    }
}
