//! Shows a run while it happens: a live line on a terminal, plain lines elsewhere.

use crate::say::say_line;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use kneepoint_experiment::{Event, Observer};
use kneepoint_model::run::{EntryKind, JournalEntry};
use kneepoint_model::units::{format_ms, format_rate};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Time between plain progress lines where there is no terminal.
const QUIET: Duration = Duration::from_secs(20);

/// A watcher that writes to standard error.
pub struct Terminal {
    bar: ProgressBar,
    live: bool,
    state: Mutex<State>,
}

struct State {
    what: String,
    load: String,
    last_line: Instant,
}

impl Default for Terminal {
    fn default() -> Self {
        Self::new()
    }
}

impl Terminal {
    /// A watcher; live when standard error is a terminal.
    #[must_use]
    pub fn new() -> Self {
        let live = console::Term::stderr().is_term();
        let bar = ProgressBar::with_draw_target(
            Some(1000),
            if live {
                ProgressDrawTarget::stderr()
            } else {
                ProgressDrawTarget::hidden()
            },
        );
        bar.set_style(
            ProgressStyle::with_template("{spinner} {bar:24} {wide_msg}")
                .unwrap_or_else(|_| ProgressStyle::default_bar()),
        );
        bar.enable_steady_tick(Duration::from_millis(200));
        Self {
            bar,
            live,
            state: Mutex::new(State {
                what: String::new(),
                load: String::new(),
                last_line: Instant::now(),
            }),
        }
    }

    /// Removes the live line.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }

    /// Prints a line above the live one.
    pub fn line(&self, text: &str) {
        if self.live {
            self.bar.println(text);
        } else {
            say_line(text);
        }
    }

    fn journal(&self, entry: &JournalEntry) {
        let clock = format!(
            "{:>4}:{:02}",
            entry.at_s as u64 / 60,
            entry.at_s as u64 % 60
        );
        let text = match entry.kind {
            EntryKind::Stage => console::style(format!("{clock}  {}", entry.text))
                .bold()
                .for_stderr()
                .to_string(),
            EntryKind::Result => format!("{clock}    {}", entry.text),
            EntryKind::Change => console::style(format!("{clock}  * {}", entry.text))
                .green()
                .for_stderr()
                .to_string(),
            EntryKind::Warning => console::style(format!("{clock}  ! {}", entry.text))
                .yellow()
                .for_stderr()
                .to_string(),
        };
        self.line(&text);
    }

    fn refresh(&self, state: &State) {
        self.bar
            .set_message(format!("{}{}", state.what, state.load));
    }

    fn progress(&self, what: &str, share: f64, left: Option<Duration>) {
        let Ok(mut state) = self.state.lock() else {
            return;
        };
        let left = left.map_or(String::new(), |left| format!(", {} left", minutes(left)));
        state.what = format!("{what}{left}");
        state.load.clear();
        self.bar
            .set_position((share.clamp(0.0, 1.0) * 1000.0) as u64);
        self.refresh(&state);
        if !self.live && state.last_line.elapsed() >= QUIET {
            state.last_line = Instant::now();
            let text = format!("        ... {}", state.what);
            drop(state);
            self.line(&text);
        }
    }
}

/// A duration for a person: `45 s`, `3 min 20 s`.
#[must_use]
pub fn minutes(duration: Duration) -> String {
    let seconds = duration.as_secs();
    if seconds < 60 {
        format!("{seconds} s")
    } else {
        format!("{} min {:02} s", seconds / 60, seconds % 60)
    }
}

impl Observer for Terminal {
    fn event(&self, event: &Event<'_>) {
        match event {
            Event::Journal(entry) => self.journal(entry),
            Event::Progress { what, share, left } => self.progress(what, *share, *left),
            Event::Generator(words) => self.line(&format!("         {words}")),
            Event::Load {
                goodput_hz,
                p95_ms,
                failed,
            } => {
                let Ok(mut state) = self.state.lock() else {
                    return;
                };
                let p95 = p95_ms.map_or(String::new(), |ms| format!(", p95 {}", format_ms(ms)));
                state.load = format!(
                    "  [{} good{p95}, {failed} failed]",
                    format_rate(*goodput_hz)
                );
                self.refresh(&state);
            }
        }
    }
}
