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

/// The name of one that nothing tells.
const UNKNOWN: &str = "PHP application";
/// Directories that a web server serves, relative to the root.
const PUBLIC: &[&str] = &["public", "", "web", "htdocs", "public_html", "www"];
/// Largest `.htaccess` looked into, in bytes.
const LARGEST_BYTES: u64 = 1 << 20;

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
        name: "Shopware",
        marks: &[
            &["bin/console"],
            &[
                "vendor/shopware/core/composer.json",
                "vendor/shopware/platform/composer.json",
            ],
        ],
        fronts: &["public/index.php"],
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
        "CodeIgniter",
        &[&["system/core/CodeIgniter.php"]],
        &["public/index.php", "index.php"],
    ),
    plain(
        "CodeIgniter 4",
        &[&["spark"], &["app/Config/App.php"]],
        &["public/index.php", "index.php"],
    ),
    plain(
        "TYPO3",
        &[&[
            "typo3/sysext/core/composer.json",
            "public/typo3/sysext/core/composer.json",
            "vendor/typo3/cms-core/composer.json",
        ]],
        &["public/index.php", "index.php"],
    ),
    plain(
        "PrestaShop",
        &[&["classes/PrestaShopAutoload.php"]],
        &["index.php"],
    ),
    plain(
        "OpenCart",
        &[&["system/startup.php"], &["system/engine/registry.php"]],
        &["index.php"],
    ),
    plain(
        "phpBB",
        &[&["viewtopic.php"], &["common.php"]],
        &["index.php"],
    ),
    plain(
        "MyBB",
        &[&["inc/class_core.php"], &["showthread.php"]],
        &["index.php"],
    ),
    plain(
        "Piwigo",
        &[&["include/constants.php"], &["picture.php"]],
        &["index.php"],
    ),
    plain("Matomo", &[&["matomo.php"]], &["index.php"]),
    plain("Grav", &[&["bin/grav"]], &["index.php"]),
    plain(
        "YOURLS",
        &[&["yourls-loader.php"]],
        // An index.php beside it is a page of one's own for `/` alone.
        &["yourls-loader.php"],
    ),
    plain(
        UNKNOWN,
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

/// [`detect`] on a directory of this machine. Where no known application is there, its `.htaccess` may name another front
/// controller.
#[must_use]
pub fn detect_dir(root: &Path) -> Option<Detected> {
    let Some(found) = detect(|path| root.join(path).is_file()) else {
        let mut dirs = PUBLIC.iter().map(Path::new);
        return dirs.find_map(|dir| rewritten(root, dir, false));
    };
    let dir = found.front.parent().unwrap_or(Path::new(""));
    let other = (found.name == UNKNOWN).then(|| rewritten(root, dir, true));
    Some(other.flatten().unwrap_or(found))
}

/// The file to which the `.htaccess` of a directory hands requests. `beside_index`: an index.php lies there, which answers for
/// `/` only where the rule passes directories over.
fn rewritten(root: &Path, dir: &Path, beside_index: bool) -> Option<Detected> {
    let htaccess = dir.join(".htaccess");
    let path = root.join(&htaccess);
    let is_small =
        std::fs::metadata(&path).is_ok_and(|file| file.is_file() && file.len() <= LARGEST_BYTES);
    let text = is_small.then(|| std::fs::read_to_string(&path).ok());
    let text = text.flatten()?;
    let mut fronts = handed_to(&text)
        .into_iter()
        .map(|(name, passes_over)| (dir.join(name), passes_over));
    let (front, passes_over) = fronts.find(|(front, _)| root.join(front).is_file())?;
    (passes_over || !beside_index).then(|| Detected {
        kind: AppKind::Plain,
        name: UNKNOWN,
        because: vec![htaccess, front.clone()],
        front,
    })
}

/// The PHP files to which rules of an `.htaccess` hand everything, each with whether its rule passes over what is a file or a
/// directory.
fn handed_to(text: &str) -> Vec<(&str, bool)> {
    let mut found = Vec::new();
    let mut conditions = Vec::new();
    // What earlier rules left as it is.
    let mut left: Vec<&str> = Vec::new();
    for line in text.lines() {
        let word = line.split_whitespace().next().unwrap_or_default();
        if word.eq_ignore_ascii_case("RewriteCond") {
            conditions.push(test_of(line));
        } else if word.eq_ignore_ascii_case("RewriteRule") {
            // A condition of another kind may be true now and then only.
            let tests: Option<Vec<(&str, bool)>> = conditions.drain(..).collect();
            let passes_over = tests.as_ref().is_some_and(|tests| pass_over(tests, &left));
            found.extend(takes_all(line).map(|name| (name, passes_over)));
            if let Some(tests) = tests.filter(|tests| leaves(line, tests)) {
                left.extend(tests.iter().map(|(test, _)| *test));
            }
        }
    }
    found
}

/// What a condition asks of the path, and whether the next one is an alternative to it; `None` where it asks something else.
fn test_of(line: &str) -> Option<(&str, bool)> {
    const PATHS: [&str; 3] = ["REQUEST_FILENAME", "SCRIPT_FILENAME", "REQUEST_URI"];
    let words = line.split_whitespace().map(|word| word.trim_matches('"'));
    let mut words = words.skip(1);
    let of = words.next()?;
    let test = words.next()?;
    let mut flags = words.next().unwrap_or_default().split(['[', ',', ']']);
    let is_or = flags.any(|flag| flag.eq_ignore_ascii_case("OR"));
    PATHS
        .iter()
        .any(|path| of.contains(path))
        .then_some((test, is_or))
}

/// Whether a rule with these conditions passes over files and directories, or earlier ones left them, and asks for nothing
/// else that must be so.
fn pass_over(tests: &[(&str, bool)], left: &[&str]) -> bool {
    let passes = |kind: &str| {
        let mut negated = tests.iter().filter_map(|(test, _)| test.strip_prefix('!'));
        negated.any(|test| test == kind) || left.contains(&kind)
    };
    let only_passes = |(test, is_or): &(&str, bool)| test.starts_with('!') && !is_or;
    (passes("-f") || passes("-s")) && passes("-d") && tests.iter().all(only_passes)
}

/// Whether a rule leaves as it is whatever one of its conditions is true of: `RewriteRule ^ - [L]`.
fn leaves(line: &str, tests: &[(&str, bool)]) -> bool {
    const ENDS: [&str; 3] = ["L", "last", "END"];
    let Some(((last, _), others)) = tests.split_last() else {
        return false;
    };
    let ends = |flag: &&str| ENDS.iter().any(|it| it.eq_ignore_ascii_case(flag));
    last.starts_with('-')
        && others
            .iter()
            .all(|(test, is_or)| test.starts_with('-') && *is_or)
        && rule_for_all(line).is_some_and(|(target, flags)| target == "-" && flags.iter().any(ends))
}

/// What a rule makes of everything, and the names of its flags; `None` where it is for some requests only.
fn rule_for_all(line: &str) -> Option<(&str, Vec<&str>)> {
    const ALL: &[&str] = &[
        "^", ".", "^.", ".*", "^.*", "^.*$", "(.*)", "^(.*)", "^(.*)$", ".+", "^.+$", "(.+)",
        "^(.+)$",
    ];
    let mut words = line.split_whitespace().map(|word| word.trim_matches('"'));
    let is_rule = words.next()?.eq_ignore_ascii_case("RewriteRule");
    let is_all = ALL.contains(&words.next()?);
    let target = words.next()?;
    let flags = words.next().unwrap_or_default().trim_matches(['[', ']']);
    let names = flags.split(',').filter_map(|flag| flag.split('=').next());
    (is_rule && is_all).then(|| (target, names.collect()))
}

/// The PHP file to which a line of an `.htaccess` hands everything, of the directory that it lies in.
fn takes_all(line: &str) -> Option<&str> {
    let (target, flags) = rule_for_all(line)?;
    // A redirect to one page is that of a site under repair.
    let redirects = flags
        .iter()
        .any(|flag| flag.eq_ignore_ascii_case("R") || flag.eq_ignore_ascii_case("redirect"));
    let (name, rest) = target.split_at(target.find(".php")? + ".php".len());
    let name = name.strip_prefix('/').unwrap_or(name);
    let is_file = !name.contains('/') && (rest.is_empty() || rest.starts_with(['/', '?']));
    (!redirects && is_file).then_some(name)
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

    #[test]
    fn an_application_has_the_name_that_people_call_it_by() {
        for (name, files) in [
            (
                "CodeIgniter",
                &["system/core/CodeIgniter.php", "index.php"][..],
            ),
            (
                "CodeIgniter 4",
                &["spark", "app/Config/App.php", "public/index.php"],
            ),
            (
                "TYPO3",
                &["vendor/typo3/cms-core/composer.json", "public/index.php"],
            ),
            (
                "PrestaShop",
                &["classes/PrestaShopAutoload.php", "index.php"],
            ),
            (
                "OpenCart",
                &[
                    "system/startup.php",
                    "system/engine/registry.php",
                    "index.php",
                ],
            ),
            ("phpBB", &["viewtopic.php", "common.php", "index.php"]),
            (
                "MyBB",
                &["inc/class_core.php", "showthread.php", "index.php"],
            ),
            (
                "Piwigo",
                &["include/constants.php", "picture.php", "index.php"],
            ),
            ("Matomo", &["matomo.php", "index.php"]),
            ("Grav", &["bin/grav", "index.php"]),
            ("YOURLS", &["yourls-loader.php"]),
            ("PHP application", &["spark", "index.php"]),
        ] {
            let found = detect(|path| files.iter().any(|file| Path::new(file) == path));
            let found = found.map(|found| (found.kind, found.name));
            assert_eq!(found, Some((AppKind::Plain, name)), "{files:?}");
        }
        let shopware = [
            "bin/console",
            "public/index.php",
            "vendor/shopware/core/composer.json",
        ];
        let found = detect(|path| shopware.iter().any(|file| Path::new(file) == path));
        let found = found.map(|found| (found.kind, found.name));
        assert_eq!(found, Some((AppKind::Symfony, "Shopware")));
    }

    #[track_caller]
    fn check_dir(htaccess: &str, files: &[&str], expected: Option<&str>) {
        let dir = tempfile::tempdir().expect("a directory");
        let write = |name: &str, text: &str| {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
            std::fs::write(path, text).expect("a file");
        };
        write("htdocs/.htaccess", htaccess);
        write(".htaccess", htaccess);
        for file in files {
            write(file, "");
        }
        let front = detect_dir(dir.path()).map(|found| found.front);
        assert_eq!(front.as_deref(), expected.map(Path::new), "{htaccess}");
    }

    #[test]
    fn an_htaccess_names_the_front_controller_beside_an_index_that_has_the_directories() {
        let conditions = |more: &str| {
            format!(
                "RewriteCond %{{REQUEST_FILENAME}} !-f\nRewriteCond %{{REQUEST_FILENAME}} !-d\n{more}\n\
                 RewriteRule ^.*$ /loader.php [L]\n"
            )
        };
        let both = ["loader.php", "index.php"];
        check_dir(&conditions(""), &both, Some("loader.php"));
        let but_files = "RewriteCond %{REQUEST_URI} !\\.css$";
        check_dir(&conditions(but_files), &both, Some("loader.php"));
        check_dir(&conditions(""), &["index.php"], Some("index.php"));
        let known = ["loader.php", "index.php", "matomo.php"];
        check_dir(&conditions(""), &known, Some("index.php"));
        let at_night = "RewriteCond %{TIME_HOUR} !12";
        check_dir(&conditions(at_night), &both, Some("index.php"));
        let never_reached = format!("RewriteRule . index.php [L]\n{}", conditions(""));
        check_dir(&never_reached, &both, Some("index.php"));
        let yourls = ["yourls-loader.php", "index.php"];
        check_dir("", &yourls, Some("yourls-loader.php"));
    }

    #[test]
    fn conditions_of_an_htaccess_are_read_in_every_usual_form() {
        let both = ["loader.php", "index.php"];
        let hands_over = |conditions: &[&str], expected: &str| {
            let text = format!("{}\nRewriteRule ^ loader.php [L]\n", conditions.join("\n"));
            check_dir(&text, &both, Some(expected));
        };
        let no_file = "RewriteCond \"%{SCRIPT_FILENAME}\" \"!-f\"";
        let no_dir = "RewriteCond %{SCRIPT_FILENAME} !-d";
        hands_over(&[no_file, no_dir], "loader.php");
        let no_file_or = format!("{no_file} [NC,OR]");
        hands_over(&[&no_file_or, no_dir], "index.php");

        let dir = "RewriteCond %{REQUEST_FILENAME} -d";
        let stays = "RewriteRule ^.*$ - [NC,L]";
        for test in ["-f", "-s"] {
            let file = format!("RewriteCond %{{REQUEST_FILENAME}} {test}");
            let file_or = format!("{file} [OR]");
            hands_over(&[&file_or, dir, stays], "loader.php");
            hands_over(&[&file, stays, dir, stays], "loader.php");
            hands_over(&[&file, dir, stays], "index.php");
            hands_over(&[&file, stays], "index.php");
            hands_over(&[&file_or, dir, "RewriteRule ^ - [NC]"], "index.php");
            hands_over(&[&file_or, dir, "RewriteRule ^api/ - [L]"], "index.php");
        }
    }

    #[test]
    fn an_htaccess_names_the_front_controller_where_no_index_is_there() {
        let rule = "RewriteEngine On\nRewriteCond %{REQUEST_FILENAME} !-f\n  RewriteRule ^.*$ /loader.php [L]\n";
        check_dir(rule, &["loader.php"], Some("loader.php"));
        check_dir(rule, &["htdocs/loader.php"], Some("htdocs/loader.php"));
        check_dir(rule, &["loader.php", "index.php"], Some("index.php"));
        check_dir(rule, &["other.php"], None);
        for rule in [
            "RewriteRule . loader.php",
            "rewriterule ^(.*)$ \"loader.php?url=$1\" [QSA,L]",
            "RewriteRule (.*) loader.php/$1 [L]",
        ] {
            check_dir(rule, &["loader.php"], Some("loader.php"));
        }
        for rule in [
            "# RewriteRule . loader.php",
            "#RewriteRule . loader.php",
            "RewriteRule ^api/ loader.php [L]",
            "RewriteRule .* /loader.php [R=503,L]",
            "RewriteRule .* lib/loader.php",
            "RewriteRule . loader.phps",
            "RewriteRule .*",
        ] {
            check_dir(rule, &["loader.php", "lib/loader.php"], None);
        }
    }
}
