//! OPC-05: little room for interned strings, or so much that nothing else fits.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "OPC-05",
    name: "opcache-interned-small",
    title: "The buffer of interned strings does not fit the application",
    what_it_is: "OPcache keeps each name and text of the code once, in a buffer that is carved out of its memory. When it is \
        full every worker keeps strings of its own; when it takes most of the memory, scripts do not fit.",
    how_it_shows: "opcache_get_status()['interned_strings_usage']['free_memory'] is near 0.",
    unless: "The application has a few hundred files only.",
    what_to_write: "opcache.interned_strings_buffer = 16 to 64, and at most a quarter of opcache.memory_consumption.",
    check,
};

/// Files of an application that fills more than the 8 MB there are by default.
const MANY: u64 = 2000;

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    for (at, service) in snapshot.with_opcache() {
        let Some(php) = &service.php else { continue };
        let value = php.ini.or("opcache.interned_strings_buffer", "8");
        let memory = php.ini.or("opcache.memory_consumption", "128");
        let (Some(buffer), Some(all)) = (value.number(), memory.number()) else {
            continue;
        };
        let files = snapshot
            .apps
            .iter()
            .filter(|app| app.service == at)
            .map(|app| app.php_files)
            .max()
            .unwrap_or(0);
        let strings = php.opcache.and_then(|state| state.strings);
        if let Some((used, size)) = strings.filter(|(used, size)| used * 10 > size * 9) {
            RULE.at(snapshot, at, Severity::Risk)
                .title("The buffer of interned strings is nearly full")
                .value("opcache.interned_strings_buffer", &value)
                .seen(
                    format!("{} of {} are used", format_bytes(used), format_bytes(size)),
                    format!("OPcache's memory, of process {}", service.pid),
                )
                .cost("each worker keeps further strings of its own: memory, and some time")
                .fix(Fix::ini(service, &doubled(buffer, all)))
                .weight(0.05)
                .tell(found);
            continue;
        }
        let draft = RULE
            .at(snapshot, at, Severity::Note)
            .value("opcache.interned_strings_buffer", &value);
        if buffer > all / 2.0 {
            draft
                .value("opcache.memory_consumption", &memory)
                .title("Interned strings take more than half of OPcache's memory")
                .cost("little is left for scripts: what does not fit is compiled for every request")
                .fix(Fix::ini(
                    service,
                    &[("opcache.memory_consumption", format!("{}", buffer * 4.0))],
                ))
                .tell(found);
        } else if strings.is_none() && buffer <= 8.0 && files >= MANY {
            draft
                .seen(
                    format!(
                        "the largest application has {} of PHP",
                        counted(files, "file")
                    ),
                    "",
                )
                .cost(
                    "once it is full, each worker keeps strings of its own: memory, and some time",
                )
                .fix(Fix::ini(
                    service,
                    &[("opcache.interned_strings_buffer", "32".into())],
                ))
                .tell(found);
        }
    }
}

/// Twice the buffer, and memory of which that is a quarter: the buffer is carved out of it, and PHP does not start where it
/// does not fit.
fn doubled(buffer: f64, all: f64) -> Vec<(&'static str, String)> {
    let (buffer, least) = (buffer * 2.0, buffer * 8.0);
    let mut lines = vec![("opcache.interned_strings_buffer", format!("{buffer:.0}"))];
    if all < least {
        lines.push(("opcache.memory_consumption", format!("{least:.0}")));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sick_and_healthy() {
        let large = |snapshot: &mut Snapshot| snapshot.apps[0].php_files = 9000;
        verify(
            &RULE,
            &[
                (
                    Case::healthy().opcache(|state| state.strings = Some((31 << 20, 32 << 20))),
                    Severity::Risk,
                    "31.0 MiB of 32.0 MiB",
                ),
                (
                    Case::healthy().pool_with("", "opcache.interned_strings_buffer=200"),
                    Severity::Note,
                    "half",
                ),
                (
                    Case::healthy()
                        .pool_with("", "opcache.interned_strings_buffer=8")
                        .with(large),
                    Severity::Note,
                    "a.ini:9",
                ),
            ],
        );
    }

    #[test]
    fn a_larger_buffer_fits_the_memory() {
        let fix = |ini: &str| {
            let case = Case::healthy()
                .pool_with("", ini)
                .opcache(|state| state.strings = Some((63 << 20, 64 << 20)));
            super::super::tests_of(&RULE, &case)[0].fix.in_one_line()
        };
        let large = fix("opcache.memory_consumption=128\nopcache.interned_strings_buffer=64");
        assert!(
            large.contains("interned_strings_buffer = 128")
                && large.contains("memory_consumption = 512"),
            "{large}"
        );
        let fits = fix("opcache.memory_consumption=512\nopcache.interned_strings_buffer=64");
        assert!(!fits.contains("memory_consumption"), "{fits}");
    }
}
