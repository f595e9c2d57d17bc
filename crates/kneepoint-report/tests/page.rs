//! What the report page owes: self-contained, well-formed, accessible, complete.

use crate::support;
use kneepoint_model::{Confidence, Layer, Run};
use kneepoint_report::{Format, LoadFormat, LoadRun, Options, Styles, render, render_load};
use std::collections::BTreeSet;

const STYLE: &str = include_str!("../src/html/style.css");
const SCRIPT: &str = include_str!("../src/subjects/inside/flame.js");

fn page(run: &Run) -> String {
    render(
        run,
        Format::named("html").expect("listed"),
        &Options::default(),
    )
}

/// Every page there is, with its name: of runs, and of loads by themselves.
fn pages() -> Vec<(&'static str, String)> {
    let runs = support::all().into_iter();
    let loads = support::loads::all().into_iter();
    let load_page = |run: &LoadRun| render_load(run, LoadFormat::Html, Styles::Plain);
    runs.map(|(name, run)| (name, page(&run)))
        .chain(loads.map(|(name, run)| (name, load_page(&run))))
        .map(|(name, page)| (name, without_script(&page)))
        .collect()
}

/// The page without the text of its own script, whose place stays.
fn without_script(page: &str) -> String {
    match page.split_once(&format!("<script>{SCRIPT}</script>")) {
        Some((before, behind)) => format!("{before}<script></script>{behind}"),
        None => page.to_owned(),
    }
}

/// Every tag of a page as (name, attributes, closes); the style sheet's text has none.
fn tags(page: &str) -> Vec<(&str, &str, bool)> {
    let inside = page
        .split('<')
        .skip(1)
        .filter_map(|piece| Some(piece.split_once('>')?.0));
    inside
        .map(|tag| {
            let closes = tag.starts_with('/');
            let tag = tag.trim_start_matches('/');
            let (name, attributes) = tag.split_once(' ').unwrap_or((tag, ""));
            (name, attributes, closes)
        })
        .collect()
}

/// The values of an attribute over the whole page.
fn attribute<'a>(page: &'a str, name: &str) -> Vec<&'a str> {
    let key = format!(" {name}=\"");
    page.match_indices(&key)
        .filter_map(|(at, _)| page[at + key.len()..].split('"').next())
        .collect()
}

#[test]
fn the_page_loads_nothing() {
    for (name, page) in pages() {
        for forbidden in ["<link", "<img", "<iframe", " src=", "@import", "url("] {
            assert!(!page.contains(forbidden), "{name} has {forbidden}");
        }
        for href in attribute(&page, "href") {
            assert!(
                href.starts_with('#') || href.starts_with("data:text/csv"),
                "{name} points at {href}"
            );
        }
        assert!(page.contains("Content-Security-Policy"));
        // A script there is only with a flame graph, and only the page's own may run.
        let graphs = page.matches("class=\"flame\"").count().min(1);
        assert_eq!(page.matches("<script").count(), graphs, "{name}");
        assert_eq!(page.matches("<script></script>").count(), graphs, "{name}");
        assert_eq!(
            page.matches("script-src 'sha256-").count(),
            graphs,
            "{name}"
        );
    }
}

#[test]
fn flame_graphs_are_told_from_those_of_another_run() {
    let mut other = support::tuned();
    other.id = "last-week".into();
    other.stacks.truncate(1);
    let options = Options {
        against: Some(Box::new(other)),
        ..Options::default()
    };
    let page = render(
        &support::tuned(),
        Format::named("html").expect("listed"),
        &options,
    );
    assert!(page.contains("than in last-week") && page.contains("class=\"fell\""));
    assert!(page.contains("% in last-week"), "in the tooltips too");
}

/// Field report S4's picture: what the kernel did for the proxy before it kept connections, and what it does since.
#[test]
fn the_kernels_work_for_a_tier_is_drawn_and_told_from_before() {
    let page = Format::named("html").expect("listed");
    let page = render(&support::kept_connections(), page, &Options::default());
    let graph = |from: &str| {
        let end = from.find("</details>").expect("the end of its details");
        from[..end].to_owned()
    };
    let graphs = page.split("What the kernel does for proxy").skip(1);
    let [before, after] = &graphs.map(graph).collect::<Vec<_>>()[..] else {
        panic!("a graph before and one after");
    };
    let search = "__inet_hash_connect\n80 % of the time<";
    assert!(before.contains(search), "{before}");
    assert!(!before.contains("Orange"), "it is the first: {before}");
    for part in [
        "Orange is a larger share than before",
        "__inet_hash_connect\n2.0 % of the time, 80 % before<",
        "class=\"fell\"",
    ] {
        assert!(after.contains(part), "{part}: {after}");
    }
}

#[test]
fn the_slowest_requests_are_shown_where_they_were_met() {
    let options = Options::default();
    let page = Format::named("html").expect("listed");
    let page = render(&support::tuned(), page, &options);
    let from = page.find("The slowest requests").expect("its heading");
    let text = &page[from..];
    for part in [
        "12 slowest of 240",
        "or more. Where their workers were met",
        "(42 and 300 stacks)",
        "waiting: recv db",
    ] {
        assert!(text.contains(part), "{part}: {}", &text[..1500]);
    }
}

#[test]
fn the_page_is_well_formed() {
    let void = ["!DOCTYPE", "meta", "br", "wbr", "input"];
    for (name, page) in pages() {
        let mut open = Vec::new();
        for (tag, _, closes) in tags(&page).into_iter().filter(|tag| !void.contains(&tag.0)) {
            if closes {
                assert_eq!(open.pop(), Some(tag), "{name}");
            } else {
                open.push(tag);
            }
        }
        assert!(open.is_empty(), "{name} leaves {open:?} open");
        let ids = attribute(&page, "id");
        let unique: BTreeSet<_> = ids.iter().collect();
        assert_eq!(ids.len(), unique.len(), "{name} repeats an id");
        let anchors = attribute(&page, "href")
            .into_iter()
            .filter_map(|href| href.strip_prefix('#'));
        let named = anchors.chain(
            attribute(&page, "aria-labelledby")
                .into_iter()
                .flat_map(|it| it.split(' ')),
        );
        named.for_each(|id| assert!(unique.contains(&id), "{name}: nothing has the id {id}"));
    }
}

#[test]
fn no_coordinate_is_out_of_the_numbers() {
    for (name, page) in pages() {
        for key in [
            "x", "y", "x1", "x2", "y1", "y2", "cx", "cy", "r", "width", "height",
        ] {
            for value in attribute(&page, key) {
                let number: f64 = value.trim_end_matches('%').parse().unwrap_or(f64::NAN);
                assert!(number.is_finite(), "{name}: {key}={value}");
                assert!(
                    !value.ends_with('%') || (0.0..=100.01).contains(&number),
                    "{name}: {key}={value}"
                );
            }
        }
    }
}

#[test]
fn every_picture_says_what_it_shows() {
    for (name, page) in pages() {
        for (tag, attributes, _) in tags(&page)
            .into_iter()
            .filter(|tag| tag.0 == "svg" && !tag.2)
        {
            let told = ["aria-label=", "aria-labelledby=", "aria-hidden="];
            assert!(
                told.iter().any(|word| attributes.contains(word)),
                "{name}: <{tag} {attributes}>"
            );
        }
    }
}

#[test]
fn the_page_tells_all_of_the_run() {
    let run = support::tuned();
    let page = page(&run).replace('\u{a0}', " ");
    for finding in &run.findings {
        assert!(
            page.contains(&finding.code) && page.contains(&finding.title),
            "{}",
            finding.code
        );
        for seen in &finding.seen {
            assert!(
                page.contains(&seen.what) && page.contains(&seen.conditions),
                "{}",
                seen.what
            );
        }
        assert!(page.contains(&finding.refuted_by) && page.contains(&finding.source));
    }
    for decision in &run.decisions {
        assert!(page.contains(&decision.reason), "{}", decision.reason);
        decision
            .settings
            .iter()
            .for_each(|setting| assert!(page.contains(&setting.key.to_string())));
    }
    assert!(
        run.journal
            .iter()
            .filter(|entry| !entry.text.contains(support::SECRET))
            .all(|entry| { page.contains(&entry.text) })
    );
    for words in [
        "37.2 to 39.8/s",
        "114 to 121/s",
        "0 of 6846 failed",
        "3.05 times",
        "send lag p99",
        "41 200/s",
        "binds at first",
        "-pm = dynamic",
        "+pm = static",
        "Little's law",
        "p95 &lt;= 200 ms",
    ] {
        assert!(page.contains(words), "the page does not say {words}");
    }
}

/// One section of a page.
fn section<'a>(page: &'a str, id: &str) -> &'a str {
    let from = page.find(&format!("<section id=\"{id}\"")).expect("it");
    let whole = &page[from..];
    &whole[..whole.find("</section>").expect("its end")]
}

#[test]
fn the_curves_say_what_the_slo_allows_and_go_no_further_than_the_answers() {
    let page = page(&support::limit_only()).replace('\u{a0}', " ");
    let curves = section(&page, "curves");
    for words in [
        ">p95: 5.0 %<",
        "p95 &lt;= 200 ms allows 5.0 % of them",
        "or lower where more than 0.1 % fail",
    ] {
        assert!(curves.contains(words), "{words}: {curves}");
    }
    // Of some three hundred answers none says what p99.9 is.
    assert!(curves.contains(">p99<") && !curves.contains(">p99.9<"));
}

#[test]
fn a_configuration_that_tuning_numbered_is_told_as_before_or_after() {
    let mut run = support::tuned();
    for account in &mut run.accounts {
        if account.arm == "best" {
            account.arm = "v3".into();
        }
    }
    run.trials[7].arm = "v3".into();
    let page = page(&run);
    let account = section(&page, "account");
    assert!(account.contains("Where the CPU goes, after (while tuning)"));
    assert!(account.contains("had the changes that were kept until it was measured"));
    assert!(!account.contains("v3"));
    // The raw numbers below the list are for programs.
    let conditions = section(&page, "conditions");
    let (list, _) = conditions.split_once("Raw numbers").expect("both");
    assert!(
        list.contains(", after (while tuning): The send lag"),
        "{list}"
    );
    assert!(list.contains("had the changes that were kept until it was measured"));
    assert!(!list.contains("v3"), "{list}");
}

#[test]
fn numbers_of_a_tier_can_break_so_that_two_columns_fit_their_box() {
    let page = page(&support::tuned());
    assert!(section(&page, "stack").contains(" of\u{a0}511<"));
}

#[test]
fn the_waterfall_is_the_first_picture() {
    let page = page(&support::tuned());
    let order: Vec<_> = [
        "waterfall",
        "stack",
        "curves",
        "findings",
        "changes",
        "diff",
        "journal",
        "conditions",
    ]
    .map(|id| {
        page.find(&format!("<section id=\"{id}\""))
            .unwrap_or_else(|| panic!("no section {id}"))
    })
    .to_vec();
    assert!(order.is_sorted(), "{order:?}");
}

/// The class of the box of a tier in the picture of the stack.
fn box_of<'a>(page: &'a str, tier: &str) -> &'a str {
    let name = format!("<p class=\"name\"><strong>{tier}</strong>");
    let at = page.find(&name).expect("the tier's box");
    let boxes = attribute(&page[..at], "class");
    boxes.last().expect("a class")
}

#[test]
fn a_tier_with_a_note_is_not_marked_as_what_binds() {
    let mut run = support::healthy();
    let mut note = support::tuned().findings.remove(0);
    (note.code, note.layer) = ("MYS-02".into(), Layer::Db);
    note.confidence = Confidence::Noted;
    run.findings = vec![note.clone()];
    assert_eq!(box_of(&page(&run), "db"), "tier");
    // The mark is there where the same is suspected.
    note.confidence = Confidence::Suspected;
    note.effects.clear();
    run.findings = vec![note];
    assert_eq!(box_of(&page(&run), "db"), "tier binds");
}

#[test]
fn invalid_steps_are_told_and_not_drawn() {
    let mut run = support::limit_only();
    let dots = |run: &Run| page(run).matches("<circle class=\"dot base").count();
    let before = dots(&run);
    run.trials[3].load.validity = kneepoint_model::Validity::Invalid {
        because: vec!["The generator was late.".into()],
    };
    assert!(page(&run).contains("The generator was late."));
    assert_eq!(
        dots(&run),
        before - 3,
        "one dot less in each of three pictures"
    );
}

#[test]
fn the_page_of_a_load_tells_all_of_it() {
    let told =
        |run: &LoadRun| render_load(run, LoadFormat::Html, Styles::Plain).replace('\u{a0}', " ");
    let steady = told(&support::loads::steady());
    for words in [
        "60.0/s",
        "POST /login (weight 2)",
        "Poisson arrivals",
        "2026-11-20 03:12 UTC",
        "status 200",
        "p99.9",
        "send lag p99",
        "within 200 ms",
        "Download every second as CSV",
        "Thresholds that did not hold",
        "Thresholds that held",
    ] {
        assert!(steady.contains(words), "the page does not say {words}");
    }
    let two = told(&support::loads::two_hops());
    for words in [
        "fastcgi unix:/run/php/php8.2-fpm.sock: invalid, not slow",
        "give it a core of its own",
        "&lt;nothing came&gt;",
        "Rate over time of http://127.0.0.1:8080/",
    ] {
        assert!(two.contains(words), "the page does not say {words}");
    }
    let long = told(&support::loads::long());
    assert!(long.contains("each point stands for 6 seconds"));
    assert!(
        long.matches("<line class=\"curve").count() < 300 * 7,
        "a long load makes no endless page"
    );
}

/// The custom properties of the n-th `:root` rule.
fn colours(rule: usize) -> Vec<(&'static str, [f64; 3])> {
    let text = STYLE
        .split(":root {")
        .nth(rule)
        .and_then(|text| text.split('}').next())
        .unwrap_or("");
    text.split(';')
        .filter_map(|line| line.trim().strip_prefix("--")?.split_once(": #"))
        .filter_map(|(name, hex)| {
            let wide: String = if hex.len() == 3 {
                hex.chars().flat_map(|c| [c, c]).collect()
            } else {
                hex.into()
            };
            let channel = |i: usize| {
                Some(f64::from(u8::from_str_radix(wide.get(i..i + 2)?, 16).ok()?) / 255.0)
            };
            (wide.len() == 6).then_some((name, [channel(0)?, channel(2)?, channel(4)?]))
        })
        .collect()
}

/// Relative luminance (WCAG 2.2).
fn luminance(rgb: [f64; 3]) -> f64 {
    let linear = rgb.map(|c| {
        if c <= 0.04045 {
            c / 12.92
        } else {
            ((c + 0.055) / 1.055).powf(2.4)
        }
    });
    0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
}

#[test]
fn text_stands_out_in_light_dark_and_print() {
    for rule in 1..=3 {
        let colours = colours(rule);
        let of = |name: &str| {
            let found = colours.iter().find(|colour| colour.0 == name);
            luminance(
                found
                    .unwrap_or_else(|| panic!("rule {rule} has no {name}"))
                    .1,
            )
        };
        let pairs = [
            ("ink", "page"),
            ("muted", "page"),
            ("base", "page"),
            ("best", "page"),
            ("ink", "wash"),
            ("muted", "wash"),
            ("added-ink", "added"),
            ("removed-ink", "removed"),
        ];
        for (text, ground) in pairs {
            let (a, b) = (of(text), of(ground));
            let contrast = (a.max(b) + 0.05) / (a.min(b) + 0.05);
            assert!(
                contrast >= 4.5,
                "rule {rule}: {text} on {ground} has {contrast:.2}, WCAG AA asks 4.5"
            );
        }
    }
}
