//! The hosts that an application's settings call the site's own: its pages may link to them.

use super::database::SettingsFile;
use super::roles::plain;
use kneepoint_stack::application::code::assignments;
use kneepoint_stack::application::host_in_url;

/// Names of settings that hold the site's own address, in small letters and without what separates words.
const OWN: &[&str] = &[
    "appurl",
    "baseurl",
    "cfgwwwroot",
    "configbaseurl",
    "defaulturi",
    "homeurl",
    "httpserver",
    "httpsserver",
    "primarysiteurl",
    "settingsbburl",
    "siteurl",
    "wgserver",
    "wphome",
    "wpsiteurl",
    "yourlssite",
];

/// The host in the value of a setting that holds the site's own address.
pub(super) fn own_host(name: &str, value: &str) -> Option<String> {
    let mut begins = ["http://", "https://", "//"].iter();
    let rest = begins.find_map(|begin| value.strip_prefix(begin))?;
    let host = host_in_url(rest)?;
    let fits = |c: char| c.is_ascii_alphanumeric() || ".-:".contains(c);
    let is_own = OWN.contains(&plain(name).as_str());
    (is_own && !host.is_empty() && host.chars().all(fits)).then(|| host.to_owned())
}

/// Those that files of settings in PHP name.
pub(super) fn of_files(files: &[SettingsFile]) -> impl Iterator<Item = String> {
    let set = files.iter().flat_map(|file| assignments(&file.text));
    set.filter_map(|set| own_host(set.target, set.text()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_of_the_sites_own_address_is_known_and_no_other() {
        for (name, value, host) in [
            ("APP_URL", "https://Shop.test:84/x", Some("Shop.test:84")),
            ("$config['base_url']", "http://a.test/", Some("a.test")),
            ("$wgServer", "//shop.test", Some("shop.test")),
            ("YOURLS_SITE", "https://shop.test", Some("shop.test")),
            ("PRIMARY_SITE_URL", "https://a.test/", Some("a.test")),
            ("$settings['bburl']", "http://b.test/f", Some("b.test")),
            ("APP_URL", "https://${DOMAIN}", None),
            ("APP_URL", "/shop", None),
            ("API_BASE_URL", "https://api.test", None),
            ("DATABASE_URL", "mysql://db.test", None),
        ] {
            assert_eq!(own_host(name, value).as_deref(), host, "{name} {value}");
        }
    }
}
