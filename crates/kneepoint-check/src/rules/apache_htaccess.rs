//! APA-03: AllowOverride is not None.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "APA-03",
    name: "apache-htaccess",
    title: "Apache looks for .htaccess files in every directory, for every request",
    what_it_is: "Where AllowOverride allows anything, Apache looks for a file .htaccess in each directory from the \
        top to the file that is asked for, reads those there are and parses them, for every request. What they say \
        can stand in the site's own file, where it is read once.",
    how_it_shows: "Failed opens of `.htaccess` in `strace`, as many as directories in the path, for each request.",
    unless: "The site's owner may change .htaccess and nothing else, as on a shared host.",
    what_to_write: "AllowOverride None, and the rules of .htaccess in a <Directory> block of the site's file.",
    check,
};

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    for (at, service) in snapshot.of(ServiceKind::Apache) {
        let allowed = service
            .settings
            .every("allowoverride")
            .find(|(text, _)| !text.eq_ignore_ascii_case("none"));
        let Some((text, source)) = allowed else {
            continue;
        };
        let value = SettingValue::new(text, source.clone());
        RULE.at(snapshot, at, Severity::Note)
            .value("AllowOverride", &value)
            .cost("a look into every directory of the path for each request, and a file to parse where there is one")
            .fix(Fix::line(service, &value, "AllowOverride None").after(
                "First move the rules of all .htaccess files into the site's own file: links of WordPress and others need them.",
            ))
            .weight(0.04)
            .tell(found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sick_and_healthy() {
        verify(
            &RULE,
            &[(
                apache(&[
                    ("allowoverride", "None"),
                    ("allowoverride", "All"),
                    ("allowoverride", "None"),
                ]),
                Severity::Note,
                "AllowOverride = All",
            )],
        );
    }
}
