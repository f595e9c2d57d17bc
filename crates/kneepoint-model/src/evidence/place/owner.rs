//! Whose code it is: the plugin, package or application a file belongs to, by where it lies.

use super::Place;
use serde::{Deserialize, Serialize};
use std::fmt;

/// What kind of thing owns a file.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum OwnerKind {
    /// A plugin (WordPress, DokuWiki).
    Plugin,
    /// A theme, skin or template (WordPress, MediaWiki, Drupal, DokuWiki).
    Theme,
    /// An extension of MediaWiki.
    Extension,
    /// A module of Drupal that does not come with it.
    Module,
    /// A package that Composer installed, or a library of the system.
    Package,
    /// The core of WordPress or of Drupal.
    Core,
    /// The application itself: all that is none of the others.
    #[default]
    Application,
}

/// Whose code something is.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub struct Owner {
    /// What kind of thing it is.
    pub kind: OwnerKind,
    /// Its name, as its directory has it: `woocommerce`, `symfony/http-kernel`; empty for the application.
    pub name: String,
}

impl fmt::Display for Owner {
    /// `plugin woocommerce`, `package symfony/http-kernel`, `WordPress core`, `the application`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = &self.name;
        match self.kind {
            OwnerKind::Plugin => write!(f, "plugin {name}"),
            OwnerKind::Theme => write!(f, "theme {name}"),
            OwnerKind::Extension => write!(f, "extension {name}"),
            OwnerKind::Module => write!(f, "module {name}"),
            OwnerKind::Package => write!(f, "package {name}"),
            OwnerKind::Core => write!(f, "{name} core"),
            OwnerKind::Application => f.write_str("the application"),
        }
    }
}

/// What tells the owner's name.
#[derive(Clone, Copy)]
enum Name {
    /// The directory behind the mark, or a file there without its ending.
    Next,
    /// The two directories behind it: a vendor and a package.
    Two,
    /// Always this.
    Fixed(&'static str),
}

/// Where files of an owner lie: the mark within their path, from the beginning of a directory's name on.
///
/// Layouts as WordPress ("Determining Plugin and Content Directories"; `app/` is Bedrock's), MediaWiki
/// (`Manual:Extensions`, `Manual:Skins`), Drupal ("Directory structure"), DokuWiki (`devel:plugins`, `devel:templates`),
/// Roundcube and Kanboard (`plugins/`) and Composer (`vendor-dir`) describe them.
const MARKS: [(&str, OwnerKind, Name); 19] = [
    ("wp-content/plugins/", OwnerKind::Plugin, Name::Next),
    ("wp-content/mu-plugins/", OwnerKind::Plugin, Name::Next),
    ("wp-content/themes/", OwnerKind::Theme, Name::Next),
    ("web/app/plugins/", OwnerKind::Plugin, Name::Next),
    ("web/app/mu-plugins/", OwnerKind::Plugin, Name::Next),
    ("web/app/themes/", OwnerKind::Theme, Name::Next),
    ("wp-includes/", OwnerKind::Core, Name::Fixed("WordPress")),
    ("wp-admin/", OwnerKind::Core, Name::Fixed("WordPress")),
    ("modules/contrib/", OwnerKind::Module, Name::Next),
    ("modules/custom/", OwnerKind::Module, Name::Next),
    ("themes/contrib/", OwnerKind::Theme, Name::Next),
    ("themes/custom/", OwnerKind::Theme, Name::Next),
    ("extensions/", OwnerKind::Extension, Name::Next),
    ("skins/", OwnerKind::Theme, Name::Next),
    ("lib/plugins/", OwnerKind::Plugin, Name::Next),
    ("plugins/", OwnerKind::Plugin, Name::Next),
    ("lib/tpl/", OwnerKind::Theme, Name::Next),
    ("vendor/", OwnerKind::Package, Name::Two),
    ("usr/share/php/", OwnerKind::Package, Name::Next),
];

/// What lies in Drupal's own `core/`; other applications have a directory of that name, too.
const DRUPAL: [&str; 5] = [
    "core/lib/Drupal/",
    "core/includes/",
    "core/modules/",
    "core/themes/",
    "core/profiles/",
];

/// What WordPress' own files in its first directory are called; `wp-config.php` is its user's.
const WORDPRESS: [&str; 7] = [
    "wp-blog-header.php",
    "wp-cron.php",
    "wp-load.php",
    "wp-login.php",
    "wp-settings.php",
    "wp-comments-post.php",
    "xmlrpc.php",
];

impl Owner {
    /// The owner of a file. Where one lies within another, as a package within a plugin, it is the outer one: that is what
    /// a person can switch off.
    #[must_use]
    pub fn of_file(path: &str) -> Self {
        let marks = MARKS.iter().copied();
        let drupal = DRUPAL.iter();
        let drupal = drupal.map(|mark| (*mark, OwnerKind::Core, Name::Fixed("Drupal")));
        let first = marks
            .chain(drupal)
            .filter_map(|(mark, kind, name)| {
                let at = begins_at(path, mark)?;
                let name = name.of(&path[at + mark.len()..])?;
                Some((at, Self { kind, name }))
            })
            .min_by_key(|(at, _)| *at);
        let file = path.rsplit('/').next().unwrap_or(path);
        match first {
            Some((_, owner)) => owner,
            None if WORDPRESS.contains(&file) => Self {
                kind: OwnerKind::Core,
                name: "WordPress".to_owned(),
            },
            None => Self::default(),
        }
    }
}

impl Name {
    /// The name, by what stands behind the mark; nothing where too little does.
    fn of(self, behind: &str) -> Option<String> {
        let mut parts = behind.split('/');
        let file = |part: &str| part.strip_suffix(".php").unwrap_or(part).to_owned();
        match self {
            Self::Fixed(name) => Some(name.to_owned()),
            Self::Next => Some(file(parts.next()?)).filter(|name| !name.is_empty()),
            Self::Two => {
                let vendor = parts.next().filter(|vendor| !vendor.is_empty())?;
                match parts.next() {
                    // Composer's own: `vendor/autoload.php`, `vendor/composer/ClassLoader.php`.
                    None => Some("composer".to_owned()),
                    Some(_) if vendor == "composer" => Some("composer".to_owned()),
                    Some(package) => Some(format!("{vendor}/{package}")),
                }
            }
        }
    }
}

/// Where a mark begins in a path, as whole directories.
fn begins_at(path: &str, mark: &str) -> Option<usize> {
    path.match_indices(mark)
        .map(|(at, _)| at)
        .find(|at| *at == 0 || path[..*at].ends_with('/'))
}

impl Place {
    /// Whose code it is; nothing for functions of PHP itself.
    #[must_use]
    pub fn owner(&self) -> Option<Owner> {
        self.file.as_deref().map(Owner::of_file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn owners_are_told_by_where_files_lie() {
        for (path, owner) in [
            ("wp-content/plugins/akismet/class.php", "plugin akismet"),
            ("/srv/blog/wp-content/plugins/hello.php", "plugin hello"),
            ("wp-content/mu-plugins/rates.php", "plugin rates"),
            ("wp-content/themes/shop/functions.php", "theme shop"),
            (
                "wp-content/plugins/shop/vendor/acme/http/get.php",
                "plugin shop",
            ),
            ("web/app/plugins/seo/seo.php", "plugin seo"),
            ("wp-includes/class-wpdb.php", "WordPress core"),
            ("wp-admin/admin-ajax.php", "WordPress core"),
            ("wp-settings.php", "WordPress core"),
            ("wp-config.php", "the application"),
            ("extensions/Cite/src/Cite.php", "extension Cite"),
            ("/usr/share/mediawiki/skins/Vector/Skin.php", "theme Vector"),
            ("includes/parser/Parser.php", "the application"),
            ("modules/contrib/views/views.module", "module views"),
            ("core/lib/Drupal/Core/Cache/Cache.php", "Drupal core"),
            ("core/modules/node/src/Node.php", "Drupal core"),
            ("app/core/Base.php", "the application"),
            ("core/Base.php", "the application"),
            ("lib/plugins/gallery/syntax.php", "plugin gallery"),
            ("plugins/archive/archive.php", "plugin archive"),
            ("vendor/acme/kit/plugins/a.php", "package acme/kit"),
            ("lib/tpl/dokuwiki/main.php", "theme dokuwiki"),
            (
                "vendor/symfony/http-kernel/Kernel.php",
                "package symfony/http-kernel",
            ),
            ("vendor/composer/ClassLoader.php", "package composer"),
            ("vendor/autoload.php", "package composer"),
            ("/usr/share/php/Twig/Template.php", "package Twig"),
            ("app/Http/Kernel.php", "the application"),
            ("myvendor/a/b.php", "the application"),
            ("vendor/", "the application"),
            ("", "the application"),
        ] {
            assert_eq!(Owner::of_file(path).to_string(), owner, "{path}");
        }
    }

    #[test]
    fn functions_of_php_itself_have_no_owner() {
        let place = Place {
            function: "preg_match".to_owned(),
            ..Place::default()
        };
        assert_eq!(place.owner(), None);
    }

    proptest! {
        #[test]
        fn every_path_has_one_owner_with_a_name(path in "(wp-content/|plugins/|vendor/|core/|[a-zé./]){0,12}") {
            let owner = Owner::of_file(&path);
            prop_assert_eq!(owner.kind == OwnerKind::Application, owner.name.is_empty());
        }
    }
}
