//! Where applications answer before they are done: calls of fastcgi_finish_request(). They matter where nginx keeps its
//! connections to PHP, and nothing is read for them elsewhere. A bounded part of an application's own code is looked at, and
//! then the places where frameworks call it for every application.

use super::once::Once;
use crate::chain::Seen;
use crate::files::{CONFIG_BYTES, Files, Unread};
use crate::snapshot::SettingValue;
use kneepoint_stack::application::code::line_of_call;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// What gives the answer away while the script goes on.
const CALL: &str = "fastcgi_finish_request";
/// Most names that are looked at, files and bytes that are read for one application, and how deep below its directory.
const NAMES: usize = 10_000;
const FILES: usize = 1000;
const BYTES: usize = 16 << 20;
const DEPTH: usize = 8;
/// Most files for all applications together.
const ALL_FILES: usize = 4000;
/// Directories whose code is not the application's own, or serves no request.
const OTHERS: [&str; 16] = [
    "3rdparty",
    "Tests",
    "cache",
    "contrib",
    "core",
    "extensions",
    "libraries",
    "modules",
    "node_modules",
    "plugins",
    "storage",
    "test",
    "tests",
    "third_party",
    "var",
    "vendor",
];

/// How Symfony sends each response, how that file is called wherever it was installed, and what shows that requests are answered
/// by it: Laravel, Symfony, Drupal.
const RESPONSE: &str = "vendor/symfony/http-foundation/Response.php";
const OF_SYMFONY: &str = "http-foundation/Response.php";
const SENT_BY_IT: [&str; 4] = [
    "artisan",
    "bin/console",
    "core/lib/Drupal.php",
    "web/core/lib/Drupal.php",
];

/// File below the directory of an application, and line.
type Place = (String, usize);

/// The search of one look.
pub(super) struct EarlyAnswers {
    /// Whether an nginx keeps connections to PHP.
    matters: bool,
    deadline: Instant,
    left: AtomicUsize,
    known: Once<Option<Place>>,
}

impl EarlyAnswers {
    pub(super) fn until(all: &[Seen], deadline: Instant) -> Self {
        let nginx = all.iter().filter_map(|seen| seen.service.nginx.as_ref());
        let mut passes = nginx.flat_map(|nginx| &nginx.passes);
        let matters = passes.any(|pass| {
            let keep = pass.settings.get("fastcgi_keep_conn");
            keep.and_then(SettingValue::is_on) == Some(true)
        });
        Self {
            matters,
            deadline,
            left: AtomicUsize::new(ALL_FILES),
            known: Once::default(),
        }
    }

    /// Where the application in a directory calls it.
    pub(super) fn of(&self, files: &dyn Files, root: &str) -> Option<Place> {
        self.matters.then_some(())?;
        self.known.of(files, root, || {
            let own = self.in_own_code(files, root);
            own.or_else(|| in_known_places(files, root))
        })
    }

    /// The first call in the application's own code, from the top down.
    fn in_own_code(&self, files: &dyn Files, root: &str) -> Option<Place> {
        let mut pending = VecDeque::from([(String::new(), 0)]);
        let (mut looked, mut read, mut bytes) = (0, 0, 0);
        while let Some((dir, depth)) = pending.pop_front() {
            for name in files.names(&format!("{root}/{dir}")).unwrap_or_default() {
                looked += 1;
                if looked > NAMES || read == FILES || bytes > BYTES || self.is_late() {
                    return None;
                }
                // Code of WordPress: what it has of this is among the known places.
                if OTHERS.contains(&name.name.as_str()) || name.name.starts_with("wp-") {
                    continue;
                }
                let path = format!("{dir}{}", name.name);
                if name.is_dir && depth < DEPTH {
                    pending.push_back((format!("{path}/"), depth + 1));
                }
                if name.is_dir || !path.ends_with(".php") || path.ends_with(OF_SYMFONY) {
                    continue;
                }
                self.take()?;
                read += 1;
                let content = match files.read(&format!("{root}/{path}")) {
                    Ok(content) => content,
                    Err(why) => {
                        // So much of it was read before it was found to be too large.
                        let is_read = why == Unread::TooLarge;
                        bytes += if is_read { CONFIG_BYTES as usize } else { 0 };
                        continue;
                    }
                };
                bytes += content.bytes.len();
                if let Some(line) = line_of_call(&content.text(), CALL) {
                    return Some((path, line));
                }
            }
        }
        None
    }

    fn is_late(&self) -> bool {
        Instant::now() >= self.deadline
    }

    /// One of the files that may be read for all applications together; `None` when there are none left.
    fn take(&self) -> Option<()> {
        let less = |left: usize| left.checked_sub(1);
        let taken = self
            .left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        taken.is_ok().then_some(())
    }
}

/// The call in a place that all applications of a framework have.
fn in_known_places(files: &dyn Files, root: &str) -> Option<Place> {
    let has = |name: &str| files.identity(&format!("{root}/{name}")).is_some();
    let text = |name: &str| Some(files.read(&format!("{root}/{name}")).ok()?.text());
    let call = |name: &str| Some((name.to_owned(), line_of_call(&text(name)?, CALL)?));
    // WordPress asks itself for that page when jobs are due, unless its settings say otherwise.
    let settings = text("wp-config.php");
    let is_asked = settings.is_some_and(|settings| !settings.contains("DISABLE_WP_CRON"));
    let jobs = is_asked.then(|| call("wp-cron.php")).flatten();
    jobs.or_else(|| {
        let is_sent = SENT_BY_IT.iter().any(|mark| has(mark));
        is_sent.then(|| call(RESPONSE)).flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::Memory;
    use crate::rule::case::Case;
    use std::time::Duration;

    const ENDS: &str =
        "<?php\nif (function_exists('fastcgi_finish_request'))\n  fastcgi_finish_request();\n";

    fn search(left: usize) -> EarlyAnswers {
        EarlyAnswers {
            matters: true,
            deadline: Instant::now() + Duration::from_secs(60),
            left: AtomicUsize::new(left),
            known: Once::default(),
        }
    }

    #[track_caller]
    fn check(files: &[(&str, &str)], expected: Option<(&str, usize)>) {
        let found = search(ALL_FILES).of(&Memory::of(files), "/w");
        let found = found.as_ref().map(|(file, line)| (file.as_str(), *line));
        assert_eq!(found, expected);
    }

    #[test]
    fn nothing_is_read_where_nginx_keeps_no_connection_to_php() {
        let matters = |case: Case| {
            let seen: Vec<Seen> = case.0.services.into_iter().map(Seen::new).collect();
            EarlyAnswers::until(&seen, Instant::now()).matters
        };
        assert!(!matters(Case::healthy()));
        let keeps = Case::healthy().nginx_with(
            "   fastcgi_pass",
            "   fastcgi_keep_conn on;\n   fastcgi_pass",
        );
        assert!(matters(keeps));
        let nobody = EarlyAnswers {
            matters: false,
            ..search(1)
        };
        let files = Memory::of(&[("/w/index.php", ENDS)]);
        assert_eq!(nobody.of(&files, "/w"), None);
    }

    #[test]
    fn the_applications_own_code_is_read_and_no_library() {
        check(&[("/w/index.php", ENDS)], Some(("index.php", 3)));
        let deep = [("/w/a.php", "<?php"), ("/w/src/Mail/Later.php", ENDS)];
        check(&deep, Some(("src/Mail/Later.php", 3)));
        check(&[("/w/src/later.txt", ENDS)], None);
        check(&[("/w/vendor/a/b/Later.php", ENDS)], None);
        check(&[("/w/wp-content/plugins/later.php", ENDS)], None);
        // Nextcloud and others keep libraries elsewhere.
        for dir in ["3rdparty/symfony", "third_party/a", "Tests", "lib/symfony"] {
            let file = format!("/w/{dir}/http-foundation/Response.php");
            check(&[(file.as_str(), ENDS)], None);
        }
        check(&[("/w/3rdparty/a/b/Later.php", ENDS)], None);
    }

    #[test]
    fn a_directory_of_many_names_is_searched_once() {
        let dir = tempfile::tempdir().expect("directory");
        std::fs::create_dir(dir.path().join("app")).expect("made");
        std::fs::write(dir.path().join("app/a.php"), ENDS).expect("written");
        std::os::unix::fs::symlink("app", dir.path().join("other")).expect("a link");
        let root = crate::files::Root::at(dir.path().to_str().expect("a path")).expect("a root");
        let search = search(1);
        for name in ["/app", "/other"] {
            let found = search.of(&root, name);
            assert_eq!(found, Some(("a.php".to_owned(), 3)), "{name}");
        }
    }

    #[test]
    fn files_that_are_too_large_are_read_in_part_and_count() {
        let dir = tempfile::tempdir().expect("directory");
        let of = |large: usize| {
            for at in 0..large {
                let file = std::fs::File::create(dir.path().join(format!("a{at}.php")));
                let file = file.expect("a file");
                file.set_len(2 * CONFIG_BYTES).expect("sparse");
            }
            std::fs::write(dir.path().join("b.php"), ENDS).expect("written");
            let root = crate::files::Root::at(dir.path().to_str().expect("a path"));
            search(ALL_FILES).of(&root.expect("a root"), "")
        };
        assert_eq!(of(3), Some(("b.php".to_owned(), 3)));
        assert_eq!(of(17), None);
    }

    #[test]
    fn frameworks_call_it_in_known_places() {
        let response = ("/w/vendor/symfony/http-foundation/Response.php", ENDS);
        check(&[response], None);
        let (artisan, console) = (("/w/artisan", ""), ("/w/bin/console", ""));
        check(&[response, artisan], Some((RESPONSE, 3)));
        check(&[response, console], Some((RESPONSE, 3)));
        let cron = ("/w/wp-cron.php", ENDS);
        let with = |settings: &'static str| [cron, ("/w/wp-config.php", settings)];
        check(&with("<?php\n"), Some(("wp-cron.php", 3)));
        check(&with("<?php\ndefine('DISABLE_WP_CRON', true);\n"), None);
        check(&[cron], None);
    }

    #[test]
    fn applications_share_an_allowance_and_a_deadline() {
        let files = Memory::of(&[("/w/a.php", "<?php"), ("/w/b.php", ENDS)]);
        assert!(search(2).of(&files, "/w").is_some());
        assert_eq!(search(1).of(&files, "/w"), None);
        let late = EarlyAnswers {
            deadline: Instant::now(),
            ..search(2)
        };
        assert_eq!(late.of(&files, "/w"), None);
    }
}
