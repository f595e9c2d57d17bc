//! The text of the scenario.

use super::{FileChange, InitFacts, VisitOutcome, VisitPage};
use crate::config::KINDS;
use kneepoint_experiment::testbed::{Advice, Outsider};
use kneepoint_model::AppKind;
use std::fmt::Write as _;

/// What a scenario says of an application that did not answer as it should.
pub(crate) const NOT_READY: &str = "NOT READY:";

/// Writes a commented scenario, with what a visit found where there was one. It can be read back as it is; every line
/// that starts with `# ` and a key can be switched on by removing the `# `.
#[must_use]
pub fn draft(facts: &InitFacts, outcome: Option<&VisitOutcome>) -> String {
    let mut text = String::from(
        "# What Kneepoint needs to know. `kneepoint tune` finds the limit of this stack, and what to change.\n",
    );
    for note in &facts.notes {
        comment(&mut text, &format!("Note: {note}."));
    }
    if let Some(failure) = outcome.and_then(|outcome| outcome.failure.as_ref()) {
        comment(&mut text, &format!("{NOT_READY} {failure}"));
    }
    text.push('\n');
    let outsiders = outcome.map_or(&[][..], |outcome| &outcome.outsiders);
    app(&mut text, facts, outsiders);
    stack(&mut text, facts);
    peers(&mut text, outsiders);
    requests(&mut text, outcome);
    rest(&mut text, facts);
    text
}

/// Whom the application tried to reach, where nobody can stand for it: it stays unreachable.
fn unreachable(text: &mut String, outsiders: &[Outsider]) {
    let alone = |it: &&Outsider| it.peer().is_none();
    let names: Vec<String> = outsiders.iter().filter(alone).map(Outsider::name).collect();
    if names.is_empty() {
        return;
    }
    comment(
        text,
        "Whom it tried to reach outside of the lab and may try in vain. See that it copes.",
    );
    for outsider in outsiders.iter().filter(alone) {
        comment(text, &format!("{}.", outsider.describe()));
        if let Advice::Tier(tier) = outsider.advice() {
            let (what, key) = match tier {
                "REDIS" => ("Redis", "cache"),
                _ => ("a database", "db"),
            };
            comment(
                text,
                &format!(
                    "That is {what}, which the lab has: switch `{key}` on in [stack], let the application take its address \
                     ({{{tier}_HOST}} and so on: an [[app.file]] can put it into a file), and take the name away here."
                ),
            );
        }
    }
    let names: Vec<String> = names.iter().map(|name| quoted(name)).collect();
    let _ = writeln!(text, "unreachable = [{}]", names.join(", "));
}

/// Doubles of those whom the application tried to reach.
fn peers(text: &mut String, outsiders: &[Outsider]) {
    for outsider in outsiders {
        let Some(peer) = outsider.peer() else {
            continue;
        };
        comment(
            text,
            &format!(
                "A double: the application tried to reach {}. Say how long the real one takes (latency), and what it answers \
                 (body); or take this away and write unreachable = [{}] under [app].",
                outsider.describe(),
                quoted(&outsider.name())
            ),
        );
        let _ = writeln!(text, "{peer}latency = \"50ms\"\n");
    }
}

fn app(text: &mut String, facts: &InitFacts, outsiders: &[Outsider]) {
    let kind = KINDS.iter().find(|(_, kind)| *kind == facts.kind);
    let kind = kind.map_or("plain", |(name, _)| name);
    let _ = write!(
        text,
        "# {}.\n[app]\nroot = {}\nfront = {}\nkind = \"{kind}\"\n",
        facts.name,
        quoted(&facts.root),
        quoted(&facts.front),
    );
    unreachable(text, outsiders);
    text.push_str(
        "\n# Environment of the application, such as where it finds its key. Values never reach a report. The lab's database\n\
         # is offered as DB_HOST, DB_PORT, DB_DATABASE, DB_USERNAME and DB_PASSWORD, its Redis as REDIS_HOST and REDIS_PORT;\n\
         # {DB_HOST} and so on stand for them in a value, and in what an [[app.file]] writes.\n\
         [app.env]\n",
    );
    if facts.env.is_empty() {
        let mode = match facts.kind {
            AppKind::Symfony => "prod",
            _ => "production",
        };
        let _ = writeln!(text, "# APP_ENV = \"{mode}\"");
    }
    for set in &facts.env {
        comment(text, &set.why);
        let _ = writeln!(text, "{} = {}", set.name, quoted(&set.value));
    }
    text.push('\n');
    if !facts.changes.is_empty() {
        comment(
            text,
            "What is changed in the private copy that the lab runs. Your own files stay as they are.",
        );
    }
    for change in &facts.changes {
        file(text, change);
    }
}

fn file(text: &mut String, change: &FileChange) {
    let _ = writeln!(text, "[[app.file]]");
    comment(text, &change.why);
    let _ = writeln!(text, "path = {}", quoted(&change.path));
    match &change.find {
        Some(find) => {
            let _ = writeln!(
                text,
                "find = {}\nreplace = {}\n",
                quoted(find),
                quoted(&change.text)
            );
        }
        None => {
            let _ = writeln!(text, "content = {}\n", quoted(&change.text));
        }
    }
}

fn stack(text: &mut String, facts: &InitFacts) {
    text.push_str(
        "# The chain a request goes through; a tier that is not here is not started. Your own configuration\n\
         # files go into `config` (and `ini` for PHP); without them a sane one is written.\n\
         [stack]\n\
         # proxy = { server = \"nginx\" }\n\
         web = { server = \"nginx\" }\n\
         php = { runtime = \"fpm\" }\n",
    );
    let off = if facts.redis { "" } else { "# " };
    let _ = writeln!(text, "{off}cache = {{ server = \"redis\" }}");
    let server = facts.engine.and_then(super::DbEngine::server);
    match (server, &facts.seed) {
        (Some(server), Some(seed)) => {
            comment(text, &format!("The seed brings the database to its initial state. {}: {}.", seed.path, seed.why));
            let _ = writeln!(text, "db = {{ server = \"{server}\", seed = {} }}\n", quoted(&seed.path));
        }
        (Some(server), None) => {
            let _ = writeln!(
                text,
                "db = {{ server = \"{server}\" }} # seed = \"seed.sql\" brings it to its initial state\n"
            );
        }
        (None, _) => text.push_str(
            "# db = { server = \"postgresql\" } # or mariadb; seed = \"seed.sql\" brings it to its initial state\n\n",
        ),
    }
    let memory_mib = memory_mib(facts);
    let _ = write!(
        text,
        "# What each tier may use, when the machines you plan for are smaller than this one: {} cores, {memory_mib} MiB.\n\
         [hosts]\n# php = {{ cpus = {}, memory = \"{memory_mib}MiB\" }}\n\n",
        facts.cores,
        facts.cores.max(1),
    );
}

fn memory_mib(facts: &InitFacts) -> u64 {
    (facts.memory_bytes >> 20).max(16)
}

fn requests(text: &mut String, outcome: Option<&VisitOutcome>) {
    let pages = outcome.map_or(&[][..], |outcome| &outcome.pages);
    let host = outcome.and_then(|outcome| outcome.host.as_deref());
    let name = host.map(|host| format!("headers = {{ Host = {} }}\n", quoted(host)));
    let name = name.unwrap_or_default();
    if pages.is_empty() {
        let _ = write!(
            text,
            "# What users ask for, by weight. Name pages that matter, and text that only a good answer contains.\n\
             [[request]]\n\
             path = \"/\"\n\
             weight = 1\n\
             {name}\
             expect = {{ status = 200 }}\n\n",
        );
        return;
    }
    comment(
        text,
        "What users ask for, by weight: pages that a visit in the lab saw. The weights are guesses; an access log knows \
         better (`mix = \"access.log\"` at the top of the file, in place of these). Beside each: what one request took when \
         nobody else asked.",
    );
    for told in outcome.iter().flat_map(|outcome| &outcome.told) {
        comment(text, told);
    }
    for page in pages {
        request(text, page, &name);
    }
}

/// Writes a request for a page. `name` is the line that asks the site by its own name, where it insists on that.
fn request(text: &mut String, page: &VisitPage, name: &str) {
    let _ = writeln!(text, "[[request]]");
    comment(text, &took(page));
    let expect = match &page.mark {
        Some(mark) => format!("{{ status = 200, body_contains = {} }}", quoted(mark)),
        None => "{ status = 200 } # nothing was found in it that an error page could not have, too"
            .to_owned(),
    };
    let _ = writeln!(
        text,
        "path = {}\nweight = 1\n{name}expect = {expect}\n",
        quoted(&page.path)
    );
}

/// What a request for a page took, in words.
#[must_use]
pub fn took(page: &VisitPage) -> String {
    let size = match page.bytes {
        0..1024 => format!("{} bytes", page.bytes),
        bytes => format!("{:.1} KiB", bytes as f64 / 1024.0),
    };
    let php = page
        .php_ms
        .map_or_else(String::new, |ms| format!(", {ms:.1} ms of it CPU of PHP"));
    format!("{size}, {:.1} ms{php}", page.time_ms)
}

fn rest(text: &mut String, facts: &InitFacts) {
    text.push_str(
        "# When the stack counts as coping.\n\
         [slo]\n\
         timeout = \"2s\"\n\
         response_time = { p95 = \"200ms\" }\n\
         errors = \"0.1%\"\n\n",
    );
    let _ = write!(
        text,
        "# How long tuning may take, how much memory all tiers may use, and what tuning must not touch.\n\
         [tune]\nbudget = \"20m\"\n# memory = \"{}MiB\"\n# keep = [\"php.pm.max_requests\"]\n",
        memory_mib(facts)
    );
}

/// Words as comment lines of bearable length.
fn comment(text: &mut String, words: &str) {
    const WIDTH: usize = 110;
    for line in words.lines() {
        let mut width = 0;
        for word in line.split_whitespace() {
            let length = word.chars().count();
            if width == 0 || width + 1 + length > WIDTH {
                text.push_str(if width == 0 { "#" } else { "\n#" });
                width = 1;
            }
            // A control character would end the comment, or the file.
            text.push(' ');
            text.extend(word.chars().filter(|c| !c.is_control()));
            width += 1 + length;
        }
        text.push('\n');
    }
}

/// A TOML string with everything escaped that needs to be.
pub(super) fn quoted(text: &str) -> String {
    toml::Value::from(text).to_string()
}
