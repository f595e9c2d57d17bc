//! Starts rendered tiers as real programs, and ends them by their process id.

#[path = "../../../../tests/ports.rs"]
mod ports;

use kneepoint_model::{
    Address, CommandOutput, CommandSpec, Commands, Layer, ProcessSpec, Ready, Signal,
};
use kneepoint_stack::{AppContext, RenderedTier, Server, TierContext, install, server};
use ports::free_port;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Commands on this machine, for tests.
pub(crate) struct Local;

impl Commands for Local {
    fn run(&self, spec: &CommandSpec) -> Result<CommandOutput, String> {
        let mut command = Command::new(&spec.program);
        command
            .args(&spec.args)
            .envs(spec.env.iter().map(|(name, value)| (name, value)))
            .current_dir(spec.dir.as_deref().unwrap_or(Path::new("/")))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        become_user(&mut command, spec.user.as_deref());
        let mut child = command
            .spawn()
            .map_err(|error| format!("{}: {error}", spec.program.display()))?;
        let text = spec.stdin.clone().unwrap_or_default();
        let mut stdin = child.stdin.take().expect("it was piped");
        // A command that does not read its input closes it; that is its right.
        let _ = stdin.write_all(text.as_bytes());
        drop(stdin);
        let output = child
            .wait_with_output()
            .map_err(|error| error.to_string())?;
        Ok(CommandOutput {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        })
    }
}

fn become_user(command: &mut Command, user: Option<&str>) {
    let Some(user) = user else { return };
    let passwd = std::fs::read_to_string("/etc/passwd").expect("there are users");
    let line = passwd
        .lines()
        .find(|line| line.starts_with(&format!("{user}:")))
        .unwrap_or_else(|| panic!("this machine has no user {user}"));
    let id = |at| {
        line.split(':')
            .nth(at)
            .and_then(|id| id.parse().ok())
            .expect("an id")
    };
    command.uid(id(2)).gid(id(3));
}

/// A private directory that servers with users of their own can reach.
pub(crate) fn temp_dir() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a temporary directory");
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).expect("access");
    dir
}

/// The context of a real tier on loopback.
pub(crate) fn real(
    kind: &str,
    layer: Layer,
    dir: &Path,
    app: &Path,
) -> (&'static dyn Server, TierContext) {
    let server = server(kind).expect("a known server");
    let program = server.find(&Local).expect("the program is installed");
    let as_root = std::fs::metadata("/proc/self").expect("proc").uid() == 0;
    let context = TierContext {
        dir: dir.join(format!("{layer}")),
        address: [127, 0, 0, 1].into(),
        port: Some(free_port()),
        app: AppContext {
            root: app.to_owned(),
            front: "index.php".into(),
            ..AppContext::default()
        },
        cpus: 1.0,
        own_network: false,
        as_root,
        ..super::context(layer, program)
    };
    (server, context)
}

/// A started tier; it ends with the test.
pub(crate) struct Running {
    pub(crate) tier: RenderedTier,
    child: Child,
    spec: ProcessSpec,
}

impl Running {
    /// Installs, prepares, checks, starts and seeds a tier.
    pub(crate) fn start(server: &dyn Server, context: &TierContext) -> Self {
        let mut context = context.clone();
        if let Some(config) = context.config.take() {
            let gathered = server.gathered(config, &context.program);
            context.config = Some(gathered.expect("includes are found"));
        }
        let tier = server.render(&context).expect("renders");
        install(&tier).expect("installs");
        run_all(&tier.prepare);
        server
            .check(&tier, &Local)
            .expect("passes the program's own check");
        Self::run(tier)
    }

    /// Starts and seeds a tier that is installed and prepared.
    pub(crate) fn run(tier: RenderedTier) -> Self {
        let spec = tier.process.clone();
        let output = std::fs::File::create(&spec.output).expect("the output file");
        let mut command = Command::new(&spec.program);
        command
            .args(&spec.args)
            .env_clear()
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .envs(spec.env.iter().map(|(name, value)| (name, value)))
            .current_dir(&spec.dir)
            .stdin(Stdio::null())
            .stdout(output.try_clone().expect("a second handle"))
            .stderr(output)
            // As in the lab: Apache ends all of its group when it ends.
            .process_group(0);
        become_user(&mut command, spec.user.as_deref());
        let child = command.spawn().expect("starts");
        let mut running = Self { tier, child, spec };
        running.await_ready();
        run_all(&running.tier.seed);
        running
    }

    fn await_ready(&mut self) {
        let end = Instant::now() + self.spec.ready_timeout;
        while !is_ready(&self.spec.ready) {
            let ended = self.child.try_wait().expect("its state");
            let said = || std::fs::read_to_string(&self.spec.output).unwrap_or_default();
            assert!(ended.is_none(), "{} ended: {}", self.spec.name, said());
            assert!(
                Instant::now() < end,
                "{} is not ready: {}",
                self.spec.name,
                said()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Installs a changed rendering over the running one and reloads.
    pub(crate) fn reload(&mut self, server: &dyn Server, context: &TierContext) {
        self.tier = server.render(context).expect("renders");
        install(&self.tier).expect("installs");
        server
            .check(&self.tier, &Local)
            .expect("passes the program's own check");
        let signal = self.spec.reload.expect("it can reload");
        self.signal(signal);
    }

    fn signal(&self, signal: Signal) {
        let name = format!("-{signal:?}").to_uppercase();
        let pid = self.child.id().to_string();
        let status = Command::new("/bin/kill")
            .args([&name, &pid])
            .status()
            .expect("kill runs");
        assert!(status.success());
    }

    pub(crate) fn child_pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.signal(self.spec.stop);
        let end = Instant::now() + self.spec.stop_timeout + Duration::from_secs(5);
        while Instant::now() < end {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn run_all(commands: &[CommandSpec]) {
    for command in commands {
        let output = Local.run(command).expect("runs");
        assert!(output.success(), "{command:?}: {output:?}");
    }
}

fn is_ready(ready: &Ready) -> bool {
    match ready {
        Ready::Connects(Address::Tcp(address)) => TcpStream::connect(address).is_ok(),
        Ready::Connects(Address::Unix(path)) => UnixStream::connect(path).is_ok(),
        Ready::Command(command) => Local.run(command).is_ok_and(|output| output.success()),
        Ready::Immediately => true,
    }
}

/// A stream to an address.
pub(crate) fn connect(address: &Address) -> Box<dyn Stream> {
    match address {
        Address::Tcp(address) => Box::new(TcpStream::connect(address).expect("connects")),
        Address::Unix(path) => Box::new(UnixStream::connect(path).expect("connects")),
    }
}

/// What both kinds of sockets can do.
pub(crate) trait Stream: Read + Write {}
impl<T: Read + Write> Stream for T {}

/// One HTTP/1.0 request; the response with its headers.
pub(crate) fn http(address: &Address, path: &str) -> String {
    let mut stream = connect(address);
    write!(stream, "GET {path} HTTP/1.0\r\nHost: shop.example\r\n\r\n").expect("sends");
    let mut response = String::new();
    stream
        .read_to_string(&mut response)
        .expect("answers in text");
    response
}

/// Repeats a question until the answer passes, for at most ten seconds.
pub(crate) fn eventually<T>(mut ask: impl FnMut() -> T, passes: impl Fn(&T) -> bool) -> T {
    let end = Instant::now() + Duration::from_secs(10);
    loop {
        let answer = ask();
        if passes(&answer) || Instant::now() > end {
            return answer;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// What the application of these tests answers.
pub(crate) const HELLO: &str = "<?php echo 'hello ', $_SERVER['SCRIPT_NAME'], ' ', $_SERVER['PATH_INFO'] ?? '', ' ', getenv('DB_HOST');";

/// An application of one script and one page.
pub(crate) fn app(dir: &Path) -> std::path::PathBuf {
    let app = dir.join("app");
    std::fs::create_dir(&app).expect("a directory");
    let script = app.join("index.php");
    std::fs::write(&script, HELLO).expect("a script");
    // OPcache does not keep a file that changed within the last two seconds (opcache.file_update_protection).
    let file = std::fs::File::options()
        .write(true)
        .open(&script)
        .expect("the script");
    let past = std::time::SystemTime::now() - Duration::from_secs(3600);
    file.set_modified(past).expect("its time");
    std::fs::write(app.join("static.html"), "a static page").expect("a page");
    app
}
