//! `cargo xtask map`: the rooms of each crate, what each is for, and which name which.
//!
//! The rooms of a folder are printed so that arrows go down: a room names only rooms below it. Where rooms name one another,
//! the circle is printed as one, and the exit code is 1.

use crate::tidy::structure::arrows::{self, Arrows};
use crate::tidy::tree::Tree;
use anyhow::Result;
use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

/// Prints the map of the workspace.
///
/// # Errors
/// The workspace cannot be read.
#[expect(clippy::print_stdout, reason = "a chore talks to people")]
pub(crate) fn run(root: &Path) -> Result<ExitCode> {
    let tree = Tree::read(root)?;
    let mut circles = 0;
    for dir in arrows::crates(&tree) {
        let arrows = Arrows::of(&tree, &dir);
        println!("{}", drawn(&dir, &arrows));
        for (place, circle) in arrows.circles() {
            circles += 1;
            println!("  circle in {}: {}\n", named(&place), circle.join(", "));
        }
    }
    match circles {
        0 => println!("No circle: every arrow goes down."),
        _ => println!("{circles} circles."),
    }
    Ok(ExitCode::from(u8::from(circles > 0)))
}

fn named(place: &[String]) -> String {
    match place {
        [] => "the crate".to_owned(),
        names => names.join("::"),
    }
}

/// A crate's first line, and its rooms with theirs, and the rooms that each names.
fn drawn(dir: &str, arrows: &Arrows) -> String {
    let name = dir
        .trim_end_matches("/src")
        .rsplit('/')
        .next()
        .unwrap_or(dir);
    let head = arrows.heads.get([].as_slice()).map_or("", String::as_str);
    let mut text = format!("{name}  {head}\n");
    for room in arrows.downwards(&[]) {
        let place = vec![room.clone()];
        let head = arrows.heads.get(&place).map_or("", String::as_str);
        let below: Vec<&str> = arrows
            .between
            .get([].as_slice())
            .into_iter()
            .flatten()
            .filter(|(from, to)| *from == room && *to != room)
            .map(|(_, to)| to.as_str())
            .collect();
        let arrow = match below.is_empty() {
            true => String::new(),
            false => format!("  -> {}", below.join(" ")),
        };
        let inside = arrows.children.get(&place).map_or(0, |names| names.len());
        let size = match inside {
            0 => String::new(),
            count => format!(" ({count})"),
        };
        let _ = writeln!(text, "  {room}{size}  {head}{arrow}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    #[test]
    fn rooms_are_drawn_from_top_to_bottom() {
        let tree = Tree::of(&[
            (
                "crates/x/src/lib.rs",
                "//! X alone counts.\nmod low; mod high;",
            ),
            ("crates/x/src/low.rs", "//! Numbers."),
            (
                "crates/x/src/high.rs",
                "//! Sums.\nmod part; fn f() { crate::low::g(); }",
            ),
            ("crates/x/src/high/part.rs", "//! A part."),
        ]);
        expect![[r#"
            x  X alone counts.
              high (1)  Sums.  -> low
              low  Numbers.
        "#]]
        .assert_eq(&drawn("crates/x/src", &Arrows::of(&tree, "crates/x/src")));
    }
}
