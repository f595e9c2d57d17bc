//! What the settings of an arm say without load, beside what was measured under it.

use kneepoint_check::snapshot::ServiceKind;
use kneepoint_check::{CheckFinding, CheckOptions, Fix, Severity, check};
use kneepoint_experiment::Testbed;
use kneepoint_experiment::error::ExperimentError;
use kneepoint_experiment::record::Recorder;
use kneepoint_model::finding::UNLESS;
use kneepoint_model::{Confidence, Evidenced, Finding, Remedy};

/// Rules whose evidence is lines of logs, or times of files: the run itself makes those.
const OF_THE_RUN: [&str; 10] = [
    "logged-trouble",
    "fatal-errors-logged",
    "php-was-refused",
    "requests-terminated",
    "slow-requests-logged",
    "apache-was-full",
    "worker-crashes",
    "accept-queue-overflows",
    "not-loaded",
    "value-overridden",
];

/// The pool through which Kneepoint itself asks PHP; it is no part of the stack.
const OWN_POOL: &str = "pool kneepoint-probe of ";

/// Adds, as notes, the problems and risks that the rules of the check see in the settings of an arm, and of which no rule
/// has measured anything.
///
/// # Errors
/// There is no such arm.
pub(super) fn note(
    testbed: &Testbed,
    recorder: &mut Recorder<'_>,
    arm: &str,
) -> Result<(), ExperimentError> {
    let tiers = testbed.first_processes(arm)?.into_iter();
    let options = CheckOptions {
        pids: tiers.map(|(_, pid)| pid).collect(),
        ..CheckOptions::default()
    };
    let (report, _) = check(&options);
    let measured = recorder.run().findings.clone();
    let mut notes: Vec<Finding> = Vec::new();
    for finding in &report.findings {
        let Some(service) = report.services.get(finding.service) else {
            continue;
        };
        let note = as_note(finding, service.kind, arm);
        let known = measured.iter().any(|one| one.code == note.code);
        let told = notes.iter().any(|one| one.is_same_cause(&note));
        if is_of_settings(finding) && !known && !told {
            notes.push(note);
        }
    }
    for note in &notes {
        recorder.result(format!("{} {} (not measured)", note.code, note.title));
    }
    recorder.findings(&notes);
    Ok(())
}

/// Whether a finding is worth a line here, and comes from what is configured.
fn is_of_settings(finding: &CheckFinding) -> bool {
    finding.severity != Severity::Note
        && !OF_THE_RUN.contains(&finding.rule)
        && !finding.place.starts_with(OWN_POOL)
}

fn as_note(finding: &CheckFinding, kind: ServiceKind, arm: &str) -> Finding {
    let seen = finding.seen.iter().map(|seen| Evidenced {
        what: match seen.source.as_str() {
            "" => seen.what.clone(),
            source => format!("{} ({})", seen.what, without_lab(source)),
        },
        conditions: String::new(),
    });
    Finding {
        code: finding.code.to_owned(),
        arm: arm.to_owned(),
        title: finding.title.clone(),
        layer: kind.layer(),
        seen: seen.collect(),
        refuted_by: format!("{UNLESS}{}", finding.unless),
        remedy: Some(Remedy {
            text: remedy_text(&finding.fix, kind),
            settings: Vec::new(),
        }),
        expected_gain: format!("not measured; {}", finding.cost),
        confidence: Confidence::Noted,
        weight: 0.0,
        source: format!("kneepoint check, rule {}", finding.rule),
        effects: Vec::new(),
    }
}

/// What to write, and where its owner has it: the lab's own files end with the run.
fn remedy_text(fix: &Fix, kind: ServiceKind) -> String {
    let Some(file) = &fix.file else {
        return without_lab(&fix.in_one_line());
    };
    let (sections, lines): (Vec<&str>, Vec<&str>) = file
        .content
        .lines()
        .filter(|line| !line.trim().is_empty())
        .partition(|line| line.starts_with('['));
    let place = match (without_lab(&file.path) != file.path, kind) {
        (false, _) => file.path.as_str(),
        (true, _) if file.path.ends_with(".ini") => "php.ini",
        (true, ServiceKind::Fpm) if sections == ["[global]"] => "php-fpm.conf",
        (true, ServiceKind::Fpm) => "the pool's file",
        (true, _) => "its configuration",
    };
    let below = sections
        .first()
        .map_or_else(String::new, |section| format!(", below {section}"));
    format!("In {place}{below}: {}", lines.join("; "))
}

/// The text with the names of files in place of where the lab keeps its copies of them.
fn without_lab(text: &str) -> String {
    let words = text.split(' ').map(|word| {
        let begins = word.find('/').filter(|_| word.contains("/kneepoint-"));
        let ends = word.rfind('/');
        match (begins, ends) {
            (Some(begins), Some(ends)) => format!("{}{}", &word[..begins], &word[ends + 1..]),
            _ => word.to_owned(),
        }
    });
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use kneepoint_check::{CHECKS, FixFile, Seen};
    use kneepoint_model::Layer;

    fn found(rule: &'static str, severity: Severity) -> CheckFinding {
        CheckFinding {
            code: "OPC-09",
            rule,
            severity,
            title: "a title".into(),
            service: 0,
            place: String::new(),
            seen: vec![Seen {
                what: "a = 1".into(),
                source: "/a.ini:3".into(),
            }],
            cost: "a cost".into(),
            unless: "never".into(),
            fix: Fix::default(),
            also: Vec::new(),
            weight: 0.4,
        }
    }

    #[test]
    fn what_was_not_measured_is_a_note_that_says_so() {
        let note = as_note(
            &found("realpath-cache-small", Severity::Risk),
            ServiceKind::Fpm,
            "base",
        );
        assert_eq!((note.confidence, note.weight), (Confidence::Noted, 0.0));
        assert_eq!((note.layer, note.arm.as_str()), (Layer::Php, "base"));
        assert_eq!(note.seen[0].what, "a = 1 (/a.ini:3)");
        assert_eq!(note.expected_gain, "not measured; a cost");
    }

    #[test]
    fn notes_and_what_the_run_itself_makes_are_left_out() {
        let is = |rule, severity| is_of_settings(&found(rule, severity));
        assert!(is("realpath-cache-small", Severity::Risk));
        assert!(!is("realpath-cache-small", Severity::Note));
        assert!(!is("logged-trouble", Severity::Problem));
        for name in OF_THE_RUN {
            assert!(CHECKS.iter().any(|rule| rule.name == name), "{name}");
        }
    }

    #[test]
    fn the_pool_of_kneepoint_itself_is_left_out() {
        let mut finding = found("pool-too-small", Severity::Risk);
        finding.place = "pool www of fpm".into();
        assert!(is_of_settings(&finding));
        finding.place = "pool kneepoint-probe of fpm".into();
        assert!(!is_of_settings(&finding));
    }

    #[test]
    fn a_remedy_says_what_to_write_and_names_no_file_of_the_lab() {
        let said = |path: &str, content: &str, kind| {
            let fix = Fix {
                text: format!("Write {path}:"),
                file: Some(FixFile::new(path, content)),
                ..Fix::default()
            };
            remedy_text(&fix, kind)
        };
        let lab = "/tmp/kneepoint-29016-314cce/base-php";
        assert_eq!(
            said(
                &format!("{lab}/zz-kneepoint.conf"),
                "[www]\na = 1\nb = 2\n",
                ServiceKind::Fpm
            ),
            "In the pool's file, below [www]: a = 1; b = 2"
        );
        assert_eq!(
            said(
                &format!("{lab}/conf.d/zz-kneepoint.ini"),
                "a = 1\n",
                ServiceKind::Fpm
            ),
            "In php.ini: a = 1"
        );
        let own = "/etc/sysctl.d/zz-kneepoint.conf";
        assert_eq!(
            said(own, "x.y = 1\n", ServiceKind::Redis),
            format!("In {own}: x.y = 1")
        );
        assert_eq!(
            without_lab(&format!("In {lab}/nginx.conf:6, write (see {lab}/a.conf)")),
            "In nginx.conf:6, write (see a.conf)"
        );
    }
}
