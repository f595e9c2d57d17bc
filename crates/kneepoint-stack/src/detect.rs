//! Guesses what an application is from the files it has, for `kneepoint init`.

use kneepoint_model::AppKind;
use std::path::{Path, PathBuf};

/// What an application seems to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Detected {
    /// The kind.
    pub kind: AppKind,
    /// What people call it: `DokuWiki`; `PHP application` where nothing tells.
    pub name: &'static str,
    /// The front controller, relative to the root.
    pub front: PathBuf,
    /// The files that led to it, relative to the root, for a message.
    pub because: Vec<PathBuf>,
}

/// A kind of application: every mark must be there (of alternatives, one), and one of the fronts.
struct Signature {
    kind: AppKind,
    name: &'static str,
    marks: &'static [&'static [&'static str]],
    fronts: &'static [&'static str],
}

/// In order of how sure the marks are.
const SIGNATURES: &[Signature] = &[
    Signature {
        kind: AppKind::Laravel,
        name: "Laravel",
        marks: &[&["artisan", "bootstrap/app.php"]],
        // October and Winter have theirs in the root.
        fronts: &["public/index.php", "index.php"],
    },
    Signature {
        kind: AppKind::Wordpress,
        name: "WordPress (Bedrock)",
        marks: &[&["web/wp-config.php"], &["config/application.php"]],
        fronts: &["web/index.php"],
    },
    Signature {
        kind: AppKind::Wordpress,
        name: "WordPress",
        marks: &[&["wp-login.php", "wp-config.php", "wp-load.php"]],
        fronts: &["index.php"],
    },
    Signature {
        kind: AppKind::Mediawiki,
        name: "MediaWiki",
        marks: &[&["LocalSettings.php", "includes/WebStart.php"]],
        fronts: &["index.php"],
    },
    Signature {
        kind: AppKind::Plain,
        name: "Drupal",
        marks: &[&[
            "core/lib/Drupal.php",
            "web/core/lib/Drupal.php",
            "docroot/core/lib/Drupal.php",
        ]],
        fronts: &["web/index.php", "docroot/index.php", "index.php"],
    },
    Signature {
        kind: AppKind::Symfony,
        name: "Symfony",
        marks: &[&["bin/console"]],
        fronts: &["public/index.php", "web/app.php"],
    },
    plain(
        "Magento",
        &[&["bin/magento"]],
        &["pub/index.php", "index.php"],
    ),
    plain(
        "CakePHP",
        &[&["bin/cake.php", "bin/cake"]],
        &["webroot/index.php"],
    ),
    plain("Craft CMS", &[&["craft"]], &["web/index.php"]),
    plain(
        "Yii",
        &[&["yii"]],
        &["web/index.php", "frontend/web/index.php"],
    ),
    plain(
        "Joomla",
        &[&["configuration.php"], &["administrator/index.php"]],
        &["index.php"],
    ),
    plain(
        "Moodle",
        &[
            &["lib/setuplib.php", "public/lib/setuplib.php"],
            &["config-dist.php"],
        ],
        &["public/index.php", "index.php"],
    ),
    plain(
        "Nextcloud",
        &[&["lib/versioncheck.php"], &["version.php"]],
        &["index.php"],
    ),
    plain("DokuWiki", &[&["doku.php"]], &["index.php", "doku.php"]),
    plain(
        "phpMyAdmin",
        &[&[
            "libraries/classes/Config.php",
            "libraries/vendor_config.php",
        ]],
        &["index.php", "public/index.php"],
    ),
    plain(
        "Kanboard",
        &[&["jsonrpc.php"], &["app/common.php"]],
        &["index.php"],
    ),
    plain(
        "Roundcube",
        &[&["program/include/rcmail.php"]],
        &["public_html/index.php", "index.php"],
    ),
    plain("FreshRSS", &[&["app/FreshRSS.php"]], &["p/index.php"]),
    plain(
        "PHP application",
        &[],
        &[
            "public/index.php",
            "index.php",
            "web/index.php",
            "htdocs/index.php",
            "public_html/index.php",
            "www/index.php",
        ],
    ),
];

const fn plain(
    name: &'static str,
    marks: &'static [&'static [&'static str]],
    fronts: &'static [&'static str],
) -> Signature {
    Signature {
        kind: AppKind::Plain,
        name,
        marks,
        fronts,
    }
}

/// Guesses from the existence of files: `exists` is asked for paths relative to the root.
/// `None` when there is no front controller to be found.
pub fn detect(exists: impl Fn(&Path) -> bool) -> Option<Detected> {
    let first = |paths: &[&str]| paths.iter().map(PathBuf::from).find(|path| exists(path));
    SIGNATURES.iter().find_map(|signature| {
        let mut because: Vec<PathBuf> = signature
            .marks
            .iter()
            .map(|any_of| first(any_of))
            .collect::<Option<_>>()?;
        let front = first(signature.fronts)?;
        because.push(front.clone());
        Some(Detected {
            kind: signature.kind,
            name: signature.name,
            front,
            because,
        })
    })
}

/// [`detect`] on a directory of this machine.
#[must_use]
pub fn detect_dir(root: &Path) -> Option<Detected> {
    detect(|path| root.join(path).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(files: &[&str], expected: Option<(AppKind, &str)>) {
        let detected = detect(|path| files.iter().any(|file| Path::new(file) == path));
        let seen = detected.map(|found| (found.kind, found.front));
        let expected = expected.map(|(kind, front)| (kind, PathBuf::from(front)));
        assert_eq!(seen, expected, "{files:?}");
    }

    #[test]
    fn an_application_is_known_by_its_files() {
        check(
            &["artisan", "public/index.php"],
            Some((AppKind::Laravel, "public/index.php")),
        );
        check(
            &["bin/console", "public/index.php"],
            Some((AppKind::Symfony, "public/index.php")),
        );
        check(
            &["bin/console", "web/app.php"],
            Some((AppKind::Symfony, "web/app.php")),
        );
        check(
            &["wp-login.php", "index.php"],
            Some((AppKind::Wordpress, "index.php")),
        );
        check(
            &["LocalSettings.php", "index.php"],
            Some((AppKind::Mediawiki, "index.php")),
        );
        check(
            &["web/core/lib/Drupal.php", "web/index.php"],
            Some((AppKind::Plain, "web/index.php")),
        );
        check(
            &["app/FreshRSS.php", "p/index.php", "index.php"],
            Some((AppKind::Plain, "p/index.php")),
        );
        check(
            &["bin/magento", "pub/index.php", "index.php"],
            Some((AppKind::Plain, "pub/index.php")),
        );
        check(
            &["bin/cake", "index.php", "webroot/index.php"],
            Some((AppKind::Plain, "webroot/index.php")),
        );
        check(
            &["yii", "frontend/web/index.php"],
            Some((AppKind::Plain, "frontend/web/index.php")),
        );
        check(
            &["artisan", "index.php"],
            Some((AppKind::Laravel, "index.php")),
        );
        let bedrock = [
            "config/application.php",
            "web/wp-config.php",
            "web/index.php",
        ];
        check(&bedrock, Some((AppKind::Wordpress, "web/index.php")));
        check(&["index.php"], Some((AppKind::Plain, "index.php")));
        check(&["README.md"], None);
        check(&["artisan"], None);
    }
}
