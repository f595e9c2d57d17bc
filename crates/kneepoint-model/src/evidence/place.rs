//! A place in PHP code, and which of a stack's to name.

pub mod owner;

use owner::{Owner, OwnerKind};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A place in PHP code.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub struct Place {
    /// `App\Kernel::handle`, `array_map`, or what entered the code of a file: `require_once /srv/boot.php`.
    pub function: String,
    /// The file of the function; nothing for functions of PHP itself.
    pub file: Option<String>,
    /// The line being executed.
    pub line: Option<u32>,
}

impl Place {
    /// `/srv/app/Kernel.php:41`; the function where there is no file.
    #[must_use]
    pub fn at(&self) -> String {
        match (&self.file, self.line) {
            (Some(file), Some(line)) => format!("{file}:{line}"),
            (Some(file), None) => file.clone(),
            (None, _) => self.function.clone(),
        }
    }

    /// Whether it is in the application's own code: in a file, and none that Composer or a package of the system
    /// installed, nor of the core of WordPress or Drupal.
    #[must_use]
    pub fn is_own(&self) -> bool {
        let is_foreign = |file: &String| {
            let kind = Owner::of_file(file).kind;
            matches!(kind, OwnerKind::Package | OwnerKind::Core) || file.contains("usr/share/pear/")
        };
        self.file.as_ref().is_some_and(|file| !is_foreign(file))
    }

    /// Whether it is a line of the application's own at which a file is at work, not a function in it: all of a page can
    /// pass through the line that includes the rest.
    #[must_use]
    pub fn is_of_a_file(&self) -> bool {
        let of = self.owner().map(|owner| owner.kind);
        let file = self.file.as_deref().unwrap_or_default();
        of == Some(OwnerKind::Application) && self.function.ends_with(file)
    }
}

impl fmt::Display for Place {
    /// `App\Kernel::handle at /srv/app/Kernel.php:41`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.file {
            // The code of a file is called by it.
            Some(file) if self.function.ends_with(file.as_str()) => f.write_str(&self.at()),
            Some(_) => write!(f, "{} at {}", self.function, self.at()),
            None => f.write_str(&self.function),
        }
    }
}

/// The place to name of a stack that begins with the outermost: the innermost of the application's own code. Where that is
/// but the line of a file that includes what does the work, it is who asked for that: the innermost place outside of the
/// file that was at work, since one file of a framework often sends every query.
#[must_use]
pub fn own_place(stack: &[Place]) -> Option<&Place> {
    own_of(stack.iter().rev())
}

/// The same of places that begin with the innermost.
pub(crate) fn own_of<'a>(
    mut outwards: impl Iterator<Item = &'a Place> + Clone,
) -> Option<&'a Place> {
    let own = outwards.clone().find(|place| place.is_own())?;
    if !own.is_of_a_file() {
        return Some(own);
    }
    let innermost = outwards.find(|place| place.file.is_some())?;
    let asked = outwards.find(|place| place.file.is_some() && place.file != innermost.file);
    asked.or(Some(own))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(function: &str, file: Option<&str>) -> Place {
        Place {
            function: function.to_owned(),
            file: file.map(str::to_owned),
            line: file.map(|_| 7),
        }
    }

    #[test]
    fn the_own_place_is_the_innermost_that_nobody_installed() {
        let stack = [
            place("main /srv/index.php", Some("/srv/index.php")),
            place("App\\Orders::list", Some("/srv/app/Orders.php")),
            place("PDO::run", Some("/srv/vendor/pdo/pdo.php")),
            place("PDOStatement::execute", None),
        ];
        let own = own_place(&stack).expect("one");
        assert_eq!(
            own.to_string(),
            "App\\Orders::list at /srv/app/Orders.php:7"
        );
        assert_eq!(stack[0].to_string(), "/srv/index.php:7");
        assert_eq!(stack[3].to_string(), "PDOStatement::execute");
        assert_eq!(own_place(&stack[2..]), None);
    }

    #[test]
    fn where_a_file_only_includes_the_rest_who_asked_is_named() {
        let named = |stack: &[Place]| own_place(stack).map(ToString::to_string);
        let wordpress = [
            place("main index.php", Some("index.php")),
            place("require wp-blog-header.php", Some("wp-blog-header.php")),
            place("get_option", Some("wp-includes/option.php")),
            place("wpdb::get_row", Some("wp-includes/class-wpdb.php")),
            place("wpdb::_do_query", Some("wp-includes/class-wpdb.php")),
            place("mysqli_query", None),
        ];
        assert_eq!(
            named(&wordpress).as_deref(),
            Some("get_option at wp-includes/option.php:7")
        );
        // A script without functions is all there is.
        assert_eq!(named(&wordpress[..1]).as_deref(), Some("index.php:7"));
        // A plugin's line is its own, whether or not it stands in a function.
        let plugin = [
            place("main index.php", Some("index.php")),
            place(
                "include wp-content/plugins/hits.php",
                Some("wp-content/plugins/hits.php"),
            ),
            place("wpdb::query", Some("wp-includes/class-wpdb.php")),
        ];
        assert_eq!(
            named(&plugin).as_deref(),
            Some("wp-content/plugins/hits.php:7")
        );
    }

    #[test]
    fn what_others_wrote_is_known_by_its_directory() {
        for (file, own) in [
            ("/srv/app/Orders.php", true),
            ("app/Orders.php", true),
            ("/srv/my-vendor/a.php", true),
            ("wp-content/plugins/shop/cart.php", true),
            ("/srv/vendor/laravel/a.php", false),
            ("vendor/laravel/a.php", false),
            ("/usr/share/php/Illuminate/a.php", false),
            ("wp-includes/class-wpdb.php", false),
        ] {
            assert_eq!(place("f", Some(file)).is_own(), own, "{file}");
        }
        assert!(!place("curl_exec", None).is_own());
    }
}
