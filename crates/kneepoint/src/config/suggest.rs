//! "Did you mean": the nearest of a few names.

/// Names longer than this are not compared: nobody mistypes so far, and the cost grows with the product
/// of both lengths.
const LONGEST: usize = 64;

/// The candidate a person most probably meant; `None` when nothing is near (more than a third of the
/// letters differ).
#[must_use]
pub(in crate::config) fn nearest<'a>(
    written: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let letters: Vec<char> = written.chars().take(LONGEST + 1).collect();
    if letters.len() > LONGEST {
        return None;
    }
    let tolerated = (letters.len() / 3).max(1);
    candidates
        .into_iter()
        .filter(|candidate| candidate.len() <= LONGEST)
        .map(|candidate| (distance(&letters, candidate), candidate))
        .filter(|(distance, _)| *distance <= tolerated)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Optimal string alignment distance: insertions, deletions, substitutions and swaps of neighbours, each
/// of cost 1, letter case ignored.
fn distance(written: &[char], candidate: &str) -> usize {
    let a: Vec<char> = written.iter().map(char::to_ascii_lowercase).collect();
    let b: Vec<char> = candidate.chars().map(|c| c.to_ascii_lowercase()).collect();
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    rows[0] = (0..=b.len()).collect();
    for i in 1..=a.len() {
        rows[i][0] = i;
        for j in 1..=b.len() {
            let substitute = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut best = substitute.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            rows[i][j] = best;
        }
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_recognised_and_other_words_are_not() {
        let names = ["server", "config", "socket", "settings"];
        let check = |written, expected| assert_eq!(nearest(written, names), expected, "{written}");
        check("conifg", Some("config"));
        check("Server", Some("server"));
        check("setings", Some("settings"));
        check("sokcets", Some("socket"));
        check("memory", None);
        check("", None);
        check(&"x".repeat(100_000), None);
    }
}
