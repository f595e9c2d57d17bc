//! What an application's own files of settings say, read without running anything.

pub mod code;
pub mod dotenv;
mod hosts;
pub mod laravel;
mod lines;
pub mod lists;
mod mentions;
mod prepared;
mod switches;
pub mod symfony;

pub use hosts::{NamedHost, host_in_url, named_hosts};
pub use mentions::{Mention, Mentioned, likeliest, mentions, mentions_in};
pub use prepared::{classes_are_mapped, entries, unprepared};
pub use switches::{FILES, add, is_switch_word, of_file, switches};

/// An object cache of WordPress, with which is measured what one is worth: the text of `wp-content/object-cache.php`.
pub const OBJECT_CACHE: &str = include_str!("application/object-cache.php");
/// Most bytes that are read of a file of settings: some applications keep theirs in one of a few hundred kilobytes.
const MOST_BYTES: u64 = 4 << 20;

/// The text of an application's file, through a link, too. `None` when it cannot be read, and when it is no regular file: a
/// pipe is never at its end.
fn text(path: &std::path::Path) -> Option<String> {
    use std::io::Read as _;
    if !std::fs::metadata(path).ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).ok()?;
    file.take(MOST_BYTES).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// The text of the `.env` of an application with this root; empty when there is none that can be read.
#[must_use]
pub fn dotenv_text(root: &std::path::Path) -> String {
    text(&root.join(".env")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::time::{ClockId, clock_gettime};

    #[test]
    fn what_has_no_end_is_not_read() {
        let root = tempfile::tempdir().expect("a directory");
        let dotenv = root.path().join(".env");
        assert_eq!(dotenv_text(root.path()), "");
        std::fs::write(root.path().join("shared"), "KEY=1\n").expect("written");
        std::os::unix::fs::symlink("shared", &dotenv).expect("linked");
        assert_eq!(dotenv_text(root.path()), "KEY=1\n");
        std::fs::remove_file(&dotenv).expect("removed");
        std::os::unix::fs::symlink("/dev/zero", &dotenv).expect("linked");
        assert_eq!(dotenv_text(root.path()), "");
        std::fs::remove_file(&dotenv).expect("removed");
        // A socket without a reader stands for all that is no file; opening a pipe would wait for ever if this were wrong.
        let _socket = std::os::unix::net::UnixListener::bind(&dotenv).expect("a socket");
        assert_eq!(dotenv_text(root.path()), "");
        assert!(switches(root.path()).is_empty());
    }

    #[test]
    fn the_object_cache_has_what_wordpress_asks_every_one_for() {
        for name in [
            "init",
            "close",
            "get",
            "get_multiple",
            "set",
            "add",
            "replace",
            "delete",
            "incr",
            "decr",
            "flush",
            "add_global_groups",
            "add_non_persistent_groups",
            "switch_to_blog",
        ] {
            let function = format!("\nfunction wp_cache_{name}(");
            assert!(OBJECT_CACHE.contains(&function), "{name}");
        }
    }

    /// CPU seconds of this thread: others use the machine, too.
    fn thread_cpu_s() -> f64 {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
    }

    /// How much longer four times as much takes; the least of some times, since caches are cold at first.
    fn growth(file: &str, repeated: &str, count: usize) -> f64 {
        let took = |count: usize| {
            let text = format!("<?php\n{}", repeated.repeat(count));
            let once = || {
                let began = thread_cpu_s();
                let _ = of_file(file, &text);
                thread_cpu_s() - began
            };
            (0..3).map(|_| once()).fold(f64::INFINITY, f64::min)
        };
        took(4 * count) / took(count)
    }

    #[test]
    fn four_times_as_long_a_file_takes_about_four_times_as_long() {
        for (file, repeated, count) in [
            (".env", "A=${A}\n", 3000),
            (".env", "APP_DEBUG=true\n", 2000),
            (".env", "DB_HOST=${DB_HOST}${DB_HOST}\n", 1000),
            ("wp-config.php", "define('DB_HOST',", 2000),
            ("wp-config.php", "define('A',(", 2000),
            ("wp-config.php", "$a=", 6000),
            ("wp-config.php", "$a[", 6000),
            ("wp-config.php", "//\n", 6000),
            ("wp-config.php", "define(\"WP_DEBUG\",true);\n", 1200),
            ("wp-config.php", "$a=1;\n", 3000),
        ] {
            let growth = growth(file, repeated, count);
            assert!(growth < 11.0, "{repeated}: {growth}");
        }
    }
}
