//! What of PHP an application says it needs, and what of that this machine's has not.

use kneepoint_experiment::testbed::Php;

/// Signs that operators of a constraint of Composer are made of.
const OPERATORS: [char; 6] = ['<', '>', '=', '!', '^', '~'];

/// What composer.json asks for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct VisitNeeds {
    /// Versions of PHP, as composer.json has them: `^8.1 || ^8.2`.
    pub version: Option<String>,
    /// The version for which its packages are chosen, where composer.json says so.
    pub platform: Option<String>,
    /// Names of extensions.
    pub extensions: Vec<String>,
}

impl VisitNeeds {
    /// What PHP of this machine has not, a sentence each.
    pub(super) fn not_met_by(&self, php: &Php) -> Vec<String> {
        let mut told: Vec<String> = self.other_version(&php.version).into_iter().collect();
        let has = |name: &&String| {
            php.extensions
                .iter()
                .any(|loaded| plain(loaded) == plain(name))
        };
        let lacking: Vec<&str> = self
            .extensions
            .iter()
            .filter(|name| !has(name))
            .map(String::as_str)
            .collect();
        if !lacking.is_empty() {
            told.push(format!(
                "PHP {} on this machine has no {}, which the application or one of its packages asks for{}.",
                php.version,
                lacking.join(", "),
                on_debian(&php.version, &lacking)
            ));
        }
        told
    }

    /// That it asks for another version of PHP than ours.
    fn other_version(&self, ours: &str) -> Option<String> {
        let version = numbers(ours)?;
        let excludes = |wanted: &&String| takes(wanted, version) == Some(false);
        let is_newer =
            |platform: &&String| numbers(platform).is_some_and(|it| it[..2] > version[..2]);
        let wanted = self.version.as_ref().filter(excludes);
        let platform = self.platform.as_ref().filter(is_newer);
        let asks = match (wanted, platform) {
            (Some(wanted), _) => format!("asks for PHP {wanted}"),
            (None, Some(platform)) => {
                format!("has packages chosen for PHP {platform} (config.platform)")
            }
            (None, None) => return None,
        };
        Some(format!(
            "composer.json {asks}, and this machine has {ours}: it may not run here. Where another PHP-FPM is installed, \
             start Kneepoint with KNEEPOINT_PHP_FPM=/path/to/it."
        ))
    }
}

/// How Debian installs extensions, as the end of a sentence.
fn on_debian(version: &str, extensions: &[&str]) -> String {
    let Some([major, minor, _]) = numbers(version) else {
        return String::new();
    };
    let mut packages: Vec<String> = extensions
        .iter()
        .map(|name| format!(" php{major}.{minor}-{}", package(&plain(name))))
        .collect();
    packages.sort();
    packages.dedup();
    format!("; on Debian: apt install{}", packages.concat())
}

/// The end of the name of Debian's package that has an extension.
fn package(extension: &str) -> &str {
    match extension {
        "mysqli" | "mysqlnd" | "pdo_mysql" => "mysql",
        "pgsql" | "pdo_pgsql" => "pgsql",
        "sqlite3" | "pdo_sqlite" => "sqlite3",
        "dom" | "simplexml" | "xml" | "xmlreader" | "xmlwriter" | "xsl" => "xml",
        "calendar" | "ctype" | "exif" | "ffi" | "fileinfo" | "filter" | "ftp" | "gettext"
        | "hash" | "iconv" | "json" | "openssl" | "pcntl" | "pcre" | "pdo" | "phar" | "posix"
        | "session" | "shmop" | "sockets" | "tokenizer" => "common",
        other => other,
    }
}

/// A name of an extension as it is compared: OPcache calls itself `Zend OPcache`.
fn plain(name: &str) -> String {
    name.to_ascii_lowercase()
        .replace(['-', ' '], "")
        .replace("zend", "")
}

/// The first three numbers of a version: 8, 1 and 3 of `8.1.3-1ubuntu2`.
fn numbers(version: &str) -> Option<[u32; 3]> {
    let parts = version.split(|c: char| !c.is_ascii_digit());
    let mut numbers = parts.map(|digits| digits.parse::<u32>().ok());
    let (major, minor) = (numbers.next()??, numbers.next()??);
    Some([major, minor, numbers.next().flatten().unwrap_or(0)])
}

/// Whether a constraint of Composer takes a version; `None` where a part of it is not understood.
fn takes(constraint: &str, version: [u32; 3]) -> Option<bool> {
    let alternatives = constraint
        .split('|')
        .filter(|text| !text.trim().is_empty())
        .map(|text| all_take(text, version));
    let taken: Vec<bool> = alternatives.collect::<Option<_>>()?;
    taken.into_iter().reduce(|one, other| one || other)
}

/// The same of constraints that all must hold: `>=8.1 <8.4`, `>= 8.1, < 8.4`, `8.1 - 8.3`.
fn all_take(text: &str, version: [u32; 3]) -> Option<bool> {
    if let Some((from, to)) = text.split_once(" - ") {
        let (from, to) = (format!(">={}", from.trim()), format!("<={}", to.trim()));
        return Some(part_takes(&from, version)? && part_takes(&to, version)?);
    }
    let mut joined = String::new();
    for c in text.chars() {
        // An operator may stand apart from its version.
        if !c.is_whitespace() || !joined.ends_with(OPERATORS) {
            joined.push(c);
        }
    }
    let mut parts = joined
        .split(|c: char| c == ',' || c.is_whitespace())
        .filter(|part| !part.is_empty());
    parts.try_fold(true, |all, part| Some(part_takes(part, version)? && all))
}

/// The same of one constraint: `^8.1`, `~8.2.0`, `8.3.*`. A version without its last number is taken for all that begin so.
fn part_takes(part: &str, ours: [u32; 3]) -> Option<bool> {
    let (operator, text) = part.split_at(part.find(|c: char| !OPERATORS.contains(&c))?);
    // Behind it stands how stable it may be: `8.2@dev`, `8.2.x-dev`.
    let text = text.split(['@', '-']).next()?;
    let digits = text
        .split('.')
        .take_while(|part| !["*", "x"].contains(part));
    let given: Vec<u32> = digits
        .map(|part| part.parse::<u32>().ok())
        .collect::<Option<_>>()?;
    let number = |index: usize| given.get(index).copied().unwrap_or(0);
    let least = [number(0), number(1), number(2)];
    let is_same = |count: usize| ours[..count] == least[..count];
    let count = given.len().min(3);
    Some(match operator {
        "" | "=" | "==" => is_same(count),
        "!=" | "<>" => count < 3 || !is_same(3),
        "^" => ours >= least && is_same(1),
        "~" => ours >= least && is_same(count.saturating_sub(1).clamp(1, 2)),
        ">=" => ours >= least,
        ">" => ours > least,
        "<" => ours < least,
        "<=" => ours <= least || is_same(count),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(version: Option<&str>, extensions: &[&str], expected: &[&str]) {
        let needs = VisitNeeds {
            version: version.map(str::to_owned),
            platform: None,
            extensions: extensions.iter().map(|name| (*name).to_owned()).collect(),
        };
        let php = Php {
            version: "8.1.2".into(),
            extensions: ["Core", "PDO", "Zend OPcache", "intl"]
                .map(str::to_owned)
                .into(),
        };
        assert_eq!(needs.not_met_by(&php), expected);
    }

    #[test]
    fn what_is_missing_is_told_and_nothing_else() {
        check(None, &["pdo", "zend-opcache", "intl"], &[]);
        check(Some(">=8.1.0"), &[], &[]);
        check(Some("*"), &[], &[]);
        check(
            Some("^8.2"),
            &["gd", "intl", "zip"],
            &[
                "composer.json asks for PHP ^8.2, and this machine has 8.1.2: it may not run here. Where another PHP-FPM is \
                 installed, start Kneepoint with KNEEPOINT_PHP_FPM=/path/to/it.",
                "PHP 8.1.2 on this machine has no gd, zip, which the application or one of its packages asks for; on Debian: \
                 apt install php8.1-gd php8.1-zip.",
            ],
        );
        check(
            None,
            &["simplexml", "dom", "pdo_mysql", "Posix"],
            &[
                "PHP 8.1.2 on this machine has no simplexml, dom, pdo_mysql, Posix, which the application or one of its packages \
                 asks for; on Debian: apt install php8.1-common php8.1-mysql php8.1-xml.",
            ],
        );
    }

    #[test]
    fn a_constraint_takes_a_version_as_composer_does_or_more() {
        for (constraint, expected) in [
            ("^8.2", Some(true)),
            ("^8.4", Some(false)),
            ("^7.4", Some(false)),
            ("^7.4 || ^8.2", Some(true)),
            ("^7.4|^8.0", Some(true)),
            (">=8.1 <8.4", Some(true)),
            (">= 8.1, < 8.3", Some(false)),
            ("~8.2.0 || ~8.3.0", Some(true)),
            ("~8.2.0", Some(false)),
            ("~8.2", Some(true)),
            ("8.3.*", Some(true)),
            ("8.2.x-dev", Some(false)),
            ("<=8.3", Some(true)),
            ("!=8.3.7", Some(false)),
            // Composer does not take it.
            ("!=8.3.*", Some(true)),
            ("*", Some(true)),
            ("^8.3@dev", Some(true)),
            ("8.1 - 8.2", Some(false)),
            ("7.4 - 8.3 || ^9", Some(true)),
            ("8.1 - new", None),
            ("^8.2 as 8.1", None),
            ("", None),
        ] {
            assert_eq!(takes(constraint, [8, 3, 7]), expected, "{constraint}");
        }
    }

    #[test]
    fn packages_that_are_chosen_for_a_newer_version_are_told() {
        let told = |version: Option<&str>, platform: &str| {
            let needs = VisitNeeds {
                version: version.map(str::to_owned),
                platform: Some(platform.to_owned()),
                ..VisitNeeds::default()
            };
            needs.other_version("8.2.7").unwrap_or_default()
        };
        let begins = "composer.json has packages chosen for PHP 8.3.1 (config.platform), and this machine has 8.2.7";
        assert!(told(Some("^8.1"), "8.3.1").starts_with(begins));
        assert!(told(Some("^8.3"), "8.3.1").starts_with("composer.json asks for PHP ^8.3, "));
        for platform in ["8.2.20", "8.1", "7.4.0"] {
            assert_eq!(told(None, platform), "");
        }
    }
}
