//! A flame graph: stacks from above, as wide as the share of the time they were met.
//!
//! Without its script it is a picture with the whole of every name in a tooltip; with it, one can zoom and search.

use kneepoint_model::account::KernelStack;
use kneepoint_model::{MetStack, StackProfile};
use maud::{Markup, PreEscaped, html};
use std::collections::BTreeMap;

/// Share of the whole below which a frame is not drawn.
const NARROWEST: f64 = 0.0005;
/// Height of a row in pixels.
const ROW: usize = 18;
/// Change of a share from which on it has the full colour.
const FULL: f64 = 0.1;

/// Zooms and searches; see flame.js.
pub(crate) const SCRIPT: &str = include_str!("flame.js");

/// A frame with what it called.
#[derive(Default)]
struct Node<'a> {
    count: u64,
    /// By name and place, the waits last.
    children: BTreeMap<(bool, &'a str), Node<'a>>,
}

impl<'a> Node<'a> {
    /// All stacks of a profile, below their requests.
    fn of(profile: &'a StackProfile) -> Self {
        let mut root = Self::default();
        for stack in &profile.stacks {
            root.add(&names(profile, stack), stack.count);
        }
        root
    }

    fn of_kernel(stacks: &'a [KernelStack]) -> Self {
        let mut root = Self::default();
        for stack in stacks {
            let names = stack.functions.iter().map(String::as_str).collect();
            root.add(&without_the_middle(names), stack.samples);
        }
        root
    }

    fn add(&mut self, names: &[&'a str], count: u64) {
        self.count += count;
        if let Some((name, rest)) = names.split_first() {
            let key = (name.starts_with('['), *name);
            self.children.entry(key).or_default().add(rest, count);
        }
    }

    fn depth(&self) -> usize {
        1 + self.children.values().map(Self::depth).max().unwrap_or(0)
    }
}

fn names<'a>(profile: &'a StackProfile, stack: &'a MetStack) -> Vec<&'a str> {
    let route = Some(stack.route.as_str()).filter(|route| !route.is_empty());
    let places = profile
        .places_of(stack)
        .map(|place| place.function.as_str());
    without_the_middle(route.into_iter().chain(places).collect())
}

/// Most frames of a stack that are drawn: a recursion that ran away has thousands, and its picture none to see.
const DEEPEST: usize = 400;

/// A stack that is too deep to be drawn, with its ends.
fn without_the_middle(names: Vec<&str>) -> Vec<&str> {
    if names.len() <= DEEPEST {
        return names;
    }
    let (first, last) = (&names[..DEEPEST / 2], &names[names.len() - DEEPEST / 2..]);
    [first, &["[frames that are left out]"], last].concat()
}

/// The graph of a profile. With another, and what that is called (`before`), colours tell what differs.
pub(crate) fn graph(profile: &StackProfile, other: Option<(&StackProfile, &str)>) -> Markup {
    let before = other.map(|(other, whose)| (Node::of(other), whose));
    drawn("all requests", &Node::of(profile), before)
}

/// The graph of what the kernel does for a tier, and what the whole is called; likewise with another.
pub(crate) fn of_kernel(
    whole: &str,
    stacks: &[KernelStack],
    other: Option<(&[KernelStack], &str)>,
) -> Markup {
    let before = other.map(|(other, whose)| (Node::of_kernel(other), whose));
    drawn(whole, &Node::of_kernel(stacks), before)
}

fn drawn(whole: &str, root: &Node<'_>, before: Option<(Node<'_>, &str)>) -> Markup {
    let whose = before.as_ref().map(|(_, whose)| *whose);
    let before = before.map(|(before, _)| before);
    let mut drawing = Drawing {
        whole: root.count.max(1) as f64,
        whole_before: before
            .as_ref()
            .map_or(1.0, |before| before.count.max(1) as f64),
        whose,
        frames: String::new(),
    };
    drawing.frame(whole, root, before.as_ref(), 0.0, 0);
    let height = root.depth() * ROW;
    html! {
        div class="flame" {
            div class="flame-tools" {
                input type="search" placeholder="Search" aria-label="Search the flame graph";
                button type="button" hidden { "Zoom out" }
                output {}
            }
            div class="flame-scroll" tabindex="0" {
                svg role="img" aria-label="Flame graph" width="100%" height=(height) { (PreEscaped(&drawing.frames)) }
            }
        }
    }
}

struct Drawing<'w> {
    whole: f64,
    whole_before: f64,
    /// What the other graph is called, when there is one.
    whose: Option<&'w str>,
    frames: String,
}

impl Drawing<'_> {
    fn frame(
        &mut self,
        name: &str,
        node: &Node<'_>,
        before: Option<&Node<'_>>,
        start: f64,
        depth: usize,
    ) {
        let share = node.count as f64 / self.whole;
        if share < NARROWEST {
            return;
        }
        self.frame_alone(name, share, before, start, depth);
        let mut at = start;
        for ((_, name), child) in &node.children {
            let before =
                before.and_then(|before| before.children.get(&(name.starts_with('['), *name)));
            self.frame(name, child, before, at, depth + 1);
            at += child.count as f64 / self.whole;
        }
    }

    /// One frame without what it called. It stands apart from [`Self::frame`], so that a deep stack is drawn with little of
    /// the program's own.
    #[inline(never)]
    fn frame_alone(
        &mut self,
        name: &str,
        share: f64,
        before: Option<&Node<'_>>,
        start: f64,
        depth: usize,
    ) {
        let share_before = before.map_or(0.0, |before| before.count as f64 / self.whole_before);
        let class = match name {
            name if name.starts_with('[') => "wait",
            _ if depth <= 1 => "route",
            _ => "function",
        };
        let title = match self.whose {
            Some(whose) => format!(
                "{name}\n{} of the time, {} {whose}",
                percent(share),
                percent(share_before)
            ),
            None => format!("{name}\n{} of the time", percent(share)),
        };
        let change = self.whose.map(|_| (share - share_before) / FULL);
        let colour = change.map(|change| {
            let (class, amount) = if change < 0.0 {
                ("fell", -change)
            } else {
                ("rose", change)
            };
            (
                class,
                format!("fill-opacity:{:.2}", amount.clamp(0.0, 1.0) * 0.8),
            )
        });
        let markup = html! {
            svg class=(class) x={ (percent_of(start)) } y=(depth * ROW) width={ (percent_of(share)) } height=(ROW - 1)
                data-x=(format!("{start:.9}")) data-w=(format!("{share:.9}")) aria-hidden="true" {
                title { (title) }
                rect width="100%" height="100%" {}
                @if let Some((class, style)) = &colour { rect class=(class) width="100%" height="100%" style=(style) {} }
                @if share > 0.004 { text x="3" y="12.5" { (short(name)) } }
            }
        };
        self.frames.push_str(&markup.into_string());
    }
}

/// A name without its namespace, and the code of a file without its directories.
fn short(name: &str) -> &str {
    if name.starts_with('[') || name.contains(" /") && !name.contains(".php") {
        return name;
    }
    let cut = name.rfind(['\\', '/']).map_or(0, |at| at + 1);
    name.get(cut..)
        .filter(|rest| !rest.is_empty())
        .unwrap_or(name)
}

fn percent(share: f64) -> String {
    kneepoint_model::units::format_share(share)
}

/// A share as a length of SVG.
fn percent_of(share: f64) -> String {
    format!("{:.4}%", share * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kneepoint_model::Place;

    fn profile(counts: [u64; 3]) -> StackProfile {
        let place = |function: &str| Place {
            function: function.to_owned(),
            ..Place::default()
        };
        let stack = |places: &[u32], count| MetStack {
            route: "GET /<b>".to_owned(),
            places: places.to_vec(),
            count,
        };
        StackProfile {
            places: vec![
                place("main /srv/index.php"),
                place("App\\Kernel::handle"),
                place("[recv db]"),
            ],
            stacks: vec![
                stack(&[0], counts[0]),
                stack(&[0, 1], counts[1]),
                stack(&[0, 1, 2], counts[2]),
            ],
            ..StackProfile::default()
        }
    }

    #[test]
    fn frames_are_as_wide_as_they_were_met_and_lie_below_their_callers() {
        let graph = graph(&profile([10, 30, 60]), None).into_string();
        for part in [
            "GET /&lt;b&gt;\n100 % of the time",
            "class=\"function\" x=\"0.0000%\" y=\"54\" width=\"90.0000%\"",
            "class=\"wait\" x=\"0.0000%\" y=\"72\" width=\"60.0000%\"",
            ">Kernel::handle</text>",
            ">index.php</text>",
            "height=\"90\"",
        ] {
            assert!(graph.contains(part), "expected `{part}` in {graph}");
        }
        assert!(
            !graph.contains("before"),
            "there is nothing to compare with"
        );
    }

    #[test]
    fn a_recursion_that_ran_away_is_drawn_with_its_ends() {
        let mut deep = profile([1, 0, 0]);
        let runaway = std::iter::repeat_n(1, 200_000);
        deep.stacks[0].places = std::iter::once(0).chain(runaway).chain([2]).collect();
        let graph = graph(&deep, None).into_string();
        for part in [
            "main /srv/index.php",
            "[frames that are left out]",
            "[recv db]",
        ] {
            assert!(graph.contains(part), "expected `{part}`");
        }
        assert!(graph.len() < 1_000_000, "{} bytes", graph.len());
    }

    #[test]
    fn a_second_graph_tells_what_changed() {
        let graph = graph(
            &profile([80, 20, 0]),
            Some((&profile([10, 30, 60]), "before")),
        )
        .into_string();
        assert!(
            graph.contains("App\\Kernel::handle\n20 % of the time, 90 % before"),
            "{graph}"
        );
        assert!(
            graph.contains("class=\"fell\"") && graph.contains("fill-opacity:0.80"),
            "{graph}"
        );
    }

    #[test]
    fn the_kernels_work_is_drawn_from_the_system_call_on() {
        let stacks = |connecting| {
            let stack = |functions: &[&str], samples| KernelStack {
                functions: functions.iter().map(|name| (*name).to_owned()).collect(),
                samples,
            };
            [
                stack(
                    &["do_syscall_64", "__sys_connect", "__inet_hash_connect"],
                    connecting,
                ),
                stack(&["do_syscall_64", "__sys_recvfrom"], 20),
            ]
        };
        let (now, before) = (stacks(20), stacks(60));
        let graph =
            of_kernel("the kernel for proxy", &now, Some((&before, "before"))).into_string();
        for part in [
            "the kernel for proxy\n100 % of the time",
            "__inet_hash_connect\n50 % of the time, 75 % before",
        ] {
            assert!(graph.contains(part), "expected `{part}` in {graph}");
        }
    }

    #[test]
    fn what_was_met_never_is_not_drawn() {
        assert!(
            !graph(&profile([1, 0, 0]), None)
                .into_string()
                .contains("recv")
        );
    }
}
