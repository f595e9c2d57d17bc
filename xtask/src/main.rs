//! Tasks of the repository itself: `cargo xtask TASK`.

mod faults;

use std::process::ExitCode;

fn main() -> anyhow::Result<ExitCode> {
    let mut args = std::env::args_os().skip(1);
    let task = args.next().unwrap_or_default();
    match task.to_string_lossy().as_ref() {
        "faults" => faults::run(args),
        other => anyhow::bail!("`{other}` is not a task: there is `faults`"),
    }
}
