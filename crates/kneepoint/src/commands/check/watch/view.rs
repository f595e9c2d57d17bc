//! The watch on a terminal.

mod page;

use super::Session;
use anyhow::{Context as _, Result};
use kneepoint_check::Moment;
use page::Page;
use ratatui::crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers, poll, read};

/// The terminal as it was, when this goes; a panic restores it likewise.
struct Restored;

impl Drop for Restored {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

/// Shows the watch until somebody ends it.
pub(super) fn run(session: &mut Session<'_>) -> Result<()> {
    let mut terminal =
        ratatui::try_init().context("the terminal cannot show the view: use --once")?;
    let _restored = Restored;
    let mut page = Page::default();
    let mut moment: Option<Moment> = None;
    while !session.is_over() {
        let next = session.next();
        let mut changed = next.is_some();
        if let Some(next) = next {
            page.see(&next);
            moment = Some(next);
        }
        if changed && let Some(moment) = &moment {
            terminal.draw(|frame| page.draw(frame, moment))?;
        }
        changed = false;
        // Keys wake it at once; without any it sleeps until the next look.
        while poll(if changed {
            std::time::Duration::ZERO
        } else {
            session.pause()
        })? {
            match read()? {
                Event::Key(key) if key.kind != KeyEventKind::Release => match pressed(key) {
                    Pressed::Quit => return Ok(()),
                    Pressed::Refresh => session.watch.refresh(),
                    Pressed::Move(by) => page.step(by),
                    Pressed::Switch => page.switch(),
                    Pressed::Nothing => continue,
                },
                Event::Resize(..) => {}
                _ => continue,
            }
            changed = true;
        }
        if changed && let Some(moment) = &moment {
            terminal.draw(|frame| page.draw(frame, moment))?;
        }
    }
    Ok(())
}

/// What a key asks for.
#[derive(Debug, PartialEq, Eq)]
enum Pressed {
    Quit,
    Refresh,
    /// To the line this many below.
    Move(isize),
    /// From the pools to the findings, and back.
    Switch,
    Nothing,
}

fn pressed(key: KeyEvent) -> Pressed {
    match key.code {
        KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => Pressed::Quit,
        KeyCode::Char('q') | KeyCode::Esc => Pressed::Quit,
        KeyCode::Char('r') => Pressed::Refresh,
        KeyCode::Up => Pressed::Move(-1),
        KeyCode::Down => Pressed::Move(1),
        KeyCode::PageUp => Pressed::Move(-10),
        KeyCode::PageDown => Pressed::Move(10),
        KeyCode::Tab | KeyCode::BackTab | KeyCode::Left | KeyCode::Right => Pressed::Switch,
        _ => Pressed::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_do_what_the_last_line_says() {
        let check = |code, modifiers, expected| {
            assert_eq!(
                pressed(KeyEvent::new(code, modifiers)),
                expected,
                "{code:?}"
            );
        };
        let plain = KeyModifiers::NONE;
        check(KeyCode::Char('q'), plain, Pressed::Quit);
        check(KeyCode::Char('c'), KeyModifiers::CONTROL, Pressed::Quit);
        check(KeyCode::Char('c'), plain, Pressed::Nothing);
        check(KeyCode::Down, plain, Pressed::Move(1));
        check(KeyCode::Tab, plain, Pressed::Switch);
    }
}
