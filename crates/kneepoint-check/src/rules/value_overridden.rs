//! A value that somebody wrote and a later file replaces.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "CHK-02",
    name: "value-overridden",
    title: "A later file replaces what an earlier one says",
    what_it_is: "Files are read one after the other, and the last one wins. The official image's zz-docker.conf, a second pool \
        file with the same name, or an ini file of a package may replace what somebody set with care: a pool of 20 that \
        runs with 5.",
    how_it_shows: "A value was changed in one file, and nothing happens: the site goes on with another.",
    unless: "The later value is the one that is wanted.",
    what_to_write: "Write the value in the file that is read last, and remove it from the other.",
    check,
};

/// Directives whose loss is felt.
const FELT: [&str; 8] = [
    "pm",
    "pm.max_children",
    "pm.max_requests",
    "pm.start_servers",
    "request_terminate_timeout",
    "listen.backlog",
    "process_control_timeout",
    "pm.min_spare_servers",
];

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    for (at, service, pool) in snapshot.pools() {
        let lost = pool.settings.iter().filter(|(name, _)| FELT.contains(name));
        // That a pool says otherwise than php.ini, or a file of an extension, is how it is meant.
        let php = pool.php.iter().filter(|(name, value)| {
            let felt = name.starts_with("opcache.") || *name == "memory_limit";
            felt && (matches!(value.source, SettingSource::Memory { .. }) || both_scanned(value))
        });
        for (name, value) in lost.chain(php) {
            let Some((before, source)) = value.replaced.last() else {
                continue;
            };
            let runs = matches!(value.source, SettingSource::Memory { .. });
            let same_file = !runs && source.path() == value.source.path();
            // One's own drop-in is read last on purpose.
            let own = value
                .source
                .path()
                .is_some_and(|path| path.contains("z-kneepoint."));
            if *before == value.text || same_file || own {
                continue;
            }
            RULE.at(snapshot, at, Severity::Note)
                .pool(pool)
                .title(match runs {
                    true => format!("{name} = {before} is written, and {} runs", value.text),
                    false => format!("{name} = {before} is replaced by {}", value.text),
                })
                .seen(format!("{name} = {before}"), source.to_string())
                .seen(format!("{name} = {}, {}", value.text, if runs { "in force" } else { "read later" }), value.source.to_string())
                .cost(format!("what {name} = {before} was to do does not happen"))
                .fix(match runs {
                    true => Fix::words("See what sets it at run time: a flag of php-fpm (-d, -c, -n), a scan directory of its own, or a file that was changed since."),
                    false => Fix::without(service, value, &format!(", or set it to {before}")),
                })
                .weight(0.04)
                .tell(found);
        }
    }
}

/// Whether a value and the one before it are of small files beside php.ini.
fn both_scanned(value: &SettingValue) -> bool {
    let scanned = |source: &SettingSource| {
        source
            .path()
            .is_some_and(|path| path.ends_with(".ini") && !path.ends_with("/php.ini"))
    };
    let before = value.replaced.last();
    scanned(&value.source) && before.is_some_and(|(_, source)| scanned(source))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sick_and_healthy() {
        let twice = |snapshot: &mut Snapshot| {
            let settings = &mut snapshot.services[1].pools[0].settings;
            settings.set(
                "pm.max_children",
                "5",
                SettingSource::file("/etc/php/zz-docker.conf", 9),
            );
        };
        verify(
            &RULE,
            &[(
                Case::healthy().with(twice),
                Severity::Note,
                "/etc/php/zz-docker.conf:9",
            )],
        );
    }
}
