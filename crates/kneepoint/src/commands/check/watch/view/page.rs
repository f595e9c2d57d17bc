//! What stands on the terminal: a head, pools, logs, findings, what is chosen in full, and the keys.

use super::super::plain::{clock, counts, of_cost, of_traffic};
use kneepoint_check::{Moment, PoolMoment, Severity, Watched};
use kneepoint_model::units::format_span;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span, Text};
use ratatui::widgets::{Paragraph, Wrap};
use std::collections::{HashMap, VecDeque};
use std::time::Duration;

/// Looks that are remembered of each pool, for its line of the past.
const HISTORY: usize = 60;
/// Width of the bar of busy workers.
const BAR: usize = 10;
/// Most access logs that have a line.
const LOGS: usize = 4;
/// Lines of what is chosen.
const CHOSEN: u16 = 6;

/// Where the arrows move.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Place {
    /// Among the pools.
    #[default]
    Pools,
    /// Among the findings.
    Findings,
}

/// What is chosen, and the past.
#[derive(Debug, Default)]
pub(super) struct Page {
    place: Place,
    /// The chosen line of each list.
    pool: usize,
    finding: usize,
    /// How many lines each list has.
    pools: usize,
    findings: usize,
    /// Busy workers of each pool, look by look.
    past: HashMap<(u32, String), VecDeque<u64>>,
}

impl Page {
    /// Remembers a moment.
    pub(super) fn see(&mut self, moment: &Moment) {
        let key = |pool: &PoolMoment| (pool.pid, pool.pool.clone());
        let there: Vec<_> = moment.pools.iter().map(key).collect();
        self.past.retain(|known, _| there.contains(known));
        for pool in &moment.pools {
            let past = self.past.entry(key(pool)).or_default();
            past.push_back(pool.busy);
            if past.len() > HISTORY {
                past.pop_front();
            }
        }
        self.pools = moment.pools.len();
        self.findings = told(moment).len();
        self.pool = self.pool.min(self.pools.saturating_sub(1));
        self.finding = self.finding.min(self.findings.saturating_sub(1));
    }

    /// Moves in the list that has the arrows.
    pub(super) fn step(&mut self, by: isize) {
        let (at, count) = match self.place {
            Place::Pools => (&mut self.pool, self.pools),
            Place::Findings => (&mut self.finding, self.findings),
        };
        *at = at.saturating_add_signed(by).min(count.saturating_sub(1));
    }

    /// Gives the arrows to the other list.
    pub(super) fn switch(&mut self) {
        self.place = match self.place {
            Place::Pools => Place::Findings,
            Place::Findings => Place::Pools,
        };
    }

    /// Draws a moment.
    pub(super) fn draw(&self, frame: &mut Frame<'_>, moment: &Moment) {
        let width = usize::from(frame.area().width);
        let logs = moment.traffic.len().min(LOGS) as u16;
        let pools = moment.pools.len().min(60) as u16 + 1;
        let [head, list, traffic, found, chosen, keys] = Layout::vertical([
            Constraint::Length(3),
            Constraint::Max(pools + 1),
            Constraint::Length(if logs > 0 { logs + 2 } else { 0 }),
            Constraint::Min(4),
            Constraint::Length(CHOSEN),
            Constraint::Length(1),
        ])
        .areas(frame.area());
        frame.render_widget(Paragraph::new(head_of(moment, width)), head);
        self.draw_pools(frame, moment, list);
        draw_traffic(frame, moment, traffic);
        self.draw_findings(frame, moment, found);
        frame.render_widget(
            Paragraph::new(self.chosen(moment)).wrap(Wrap { trim: false }),
            chosen,
        );
        let help = " arrows choose   Tab pools or findings   r read everything anew   q quit";
        frame.render_widget(Line::styled(help, faint()), keys);
    }

    fn draw_pools(&self, frame: &mut Frame<'_>, moment: &Moment, area: Rect) {
        let width = usize::from(area.width);
        let names = moment.pools.iter().map(|pool| pool.pool.chars().count());
        let name = names.max().unwrap_or(4).clamp(4, (width / 4).max(4));
        let title = format!(
            " {:name$}  {:<16}  {:>9}  {:<20}  busy workers wait for",
            "pool", "busy of at most", "queue", "busy, last minute"
        );
        let order = worst_first(&moment.pools);
        let rows = order.iter().enumerate().map(|(at, pool)| {
            let row = format!(
                " {:name$}  {:<16}  {:>9}  {:<20}  {}",
                cut(&pool.pool, name),
                bar(pool),
                pool.queue
                    .map_or_else(|| "-".into(), |(length, limit)| format!("{length}/{limit}")),
                self.past_of(pool),
                pool.in_words()
            );
            let style = match () {
                () if self.place == Place::Pools && at == self.pool => chosen_style(),
                () if pool.queue.is_some_and(|queue| queue.0 > 0) => Style::new().fg(Color::Red),
                () if pool.busy_share() >= 0.8 => Style::new().fg(Color::Yellow),
                () => Style::new(),
            };
            Line::styled(cut(&row, width), style)
        });
        list(frame, area, title, rows.collect(), self.pool);
    }

    /// Busy workers of the last looks, as a line of bars: the highest is the size of the pool.
    fn past_of(&self, pool: &PoolMoment) -> String {
        const STEPS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
        let most = pool.limit.unwrap_or(pool.busy + pool.idle).max(1);
        let past = self.past.get(&(pool.pid, pool.pool.clone()));
        let past: Vec<u64> = past.into_iter().flatten().copied().collect();
        let shown = past.iter().skip(past.len().saturating_sub(20));
        shown
            .map(|busy| match busy {
                0 => ' ',
                busy => STEPS[((busy * 8).div_ceil(most).clamp(1, 8) - 1) as usize],
            })
            .collect()
    }

    fn draw_findings(&self, frame: &mut Frame<'_>, moment: &Moment, area: Rect) {
        let width = usize::from(area.width);
        let unseen = match moment.blind {
            0 => String::new(),
            1 => "; 1 thing could not be seen (kneepoint check tells which)".to_owned(),
            count => format!("; {count} things could not be seen (kneepoint check tells which)"),
        };
        let title = format!(" findings: {}{unseen}", counts(moment));
        let rows = told(moment).into_iter().enumerate().map(|(at, one)| {
            let style = match (one.gone_s, one.finding.severity) {
                _ if self.place == Place::Findings && at == self.finding => chosen_style(),
                (Some(_), _) => faint(),
                (None, Severity::Problem) => Style::new().fg(Color::Red),
                (None, Severity::Risk) => Style::new().fg(Color::Yellow),
                (None, Severity::Note) => Style::new(),
            };
            Line::styled(cut(&of_finding(one, moment.at_s), width), style)
        });
        list(frame, area, title, rows.collect(), self.finding);
    }

    /// What is chosen, in full.
    fn chosen(&self, moment: &Moment) -> Text<'static> {
        match self.place {
            Place::Pools => match worst_first(&moment.pools).get(self.pool) {
                Some(pool) => of_pool(pool),
                None => Text::raw(" No pool of PHP-FPM runs here."),
            },
            Place::Findings => match told(moment).get(self.finding) {
                Some(one) => of_chosen(one),
                None => Text::raw(" Nothing found."),
            },
        }
    }
}

fn draw_traffic(frame: &mut Frame<'_>, moment: &Moment, area: Rect) {
    let width = usize::from(area.width);
    let rows = moment
        .traffic
        .iter()
        .take(LOGS)
        .map(|log| Line::raw(cut(&format!(" {}  {}", of_traffic(log), log.path), width)));
    let title = " access logs, last ten seconds".to_owned();
    list(frame, area, title, rows.collect(), 0);
}

fn head_of(moment: &Moment, width: usize) -> Text<'static> {
    let (busy, workers) = moment.workers();
    let pools = moment.pools.len();
    let words = format!(
        "  {busy} of {workers} workers busy in {pools} {}, {} queued",
        if pools == 1 { "pool" } else { "pools" },
        moment.queued()
    );
    let cores = moment
        .services
        .iter()
        .filter(|one| one.cores >= Some(0.005));
    let cores: Vec<String> = cores
        .map(|one| format!("{} {:.2}", one.kind, one.cores.unwrap_or(0.0)))
        .collect();
    let cores = match cores.is_empty() {
        true => " cores used: next to none".to_owned(),
        false => format!(" cores used: {}", cores.join(", ")),
    };
    Text::from(vec![
        Line::from(vec![
            Span::styled(
                format!(" kneepoint watch {}", clock(moment.at_s)),
                Style::new().add_modifier(Modifier::BOLD),
            ),
            Span::raw(words),
        ]),
        Line::raw(cut(&cores, width)),
        Line::styled(
            cut(
                &format!(" the watch itself: {}", of_cost(&moment.cost)),
                width,
            ),
            faint(),
        ),
    ])
}

/// A title and lines below it, moved so that the chosen one is among them.
fn list(frame: &mut Frame<'_>, area: Rect, title: String, rows: Vec<Line<'static>>, chosen: usize) {
    let room = usize::from(area.height.saturating_sub(1));
    if area.height == 0 || room == 0 {
        return;
    }
    let first = (chosen + 1).saturating_sub(room);
    let hidden = rows.len().saturating_sub(room);
    let title = match hidden {
        0 => title,
        hidden => format!("{title}   ({hidden} more: arrows)"),
    };
    let title = Line::styled(
        cut(&title, usize::from(area.width)),
        Style::new().add_modifier(Modifier::UNDERLINED),
    );
    let lines = std::iter::once(title).chain(rows.into_iter().skip(first).take(room));
    frame.render_widget(Paragraph::new(lines.collect::<Vec<_>>()), area);
}

/// Pools with a queue first, then the busiest.
fn worst_first(pools: &[PoolMoment]) -> Vec<&PoolMoment> {
    let mut order: Vec<&PoolMoment> = pools.iter().collect();
    let queued = |pool: &PoolMoment| pool.queue.map_or(0, |queue| queue.0);
    order.sort_by(|a, b| {
        let by_queue = queued(b).cmp(&queued(a));
        by_queue
            .then(b.busy_share().total_cmp(&a.busy_share()))
            .then(a.pool.cmp(&b.pool))
    });
    order
}

/// Findings that are shown: notes stay in `kneepoint check`.
fn told(moment: &Moment) -> Vec<&Watched> {
    let all = moment.findings.iter();
    all.filter(|one| one.finding.severity != Severity::Note)
        .collect()
}

/// `████░░░░░░  4/10`.
fn bar(pool: &PoolMoment) -> String {
    let full = (pool.busy_share() * BAR as f64).ceil().min(BAR as f64) as usize;
    let most = pool
        .limit
        .map_or_else(|| "?".to_owned(), |limit| limit.to_string());
    format!(
        "{}{} {}/{most}",
        "█".repeat(full),
        "░".repeat(BAR - full),
        pool.busy
    )
}

fn of_pool(pool: &PoolMoment) -> Text<'static> {
    let most = pool.limit.map_or_else(
        || "no limit that is known".to_owned(),
        |limit| format!("at most {limit}"),
    );
    let queue = match pool.queue {
        Some((0, _)) => "Nobody waits for a worker.".to_owned(),
        Some((length, limit)) => {
            format!("{length} requests wait for a worker; {limit} fit, what comes beyond fails.")
        }
        None => "Its accept queue could not be seen.".to_owned(),
    };
    let waits = match pool.in_words() {
        words if words.is_empty() => "No worker has a request.".to_owned(),
        words => format!("Workers with a request: {words}."),
    };
    Text::from(vec![
        Line::raw(""),
        Line::styled(
            format!(" pool {} of {}", pool.pool, pool.service),
            Style::new().add_modifier(Modifier::BOLD),
        ),
        Line::raw(format!(
            " {} workers, {} busy and {} idle, {most}. {queue}",
            pool.busy + pool.idle,
            pool.busy,
            pool.idle
        )),
        Line::raw(format!(" {waits}")),
    ])
}

fn of_finding(one: &Watched, now_s: f64) -> String {
    let finding = &one.finding;
    let span = |from: f64| format_span(Duration::from_secs_f64((now_s - from).max(0.0)));
    let when = match one.gone_s {
        Some(gone) => format!("gone {} ago", span(gone)),
        None => format!("for {}", span(one.since_s)),
    };
    format!(
        " {:7} {:7} {}, {} ({when})",
        finding.severity.name(),
        finding.code,
        finding.title,
        finding.place
    )
}

fn of_chosen(one: &Watched) -> Text<'static> {
    let finding = &one.finding;
    let seen: Vec<String> = finding
        .seen
        .iter()
        .map(|seen| match seen.source.as_str() {
            "" => seen.what.clone(),
            source => format!("{} ({source})", seen.what),
        })
        .collect();
    Text::from(vec![
        Line::raw(""),
        Line::styled(
            format!(" {} {}", finding.code, finding.title),
            Style::new().add_modifier(Modifier::BOLD),
        ),
        Line::raw(format!(" seen: {}", seen.join("; "))),
        Line::raw(format!(" do: {}", finding.fix.in_one_line())),
    ])
}

/// The beginning of a text, as wide as fits.
fn cut(text: &str, width: usize) -> String {
    console::truncate_str(text, width, "…").into_owned()
}

fn faint() -> Style {
    Style::new().add_modifier(Modifier::DIM)
}

fn chosen_style() -> Style {
    Style::new().add_modifier(Modifier::REVERSED)
}

#[cfg(test)]
mod tests {
    use super::super::super::plain::tests::moment;
    use super::*;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    fn shown(page: &Page, moment: &Moment, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal");
        terminal
            .draw(|frame| page.draw(frame, moment))
            .expect("drawn");
        let buffer = terminal.backend().buffer().clone();
        let lines = buffer.content.chunks(usize::from(width)).map(|cells| {
            let line: String = cells.iter().map(|cell| cell.symbol()).collect();
            line.trim_end().to_owned()
        });
        lines.collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn the_view_tells_the_moment() {
        let moment = moment();
        let mut page = Page::default();
        page.see(&moment);
        let text = shown(&page, &moment, 110, 24);
        for words in [
            "5 of 7 workers busy in 2 pools, 7 queued",
            "5/5",
            "7/511",
            "mysql 4, computing 1",
            "120/s, p95 83.0 ms",
            "FPM-01",
            "q quit",
        ] {
            assert!(
                text.contains(words),
                "`{words}` is not in:
{text}"
            );
        }
        // The pool with a queue stands first.
        assert!(text.find(" www ") < text.find(" shop "), "{text}");
        page.switch();
        let text = shown(&page, &moment, 110, 24);
        assert!(text.contains(" do: pm.max_children = 20"), "{text}");
    }

    #[test]
    fn the_chosen_line_stays_in_sight() {
        let mut many = moment();
        let pool = many.pools[0].clone();
        many.pools = (0..50)
            .map(|at| PoolMoment {
                pool: format!("site{at:02}"),
                ..pool.clone()
            })
            .collect();
        let mut page = Page::default();
        page.see(&many);
        page.step(47);
        assert!(shown(&page, &many, 80, 24).contains("site47"));
        page.step(100);
        assert_eq!(page.pool, 49);
        page.step(-500);
        assert!(shown(&page, &many, 80, 24).contains("site00"));
        // However small the terminal is, nothing panics.
        for (width, height) in [(1, 1), (5, 3), (20, 8), (300, 100)] {
            shown(&page, &many, width, height);
        }
    }
}
