//! OPC-10: a JIT that is set and cannot work.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "OPC-10",
    name: "jit-without-effect",
    title: "The JIT is switched on, and cannot work",
    what_it_is: "opcache.jit has an effect only with opcache.jit_buffer_size above 0, and none while an extension such as \
        Xdebug takes over how PHP executes. Most web applications wait or call functions of C, and gain little by it.",
    how_it_shows: "opcache_get_status()['jit']['on'] is false although opcache.jit is set.",
    unless: "Nobody expects anything of it.",
    what_to_write: "opcache.jit = tracing and opcache.jit_buffer_size = 64M without Xdebug; or leave both out.",
    check,
};

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    for (at, service) in snapshot.with_opcache() {
        let Some(php) = &service.php else { continue };
        let Some(jit) = php.ini.get("opcache.jit") else {
            continue;
        };
        let wanted = !matches!(
            jit.text.trim().to_ascii_lowercase().as_str(),
            "" | "0" | "off" | "disable" | "no"
        );
        // PHP 8.0 to 8.3 came with "tracing" and no memory for it: nobody meant it.
        let shipped = jit.text == "tracing"
            && jit.replaced.is_empty()
            && matches!(jit.source, SettingSource::Memory { .. });
        if shipped {
            continue;
        }
        let buffer = php.ini.or("opcache.jit_buffer_size", usual_buffer(service));
        let none = buffer.size() == Some(0.0);
        let mode = php.ini.or("xdebug.mode", "develop");
        let xdebug = php.loaded.contains_key("xdebug") && mode.text.trim() != "off";
        if !wanted || !(none || xdebug) {
            continue;
        }
        let draft = RULE
            .at(snapshot, at, Severity::Note)
            .value("opcache.jit", jit)
            .value("opcache.jit_buffer_size", &buffer)
            .cost("what one expects of the JIT; measure before relying on it");
        let draft = match xdebug {
            true => draft
                .title("The JIT is switched on, and Xdebug keeps it from working")
                .value("xdebug.mode", &mode)
                .fix(Fix::words(
                    "Do not load Xdebug where visitors are served (or write xdebug.mode = off); or leave opcache.jit out.",
                )),
            false => draft.fix(Fix::ini(
                service,
                &[("opcache.jit_buffer_size", "64M".into())],
            )),
        };
        draft.tell(found);
    }
}

/// The buffer where nobody writes one: PHP 8.4 has it ready, and the JIT off. What an unknown version has is not known,
/// so that nothing is said of it.
fn usual_buffer(service: &Service) -> &'static str {
    match service.is_older_than(&[8, 4]) {
        Some(true) => "0",
        Some(false) => "64M",
        None => "unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_php_came_with_is_nobodys_wish() {
        let shipped = Case::healthy().with(|snapshot| {
            if let Some(php) = &mut snapshot.services[1].php {
                php.ini
                    .set("opcache.jit", "tracing", SettingSource::Memory { pid: 7 });
            }
        });
        assert!(super::super::tests_of(&RULE, &shipped).is_empty());
    }

    #[test]
    fn sick_and_healthy() {
        let with_xdebug = |mode: &str| {
            let ini =
                format!("opcache.jit=tracing\nopcache.jit_buffer_size=32M\nxdebug.mode={mode}");
            Case::healthy().pool_with("", &ini).with(|all| {
                let php = all.services[1].php.as_mut().expect("PHP");
                php.loaded.insert("xdebug".into(), "/lib/xdebug.so".into());
            })
        };
        verify(
            &RULE,
            &[
                (
                    Case::healthy().pool_with("", "opcache.jit=tracing"),
                    Severity::Note,
                    "opcache.jit_buffer_size = 64M",
                ),
                (with_xdebug("debug"), Severity::Note, "Do not load Xdebug"),
            ],
        );
        assert!(super::super::tests_of(&RULE, &with_xdebug("off")).is_empty());
        // PHP 8.4 has a buffer by itself.
        let newer = Case::healthy()
            .pool_with("", "opcache.jit=tracing")
            .with(|all| all.services[1].version = "8.4.1".into());
        assert!(super::super::tests_of(&RULE, &newer).is_empty());
    }
}
