//! What a person sees while a profile is taken: a bar, or on a terminal the functions that were met most so far.

use super::table;
use crate::progress::minutes;
use crate::screen::Screen;
use console::{Style, truncate_str};
use kneepoint_profiler::RecordProgress;
use std::cell::RefCell;
use std::time::Duration;

/// Time between two pictures: counting what each function cost takes the sampler's time.
const EVERY: Duration = Duration::from_secs(1);
/// Functions that are shown.
const FUNCTIONS: usize = 15;

/// The view of one profile. On nobody's terminal it shows nothing.
pub(super) struct Live {
    total: Duration,
    shown: RefCell<Option<Shown>>,
}

struct Shown {
    screen: Screen,
    due: Duration,
}

impl Live {
    pub(super) fn new(total: Duration, quiet: bool) -> Self {
        let attended = !quiet && console::user_attended_stderr();
        let shown = attended.then(|| Shown {
            screen: Screen::new(),
            due: Duration::ZERO,
        });
        Self {
            total,
            shown: RefCell::new(shown),
        }
    }

    /// Shows how far it is.
    pub(super) fn tell(&self, progress: &RecordProgress<'_>) {
        let mut shown = self.shown.borrow_mut();
        let Some(shown) = shown.as_mut().filter(|shown| progress.elapsed >= shown.due) else {
            return;
        };
        shown.due = progress.elapsed + EVERY;
        let columns = shown.screen.columns();
        shown.screen.draw(&lines(progress, self.total, columns));
    }
}

/// The lines of the view, no wider than the terminal.
fn lines(progress: &RecordProgress<'_>, total: Duration, columns: usize) -> Vec<String> {
    let width = columns.saturating_sub(1).max(1);
    let bold = Style::new().for_stderr().bold();
    let counts = progress.profile.counts;
    let head = format!(
        "{}  {} of {}, {} samples with a request, {} without",
        bold.apply_to(&progress.profile.php),
        minutes(progress.elapsed),
        minutes(total),
        counts.busy(),
        counts.idle
    );
    let functions = table::functions(progress.profile, FUNCTIONS);
    let functions = functions.lines().filter(|line| !line.is_empty());
    let lines = std::iter::once(head.as_str()).chain(functions);
    lines
        .map(|line| truncate_str(line, width, "…").into_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::profile::table::tests::profile;
    use console::measure_text_width;
    use expect_test::expect;

    #[test]
    fn the_view_tells_what_was_met_most_so_far() {
        let progress = RecordProgress {
            elapsed: Duration::from_secs(3),
            profile: &profile(),
        };
        let told = lines(&progress, Duration::from_secs(10), 72);
        assert!(
            told.iter().all(|line| measure_text_width(line) < 72),
            "{told:?}"
        );
        let plain = console::strip_ansi_codes(&told.join("\n")).into_owned();
        expect![[r#"
            PHP 8.2.35 (fpm-fcgi)  3 s of 10 s, 5 samples with a request, 0 without
               self   total  function                 where
               75 %    75 %  usleep
               25 %   100 %  main /srv/app/index.php  /srv/app/Kernel.php:3
                0 %    75 %  App\Kernel::handle       /srv/app/Kernel.php:41"#]]
        .assert_eq(&plain);
    }
}
