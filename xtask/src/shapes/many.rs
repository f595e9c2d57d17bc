//! A host with fifty pools of six workers: what looking at it costs, and what watching it costs.
//!
//! All workers are idle first, then all are busy and each pool has a queue: at saturation the watch must still count
//! right, and still cost less than a hundredth of a core.

use super::shape::{Shape, Twin};
use super::twin::apart;
use anyhow::{Context as _, ensure};
use serde::{Deserialize, Serialize};
use std::fmt::{self, Write as _};
use std::fs::{self, File};
use std::io::Write as _;
use std::net::TcpStream;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

/// Pools, and workers of each.
const POOLS: usize = 50;
const WORKERS: usize = 6;
/// Requests of each pool at saturation: as many as there are workers, and these that wait.
const WAITING: usize = 2;
/// The share of one core that the watch may take.
const MOST_SHARE: f64 = 0.01;
/// How long the watch may take until it serves its first moment.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long a request holds its worker: longer than the bench lasts.
const HELD_S: u64 = 3600;
/// The result, in the directory of the machine.
const RESULT: &str = "many.json";
/// Where the watch serves its metrics.
const METRICS: &str = "127.0.0.1:9753";
/// Ticks of a second in `/proc` (proc(5): always 100 on Linux).
const TICKS_HZ: f64 = 100.0;

/// What was measured.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
struct Measured {
    /// Of `check`, in seconds: wall time and CPU time.
    check_s: f64,
    check_cpu_s: f64,
    /// Of `watch`, over workers that are idle and over those that are busy.
    idle: Phase,
    busy: Phase,
}

/// A stretch of watching.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
struct Phase {
    /// CPU time of its first look at everything, in seconds.
    first_cpu_s: f64,
    /// From then on.
    watched_s: f64,
    cpu_s: f64,
    /// What the watch says of all pools at the end.
    busy: f64,
    idle: f64,
    queued: f64,
    /// Time between two of its looks, in seconds.
    every_s: f64,
}

impl Phase {
    fn share(&self) -> f64 {
        self.cpu_s / self.watched_s.max(1e-3)
    }
}

impl Measured {
    fn is_right(&self) -> bool {
        let all = (POOLS * WORKERS) as f64;
        let counted = (self.idle.idle, self.idle.busy) == (all, 0.0)
            && (self.busy.idle, self.busy.busy) == (0.0, all)
            && self.busy.queued == (POOLS * WAITING) as f64;
        counted && self.idle.share() < MOST_SHARE && self.busy.share() < MOST_SHARE
    }
}

impl fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} workers in {POOLS} pools\ncheck               {:.2} s, {:.2} s of CPU",
            POOLS * WORKERS,
            self.check_s,
            self.check_cpu_s
        )?;
        for (name, phase) in [
            ("watch, all idle", &self.idle),
            ("watch, all busy", &self.busy),
        ] {
            writeln!(
                f,
                "{name:<18}  {:.2} s of CPU at first, then {:.2} % of a core over {:.0} s; a look every {:.1} s; it counts {} busy, {} idle, {} queued",
                phase.first_cpu_s,
                phase.share() * 100.0,
                phase.watched_s,
                phase.every_s,
                phase.busy,
                phase.idle,
                phase.queued
            )?;
        }
        writeln!(f, "{}", if self.is_right() { "right" } else { "WRONG" })
    }
}

/// Makes a machine, measures in it, and prints what came of it.
///
/// # Errors
/// The machine cannot be made, or the host does not stand.
pub(super) fn run(binary: &Path, seconds: u64) -> anyhow::Result<ExitCode> {
    let scratch = tempfile::Builder::new()
        .prefix("kneepoint-many-")
        .tempdir_in("/var/tmp")?;
    let dir = scratch.path();
    let errors = dir.join("stderr.log");
    let mut command = apart()?;
    command
        .args(["shapes", "--many", &seconds.to_string(), "--inside"])
        .arg(dir)
        .args(["--twin", Twin::Healthy.name(), "--binary"])
        .arg(binary)
        .stdin(Stdio::null())
        .stderr(File::create(&errors)?);
    let status = command.status().context("unshare cannot be started")?;
    let words = fs::read_to_string(&errors).unwrap_or_default();
    ensure!(status.success(), "{}", words.trim());
    let measured: Measured = serde_json::from_str(&fs::read_to_string(dir.join(RESULT))?)?;
    write!(std::io::stdout(), "{measured}")?;
    Ok(match measured.is_right() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

/// Inside of the machine: the host, and what looking at it costs.
///
/// # Errors
/// It does not stand.
pub(super) fn measure(dir: &Path, binary: &Path, seconds: u64) -> anyhow::Result<()> {
    let shape = Shape::read(Path::new("many.toml"), &host())?;
    super::machine::stand(shape.twin(Twin::Healthy), dir, binary)?;
    let mut measured = Measured::default();
    let (check_s, check_cpu_s) = timed(Command::new(binary).args(["check", "--json", "-"]))?;
    (measured.check_s, measured.check_cpu_s) = (check_s, check_cpu_s);
    measured.idle = watch(binary, seconds)?;
    let _held = saturate()?;
    measured.busy = watch(binary, seconds)?;
    fs::write(dir.join(RESULT), serde_json::to_string(&measured)?)?;
    Ok(())
}

/// Runs a program to its end: wall time and CPU time.
fn timed(command: &mut Command) -> anyhow::Result<(f64, f64)> {
    let before = children_cpu_s();
    let began = Instant::now();
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()?;
    Ok((began.elapsed().as_secs_f64(), children_cpu_s() - before))
}

/// CPU time of all children that were waited for.
fn children_cpu_s() -> f64 {
    let stat = kneepoint_linux::Stat::of(std::process::id());
    stat.map_or(0.0, |stat| {
        (stat.with_children() - stat.own()) as f64 / TICKS_HZ
    })
}

/// Watches for a while; the kernel says what it took, the watch what it saw.
fn watch(binary: &Path, seconds: u64) -> anyhow::Result<Phase> {
    let mut command = Command::new(binary);
    command.args(["watch", "--listen", METRICS]);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let child = command
        .process_group(0)
        .spawn()
        .context("the watch cannot be started")?;
    let mut child = Ended(child);
    let cpu_s = |child: &Ended| -> anyhow::Result<f64> {
        let stat = kneepoint_linux::Stat::of(child.0.id()).context("the watch ended by itself")?;
        Ok(stat.own() as f64 / TICKS_HZ)
    };
    let asked = Instant::now();
    while !scraped().is_ok_and(|text| text.starts_with("HTTP/1.1 200")) {
        ensure!(asked.elapsed() < PATIENCE, "the watch does not begin");
        std::thread::sleep(Duration::from_millis(100));
    }
    let (began, first_cpu_s) = (Instant::now(), cpu_s(&child)?);
    std::thread::sleep(Duration::from_secs(seconds));
    let text = scraped()?;
    let (watched_s, last_cpu_s) = (began.elapsed().as_secs_f64(), cpu_s(&child)?);
    child.end();
    let sum = |name: &str| -> f64 {
        let lines = text.lines().filter(|line| line.starts_with(name));
        let values = lines.filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok());
        values.sum()
    };
    let workers = |state: &str| -> f64 {
        let lines = text
            .lines()
            .filter(|line| line.starts_with("kneepoint_pool_workers{"));
        let of = lines.filter(|line| line.contains(&format!("state=\"{state}\"")));
        of.filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok())
            .sum()
    };
    Ok(Phase {
        first_cpu_s,
        watched_s,
        cpu_s: last_cpu_s - first_cpu_s,
        busy: workers("busy"),
        idle: workers("idle"),
        queued: sum("kneepoint_pool_queue_length{"),
        every_s: sum("kneepoint_watch_look_interval_seconds "),
    })
}

/// A process that ends with this.
struct Ended(Child);

impl Ended {
    fn end(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Ended {
    fn drop(&mut self) {
        self.end();
    }
}

fn scraped() -> anyhow::Result<String> {
    use std::io::Read as _;
    let mut stream = TcpStream::connect(METRICS).context("the watch serves no metrics")?;
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(text)
}

/// Asks each pool for more requests than it has workers, none of which ends.
fn saturate() -> anyhow::Result<Vec<TcpStream>> {
    let mut held = Vec::new();
    for pool in 0..POOLS {
        for _ in 0..WORKERS + WAITING {
            let mut stream = TcpStream::connect("127.0.0.1:80")?;
            let request = format!("GET /{pool}.php HTTP/1.1\r\nHost: x\r\n\r\n");
            stream.write_all(request.as_bytes())?;
            held.push(stream);
        }
    }
    // Until the last of them has reached its worker.
    std::thread::sleep(Duration::from_secs(3));
    Ok(held)
}

/// The host as a shape's file would describe it.
fn host() -> String {
    let mut pools =
        String::from("[global]\nerror_log = /var/log/fpm.log\nprocess_control_timeout = 10s\n");
    let mut sites = String::new();
    for pool in 0..POOLS {
        let _ = writeln!(
            pools,
            "[site{pool:02}]\nuser = www-data\ngroup = www-data\nlisten = /run/php/{pool}.sock\nlisten.owner = www-data\n\
             pm = static\npm.max_children = {WORKERS}"
        );
        let _ = writeln!(
            sites,
            "location = /{pool}.php {{ fastcgi_read_timeout {HELD_S}s; include /etc/nginx/fastcgi_params; \
             fastcgi_param SCRIPT_FILENAME /srv/app/hold.php; fastcgi_pass unix:/run/php/{pool}.sock; }}"
        );
    }
    format!(
        r#"about = "fifty pools"
services = ["nginx", "fpm"]
start = ["php", "web"]
[place.php]
prepare = [["mkdir", "-p", "/run/php"]]
run = [["php-fpm8.2", "--nodaemonize"]]
files."/srv/app/hold.php" = "<?php set_time_limit(0); sleep({HELD_S});"
files."/etc/php/8.2/fpm/php-fpm.conf" = '''
{pools}'''
[place.web]
run = [["nginx", "-g", "daemon off;"]]
files."/etc/nginx/nginx.conf" = '''
user www-data;
worker_processes 1;
worker_rlimit_nofile 8192;
error_log /var/log/nginx-error.log;
events {{ worker_connections 4096; }}
http {{
access_log /var/log/nginx-access.log;
server {{
listen 80;
root /srv/app;
{sites}}}
}}
'''
[faulty]
planted = ["FPM-01"]
"#
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_is_a_shape() {
        let shape = Shape::read(Path::new("many.toml"), &host()).expect("a shape");
        assert_eq!(shape.name, "many");
    }

    #[test]
    fn a_watch_that_miscounts_or_costs_too_much_is_wrong() {
        let phase = |busy, idle, queued| Phase {
            first_cpu_s: 0.5,
            watched_s: 100.0,
            cpu_s: 0.4,
            busy,
            idle,
            queued,
            every_s: 1.0,
        };
        let right = Measured {
            idle: phase(0.0, 300.0, 0.0),
            busy: phase(300.0, 0.0, 100.0),
            ..Measured::default()
        };
        assert!(right.is_right() && right.to_string().ends_with("right\n"));
        let mut dear = right.clone();
        dear.busy.cpu_s = 1.5;
        assert!(!dear.is_right());
        let mut wrong = right;
        wrong.busy.busy = 299.0;
        assert!(wrong.to_string().ends_with("WRONG\n"));
    }
}
