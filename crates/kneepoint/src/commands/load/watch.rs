//! Who watches a load: nobody, a log, or a person at a terminal.

mod live;
mod moment;
mod plain;

use super::plan::Hop;
use crate::say::say_line;
use kneepoint_load::Progress;
use live::Live;
use moment::Moment;
use plain::Plain;
use std::sync::{Mutex, PoisonError};

/// Shows one load while it runs, on standard error.
pub(super) struct Watch<'h> {
    hop: &'h Hop,
    view: Mutex<View>,
}

enum View {
    Quiet,
    Plain(Plain),
    Live(Live),
}

impl<'h> Watch<'h> {
    /// A live view on a terminal, a line a second elsewhere, nothing when a person wants it quiet.
    pub(super) fn new(hop: &'h Hop, quiet: bool) -> Self {
        let view = if quiet {
            View::Quiet
        } else if console::user_attended_stderr() {
            View::Live(Live::new(&hop.name))
        } else {
            line(&Plain::header(&hop.name));
            View::Plain(Plain::default())
        };
        Self {
            hop,
            view: Mutex::new(view),
        }
    }

    /// Takes what the engine tells.
    pub(super) fn tell(&self, progress: &Progress) {
        let moment = Moment::of(progress, &self.hop.plan);
        // A view that panicked half-way is drawn anew.
        match &mut *self.view.lock().unwrap_or_else(PoisonError::into_inner) {
            View::Quiet => {}
            View::Plain(plain) => {
                if let Some(text) = plain.tell(&moment) {
                    line(&text);
                }
            }
            View::Live(live) => live.tell(&moment),
        }
    }
}

/// Prints a line to standard error.
pub(super) fn line(text: &str) {
    say_line(text);
}
