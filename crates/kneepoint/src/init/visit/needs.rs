//! What of PHP an application says it needs, and what of that this machine's has not.

use kneepoint_experiment::testbed::Php;

/// What composer.json asks for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct VisitNeeds {
    /// Versions of PHP, as composer.json has them: `^8.1 || ^8.2`.
    pub version: Option<String>,
    /// Names of extensions.
    pub extensions: Vec<String>,
}

impl VisitNeeds {
    /// What PHP of this machine has not, a sentence each.
    pub(super) fn not_met_by(&self, php: &Php) -> Vec<String> {
        let mut told = Vec::new();
        let version = self.version.as_ref().filter(|wanted| {
            let (oldest, ours) = (oldest(wanted), number(&php.version));
            oldest.zip(ours).is_some_and(|(oldest, ours)| ours < oldest)
        });
        if let Some(wanted) = version {
            told.push(format!(
                "composer.json asks for PHP {wanted}, and this machine has {}: it may not run here.",
                php.version
            ));
        }
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
                "PHP {} on this machine has no {}, which composer.json asks for{}.",
                php.version,
                lacking.join(", "),
                on_debian(&php.version, &lacking)
            ));
        }
        told
    }
}

/// How Debian installs extensions, as the end of a sentence.
fn on_debian(version: &str, extensions: &[&str]) -> String {
    let Some((major, minor)) = number(version) else {
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

/// The oldest version that the alternatives of a constraint begin with.
fn oldest(constraint: &str) -> Option<(u32, u32)> {
    constraint.split('|').filter_map(number).min()
}

/// The first two numbers of a version: `8.1` of `^8.1.3`.
fn number(text: &str) -> Option<(u32, u32)> {
    let digits = text.find(|c: char| c.is_ascii_digit())?;
    let mut parts = text[digits..].split(|c: char| !c.is_ascii_digit());
    let major = parts.next()?.parse().ok()?;
    Some((
        major,
        parts
            .next()
            .and_then(|minor| minor.parse().ok())
            .unwrap_or(0),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(version: Option<&str>, extensions: &[&str], expected: &[&str]) {
        let needs = VisitNeeds {
            version: version.map(str::to_owned),
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
        check(Some("^7.4 || ^8.2"), &[], &[]);
        check(Some(">=8.1.0"), &[], &[]);
        check(Some("*"), &[], &[]);
        check(
            Some("^8.2"),
            &["gd", "intl", "zip"],
            &[
                "composer.json asks for PHP ^8.2, and this machine has 8.1.2: it may not run here.",
                "PHP 8.1.2 on this machine has no gd, zip, which composer.json asks for; on Debian: apt install php8.1-gd \
                 php8.1-zip.",
            ],
        );
        check(
            None,
            &["simplexml", "dom", "pdo_mysql", "Posix"],
            &[
                "PHP 8.1.2 on this machine has no simplexml, dom, pdo_mysql, Posix, which composer.json asks for; on Debian: apt \
                 install php8.1-common php8.1-mysql php8.1-xml.",
            ],
        );
    }
}
