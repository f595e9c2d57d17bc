//! What runs beside the visitors.

use super::pages::{EXPECTS_200, limit_of};
use crate::support::company::{among_others, briefly_among_others};

const SITE: &str = "<?php echo 'Welcome to the shop';";

#[test]
fn a_job_that_fails_is_refused_with_its_words() {
    let job =
        "[[job]]\nname = \"import\"\nrun = \"echo no such queue >&2; exit 3\"\nevery = \"5s\"\n";
    let requests = format!("{job}{EXPECTS_200}");
    let (code, said) = limit_of(briefly_among_others(), SITE, &requests, &[]);
    assert_eq!(code, Some(2), "{said}");
    for words in [
        "[[job]] import",
        "no such queue",
        "Nothing has been measured",
    ] {
        assert!(said.contains(words), "expected `{words}` in:\n{said}");
    }
}

/// It works where the application lies, again and again, and is told.
#[test]
fn a_job_runs_beside_the_requests() {
    let run = "test -f index.php && date >> done";
    let job = format!("[[job]]\nname = \"count\"\nrun = \"{run}\"\nevery = \"1s\"\n");
    let requests = format!("{job}{EXPECTS_200}");
    let (code, said) = limit_of(among_others(), SITE, &requests, &[]);
    let told = "beside the requests runs count, every 1s";
    assert!(code == Some(0) && said.contains(told), "{code:?}: {said}");
}
