//! What `--fix` writes: a file for each place, with all changes that belong there, and a README that says how to apply it.

use kneepoint_check::{CheckFinding, FixFile, Report, shell_word};
use kneepoint_model::redact::shown::{has_unseen, markdown_code, markdown_fence, markdown_text};
use std::fmt::Write as _;

/// What stands at the top of the README.
const HEAD: &str = "# What kneepoint check proposes

Nothing here is in force yet. Apply one change, look whether it helps, go on with the next. The commands are for a shell in \
this directory, as root. Where a test of files fails, it says why, and what runs goes on as it was: remove the file again, or \
mend it, before the next start.
";

/// What stands there instead of commands where a name may deceive.
const HIDDEN: &str = "
Its path, or a name in it, has characters that cannot be seen: `\\x` and `\\u` stand for them above, and `cat -v` shows them. \
No command is written. Look who gave that name, and put the file there by hand.
";

/// A file to put somewhere, made from what several findings propose for that place.
struct Change<'a> {
    /// Its name in the directory.
    name: String,
    path: &'a str,
    /// Its path from here, where the process has files of its own.
    from_here: Option<&'a str>,
    /// The container it belongs into; the machine itself where there is none.
    container: Option<&'a str>,
    sections: Sections,
    findings: Vec<&'a CheckFinding>,
    /// What a later finding would have set otherwise: its code, and the line.
    left_out: Vec<(&'a str, String)>,
    /// Whether a file of that path is there, or may be.
    is_there: bool,
}

/// The files of the directory by their names, with what they hold.
pub(super) fn files(report: &Report) -> Vec<(String, String)> {
    let mut changes: Vec<Change<'_>> = Vec::new();
    for finding in &report.findings {
        let Some(file) = &finding.fix.file else {
            continue;
        };
        let container = container_of(report, finding);
        let from_here = file.from_here.as_deref();
        let same = |one: &&mut Change<'_>| {
            (one.path, one.from_here, one.container) == (&file.path, from_here, container)
        };
        match changes.iter_mut().find(same) {
            Some(change) => change.add(finding, file),
            None => {
                let mut change = Change::new(report, finding, file, changes.len() + 1);
                change.add(finding, file);
                changes.push(change);
            }
        }
    }
    let readme = readme(report, &changes);
    let mut files = vec![("README.md".to_owned(), readme)];
    files.extend(
        changes
            .into_iter()
            .map(|change| (change.name, change.sections.text())),
    );
    files
}

impl<'a> Change<'a> {
    fn new(
        report: &'a Report,
        finding: &'a CheckFinding,
        file: &'a FixFile,
        number: usize,
    ) -> Self {
        let name = file.path.rsplit('/').next().unwrap_or("file");
        let is_usual = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
        let name = name.replace(|letter| !is_usual(letter), "-");
        let service = report.services.get(finding.service);
        let mut read = service.into_iter().flat_map(|service| &service.files);
        Self {
            name: format!("{number:02}-{name}"),
            path: &file.path,
            from_here: file.from_here.as_deref(),
            container: container_of(report, finding),
            sections: Sections::default(),
            findings: Vec::new(),
            left_out: Vec::new(),
            // An earlier check may have put other settings of the kernel there.
            is_there: file.path.starts_with("/etc/sysctl.d/")
                || read.any(|one| one.path == file.path),
        }
    }

    fn add(&mut self, finding: &'a CheckFinding, file: &FixFile) {
        let others = self.sections.add(&file.content);
        let others = others.into_iter().map(|line| (finding.code, line));
        self.left_out.extend(others);
        self.findings.push(finding);
    }

    /// Whether its path or its content has characters that nobody sees: then somebody is to look first.
    fn is_hidden(&self) -> bool {
        has_unseen(self.path) || self.sections.text().lines().any(has_unseen)
    }

    /// The commands that put it in its place, and then have it read.
    fn commands(&self) -> Vec<String> {
        if self.is_hidden() {
            return Vec::new();
        }
        let path = self.from_here.unwrap_or(self.path);
        let (name, path) = (shell_word(&self.name), shell_word(path));
        let put = match (self.container, self.is_there) {
            (Some(_), _) => None,
            (None, true) => Some(format!("cat {name} >> {path}")),
            (None, false) => Some(format!("install -D -m 644 {name} {path}")),
        };
        let mut all: Vec<String> = put.into_iter().collect();
        for finding in self.findings.iter().filter(|one| one.fix.is_command()) {
            if !all.contains(&finding.fix.apply) {
                all.push(finding.fix.apply.clone());
            }
        }
        all
    }

    /// What is to be done that is no command.
    fn sentences(&self) -> Vec<&str> {
        let mut all: Vec<&str> = Vec::new();
        for finding in self.findings.iter().filter(|one| !one.fix.is_command()) {
            let sentence = finding.fix.apply.as_str();
            if !sentence.is_empty() && !all.contains(&sentence) {
                all.push(sentence);
            }
        }
        all
    }
}

/// The container of what a finding is about, by its id.
fn container_of<'a>(report: &'a Report, finding: &CheckFinding) -> Option<&'a str> {
    let service = report.services.get(finding.service)?;
    Some(service.container.as_ref()?.id.as_str())
}

fn readme(report: &Report, changes: &[Change<'_>]) -> String {
    let mut text = HEAD.to_owned();
    for change in changes {
        of_change(&mut text, change);
    }
    let by_hand = report.findings.iter().filter(|one| one.fix.file.is_none());
    let by_hand: Vec<&CheckFinding> = by_hand.collect();
    if !by_hand.is_empty() {
        text.push_str("\n## By hand\n");
    }
    for finding in by_hand {
        of_hand(&mut text, finding);
    }
    text
}

fn of_change(text: &mut String, change: &Change<'_>) {
    let path = markdown_text(change.path);
    let _ = write!(text, "\n## {}\n\nFor {path}:\n\n", change.name);
    for finding in &change.findings {
        let _ = writeln!(
            text,
            "- {} {} ({})",
            finding.code,
            markdown_text(&finding.title),
            markdown_text(&place(finding))
        );
    }
    for (code, line) in &change.left_out {
        let line = markdown_code(line);
        let _ = writeln!(
            text,
            "- {code} would write {line} instead: the first of both is in the file"
        );
    }
    if let Some(first) = change
        .findings
        .first()
        .filter(|_| change.container.is_some())
    {
        let _ = writeln!(
            text,
            "\n{}: `{}`.",
            markdown_text(first.fix.text.trim_end_matches(':')),
            change.name
        );
    }
    if change.is_hidden() {
        text.push_str(HIDDEN);
    }
    let commands = change.commands();
    if !commands.is_empty() {
        let _ = write!(text, "\n{}", markdown_fence("sh", &commands.join("\n")));
    }
    for sentence in change.sentences() {
        let _ = write!(text, "\nThen: {}\n", markdown_text(sentence));
    }
}

fn of_hand(text: &mut String, finding: &CheckFinding) {
    let fix = &finding.fix;
    let _ = write!(
        text,
        "\n### {} {}\n\n{}\n\n{}\n",
        finding.code,
        markdown_text(&finding.title),
        markdown_text(&place(finding)),
        markdown_text(&fix.text)
    );
    if !fix.lines.is_empty() {
        let _ = write!(text, "\n{}", markdown_fence("", &fix.lines.join("\n")));
    }
    let _ = match (fix.apply.as_str(), fix.is_command()) {
        ("", _) => Ok(()),
        (command, true) => write!(text, "\n{}", markdown_fence("sh", command)),
        (sentence, false) => write!(text, "\nThen: {}\n", markdown_text(sentence)),
    };
}

fn place(finding: &CheckFinding) -> String {
    match finding.also.as_slice() {
        [] => finding.place.clone(),
        also => format!("{}, {}", finding.place, also.join(", ")),
    }
}

/// Lines below their headers, each directive once.
#[derive(Default)]
struct Sections(Vec<(String, Vec<String>)>);

impl Sections {
    /// Adds what a file holds; the lines that are left out, since their directive has another value here already.
    fn add(&mut self, content: &str) -> Vec<String> {
        let mut left_out = Vec::new();
        let mut header = String::new();
        for line in content.lines().filter(|line| !line.trim().is_empty()) {
            if line.starts_with('[') {
                header = line.to_owned();
                continue;
            }
            let lines = self.section(&header);
            let name = |line: &str| line.split('=').next().unwrap_or_default().trim().to_owned();
            match lines.iter().find(|known| name(known) == name(line)) {
                Some(known) if known == line => {}
                Some(_) => left_out.push(line.to_owned()),
                None => lines.push(line.to_owned()),
            }
        }
        left_out
    }

    fn section(&mut self, header: &str) -> &mut Vec<String> {
        let known = self.0.iter().position(|(name, _)| name == header);
        let at = known.unwrap_or_else(|| {
            self.0.push((header.to_owned(), Vec::new()));
            self.0.len() - 1
        });
        &mut self.0[at].1
    }

    fn text(&self) -> String {
        let mut text = String::new();
        for (header, lines) in &self.0 {
            if !header.is_empty() {
                text.push_str(header);
                text.push('\n');
            }
            for line in lines {
                text.push_str(line);
                text.push('\n');
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;
    use kneepoint_check::{Fix, SCHEMA, Severity};

    fn finding(code: &'static str, fix: Fix) -> CheckFinding {
        CheckFinding {
            code,
            rule: "a-rule",
            severity: Severity::Risk,
            title: "Something is wrong".into(),
            service: 0,
            place: "pool www of php-fpm (process 7)".into(),
            seen: Vec::new(),
            cost: "time".into(),
            unless: "Nobody asks.".into(),
            fix,
            also: Vec::new(),
            weight: 0.0,
        }
    }

    fn file(path: &str, content: &str) -> Fix {
        Fix {
            text: format!("Write {path}:"),
            file: Some(FixFile::new(path, content)),
            apply: "systemctl reload php8.2-fpm.service".into(),
            ..Fix::default()
        }
    }

    fn report(findings: Vec<CheckFinding>) -> Report {
        Report {
            schema: SCHEMA,
            kneepoint: "0".into(),
            took_s: 0.0,
            services: Vec::new(),
            links: Vec::new(),
            picture: Vec::new(),
            findings,
            blind: Vec::new(),
        }
    }

    #[test]
    fn what_nobody_sees_is_no_command_and_no_markdown() {
        let hostile = "/etc/\u{202e}php`\n```\n# x\u{1b}[2J/zz-kneepoint.conf";
        let by_hand = Fix {
            text: format!("In {hostile}, write:"),
            lines: vec!["a = 1\n```".into(), "b = \u{202e}2".into()],
            apply: "Do so.".into(),
            ..Fix::default()
        };
        let files = files(&report(vec![
            finding("FPM-01", file(hostile, "[www]\na = 1\n")),
            finding("FPM-02", file("/etc/b.conf", "[w\u{200b}w]\na = 1\n")),
            finding("FPM-03", by_hand),
        ]));
        let readme = &files[0].1;
        let unseen = readme
            .chars()
            .find(|one| *one != '\n' && has_unseen(&one.to_string()));
        assert_eq!(unseen, None, "{readme}");
        assert!(!readme.contains("install -D"), "{readme}");
        assert_eq!(
            readme.matches("No command is written").count(),
            2,
            "{readme}"
        );
        assert!(!readme.contains("\n# x"), "{readme}");
        assert!(readme.contains("````\na = 1\n```\n"), "{readme}");
        // A pool is called what it is called.
        assert_eq!(files[2].1, "[w\u{200b}w]\na = 1\n");
    }

    #[test]
    fn what_belongs_into_one_file_is_one_file() {
        let pool = "/etc/php/8.2/fpm/pool.d/zz-kneepoint.conf";
        let by_hand = Fix {
            text: "In /etc/haproxy.cfg:3, write instead of this setting:".into(),
            lines: vec!["option http-keep-alive".into(), "http-reuse safe".into()],
            apply: "Restart HAProxy as it was started.".into(),
            ..Fix::default()
        };
        let report = report(vec![
            finding("FPM-01", file(pool, "[www]\npm.max_children = 20\n")),
            finding(
                "FPM-16",
                file(pool, "[www]\nslowlog = /var/log/slow\n[b]\npm = static\n"),
            ),
            finding(
                "FPM-20",
                file(
                    pool,
                    "[www]\npm.max_children = 8\nslowlog = /var/log/slow\n",
                ),
            ),
            finding(
                "OPC-01",
                file(
                    "/etc/php/8.2/fpm/conf.d/zz-kneepoint.ini",
                    "opcache.enable = 1\n",
                ),
            ),
            finding("HAP-03", by_hand),
        ]);
        let files = files(&report);
        let names: Vec<&str> = files.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(
            names,
            ["README.md", "01-zz-kneepoint.conf", "02-zz-kneepoint.ini"]
        );
        assert_eq!(
            files[1].1,
            "[www]\npm.max_children = 20\nslowlog = /var/log/slow\n[b]\npm = static\n"
        );
        expect![[r#"
            # What kneepoint check proposes

            Nothing here is in force yet. Apply one change, look whether it helps, go on with the next. The commands are for a shell in this directory, as root. Where a test of files fails, it says why, and what runs goes on as it was: remove the file again, or mend it, before the next start.

            ## 01-zz-kneepoint.conf

            For /etc/php/8.2/fpm/pool.d/zz-kneepoint.conf:

            - FPM-01 Something is wrong (pool www of php-fpm (process 7))
            - FPM-16 Something is wrong (pool www of php-fpm (process 7))
            - FPM-20 Something is wrong (pool www of php-fpm (process 7))
            - FPM-20 would write `pm.max_children = 8` instead: the first of both is in the file

            ```sh
            install -D -m 644 01-zz-kneepoint.conf /etc/php/8.2/fpm/pool.d/zz-kneepoint.conf
            systemctl reload php8.2-fpm.service
            ```

            ## 02-zz-kneepoint.ini

            For /etc/php/8.2/fpm/conf.d/zz-kneepoint.ini:

            - OPC-01 Something is wrong (pool www of php-fpm (process 7))

            ```sh
            install -D -m 644 02-zz-kneepoint.ini /etc/php/8.2/fpm/conf.d/zz-kneepoint.ini
            systemctl reload php8.2-fpm.service
            ```

            ## By hand

            ### HAP-03 Something is wrong

            pool www of php-fpm (process 7)

            In /etc/haproxy.cfg:3, write instead of this setting:

            ```
            option http-keep-alive
            http-reuse safe
            ```

            Then: Restart HAProxy as it was started.
        "#]].assert_eq(&files[0].1);
    }
}
