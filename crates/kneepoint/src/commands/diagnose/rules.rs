//! `kneepoint rules` and `kneepoint explain`.

use crate::args::{ExplainArgs, RulesArgs};
use crate::session::print;
use anyhow::{Result, bail};
use kneepoint_check::{CHECKS, CheckRule, codes};
use kneepoint_diagnosis::{RULES, Rule, explain as explain_rule};
use kneepoint_model::rule_title;
use std::collections::BTreeMap;
use std::process::ExitCode;

/// Titles of this many rules are told where somebody wrote a code that there is not.
const NEAR: usize = 12;

/// What the letters of a code stand for.
const KINDS: [(&str, &str); 15] = [
    ("APA", "Apache"),
    ("APP", "the application: its code and its settings"),
    (
        "CAP",
        "capacity: a resource is used up, and nothing is wrong",
    ),
    ("CHK", "files that say something else than what runs"),
    ("FPM", "PHP-FPM and its pools, and workers of PHP at large"),
    (
        "GEN",
        "the measurement itself: what makes its numbers wrong",
    ),
    ("HAP", "HAProxy"),
    ("KRN", "the Linux kernel: network, CPU, memory, disk"),
    ("MYS", "MariaDB and MySQL (MYS-04: PostgreSQL, too)"),
    ("NGX", "nginx"),
    ("OPC", "OPcache, and what else PHP keeps of its files"),
    ("PG", "PostgreSQL and PgBouncer"),
    ("RDS", "Redis and Valkey"),
    ("RT", "PHP itself, and other runtimes of PHP"),
    ("SES", "sessions of visitors"),
];

/// What is known by a code, and who sees it.
struct Known {
    title: &'static str,
    under_load: bool,
    by_check: bool,
}

/// Every code once, in alphabetical order.
fn known() -> BTreeMap<&'static str, Known> {
    let mut all: BTreeMap<&str, Known> = BTreeMap::new();
    for (code, title, under_load) in RULES
        .iter()
        .map(|rule| (rule.code, rule.title, true))
        .chain(codes().map(|(code, title)| (code, title, false)))
    {
        let known = all.entry(code).or_insert(Known {
            title,
            under_load: false,
            by_check: false,
        });
        known.under_load |= under_load;
        known.by_check |= !under_load;
    }
    all
}

pub(in crate::commands) fn run(args: &RulesArgs) -> Result<ExitCode> {
    if let Some(path) = &args.judge {
        super::evidence::judge(path, args)?;
        return Ok(ExitCode::SUCCESS);
    }
    if args.json {
        let rules: Vec<_> = RULES
            .iter()
            .map(|rule| serde_json::json!({ "code": rule.code, "name": rule.name, "title": rule.title, "since": rule.since }))
            .collect();
        print(&serde_json::to_string_pretty(&rules)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    print(&list())?;
    Ok(ExitCode::SUCCESS)
}

fn list() -> String {
    let mut text = "\
Causes that Kneepoint knows, by code.
load   found under load, by diagnose and tune
check  found without load in what runs, by check

The letters of a code say what it is about:
"
    .to_owned();
    for (letters, about) in KINDS {
        text.push_str(&format!("{letters:<6} {about}\n"));
    }
    text.push_str("\nCODE    FOUND BY     WHAT IS WRONG\n");
    for (code, known) in known() {
        let by = match (known.under_load, known.by_check) {
            (true, true) => "load, check",
            (true, false) => "load",
            (false, _) => "check",
        };
        let title = rule_title(known.title);
        text.push_str(&format!("{code:<7} {by:<12} {title}\n"));
    }
    text.push_str("\nkneepoint explain CODE tells more about one of them.\n");
    text
}

pub(in crate::commands) fn explain(args: &ExplainArgs) -> Result<ExitCode> {
    let Some(article) = article(&args.code) else {
        bail!("{}", unknown(&args.code));
    };
    if args.json {
        let rule = RULES.iter().find(|rule| is_named(rule, &args.code));
        print(&serde_json::to_string_pretty(&facts(rule, &article))?)?;
    } else {
        print(&article)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn is_named(rule: &Rule, code: &str) -> bool {
    rule.code.eq_ignore_ascii_case(code) || rule.name.eq_ignore_ascii_case(code)
}

/// One matter may be found in two ways, under load and in what is configured: it is one article all the same.
fn article(code: &str) -> Option<String> {
    let code = RULES
        .iter()
        .find(|rule| is_named(rule, code))
        .map_or(code, |rule| rule.code);
    let checks = CHECKS
        .iter()
        .filter(|rule| rule.code.eq_ignore_ascii_case(code));
    let checks: Vec<&CheckRule> = checks.copied().collect();
    let besides = without_load(&checks);
    let besides: Vec<(&str, &str)> = besides
        .iter()
        .map(|(heading, text)| (heading.as_str(), text.as_str()))
        .collect();
    explain_rule(code, &besides).or_else(|| kneepoint_check::explain(code))
}

/// What is known of a matter without load: each a heading and a text. Where several rules look at it, a heading says which.
fn without_load(checks: &[&CheckRule]) -> Vec<(String, String)> {
    if let [one] = checks {
        return vec![
            (
                "How it shows without load".to_owned(),
                one.how_it_shows.to_owned(),
            ),
            ("When it does not matter".to_owned(), one.unless.to_owned()),
        ];
    }
    let of_each = checks.iter().map(|rule| {
        let heading = format!("Without load: {}", rule.title);
        let (shows, unless) = (rule.how_it_shows, rule.unless);
        let text = format!("How it shows: {shows}\n\nWhen it does not matter: {unless}");
        (heading, text)
    });
    of_each.collect()
}

/// What a program may want to know of a rule, beside the article.
fn facts(rule: Option<&&Rule>, article: &str) -> serde_json::Value {
    let Some(rule) = rule else {
        return serde_json::json!({ "article": article });
    };
    let layers: Vec<&str> = rule.layers.iter().map(|layer| layer.name()).collect();
    let needs: Vec<&str> = rule.requires.iter().map(|metric| metric.name).collect();
    serde_json::json!({
        "code": rule.code,
        "name": rule.name,
        "title": rule.title,
        "layers": layers,
        "stage": rule.stage.name(),
        "signal": rule.signal.name(),
        "needs": needs,
        "since": rule.since,
        "article": article,
    })
}

/// That there is no such rule, and which there are of its kind.
fn unknown(code: &str) -> String {
    let kind = |code: &str| {
        let kind = code.split('-').next().unwrap_or_default();
        kind.to_ascii_uppercase()
    };
    let near: Vec<String> = known()
        .iter()
        .filter(|(known, _)| kind(known) == kind(code))
        .take(NEAR)
        .map(|(code, known)| format!("\n  {code:<7} {}", rule_title(known.title)))
        .collect();
    let near = match near.is_empty() {
        true => String::new(),
        false => format!("; of {} there are:{}", kind(code), near.concat()),
    };
    format!(
        "there is no rule `{code}`: kneepoint rules lists them all, and kneepoint rules | grep -i WORD those that \
         speak of something{near}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_code_stands_once_in_the_list_and_has_one_article_of_the_same_title() {
        let list = list();
        for code in known().keys() {
            let lines = list
                .lines()
                .filter(|line| line.starts_with(&format!("{code} ")));
            let lines: Vec<&str> = lines.collect();
            assert_eq!(lines.len(), 1, "{code}");
            let article = article(code).expect(code);
            assert_eq!(article.matches(&format!("# {code}: ")).count(), 1, "{code}");
            let heading = article.lines().next().unwrap_or_default();
            let title = heading.trim_start_matches(&format!("# {code}: "));
            assert!(lines[0].ends_with(&format!(" {title}")), "{heading}");
        }
    }

    #[test]
    fn the_list_says_what_the_letters_of_every_code_stand_for() {
        let kinds: BTreeSet<&str> = known()
            .into_keys()
            .filter_map(|code| code.split('-').next())
            .collect();
        let told: BTreeSet<&str> = KINDS.iter().map(|(letters, _)| *letters).collect();
        assert_eq!(kinds, told);
        assert!(list().contains("\nPG     PostgreSQL and PgBouncer\n"));
    }

    #[test]
    fn titles_in_the_list_begin_with_a_capital_letter_unless_a_name_does_not() {
        let list = list();
        let has = |line: &str| assert!(list.contains(line), "{line}");
        has("CAP-02  load         The CPU is the limit\n");
        has("FPM-24  check        Nobody listened at the next tier\n");
        has("NGX-22  check        nginx sends text uncompressed\n");
    }

    /// All `*.toml` of the benches, and the table of what is not in them.
    fn benches() -> (String, String) {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut planted = String::new();
        for dir in ["faults", "faults/apps", "shapes"] {
            let entries = std::fs::read_dir(root.join(dir)).expect(dir);
            let paths = entries.map(|entry| entry.expect("an entry").path());
            for path in paths.filter(|path| path.extension().is_some_and(|end| end == "toml")) {
                planted.push_str(&std::fs::read_to_string(path).expect("a file"));
            }
        }
        let readme = std::fs::read_to_string(root.join("faults/README.md")).expect("a README");
        let (_, without) = readme
            .split_once("## Rules that nothing is planted for")
            .expect("the section");
        (planted, without.to_owned())
    }

    #[test]
    fn every_rule_has_a_fault_in_a_bench_or_a_reason_why_not() {
        let (planted, without) = benches();
        for code in known().into_keys() {
            let is_planted = planted.contains(&format!("\"{code}"));
            let has_reason = without.contains(&format!("\n| {code} |"));
            assert!(
                is_planted != has_reason,
                "{code}: planted {is_planted}, excused {has_reason}; see faults/README.md"
            );
        }
    }

    #[test]
    fn a_rule_of_both_kinds_says_in_one_article_when_it_does_not_matter() {
        let both = known();
        let mut both = both.iter().filter(|(_, it)| it.under_load && it.by_check);
        let (code, _) = both.next().expect("some are found in both ways");
        let article = article(code).expect("an article");
        assert!(article.contains("## How it is confirmed"), "{article}");
        assert!(article.contains("## When it does not matter"), "{article}");
    }

    #[test]
    fn several_rules_without_load_are_told_each_below_its_title() {
        let article = article("RDS-01").expect("an article");
        for rule in CHECKS.iter().filter(|rule| rule.code == "RDS-01") {
            let heading = format!("\n## Without load: {}\n\nHow it shows: ", rule.title);
            let (_, of_it) = article.split_once(&heading).expect(&heading);
            assert!(of_it.starts_with(rule.how_it_shows), "{of_it}");
        }
        assert!(!article.contains("## How it shows without load"));
    }

    #[test]
    fn an_unknown_code_is_answered_with_its_kind_and_no_wall() {
        let near = unknown("fpm-99");
        assert!(
            near.contains("FPM-01") && near.contains("rules | grep"),
            "{near}"
        );
        assert!(near.lines().count() <= NEAR + 1, "{near}");
        assert!(!unknown("FOO-99").contains('\n'));
    }
}
