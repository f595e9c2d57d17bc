//! What a deployment prepares, so that requests find it done.

use super::{laravel, symfony};
use kneepoint_model::Unprepared;
use std::path::Path;

/// Classes in Composer's map from which on it holds the application's own \[ours\]: without `--optimize` it names Composer's own
/// class, and what cannot be found otherwise.
const MAPPED: usize = 50;
/// Files by which an application is one that Symfony's Dotenv may read the environment of.
const SYMFONY: [&str; 3] = ["bin/console", ".env", "vendor/symfony/dotenv/Dotenv.php"];
/// Where WordPress looks for an object cache of somebody else.
const OBJECT_CACHE: &str = "wp-content/object-cache.php";

/// What was not prepared for the application with this root.
#[must_use]
pub fn unprepared(root: &Path) -> Vec<Unprepared> {
    let mut found = Vec::new();
    if root.join("artisan").is_file() && !root.join(laravel::CACHE).is_file() {
        found.push(Unprepared::LaravelConfiguration);
    }
    let composer = |name: &str| super::text(&root.join("vendor/composer").join(name));
    if let (Some(loader), Some(map)) = (
        composer("autoload_real.php"),
        composer("autoload_classmap.php"),
    ) && !classes_are_mapped(&loader, &map)
    {
        found.push(Unprepared::ComposerClasses);
    }
    if SYMFONY.iter().all(|name| root.join(name).is_file())
        && !root.join(symfony::COMPILED).is_file()
    {
        found.push(Unprepared::SymfonyEnvironment);
    }
    if root.join("wp-includes/cache.php").is_file()
        && root.join("wp-content").is_dir()
        && !root.join(OBJECT_CACHE).exists()
    {
        found.push(Unprepared::WordpressObjectCache);
    }
    found
}

/// Whether Composer finds classes without looking in directories, from its `autoload_real.php` and `autoload_classmap.php`.
#[must_use]
pub fn classes_are_mapped(loader: &str, map: &str) -> bool {
    let told = ["setClassMapAuthoritative(true)", "setApcuPrefix("];
    told.iter().any(|told| loader.contains(told)) || entries(map) > MAPPED
}

/// Entries of an array as Composer writes them, one a line.
#[must_use]
pub fn entries(text: &str) -> usize {
    text.lines().filter(|line| line.contains("=>")).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(files: &[(&str, String)], expected: &[Unprepared]) {
        let root = tempfile::tempdir().expect("a directory");
        for (name, text) in files {
            let path = root.path().join(name);
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
            std::fs::write(path, text).expect("a file");
        }
        assert_eq!(unprepared(root.path()), expected, "{files:?}");
    }

    /// Composer's files with so many classes.
    fn composer(classes: usize) -> Vec<(&'static str, String)> {
        vec![
            ("vendor/composer/autoload_real.php", "<?php".to_owned()),
            (
                "vendor/composer/autoload_classmap.php",
                "'A' => 1,\n".repeat(classes),
            ),
        ]
    }

    #[test]
    fn a_map_of_few_classes_is_not_prepared() {
        check(&composer(1), &[Unprepared::ComposerClasses]);
        check(&composer(900), &[]);
        let mut told = composer(1);
        told[0].1 = "$loader->setClassMapAuthoritative(true);".to_owned();
        check(&told, &[]);
    }

    #[test]
    fn laravel_is_prepared_by_the_cache_of_its_configuration() {
        let artisan = ("artisan", String::new());
        check(
            std::slice::from_ref(&artisan),
            &[Unprepared::LaravelConfiguration],
        );
        check(&[artisan, (laravel::CACHE, String::new())], &[]);
        check(&[], &[]);
    }

    /// Empty files of these names.
    fn empty<'n>(names: &[&'n str]) -> Vec<(&'n str, String)> {
        names.iter().map(|name| (*name, String::new())).collect()
    }

    #[test]
    fn symfony_is_prepared_by_the_compiled_file_of_its_environment() {
        check(&empty(&SYMFONY), &[Unprepared::SymfonyEnvironment]);
        let compiled = [&SYMFONY[..], &[symfony::COMPILED]].concat();
        check(&empty(&compiled), &[]);
        // Another library reads it, or there is nothing to read.
        check(&empty(&SYMFONY[..2]), &[]);
        check(&empty(&[SYMFONY[0], SYMFONY[2]]), &[]);
    }

    #[test]
    fn wordpress_is_prepared_by_an_object_cache() {
        let bare = ["wp-includes/cache.php", "wp-content/index.php"];
        check(&empty(&bare), &[Unprepared::WordpressObjectCache]);
        check(&empty(&[bare[0], bare[1], OBJECT_CACHE]), &[]);
        // Its contents lie elsewhere.
        check(&empty(&bare[..1]), &[]);
    }
}
