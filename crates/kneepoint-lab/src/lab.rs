//! A running lab, as its owner sees it.

mod client;
pub(crate) mod commands;
pub(crate) mod helper;

use crate::LabError;
use crate::beneath;
use crate::error::Context as _;
use crate::identity::Identity;
use crate::identity::users;
use crate::isolation::cgroup::Cgroups;
use crate::isolation::netns;
use crate::keeper::ARGUMENT;
use crate::plan::{Capabilities, HostInfo, HostPlan, LabPlan, Process, Stopped};
use crate::protocol::{Answer, Begun, Request};
use crate::record::{LabId, base_dir};
use crate::traces::{Removed, erase};
use client::{Client, misunderstood};
use commands::HostCommands;
use kneepoint_model::{CommandOutput, CommandSpec, ProcessSpec, Signal};
use rustix::process::{Pid, Signal as System, kill_process};
use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::net::{IpAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Component, Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long the keeper may take to remove everything. Longer than it waits for dying processes.
const END_LIMIT: Duration = Duration::from_secs(30);

/// A running lab. Everything in it is gone when it is dropped, and when this process ends in any other way.
///
/// It may be used from several threads at once; each request waits for its own answer only.
pub struct Lab {
    client: Client,
    keeper: Mutex<Child>,
    id: LabId,
    id_text: String,
    dir: PathBuf,
    base: PathBuf,
    capabilities: Capabilities,
    hosts: Mutex<BTreeMap<String, HostInfo>>,
    ports: Mutex<HashSet<u16>>,
    ending: Arc<AtomicBool>,
    ended: bool,
}

impl std::fmt::Debug for Lab {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Lab({}, {})", self.id_text, self.dir.display())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes what a dead keeper could not.
fn erase_after(id: LabId, base: &Path) -> Vec<Removed> {
    let dir = base.join(id.directory_name());
    erase(id, Some(&dir), &Cgroups::detect())
}

impl Lab {
    /// Starts a lab with its first hosts. Without root it works on loopback; see [`Lab::capabilities`].
    ///
    /// # Errors
    /// The plan is wrong, the keeper did not start, or a host could not be made. Nothing is left then.
    pub fn start(plan: LabPlan) -> Result<Self, LabError> {
        plan.check()?;
        let (stream, child) = start_keeper()?;
        let no_keeper = |why: &str| LabError::NoKeeper { why: why.into() };
        let keeper = Identity::of(child.id()).ok_or_else(|| no_keeper("it is not in /proc"))?;
        let id = LabId::of_keeper(keeper);
        let ending = Arc::new(AtomicBool::new(false));
        let shared = Arc::clone(&ending);
        let base = base_dir();
        let hung_up_base = base.clone();
        let hung_up = move || {
            if !shared.load(Ordering::SeqCst) {
                erase_after(id, &hung_up_base);
            }
        };
        let client = Client::new(stream, hung_up).context(|| "starting a thread".into())?;
        let owner = Identity::own().ok_or_else(|| no_keeper("/proc is not mounted"))?;
        let mut lab = Self {
            client,
            keeper: Mutex::new(child),
            id,
            id_text: id.to_string(),
            dir: PathBuf::new(),
            base: base.clone(),
            capabilities: Capabilities::default(),
            hosts: Mutex::default(),
            ports: Mutex::default(),
            ending,
            ended: false,
        };
        match lab.ask(Request::Begin { plan, owner, base }) {
            Ok(Answer::Begun(begun)) => lab.accept(*begun),
            Ok(other) => return Err(misunderstood(&other)),
            Err(LabError::KeeperLost { .. }) => {
                return Err(no_keeper(
                    "it ended at once; does `main` call kneepoint_lab::keeper_entry() first?",
                ));
            }
            Err(error) => return Err(error),
        }
        Ok(lab)
    }

    fn accept(&mut self, begun: Begun) {
        self.dir = begun.dir;
        self.capabilities = begun.capabilities;
        let hosts = begun.hosts.into_iter();
        *lock(&self.hosts) = hosts.map(|host| (host.name.clone(), host)).collect();
    }

    fn ask(&self, request: Request) -> Result<Answer, LabError> {
        self.client.ask(&self.id_text, request, None)
    }

    /// The lab's id, as in the names of its directory and control groups.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id_text
    }

    /// The lab's directory; it is removed with the lab.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The group with which a user who is not root passes through to [`Lab::dir`]; nobody on the machine is in it.
    #[must_use]
    pub fn passing_group(&self) -> Option<u32> {
        let above = std::fs::metadata(self.dir.parent()?).ok()?;
        Some(std::os::unix::fs::MetadataExt::gid(&above))
    }

    /// The process id of the keeper.
    #[must_use]
    pub fn keeper_pid(&self) -> u32 {
        self.id.keeper().pid
    }

    /// What this lab can do, and what is missing and why.
    #[must_use]
    pub fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    /// A host by name.
    #[must_use]
    pub fn host(&self, name: &str) -> Option<HostInfo> {
        lock(&self.hosts).get(name).cloned()
    }

    fn known(&self, name: &str) -> Result<HostInfo, LabError> {
        self.host(name).ok_or_else(|| LabError::UnknownHost {
            name: name.to_owned(),
            known: lock(&self.hosts)
                .keys()
                .cloned()
                .collect::<Vec<_>>()
                .join(", "),
        })
    }

    /// Adds a host.
    ///
    /// # Errors
    /// The name is taken or no name, or the system refused a part of it; nothing of it is left then.
    pub fn add_host(&self, plan: HostPlan) -> Result<HostInfo, LabError> {
        match self.ask(Request::AddHost { plan })? {
            Answer::Host(host) => {
                lock(&self.hosts).insert(host.name.clone(), (*host).clone());
                Ok(*host)
            }
            other => Err(misunderstood(&other)),
        }
    }

    /// Kills what runs on a host and removes its network, control group and directory.
    ///
    /// # Errors
    /// No such host, or something of it could not be removed.
    pub fn remove_host(&self, name: &str) -> Result<(), LabError> {
        let host = name.to_owned();
        self.client
            .order(&self.id_text, Request::RemoveHost { host })?;
        lock(&self.hosts).remove(name);
        Ok(())
    }

    /// Starts a server on a host and waits until it is ready.
    ///
    /// # Errors
    /// Its program, user or directory is missing, its address is taken, or it did not become ready: then the
    /// error quotes how it ended and the last lines it printed, and nothing of it is left.
    pub fn spawn(&self, host: &str, spec: &ProcessSpec) -> Result<Process, LabError> {
        let request = Request::Spawn {
            host: host.to_owned(),
            spec: Box::new(spec.clone()),
        };
        match self.ask(request)? {
            Answer::Process(process) => Ok(process),
            other => Err(misunderstood(&other)),
        }
    }

    /// Runs a command on a host to its end.
    ///
    /// # Errors
    /// It could not be started, or did not end in time and was killed. A command that ran and failed is no
    /// error: look at [`CommandOutput::code`].
    pub fn exec(&self, host: &str, command: &CommandSpec) -> Result<CommandOutput, LabError> {
        let request = Request::Exec {
            host: host.to_owned(),
            command: command.clone(),
        };
        match self.ask(request)? {
            Answer::Output(output) => Ok(output),
            other => Err(misunderstood(&other)),
        }
    }

    /// The commands of one host, for code that knows no lab.
    #[must_use]
    pub fn commands(&self, host: &str) -> HostCommands<'_> {
        HostCommands::new(self, host)
    }

    /// Sends a signal to the first process of a server (not to its workers).
    ///
    /// # Errors
    /// It has ended; the error says how.
    pub fn signal(&self, process: &Process, signal: Signal) -> Result<(), LabError> {
        let process = process.clone();
        let request = Request::Signal { process, signal };
        self.client.order(&self.id_text, request)
    }

    /// Has a server read its configuration again, and waits until it is ready.
    ///
    /// # Errors
    /// It names no reload signal, or it did not survive the reload; the error quotes its last lines.
    pub fn reload(&self, process: &Process) -> Result<(), LabError> {
        let process = process.clone();
        self.client
            .order(&self.id_text, Request::Reload { process })
    }

    /// Stops a server gracefully, and by force when it takes longer than it said. Nothing of it is left.
    ///
    /// # Errors
    /// Its host was removed.
    pub fn stop_process(&self, process: &Process) -> Result<Stopped, LabError> {
        let process = process.clone();
        match self.ask(Request::Stop { process })? {
            Answer::Stopped(stopped) => Ok(stopped),
            other => Err(misunderstood(&other)),
        }
    }

    /// How a server ended (`exited with code 1`); `None` while it runs.
    ///
    /// # Errors
    /// Its host was removed.
    pub fn ended(&self, process: &Process) -> Result<Option<String>, LabError> {
        let process = process.clone();
        match self.ask(Request::Ended { process })? {
            Answer::Ended(words) => Ok(words),
            other => Err(misunderstood(&other)),
        }
    }

    /// Changes a kernel setting of a host that runs. Sockets that exist may keep the old value.
    ///
    /// # Errors
    /// The setting belongs to the whole machine, this kernel has it not or refuses the value, or the lab has
    /// no namespaces.
    pub fn set_sysctl(&self, host: &str, name: &str, value: &str) -> Result<(), LabError> {
        let request = Request::SetSysctl {
            host: host.to_owned(),
            name: name.to_owned(),
            value: value.to_owned(),
        };
        self.client.order(&self.id_text, request)
    }

    /// Reads a kernel setting of a host, fields separated by single spaces.
    ///
    /// # Errors
    /// As for [`Lab::set_sysctl`].
    pub fn sysctl(&self, host: &str, name: &str) -> Result<String, LabError> {
        let request = Request::GetSysctl {
            host: host.to_owned(),
            name: name.to_owned(),
        };
        match self.ask(request)? {
            Answer::Value(value) => Ok(value),
            other => Err(misunderstood(&other)),
        }
    }

    /// Asks the kernel of a host to end its closed connections (TIME_WAIT) now: the same as a minute of waiting. A
    /// kernel that cannot (before 6.0, or built without `INET_DIAG_DESTROY`) and a machine without `ss` leave them
    /// as they are, which is no error: who needs the ports looks whether they are free. Does nothing on a host that
    /// shares the machine's network.
    ///
    /// # Errors
    /// The host is gone, or the lab does not answer.
    pub fn forget_closed_connections(&self, host: &str) -> Result<(), LabError> {
        if self.host(host).is_some_and(|host| host.netns.is_none()) {
            return Ok(());
        }
        // Each connection that ends is printed: tens of thousands of lines that nobody reads.
        let script = "ss -K -H -t -a -n state time-wait >/dev/null 2>&1";
        self.exec(host, &CommandSpec::new("/bin/sh").args(["-c", script]))?;
        Ok(())
    }

    /// Changes the CPU limit of a host that runs, in cores.
    ///
    /// # Errors
    /// Not a number of cores, or the lab has no control groups.
    pub fn set_cpus(&self, host: &str, cpus: f64) -> Result<(), LabError> {
        let request = Request::SetCpus {
            host: host.to_owned(),
            cpus,
        };
        match self.ask(request)? {
            Answer::Value(value) => {
                if let (Some(info), Ok(cpus)) = (lock(&self.hosts).get_mut(host), value.parse()) {
                    info.cpus = cpus;
                }
                Ok(())
            }
            other => Err(misunderstood(&other)),
        }
    }

    /// A TCP port on a host's address that nothing listens on. The lab never names the same one twice.
    ///
    /// # Errors
    /// No such host, or no free port.
    pub fn free_port(&self, host: &str) -> Result<u16, LabError> {
        let host = self.known(host)?;
        let what = || format!("looking for a free port on host `{}`", host.name);
        let netns: Option<OwnedFd> = match &host.netns {
            Some(path) => Some(File::open(path).context(what)?.into()),
            None => None,
        };
        let free = |address: IpAddr| {
            let port = TcpListener::bind((address, 0))?.local_addr()?.port();
            Ok::<u16, std::io::Error>(port)
        };
        let mut last = 0;
        for _ in 0..64 {
            last = netns::inside(netns.as_ref(), || free(host.address))?.context(what)?;
            if lock(&self.ports).insert(last) {
                return Ok(last);
            }
        }
        Err(LabError::Unsupported {
            what: what(),
            why: format!("the system keeps offering port {last}, which is promised already"),
        })
    }

    /// Makes a directory below a host's own, given to a user who is to write there.
    ///
    /// # Errors
    /// The path leads elsewhere, the user does not exist, or the system refused.
    pub fn make_dir(
        &self,
        host: &str,
        relative: &str,
        user: Option<&str>,
    ) -> Result<PathBuf, LabError> {
        let host = self.known(host)?;
        let inside = |it: Component<'_>| matches!(it, Component::Normal(_));
        if !Path::new(relative).components().all(inside) {
            return Err(LabError::bad_plan(format!(
                "`{relative}` is not a path below the directory of host `{}`",
                host.name
            )));
        }
        let dir = host.dir.join(relative);
        let what = || format!("making the directory \"{}\"", dir.display());
        let account = users::account(user)?;
        beneath::make_dir(&host.dir, &dir, account.as_ref()).context(what)?;
        Ok(dir)
    }

    /// Ends the lab and waits until nothing of it is left.
    ///
    /// # Errors
    /// Something could not be removed; the error names it.
    pub fn stop(mut self) -> Result<(), LabError> {
        self.end()
    }

    fn end(&mut self) -> Result<(), LabError> {
        if std::mem::replace(&mut self.ended, true) {
            return Ok(());
        }
        self.ending.store(true, Ordering::SeqCst);
        // One that somebody stopped could not clean up. It is not collected yet, so the number is its own.
        let keeper = i32::try_from(lock(&self.keeper).id())
            .ok()
            .and_then(Pid::from_raw);
        let _ = keeper.map(|keeper| kill_process(keeper, System::CONT));
        let answer = self
            .client
            .ask(&self.id_text, Request::End, Some(END_LIMIT));
        self.client.hang_up();
        let orderly = collect(&mut lock(&self.keeper)) && answer.is_ok();
        if orderly {
            return Ok(());
        }
        let failed = erase_after(self.id, &self.base)
            .into_iter()
            .find_map(|it| match it {
                Removed::Failed(what) => Some(what),
                _ => None,
            });
        failed.map_or(Ok(()), |why| {
            Err(LabError::System {
                what: format!("removing lab {}", self.id_text),
                why,
                advice: String::new(),
            })
        })
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        // Nobody is left to be told; `lab clean` finds what could not be removed.
        let _ = self.end();
    }
}

/// Starts this program once more as a keeper, with a socket as its standard input.
fn start_keeper() -> Result<(UnixStream, Child), LabError> {
    if std::env::args_os()
        .nth(1)
        .is_some_and(|arg| arg == ARGUMENT)
    {
        return Err(LabError::NoKeeper {
            why: "`main` must call kneepoint_lab::keeper_entry() before anything else".into(),
        });
    }
    let what = || "starting the lab's keeper process".into();
    let (ours, theirs) = UnixStream::pair().context(what)?;
    let child = Command::new("/proc/self/exe")
        .arg0("kneepoint-keeper")
        .arg(ARGUMENT)
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .context(what)?;
    Ok((ours, child))
}

/// Waits for the keeper, which has been told to end, and kills it when it does not. True when it ended by
/// itself.
fn collect(keeper: &mut Child) -> bool {
    let deadline = Instant::now() + END_LIMIT;
    loop {
        match keeper.try_wait() {
            Ok(Some(status)) => return status.success(),
            Ok(None) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(2)),
            _ => {
                // It can only have ended in between, which is what is wanted.
                let _ = keeper.kill();
                let _ = keeper.wait();
                return false;
            }
        }
    }
}
