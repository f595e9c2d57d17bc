//! Commands through the door other crates know: on a host of a lab, or on the machine itself.

use crate::identity::users;
use crate::isolation::numbers::Numbers;
use crate::launch::output::{Capture, last_lines};
use crate::launch::{Launch, Output};
use crate::{Lab, LabError};
use kneepoint_model::{CommandOutput, CommandSpec, Commands};
use rustix::process::{Pid, Signal, kill_process_group};
use std::process::Child;
use std::time::{Duration, Instant};

/// Runs commands on one host of a lab.
#[derive(Debug, Clone)]
pub struct HostCommands<'lab> {
    lab: &'lab Lab,
    host: String,
}

impl<'lab> HostCommands<'lab> {
    pub(crate) fn new(lab: &'lab Lab, host: &str) -> Self {
        Self {
            lab,
            host: host.to_owned(),
        }
    }
}

impl Commands for HostCommands<'_> {
    fn run(&self, command: &CommandSpec) -> Result<CommandOutput, String> {
        self.lab
            .exec(&self.host, command)
            .map_err(|error| error.to_string())
    }
}

/// Runs commands on the machine itself, without a lab: versions, configuration checks.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemCommands;

impl Commands for SystemCommands {
    fn run(&self, command: &CommandSpec) -> Result<CommandOutput, String> {
        run_here(command).map_err(|error| error.to_string())
    }
}

fn run_here(command: &CommandSpec) -> Result<CommandOutput, LabError> {
    let launch = Launch {
        program: command.program.clone(),
        args: command.args.clone(),
        env: command.env.clone(),
        dir: command.dir.clone().unwrap_or_else(|| "/".into()),
        account: users::account(command.user.as_deref())?,
        netns: None,
        room: None,
        numbers: Numbers::Starters,
        groups: Vec::new(),
        input: command.stdin.is_some(),
        output: Output::Pipes,
    };
    let mut child = launch.spawn()?;
    let capture = Capture::start(&mut child, command.stdin.clone());
    let code = wait(&mut child, command.timeout);
    let (stdout, stderr) = capture.finish();
    match code {
        Some(code) => Ok(CommandOutput {
            code,
            stdout,
            stderr,
        }),
        None => Err(LabError::TimedOut {
            command: Launch::words(&command.program, &command.args),
            after_s: command.timeout.as_secs_f64(),
            tail: last_lines(&format!("{stdout}\n{stderr}")),
        }),
    }
}

/// The exit code; the outer `None` means it was killed at its timeout.
fn wait(child: &mut Child, timeout: Duration) -> Option<Option<i32>> {
    let deadline = Instant::now() + timeout;
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status.code()),
            Ok(None) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(2)),
            _ => {
                // It leads its own process group and is not collected yet, so the number is its own.
                let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
                let _ = group.map(|group| kill_process_group(group, Signal::KILL));
                let _ = child.wait();
                return None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str) -> CommandSpec {
        CommandSpec::new("/bin/sh").args(["-c", script])
    }

    #[test]
    fn a_command_gets_its_input_and_only_the_environment_it_was_given() {
        let mut command = sh("cat; env >&2; exit 3");
        command.stdin = Some("words".into());
        command.env = vec![("ANSWER".into(), "42".into())];
        let output = SystemCommands.run(&command).expect("runs");
        assert_eq!((output.code, output.stdout.as_str()), (Some(3), "words"));
        let names: Vec<&str> = output
            .stderr
            .lines()
            .filter_map(|line| Some(line.split_once('=')?.0))
            .filter(|name| !["PWD", "SHLVL", "_", "OLDPWD"].contains(name))
            .collect();
        assert!(
            names.contains(&"ANSWER") && names.contains(&"PATH"),
            "{names:?}"
        );
        assert_eq!(names.len(), 2, "{names:?}");
    }

    #[test]
    fn a_command_that_hangs_is_ended_with_its_children() {
        let mut command = sh("echo begun; sleep 600 & echo $!; sleep 600");
        command.timeout = Duration::from_millis(300);
        let error = SystemCommands.run(&command).expect_err("times out");
        assert!(error.contains("within 0.3 s"), "{error}");
        let pid: u32 = error
            .split_whitespace()
            .last()
            .and_then(|word| word.parse().ok())
            .expect("the pid of the background process is quoted");
        let deadline = Instant::now() + Duration::from_secs(5);
        while kneepoint_linux::ProcessEntry::of(pid).is_some_and(|entry| !entry.is_dead()) {
            assert!(Instant::now() < deadline, "process {pid} still runs");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn what_is_missing_is_named() {
        let check = |command: &CommandSpec, words: &str| {
            let error = SystemCommands.run(command).expect_err(words);
            assert!(error.contains(words), "{error}");
        };
        check(
            &CommandSpec::new("/no/such/program"),
            "\"/no/such/program\" does not exist",
        );
        check(&CommandSpec::new("/etc/passwd"), "is not executable");
        let mut command = sh("true");
        command.user = Some("nobody-of-that-name".into());
        check(&command, "useradd");
        let mut command = sh("true");
        command.dir = Some("/no/such/dir".into());
        check(&command, "working directory \"/no/such/dir\"");
    }
}
