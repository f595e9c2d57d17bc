//! What came of each attempt.

use std::fmt;

/// What came of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It was not let.
    Refused(String),
    /// It did what it wanted, and that harmed nobody outside of its lab.
    Harmless(String),
    /// It got out, and SECURITY.md says so.
    Known(String),
    /// It got out.
    GotOut(String),
    /// It could not be tried here.
    NotTried(String),
}

impl Verdict {
    fn words(&self) -> (&'static str, &str) {
        match self {
            Self::Refused(why) => ("refused", why),
            Self::Harmless(why) => ("harmless", why),
            Self::Known(why) => ("GOT OUT, known: see SECURITY.md", why),
            Self::GotOut(why) => ("GOT OUT", why),
            Self::NotTried(why) => ("not tried", why),
        }
    }
}

/// An attempt and what came of it.
#[derive(Debug, Clone)]
pub(super) struct Row {
    /// Who tries: the application under test, another user, what is handed over, or the program's own caller.
    pub(super) who: &'static str,
    pub(super) id: String,
    pub(super) what: String,
    pub(super) verdict: Verdict,
}

impl Row {
    pub(super) fn new(who: &'static str, id: &str, what: &str, verdict: Verdict) -> Self {
        let (id, what) = (id.to_owned(), what.to_owned());
        Self {
            who,
            id,
            what,
            verdict,
        }
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (verdict, why) = self.verdict.words();
        let colon = if why.is_empty() { "" } else { ": " };
        let (who, id, what) = (self.who, &self.id, &self.what);
        write!(f, "{who:<11}  {id:<18}  {what} -> {verdict}{colon}{why}")
    }
}

/// How many of each, in a line.
pub(super) fn sum(rows: &[Row]) -> String {
    let count = |wanted: &str| {
        let is_it = |row: &&Row| row.verdict.words().0 == wanted;
        rows.iter().filter(is_it).count()
    };
    format!(
        "{} attempts: {} refused, {} harmless, {} got out as SECURITY.md says, {} GOT OUT, {} not tried",
        rows.len(),
        count("refused"),
        count("harmless"),
        count("GOT OUT, known: see SECURITY.md"),
        count("GOT OUT"),
        count("not tried")
    )
}

/// Whether something got out that nobody knows of.
pub(super) fn is_breached(rows: &[Row]) -> bool {
    rows.iter()
        .any(|row| matches!(row.verdict, Verdict::GotOut(_)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_got_out_fails_and_what_is_known_is_told_apart() {
        let row = |verdict| Row::new("application", "id", "it tries", verdict);
        let mut rows = vec![
            row(Verdict::Refused("no".into())),
            row(Verdict::Known("one user".into())),
        ];
        assert!(!is_breached(&rows));
        rows.push(row(Verdict::GotOut("a file".into())));
        assert!(is_breached(&rows));
        assert!(sum(&rows).starts_with(
            "3 attempts: 1 refused, 0 harmless, 1 got out as SECURITY.md says, 1 GOT OUT"
        ));
        assert!(rows[2].to_string().ends_with("it tries -> GOT OUT: a file"));
    }
}
