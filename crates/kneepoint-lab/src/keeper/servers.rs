//! Servers: started, waited for until ready, signalled, reloaded, stopped.

use super::Keeper;
use super::children::Exit;
use super::hosts::Host;
use super::root::Root;
use crate::LabError;
use crate::beneath;
use crate::error::Context as _;
use crate::identity::Identity;
use crate::identity::users;
use crate::isolation::netns;
use crate::launch::Output;
use crate::launch::output::tail;
use crate::plan::{Process, Stopped};
use crate::traces::kill_until_gone;
use kneepoint_linux::ProcessEntry;
use kneepoint_model::{Address, CommandSpec, ProcessSpec, Ready, Signal};
use std::collections::HashMap;
use std::fs::File;
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Time between two looks whether a server is ready.
const POLL: Duration = Duration::from_millis(20);
/// A connection within one machine that takes longer than this was not accepted.
const CONNECT_LIMIT: Duration = Duration::from_millis(250);

/// A server the lab started.
pub(super) struct Server {
    process: Process,
    root: Root,
    spec: ProcessSpec,
    host: Arc<Host>,
    /// Where its output begins in the file.
    output_from: u64,
}

/// The servers by key.
#[derive(Default)]
pub(super) struct Servers(Mutex<HashMap<u64, Arc<Server>>>);

impl Servers {
    fn table(&self) -> MutexGuard<'_, HashMap<u64, Arc<Server>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn get(&self, process: &Process) -> Result<Arc<Server>, LabError> {
        let server = self.table().get(&process.key).cloned();
        server.ok_or_else(|| LabError::UnknownProcess {
            name: process.name.clone(),
        })
    }

    /// Forgets the servers of a host that goes.
    pub(super) fn forget_host(&self, host: &str) -> Vec<Root> {
        let mut table = self.table();
        let roots = table
            .values()
            .filter(|server| server.process.host == host)
            .map(|server| server.root)
            .collect();
        table.retain(|_, server| server.process.host != host);
        roots
    }
}

impl Keeper {
    /// Starts a server and waits until it is ready. One that does not become ready is gone afterwards.
    pub(super) fn spawn(&self, host: &str, spec: ProcessSpec) -> Result<Process, LabError> {
        let host = self.hosts.get(host)?;
        if let Ready::Connects(address) = &spec.ready
            && accepts(&host, address)?
        {
            return Err(LabError::AddressTaken {
                process: spec.name,
                address: address.to_string(),
            });
        }
        let (file, output_from) = open_output(&host, &spec)?;
        let command = CommandSpec {
            program: spec.program.clone(),
            args: spec.args.clone(),
            env: spec.env.clone(),
            dir: Some(spec.dir.clone()),
            user: spec.user.clone(),
            stdin: None,
            timeout: spec.ready_timeout,
        };
        let started = self.start(host.launch(self, &command, Output::File(file))?)?;
        let process = Process {
            key: started.key,
            pid: started.pid,
            name: spec.name.clone(),
            host: host.info.name.clone(),
        };
        let server = Arc::new(Server {
            process: process.clone(),
            root: Root(Identity::of(started.pid).unwrap_or(Identity {
                pid: started.pid,
                // It is gone already; no process started at boot's first tick, so nothing will match.
                start_ticks: 0,
            })),
            spec,
            host,
            output_from,
        });
        self.servers
            .table()
            .insert(process.key, Arc::clone(&server));
        if let Err(error) = self.wait_ready(&server) {
            self.kill(&server);
            self.servers.table().remove(&process.key);
            self.children.forget(process.key);
            return Err(error);
        }
        Ok(process)
    }

    fn wait_ready(&self, server: &Server) -> Result<(), LabError> {
        let begun = Instant::now();
        let deadline = begun + server.spec.ready_timeout;
        let not_ready = |because: String| LabError::NotReady {
            process: server.spec.name.clone(),
            because,
            output: server.spec.output.clone(),
            tail: tail(&server.spec.output, server.output_from),
        };
        loop {
            let answer = self.looks_ready(server, deadline)?;
            if let Some(exit) = self.children.exit(server.process.key) {
                return Err(not_ready(format!(
                    "it {} after {:.1} s",
                    how(exit, &server.host),
                    begun.elapsed().as_secs_f64()
                )));
            }
            let Err(still) = answer else { return Ok(()) };
            if Instant::now() >= deadline {
                return Err(not_ready(format!(
                    "{still} after {:.1} s",
                    server.spec.ready_timeout.as_secs_f64()
                )));
            }
            self.children
                .wait(server.process.key, deadline.min(Instant::now() + POLL));
        }
    }

    /// Whether a server is ready, or in words why not yet.
    fn looks_ready(
        &self,
        server: &Server,
        deadline: Instant,
    ) -> Result<Result<(), String>, LabError> {
        match &server.spec.ready {
            Ready::Immediately => Ok(Ok(())),
            Ready::Connects(address) => Ok(if accepts(&server.host, address)? {
                Ok(())
            } else {
                Err(format!("it accepts no connection on {address}"))
            }),
            Ready::Command(command) => {
                let mut command = command.clone();
                let left = deadline.saturating_duration_since(Instant::now());
                command.timeout = command.timeout.min(left.max(POLL));
                match self.exec(&server.host, &command) {
                    Ok(output) if output.success() => Ok(Ok(())),
                    Ok(output) => Ok(Err(format!(
                        "its check \"{}\" fails ({})",
                        command.program.display(),
                        crate::launch::output::last_lines(&format!(
                            "{}\n{}",
                            output.stdout, output.stderr
                        ))
                    ))),
                    Err(LabError::TimedOut { command, .. }) => {
                        Ok(Err(format!("its check `{command}` does not end")))
                    }
                    Err(error) => Err(error),
                }
            }
        }
    }

    /// Sends a signal to the first process of a server.
    pub(super) fn signal(&self, process: &Process, signal: Signal) -> Result<(), LabError> {
        let server = self.servers.get(process)?;
        let sent = self
            .children
            .signal(process.key, signal)
            .context(|| format!("signalling `{}`", process.name))?;
        if sent {
            Ok(())
        } else {
            Err(self.has_ended(&server))
        }
    }

    fn has_ended(&self, server: &Server) -> LabError {
        LabError::Ended {
            process: server.process.name.clone(),
            how: self.children.exit(server.process.key).map_or_else(
                || "is just ending".to_owned(),
                |exit| how(exit, &server.host),
            ),
            output: server.spec.output.clone(),
            tail: tail(&server.spec.output, server.output_from),
        }
    }

    /// Reloads a server's configuration and waits until it is ready again.
    pub(super) fn reload(&self, process: &Process) -> Result<(), LabError> {
        let server = self.servers.get(process)?;
        let signal = server.spec.reload.ok_or_else(|| LabError::Unsupported {
            what: format!("reloading `{}`", process.name),
            why: "its specification names no reload signal; stop it and start it again".into(),
        })?;
        self.signal(process, signal)?;
        // Listeners stay open over a reload; what has to be seen is that the server survives it.
        self.children.wait(process.key, Instant::now() + POLL);
        self.wait_ready(&server)
    }

    /// How a server ended; `None` while it runs.
    pub(super) fn ended(&self, process: &Process) -> Result<Option<String>, LabError> {
        let server = self.servers.get(process)?;
        let exit = self.children.exit(process.key);
        Ok(exit.map(|exit| how(exit, &server.host)))
    }

    /// Stops a server: by its signal, and after its time by force. Nothing of it is left afterwards.
    pub(super) fn stop(&self, process: &Process) -> Result<Stopped, LabError> {
        let server = self.servers.get(process)?;
        if let Some(exit) = self.children.exit(process.key) {
            self.kill(&server);
            return Ok(Stopped::Before(how(exit, &server.host)));
        }
        self.children
            .signal(process.key, server.spec.stop)
            .context(|| format!("stopping `{}`", process.name))?;
        let deadline = Instant::now() + server.spec.stop_timeout;
        let in_time = self.children.wait(process.key, deadline).is_some();
        self.kill(&server);
        Ok(if in_time {
            Stopped::Gracefully
        } else {
            Stopped::Killed
        })
    }

    fn kill(&self, server: &Server) {
        kill_until_gone(|| {
            let all = ProcessEntry::all();
            let tree = server.root.tree(&all);
            let lives = |stat: &&ProcessEntry| tree.contains(&stat.pid) && !stat.is_dead();
            all.iter().filter(lives).cloned().collect()
        });
        // Dead is not yet collected, and only what is collected has ended.
        let soon = Instant::now() + Duration::from_secs(1);
        self.children.wait(server.process.key, soon);
    }
}

fn how(exit: Exit, host: &Host) -> String {
    format!("{exit}{}", host.memory_note())
}

/// Whether something accepts a connection, seen from the host itself.
fn accepts(host: &Host, address: &Address) -> Result<bool, LabError> {
    match address {
        Address::Tcp(address) => netns::inside(host.network(), || {
            TcpStream::connect_timeout(address, CONNECT_LIMIT).is_ok()
        }),
        Address::Unix(path) => Ok(UnixStream::connect(path).is_ok()),
    }
}

/// Opens the output file for appending, owned by the user that will write to it (programs open it again
/// through `/dev/stderr`). Returns its length too.
fn open_output(host: &Host, spec: &ProcessSpec) -> Result<(File, u64), LabError> {
    let path: &Path = &spec.output;
    let what = || {
        format!(
            "opening \"{}\" for the output of `{}`",
            path.display(),
            spec.name
        )
    };
    let account = users::account(spec.user.as_deref())?;
    let file = beneath::append(&host.info.dir, path, account.as_ref()).context(what)?;
    let length = file.metadata().context(what)?.len();
    Ok((file, length))
}
