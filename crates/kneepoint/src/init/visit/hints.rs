//! What a visitor would see at once: that a page is an installer, that all is behind a login, that links were left out.

use super::links::does_something;

/// Words of paths that lead to installers.
const INSTALLERS: [&str; 4] = ["install", "installer", "installation", "setup"];
/// Parts of titles that installers have.
const TITLES: [&str; 7] = [
    "installation",
    "installer",
    "install",
    "setup",
    "setup wizard",
    "web installer",
    "installation wizard",
];
/// How such a part may begin instead.
const TITLES_BEGIN: [&str; 2] = ["installation ", "install "];
/// What stands between the parts of a title. A hyphen does where it stands alone.
const BETWEEN: [char; 7] = [
    '\u{203a}', '\u{bb}', '|', '\u{2013}', '\u{2014}', '\u{b7}', ':',
];
/// Most characters of a title that are told.
const TITLE_CHARS: usize = 100;

/// Whether a path is that of an installer.
pub(super) fn is_installer(path: &str) -> bool {
    let small = path.to_ascii_lowercase();
    let mut words = small.split(|c: char| !c.is_ascii_alphanumeric());
    words.any(|word| INSTALLERS.contains(&word))
}

/// Why a page is none to be measured whose title is an installer's.
pub(super) fn installer(path: &str, title: &str) -> Option<String> {
    let small = title.to_lowercase().replace(" - ", "|");
    let mut parts = small.split(BETWEEN).map(str::trim);
    let is_one = |part: &str| {
        TITLES.contains(&part) || TITLES_BEGIN.iter().any(|begin| part.starts_with(begin))
    };
    parts.any(is_one).then(|| {
        let title: String = title.chars().take(TITLE_CHARS).collect();
        format!(
            "GET {path} answers with \"{title}\", which looks like its installer: install it first, or give its database \
             a dump as `seed`"
        )
    })
}

/// What to do where the only page asks for a password.
pub(super) fn behind_login(path: &str) -> String {
    format!(
        "Only GET {path} was seen, and it asks for a password: what users do may lie behind it. Write a [[request]] whose \
         `form` logs in and one for each page behind it, each with a `name`, and a [[session]] whose `requests` names them in \
         this order. Where the seed has a visitor who is logged in, his cookie does as well: \
         headers = {{ Cookie = \"...\" }} in each [[request]] (docs/scenario.md)."
    )
}

/// What to do about links that were not visited because of their queries. The one that is named does nothing, if there is
/// such a one.
pub(super) fn left_out(links: &[String]) -> Option<String> {
    let reads = |link: &&String| !does_something(link);
    let example = links.iter().find(reads).or(links.first())?;
    Some(match links.len() {
        1 => format!(
            "The link {example} was seen and not visited: name it as a [[request]] if it matters."
        ),
        count => format!(
            "{count} links such as {example} were seen and not visited: name those that matter as a [[request]]."
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_installer_is_known_by_its_path() {
        assert!(is_installer("/wp-admin/install.php"));
        assert!(is_installer("/setup/"));
        assert!(!is_installer("/installed-apps"));
        assert!(!is_installer("/"));
    }

    #[test]
    fn an_installer_is_known_by_its_title() {
        for title in [
            "Matomo 5.2.0-b5 › Installation",
            "Installation · FreshRSS",
            "Setup",
            "Shop - Web Installer",
            "Install Joomla",
            "Installation: step 1 | Wiki",
            "SETUP WIZARD \u{2014} CMS",
        ] {
            let told = installer("/", title).unwrap_or_else(|| panic!("{title}"));
            let begin = format!("GET / answers with \"{title}\", which looks like its installer");
            assert!(told.starts_with(&begin), "{told}");
        }
        for title in [
            "Installed apps",
            "How to install | Docs",
            "Self-install",
            "My setup",
            "Installations in museums",
            "",
        ] {
            assert_eq!(installer("/", title), None, "{title}");
        }
    }

    #[test]
    fn the_only_page_that_asks_for_a_password_is_no_mix() {
        let told = behind_login("/login");
        assert!(told.starts_with("Only GET /login was seen"), "{told}");
        assert!(
            told.contains("headers = { Cookie = \"...\" } in each [[request]]"),
            "{told}"
        );
    }

    #[test]
    fn links_that_were_left_out_are_counted_with_one_that_does_nothing() {
        let check = |links: &[&str], expected: Option<&str>| {
            let links: Vec<String> = links.iter().map(|link| (*link).to_owned()).collect();
            assert_eq!(left_out(&links).as_deref(), expected);
        };
        check(&[], None);
        check(
            &["/?do=edit"],
            Some(
                "The link /?do=edit was seen and not visited: name it as a [[request]] if it matters.",
            ),
        );
        check(
            &["/?do=edit", "/?do=recent", "/?do=index"],
            Some(
                "3 links such as /?do=recent were seen and not visited: name those that matter as a [[request]].",
            ),
        );
    }
}
