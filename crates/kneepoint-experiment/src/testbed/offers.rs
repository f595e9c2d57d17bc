//! What the lab's tiers offer to the application, in the words that the application reads.

use std::collections::BTreeMap;
use std::path::Path;

/// What values may name beside what the tiers offer: where PHP finds the application.
const ROOT: &str = "APP_ROOT";

/// What the tiers offer, and where the application is.
pub(super) fn with_root(
    offers: &BTreeMap<String, String>,
    root: &Path,
) -> BTreeMap<String, String> {
    let mut offers = offers.clone();
    offers.insert(ROOT.to_owned(), root.display().to_string());
    offers
}

/// The application's own values with those of the lab in place of `{NAME}`, for applications that want them under other
/// names or in one text.
pub(super) fn filled(
    own: BTreeMap<String, String>,
    offers: &BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    own.into_iter()
        .map(|(name, value)| (name, in_text(&value, offers)))
        .collect()
}

/// A text with what the lab offers in place of `{NAME}`. `${NAME}` stays: a script or a file of settings says by that where
/// it takes a value from itself.
pub(super) fn in_text(text: &str, offers: &BTreeMap<String, String>) -> String {
    offers.iter().fold(text.to_owned(), |text, (name, offer)| {
        let token = format!("{{{name}}}");
        let mut parts = text.split(token.as_str());
        let mut filled = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let is_own = filled.ends_with('$');
            filled.push_str(if is_own { &token } else { offer });
            filled.push_str(part);
        }
        filled
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_applications_values_name_what_the_lab_offers() {
        let pairs = |pairs: &[(&str, &str)]| {
            let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
            pairs.iter().map(own).collect::<BTreeMap<_, _>>()
        };
        let offers = pairs(&[("DB_HOST", "10.0.0.2"), ("DB_PORT", "3306")]);
        let offers = with_root(&offers, Path::new("/lab/app"));
        let own = pairs(&[
            ("URL", "mysql://{DB_HOST}:{DB_PORT}/{OTHER}"),
            ("A", "b"),
            ("FILE", "{APP_ROOT}/x"),
            ("OWN", "${DB_HOST}:{DB_PORT}${DB_PORT}"),
        ]);
        let expected = pairs(&[
            ("URL", "mysql://10.0.0.2:3306/{OTHER}"),
            ("A", "b"),
            ("FILE", "/lab/app/x"),
            ("OWN", "${DB_HOST}:3306${DB_PORT}"),
        ]);
        assert_eq!(filled(own, &offers), expected);
    }
}
