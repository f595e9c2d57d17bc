//! Each request of the owner, and commands that run to their end.

use super::Keeper;
use super::hosts::Host;
use crate::LabError;
use crate::isolation::sysctl;
use crate::launch::output::{Capture, last_lines};
use crate::launch::{Launch, Output};
use crate::protocol::{Answer, Reply, Request};
use crate::traces::kill_until_gone;
use kneepoint_linux::ProcessEntry;
use kneepoint_model::{CommandOutput, CommandSpec};
use std::time::Instant;

/// Does what was asked.
pub(super) fn handle(keeper: &Keeper, request: Request) -> Reply {
    Ok(match request {
        Request::Begin { plan, owner, base } => {
            Answer::Begun(Box::new(keeper.begin(&plan, owner, &base)?))
        }
        Request::AddHost { plan } => Answer::Host(Box::new(keeper.add_host(&plan)?)),
        Request::RemoveHost { host } => {
            keeper.remove_host(&host)?;
            Answer::Done
        }
        Request::Spawn { host, spec } => Answer::Process(keeper.spawn(&host, *spec)?),
        Request::Exec { host, command } => {
            let host = keeper.hosts.get(&host)?;
            Answer::Output(keeper.exec(&host, &command)?)
        }
        Request::Signal { process, signal } => {
            keeper.signal(&process, signal)?;
            Answer::Done
        }
        Request::Reload { process } => {
            keeper.reload(&process)?;
            Answer::Done
        }
        Request::Stop { process } => Answer::Stopped(keeper.stop(&process)?),
        Request::Ended { process } => Answer::Ended(keeper.ended(&process)?),
        Request::SetSysctl { host, name, value } => {
            let host = keeper.hosts.get(&host)?;
            let network = host.own_network(&format!("setting `{name}`"))?;
            sysctl::set(network, &name, &value)?;
            Answer::Done
        }
        Request::GetSysctl { host, name } => {
            let host = keeper.hosts.get(&host)?;
            let network = host.own_network(&format!("reading `{name}`"))?;
            Answer::Value(sysctl::get(network, &name)?)
        }
        Request::SetCpus { host, cpus } => Answer::Value(keeper.set_cpus(&host, cpus)?.to_string()),
        // The listener keeps this one to itself.
        Request::End => Answer::Done,
    })
}

impl Keeper {
    /// Runs a command on a host to its end.
    pub(super) fn exec(
        &self,
        host: &Host,
        command: &CommandSpec,
    ) -> Result<CommandOutput, LabError> {
        let launch = host.launch(self, command, Output::Pipes)?;
        self.run_to_end(launch, command)
    }

    /// Starts a launch and waits for its end; at its timeout it dies with everything below it.
    pub(super) fn run_to_end(
        &self,
        launch: Launch,
        command: &CommandSpec,
    ) -> Result<CommandOutput, LabError> {
        let mut started = self.start(launch)?;
        let capture = Capture::start(&mut started.child, command.stdin.clone());
        let exit = self
            .children
            .wait(started.key, Instant::now() + command.timeout);
        if exit.is_none() {
            let pid = started.pid;
            kill_until_gone(|| {
                // Until it is collected the number is its own, and its children are found through it.
                let all = ProcessEntry::all();
                let mut tree = ProcessEntry::descendants(pid, &all);
                if self.children.exit(started.key).is_none() {
                    tree.extend(all.into_iter().filter(|stat| stat.pid == pid));
                }
                tree.retain(|stat| !stat.is_dead());
                tree
            });
        }
        self.children.forget(started.key);
        let (stdout, stderr) = capture.finish();
        match exit {
            Some(exit) => Ok(CommandOutput {
                code: exit.code,
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
}
