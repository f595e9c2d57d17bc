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
    let in_value = |value: String| {
        offers.iter().fold(value, |value, (name, offer)| {
            value.replace(&format!("{{{name}}}"), offer)
        })
    };
    own.into_iter()
        .map(|(name, value)| (name, in_value(value)))
        .collect()
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
        ]);
        let expected = pairs(&[
            ("URL", "mysql://10.0.0.2:3306/{OTHER}"),
            ("A", "b"),
            ("FILE", "/lab/app/x"),
        ]);
        assert_eq!(filled(own, &offers), expected);
    }
}
