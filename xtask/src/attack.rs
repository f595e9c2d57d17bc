//! What a hostile application, another user of the machine and a hostile file try, on a real lab, and what comes of it.
//!
//! Everything that is attacked is the bench's own: directories, servers and processes that it makes and removes. An
//! attempt that succeeds does no harm. What was refused is told by the one who tried; that nothing came through is seen
//! from outside, where every file and every connection counts.

mod caller;
mod handed;
mod inside;
mod outside;
mod site;
mod stranger;
mod table;

use crate::program;
use anyhow::{Result, ensure};
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use table::{Row, Verdict};

/// Faults of the security review whose attempt is a test of its own: the crate, and the test's name.
const HELD_BY_TESTS: &[(u8, &str, &str)] = &[
    (7, "kneepoint", "workers::let_go"),
    (
        12,
        "kneepoint-experiment",
        "a_run_is_read_where_nothing_may_be_written",
    ),
    (16, "kneepoint-lab", "the_roots_controllers_are_put_back"),
    (17, "kneepoint-lab", "a_stopped_keeper_is_given_up"),
    (
        18,
        "kneepoint-telemetry",
        "an_answer_that_never_ends_is_given_up",
    ),
];

/// What was asked for on the command line.
#[derive(Debug, Default, PartialEq, clap::Args)]
pub(crate) struct Options {
    /// The program to test (default: built with cargo build --release -p kneepoint)
    #[arg(long, value_name = "PATH")]
    binary: Option<PathBuf>,
}

/// Tries everything. The exit code is 1 when something got out that SECURITY.md does not tell of.
///
/// # Errors
/// It is not root, the program cannot be built, or a stack does not stand up.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    ensure!(
        rustix::process::geteuid().is_root(),
        "the attempts need a closed lab, which needs root"
    );
    let program = program::find(options.binary.as_deref())?;
    let mut outside = outside::Outside::make()?;
    let site = site::Site::make(&outside, &program)?;
    outside.settle();
    let peer = caller::Peer::make(&outside);
    let mut out = std::io::stdout();
    let mut rows = Vec::new();
    let mut tell = |more: Vec<Row>| -> Result<()> {
        for row in &more {
            writeln!(out, "{row}")?;
        }
        rows.extend(more);
        Ok(())
    };
    tell(inside::attempts(
        &site,
        &outside,
        peer.as_ref().map(|it| it.address.as_str()),
    )?)?;
    tell(stranger::attempts(&site, &outside)?)?;
    tell(handed::attempts(&site, &outside)?)?;
    tell(caller::attempts(&site, &outside)?)?;
    tell(vec![everything(&outside)])?;
    for (fault, package, test) in HELD_BY_TESTS {
        writeln!(
            out,
            "fault {fault} is tried by the test `{test}` of {package}"
        )?;
    }
    writeln!(out, "{}", table::sum(&rows))?;
    Ok(if table::is_breached(&rows) {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

/// All that is outside, once more: what no attempt answers for.
fn everything(outside: &outside::Outside) -> Row {
    // What is known to get out is in its own lines.
    let known = |words: &str| words.contains("-own-user");
    let mut got: Vec<String> = outside
        .heard()
        .into_iter()
        .filter(|words| !known(words))
        .collect();
    let changed = outside
        .changed()
        .into_iter()
        .map(|(path, _)| path.display().to_string());
    got.extend(changed.filter(|path| !known(path)));
    let verdict = match got.is_empty() {
        true => Verdict::Refused("every file is as it was, and nobody connected".into()),
        false => Verdict::GotOut(got.join(", ")),
    };
    Row::new(
        "all",
        "everything",
        "changes or reaches anything outside",
        verdict,
    )
}
