//! APP-03: an extension that watches every call.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "APP-03",
    name: "tracing-extension-loaded",
    title: "An extension that watches every call of PHP is loaded",
    what_it_is: "Xdebug, PCOV and tracing profilers hook into each function that PHP calls. Xdebug costs a multiple even when \
        no debugger is attached, and something with xdebug.mode=off.",
    how_it_shows: "Everything of PHP takes several times the CPU, and no query or wait explains it.",
    unless: "It is a developer's machine.",
    what_to_write: "Remove the line zend_extension=xdebug (or the extension's) from the php.ini of production.",
    check,
};

/// What watches, and how bad it is to have it loaded.
const KNOWN: [(&str, Severity); 7] = [
    ("xdebug", Severity::Problem),
    ("pcov", Severity::Problem),
    ("xhprof", Severity::Risk),
    ("tideways_xhprof", Severity::Risk),
    ("spx", Severity::Risk),
    ("uopz", Severity::Risk),
    ("memprof", Severity::Risk),
];

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    for (at, service) in snapshot.services.iter().enumerate() {
        let Some(php) = &service.php else { continue };
        for (name, severity) in KNOWN {
            let Some(path) = php.loaded.get(name) else {
                continue;
            };
            let mode = php.ini.get("xdebug.mode").filter(|_| name == "xdebug");
            let off = mode.is_some_and(|value| value.text == "off");
            let mut draft = RULE
                .at(snapshot, at, if off { Severity::Risk } else { severity })
                .title(format!(
                    "The extension {name} is loaded: it watches every call"
                ))
                .seen(
                    format!("{path} is mapped into memory"),
                    format!("/proc/{}/maps", service.pid),
                );
            if let Some(mode) = mode {
                draft = draft.value("xdebug.mode", mode);
            }
            let line = ["zend_extension", "extension"]
                .iter()
                .find_map(|kind| php.ini.get(&format!("{kind} {name}")));
            draft
                .cost(if off {
                    "some per cent of PHP's CPU time"
                } else {
                    "PHP's CPU time several times over where it is active"
                })
                .fix(match line {
                    Some(value) => Fix::without(service, value, ""),
                    None => Fix::words(format!("Take {name} out of PHP's configuration or image.")),
                })
                .weight(if off { 0.1 } else { 0.5 })
                .tell(found);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sick_and_healthy() {
        let loaded = |snapshot: &mut Snapshot| {
            let php = snapshot.services[1].php.as_mut().expect("PHP");
            php.loaded.insert("xdebug".into(), "/lib/xdebug.so".into());
        };
        verify(
            &RULE,
            &[
                (
                    Case::healthy()
                        .pool_with("", "zend_extension=xdebug.so")
                        .with(loaded),
                    Severity::Problem,
                    "a.ini:9",
                ),
                (
                    Case::healthy()
                        .pool_with("", "xdebug.mode=off")
                        .with(loaded),
                    Severity::Risk,
                    "xdebug.mode = off",
                ),
            ],
        );
    }
}
