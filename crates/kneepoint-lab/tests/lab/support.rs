//! Labs and servers for the tests, and what the system shows of them, read without the lab's own code.

use kneepoint_lab::{HostInfo, HostPlan, Lab, LabPlan};
use kneepoint_model::{Address, CommandSpec, ProcessSpec, Ready, Signal};
use std::collections::BTreeSet;
use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

pub(crate) fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|metadata| metadata.uid() == 0)
}

/// A lab with hosts of these names and no limits.
pub(crate) fn lab(hosts: &[&str]) -> Lab {
    Lab::start(plan(hosts)).expect("the lab starts")
}

pub(crate) fn plan(hosts: &[&str]) -> LabPlan {
    LabPlan {
        name: "test".into(),
        hosts: hosts.iter().map(|name| HostPlan::new(name)).collect(),
        loopback: false,
    }
}

pub(crate) fn host(lab: &Lab, name: &str) -> HostInfo {
    lab.host(name).expect("the host is there")
}

pub(crate) fn sh(script: &str) -> CommandSpec {
    CommandSpec::new("/bin/sh").args(["-c", script])
}

/// A server from a shell script, ready at once.
pub(crate) fn script(host: &HostInfo, script: &str) -> ProcessSpec {
    ProcessSpec {
        name: "script".into(),
        program: "/bin/sh".into(),
        args: vec!["-c".into(), script.into()],
        env: Vec::new(),
        dir: host.dir.clone(),
        user: None,
        output: host.dir.join("script.out"),
        ready: Ready::Immediately,
        ready_timeout: Duration::from_secs(60),
        reload: None,
        stop: Signal::Term,
        stop_timeout: Duration::from_secs(10),
    }
}

/// Redis on a host's address.
pub(crate) fn redis(host: &HostInfo, port: u16) -> ProcessSpec {
    let address = SocketAddr::new(host.address, port);
    ProcessSpec {
        name: "redis".into(),
        program: "/usr/bin/redis-server".into(),
        args: [
            "--bind",
            &host.address.to_string(),
            "--port",
            &port.to_string(),
            "--save",
            "",
        ]
        .map(str::to_owned)
        .to_vec(),
        output: host.dir.join("redis.out"),
        ready: Ready::Connects(Address::Tcp(address)),
        ..script(host, "")
    }
}

/// nginx on a host's address with two workers, from a configuration it writes there.
pub(crate) fn nginx(host: &HostInfo, port: u16) -> ProcessSpec {
    let dir = host.dir.display();
    let config = host.dir.join("nginx.conf");
    let address = SocketAddr::new(host.address, port);
    let text = format!(
        "daemon off; worker_processes 2; pid {dir}/nginx.pid; error_log stderr notice;\n\
         events {{}}\n\
         http {{ access_log off; client_body_temp_path {dir}/body; proxy_temp_path {dir}/proxy;\n\
         fastcgi_temp_path {dir}/fcgi; uwsgi_temp_path {dir}/uwsgi; scgi_temp_path {dir}/scgi;\n\
         server {{ listen {address}; location / {{ return 200 'lab\\n'; }} }} }}\n"
    );
    fs::write(&config, text).expect("the configuration is written");
    ProcessSpec {
        name: "nginx".into(),
        program: "/usr/sbin/nginx".into(),
        args: vec![
            "-e".into(),
            "stderr".into(),
            "-c".into(),
            config.display().to_string(),
        ],
        output: host.dir.join("nginx.out"),
        ready: Ready::Connects(Address::Tcp(address)),
        reload: Some(Signal::Hup),
        stop: Signal::Quit,
        ..script(host, "")
    }
}

/// A process as `/proc` shows it.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) pid: u32,
    pub(crate) name: String,
    pub(crate) parent: u32,
    session: u32,
    state: char,
    start_ticks: u64,
    environ: String,
    netns: String,
}

pub(crate) fn processes() -> Vec<Seen> {
    let entries = fs::read_dir("/proc").expect("/proc is mounted");
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter_map(seen)
        .collect()
}

pub(crate) fn seen(pid: u32) -> Option<Seen> {
    let dir = PathBuf::from(format!("/proc/{pid}"));
    let text = fs::read_to_string(dir.join("stat")).ok()?;
    let (head, tail) = text.rsplit_once(')')?;
    let fields: Vec<&str> = tail.split_whitespace().collect();
    let link = fs::read_link(dir.join("ns/net")).unwrap_or_default();
    Some(Seen {
        pid,
        name: head.split_once('(')?.1.to_owned(),
        parent: fields.get(1)?.parse().ok()?,
        session: fields.get(3)?.parse().ok()?,
        state: fields.first()?.chars().next()?,
        start_ticks: fields.get(19)?.parse().ok()?,
        environ: String::from_utf8_lossy(&fs::read(dir.join("environ")).unwrap_or_default())
            .into_owned(),
        netns: link.display().to_string(),
    })
}

impl Seen {
    pub(crate) fn has_variable(&self, name: &str, value: &str) -> bool {
        let wanted = format!("{name}={value}");
        self.environ.split('\0').any(|entry| entry == wanted)
    }

    pub(crate) fn lives(&self) -> bool {
        self.state != 'Z'
    }

    /// The id of the lab whose keeper this process is.
    pub(crate) fn lab_id(&self) -> String {
        format!("{}-{:x}", self.pid, self.start_ticks)
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.state == 'T'
    }
}

/// The keeper's process id within a lab's id.
pub(crate) fn keeper_of(id: &str) -> u32 {
    let pid = id.split('-').next().and_then(|pid| pid.parse().ok());
    pid.expect("an id begins with the keeper's pid")
}

/// The network namespaces a keeper holds, as links like `net:[4026532001]`.
pub(crate) fn namespaces_of(keeper: u32) -> BTreeSet<String> {
    fs::read_dir(format!("/proc/{keeper}/fd"))
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| Some(fs::read_link(entry.path()).ok()?.display().to_string()))
        .filter(|link| link.starts_with("net:["))
        .collect()
}

/// Everything that is left of a lab, in words.
pub(crate) fn left_of(id: &str, base: &Path, namespaces: &BTreeSet<String>) -> Vec<String> {
    let keeper = keeper_of(id);
    let mut left: Vec<String> = processes()
        .into_iter()
        .filter(Seen::lives)
        .filter(|it| {
            it.pid == keeper
                || it.session == keeper
                || it.parent == keeper
                || it.has_variable("KNEEPOINT_LAB", id)
                || namespaces.contains(&it.netns)
        })
        .map(|it| format!("process {} ({})", it.pid, it.name))
        .collect();
    let name = format!("kneepoint-{id}");
    let roots = fs::read_dir("/sys/fs/cgroup")
        .into_iter()
        .flatten()
        .flatten();
    left.extend(
        roots
            .map(|root| root.path().join(&name))
            .chain([Path::new("/sys/fs/cgroup").join(&name), base.join(&name)])
            .filter(|path| path.exists())
            .map(|path| format!("directory {}", path.display())),
    );
    let mounts = fs::read_to_string("/proc/self/mounts").expect("readable");
    left.extend(
        mounts
            .lines()
            .filter(|line| line.contains(&name))
            .map(|line| format!("mount {line}")),
    );
    left
}

/// Waits until nothing is left of a lab; says what is, if that does not come.
pub(crate) fn assert_nothing_left(id: &str, base: &Path, namespaces: &BTreeSet<String>) {
    let nothing = || left_of(id, base, namespaces).is_empty();
    if !eventually(nothing) {
        panic!("left of lab {id}: {:#?}", left_of(id, base, namespaces));
    }
}

/// Whether something becomes true in a time that is only there to end the test.
pub(crate) fn eventually(mut what: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        if what() {
            return true;
        }
        if Instant::now() > deadline {
            return false;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}
