//! The stage of the bench: a bridge, a namespace for each generator, one nginx and one nats-server, all of its own.

use anyhow::{Context as _, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Where nginx and the broker are: on the bridge.
const HOST: &str = "10.213.77.1";
const HTTP_PORT: u16 = 18_080;
const NATS_PORT: u16 = 14_222;
const PATIENCE: Duration = Duration::from_secs(30);
const PASSWORD: &str = "of-this-bench";

/// A program of the bench, ended with it.
pub(super) struct Program {
    child: Child,
    pub(super) said: Said,
}

/// What a program says on standard error, with the time of each line.
#[derive(Clone, Default)]
pub(super) struct Said(Arc<Mutex<Vec<(Instant, String)>>>);

impl Said {
    /// The lines so far.
    pub(super) fn lines(&self) -> Vec<(Instant, String)> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn hear(&self, stderr: ChildStderr) {
        let lines = Arc::clone(&self.0);
        thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                let mut lines = lines.lock().unwrap_or_else(PoisonError::into_inner);
                lines.push((Instant::now(), line));
            }
        });
    }
}

impl Program {
    pub(super) fn start(command: &mut Command) -> anyhow::Result<Self> {
        let name = command.get_program().to_string_lossy().into_owned();
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("`{name}` cannot be started; run scripts/install-deps"))?;
        let said = Said::default();
        if let Some(stderr) = child.stderr.take() {
            said.hear(stderr);
        }
        Ok(Self { child, said })
    }

    pub(super) fn signal(&self, signal: Signal) {
        let _ = kill_process(Pid::from_child(&self.child), signal);
    }

    /// Waits for its end.
    pub(super) fn wait(&mut self, patience: Duration) -> anyhow::Result<()> {
        let until = Instant::now() + patience;
        while self.child.try_wait()?.is_none() {
            ensure!(
                Instant::now() < until,
                "a program of the bench does not end"
            );
            thread::sleep(Duration::from_millis(20));
        }
        // Its last lines are read by then, or in a moment.
        thread::sleep(Duration::from_millis(100));
        Ok(())
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.signal(Signal::CONT);
        self.signal(Signal::TERM);
        let until = Instant::now() + Duration::from_secs(5);
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < until {
            thread::sleep(Duration::from_millis(20));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A page that nginx hands out in 1, 2 or 3 s (80, 19.5 and 0.5 % of the requests): a pause of one second after each part
/// of it. How crowded the machine is bears on such a time by a few milliseconds.
pub(super) const PACED: &str = "/paced.html";
const PACED_BYTES: usize = 12_000;
/// The head of a response counts for the pace, too; it has fewer bytes than that.
const HEADER_BYTES: usize = 500;

/// The stage.
pub(super) struct Stage {
    program: PathBuf,
    tag: String,
    hosts: usize,
    broker: Option<Program>,
    _nginx: Program,
    dir: TempDir,
    // Taken away last.
    _network: Network,
}

/// The namespaces and the bridge, taken away with the value.
struct Network {
    tag: String,
    hosts: usize,
}

impl Drop for Network {
    fn drop(&mut self) {
        for host in 0..self.hosts {
            let _ = ip(&format!("netns del {}-{host}", self.tag));
        }
        let _ = ip(&format!("link del {}", self.tag));
    }
}

fn ip(arguments: &str) -> anyhow::Result<()> {
    let output = Command::new("ip").args(arguments.split(' ')).output()?;
    if !output.status.success() {
        bail!(
            "ip {arguments}: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    Ok(())
}

impl Stage {
    /// Sets it up with so many hosts for generators.
    pub(super) fn set(program: &Path, hosts: usize) -> anyhow::Result<Self> {
        // Names of links have 15 characters at most.
        let tag = format!("kpg{}", std::process::id() % 100_000);
        let network = Network {
            tag: tag.clone(),
            hosts,
        };
        ip(&format!("link add {tag} type bridge"))?;
        ip(&format!("addr add {HOST}/24 dev {tag}"))?;
        ip(&format!("link set {tag} up"))?;
        for host in 0..hosts {
            let (name, here, address) =
                (format!("{tag}-{host}"), format!("{tag}v{host}"), 10 + host);
            ip(&format!("netns add {name}"))?;
            ip(&format!(
                "link add {here} type veth peer name eth0 netns {name}"
            ))?;
            ip(&format!("link set {here} master {tag} up"))?;
            ip(&format!(
                "-n {name} addr add 10.213.77.{address}/24 dev eth0"
            ))?;
            ip(&format!("-n {name} link set eth0 up"))?;
            ip(&format!("-n {name} link set lo up"))?;
        }
        let dir = tempfile::Builder::new()
            .prefix("kneepoint-agents-")
            .tempdir()?;
        let nginx = nginx(dir.path())?;
        let mut stage = Self {
            program: program.to_owned(),
            tag,
            hosts,
            broker: None,
            _nginx: nginx,
            dir,
            _network: network,
        };
        stage.start_broker()?;
        await_port(HTTP_PORT)?;
        Ok(stage)
    }

    /// Starts the broker, or starts it anew.
    pub(super) fn start_broker(&mut self) -> anyhow::Result<()> {
        self.broker = None;
        let mut command = Command::new("nats-server");
        command.args(["-a", HOST, "-p", &NATS_PORT.to_string()]);
        self.broker = Some(Program::start(
            command.args(["--user", "bench", "--pass", PASSWORD]),
        )?);
        await_port(NATS_PORT)
    }

    pub(super) fn kill_broker(&self) {
        if let Some(broker) = &self.broker {
            broker.signal(Signal::KILL);
        }
    }

    /// Starts so many agents, and waits until they wait for a load.
    pub(super) fn agents(&self, count: usize) -> anyhow::Result<Vec<Program>> {
        ensure!(count <= self.hosts, "there are {} hosts", self.hosts);
        let mut agents = Vec::new();
        for host in 0..count {
            let mut command = self.inside(host);
            command.args([
                "agent",
                "--nats",
                &nats(),
                "--name",
                &format!("g{host}"),
                "--i-own",
                HOST,
            ]);
            agents.push(Program::start(&mut command)?);
        }
        let until = Instant::now() + PATIENCE;
        let waits = |agent: &Program| {
            agent
                .said
                .lines()
                .iter()
                .any(|(_, line)| line.contains("waits for a load"))
        };
        while !agents.iter().all(waits) {
            ensure!(Instant::now() < until, "the agents do not get ready");
            thread::sleep(Duration::from_millis(50));
        }
        Ok(agents)
    }

    /// The program in the namespace of a host. `ip netns exec` becomes it, so that signals reach it.
    fn inside(&self, host: usize) -> Command {
        let mut command = Command::new("ip");
        command
            .args(["netns", "exec", &format!("{}-{host}", self.tag)])
            .arg(&self.program);
        command
    }

    /// `kneepoint load` of this schedule on a page, by so many agents, or by itself from the first host.
    pub(super) fn load(
        &self,
        page: &str,
        schedule: &str,
        agents: Option<usize>,
        arrivals: &str,
    ) -> Command {
        let mut command = match agents {
            Some(_) => Command::new(&self.program),
            None => self.inside(0),
        };
        command.args([
            "load",
            &format!("http://{HOST}:{HTTP_PORT}{page}"),
            "--i-own",
            HOST,
        ]);
        command.args([
            "-s",
            schedule,
            "--arrivals",
            arrivals,
            "--max-rate",
            "1000000",
            "--go-on",
            "--timeout",
            "10s",
            "--json",
        ]);
        command.arg(self.result());
        command.arg("--runs").arg(self.runs());
        if let Some(agents) = agents {
            command.args(["--agents", &agents.to_string(), "--nats", &nats()]);
        }
        command
    }

    /// Where a load's result is written.
    pub(super) fn result(&self) -> PathBuf {
        self.dir.path().join("result.json")
    }

    /// Where run files are written.
    pub(super) fn runs(&self) -> PathBuf {
        self.dir.path().join("runs")
    }

    /// Cuts a host's network.
    pub(super) fn cut(&self, host: usize) -> anyhow::Result<()> {
        ip(&format!("link set {}v{host} down", self.tag))
    }

    /// And mends it.
    pub(super) fn mend(&self, host: usize) -> anyhow::Result<()> {
        ip(&format!("link set {}v{host} up", self.tag))
    }

    /// When nginx logged its last request, in seconds since 1970.
    pub(super) fn last_request_s(&self) -> anyhow::Result<f64> {
        let log = fs::read_to_string(self.dir.path().join("access.log"))?;
        let last = log
            .lines()
            .next_back()
            .context("nginx has logged nothing")?;
        Ok(last.trim().parse()?)
    }
}

fn nats() -> String {
    format!("nats://bench:{PASSWORD}@{HOST}:{NATS_PORT}")
}

fn nginx(dir: &Path) -> anyhow::Result<Program> {
    fs::create_dir(dir.join("public"))?;
    fs::write(dir.join("public/index.html"), "hello\n")?;
    fs::write(dir.join("public/paced.html"), "x".repeat(PACED_BYTES))?;
    let root = dir.display();
    let text = format!(
        "daemon off; worker_processes 1; pid {root}/pid; error_log {root}/error.log;\n\
         events {{ worker_connections 4000; }}\n\
         http {{ log_format t $msec; access_log {root}/access.log t; client_body_temp_path {root}/body;\n\
         proxy_temp_path {root}/proxy; fastcgi_temp_path {root}/fastcgi; uwsgi_temp_path {root}/uwsgi;\n\
         scgi_temp_path {root}/scgi; keepalive_requests 1000000;\n\
         split_clients $request_id $pace {{ 80% {}; 19.5% {}; * {}; }}\n\
         server {{ listen {HOST}:{HTTP_PORT}; root {root}/public; location = {PACED} {{ limit_rate $pace; }} }} }}\n",
        PACED_BYTES / 2 + HEADER_BYTES,
        PACED_BYTES / 3 + HEADER_BYTES,
        PACED_BYTES / 4 + HEADER_BYTES,
    );
    fs::write(dir.join("nginx.conf"), text)?;
    let mut command = Command::new("nginx");
    Program::start(
        command
            .arg("-p")
            .arg(dir)
            .arg("-c")
            .arg(dir.join("nginx.conf")),
    )
}

fn await_port(port: u16) -> anyhow::Result<()> {
    let until = Instant::now() + PATIENCE;
    while TcpStream::connect((HOST, port)).is_err() {
        ensure!(Instant::now() < until, "nothing listens on {HOST}:{port}");
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}
