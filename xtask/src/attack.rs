//! What a hostile application, another user of the machine and a hostile file try, on a real lab, and what comes of it.
//!
//! Everything that is attacked is the bench's own: directories, servers and processes that it makes and removes. An
//! attempt that succeeds does no harm. What was refused is told by the one who tried; that nothing came through is seen
//! from outside, where every file and every connection counts.

mod caller;
mod container;
mod handed;
mod inside;
mod outside;
pub(crate) mod signals;
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
    /// As whom the program is started: root of this machine, a plain user, or root of a container (podman with runc)
    #[arg(long = "as", value_enum, default_value_t, value_name = "WHO")]
    started_as: StartedAs,
}

/// As whom the program is started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
enum StartedAs {
    /// Root, whose labs are closed.
    #[default]
    Root,
    /// A plain user, for whom nothing is started.
    User,
    /// Root of a container.
    Container,
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
    let mut out = std::io::stdout();
    if options.started_as == StartedAs::Container {
        let (row, code) = container::attempts(&program)?;
        writeln!(out, "{row}")?;
        return Ok(if table::is_breached(&[row]) {
            ExitCode::FAILURE
        } else {
            code
        });
    }
    let mut outside = outside::Outside::make()?;
    let mut site = site::Site::make(&outside, &program)?;
    outside.settle();
    let peer = caller::Peer::make(&outside);
    let mut rows = Vec::new();
    let mut tell = |more: Vec<Row>| -> Result<()> {
        for row in &more {
            writeln!(out, "{row}")?;
        }
        rows.extend(more);
        Ok(())
    };
    let address = peer.as_ref().map(|it| it.address.as_str());
    if options.started_as == StartedAs::User {
        site.give_to_a_user()?;
        tell(inside::not_started(&site, &outside, address)?)?;
    } else {
        tell(inside::attempts(&site, &outside, address)?)?;
        tell(stranger::attempts(&site, &outside)?)?;
        tell(handed::attempts(&site, &outside)?)?;
    }
    tell(caller::attempts(&site, &outside)?)?;
    tell(vec![everything(&outside)])?;
    if options.started_as == StartedAs::Root {
        for (fault, package, test) in HELD_BY_TESTS {
            writeln!(
                out,
                "fault {fault} is tried by the test `{test}` of {package}"
            )?;
        }
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
    let mut got = outside.heard();
    let changed = outside.changed().into_iter();
    got.extend(changed.map(|(path, _)| path.display().to_string()));
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
