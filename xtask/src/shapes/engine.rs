//! What makes containers: Docker or podman, with a socket, a directory and a network of their own.

use super::chores::{tell, write};
use super::image;
use super::place::{Engine, Place};
use anyhow::{Context as _, bail};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The project that containers are of, as compose would call it.
const PROJECT: &str = "shop";
/// The pod of the kubelet's containers.
const POD: &str = "/kubepods/burstable/pod7d4f0c1e-52a1-4c7e-9a53-0d5b8a6f2c11";
/// How long a daemon may take to answer.
const PATIENCE: Duration = Duration::from_secs(40);

/// The engines of one machine, each started when the first place asks for it.
pub(super) struct Engines {
    /// The directory of the twin.
    dir: PathBuf,
    packages: Vec<String>,
    dockerd: Option<Child>,
    podman: bool,
}

impl Engines {
    /// None runs yet. `dir` is the twin's; what may be used again by the next lies beside it.
    ///
    /// # Errors
    /// There is no directory above.
    pub(super) fn new(dir: &Path, packages: &[String]) -> anyhow::Result<Self> {
        Ok(Self {
            dir: dir.to_owned(),
            packages: packages.to_owned(),
            dockerd: None,
            podman: false,
        })
    }

    /// Starts a place in a container.
    ///
    /// # Errors
    /// The engine does not start, or refuses.
    pub(super) fn start(&mut self, name: &str, place: &Place) -> anyhow::Result<()> {
        let cli = self.cli(place.engine)?;
        let image = self.image(&cli, name, place)?;
        let mut line = cli.clone();
        line.extend(self.options(name, place)?);
        line.push(image);
        line.extend(place.run[0].iter().cloned());
        run(&line).map(drop)
    }

    /// Where a file that is mounted into a container lies on the host.
    pub(super) fn mounted(&self, name: &str, path: &str) -> PathBuf {
        let flat = path.trim_start_matches('/').replace('/', "-");
        self.dir.join(name).join("mounts").join(flat)
    }

    /// The end of what each container printed, for a message.
    pub(super) fn last_words(&self) -> String {
        let mut words = String::from("not everything runs");
        for cli in self.clis() {
            let list = run(&with(&cli, &["ps", "-a", "--format", "{{.Names}}"]));
            for name in list.unwrap_or_default().lines() {
                // Both streams, in their order.
                let line = format!("{} logs --tail 6 {name} 2>&1", cli.join(" "));
                let said = tell(&["sh", "-c", &line]).unwrap_or_default();
                words.push_str(&format!("\n{name}: {said}"));
            }
        }
        words
    }

    /// The command lines that talk to the engines that run.
    fn clis(&self) -> Vec<Vec<String>> {
        let docker = self
            .dockerd
            .as_ref()
            .map(|_| vec!["/usr/bin/docker".to_owned()]);
        let podman = self.podman.then(podman_cli);
        docker.into_iter().chain(podman).collect()
    }

    /// Removes every container, and ends the daemon.
    ///
    /// # Errors
    /// They cannot be removed.
    pub(super) fn end(&mut self) -> anyhow::Result<()> {
        let mut ended = Ok(());
        for cli in self.clis() {
            let list = run(&with(&cli, &["ps", "-aq"]))?;
            let ids: Vec<&str> = list.lines().collect();
            if cli[0].ends_with("podman") {
                // One that lends its network takes along those that use it.
                for id in ids {
                    let line = ["rm", "-f", "-t", "1", "--depend", "--ignore", id];
                    let removed = run(&with(&cli, &line));
                    ended = ended.and(removed.map(drop));
                }
            } else if !ids.is_empty() {
                let removed = run(&with(&cli, &[&["rm", "-f", "-t", "1"], &ids[..]].concat()));
                let removed =
                    removed.or_else(|_| run(&with(&cli, &[&["rm", "-f"], &ids[..]].concat())));
                ended = ended.and(removed.map(drop));
            }
        }
        if let Some(mut dockerd) = self.dockerd.take() {
            // The next twin has the same data, and makes one of its own.
            let removed = tell(&["/usr/bin/docker", "network", "rm", PROJECT]);
            ended = ended.and(removed.map(drop));
            let pid = rustix::process::Pid::from_child(&dockerd);
            rustix::process::kill_process(pid, rustix::process::Signal::TERM)?;
            dockerd.wait()?;
        }
        ended
    }

    /// The command line that talks to an engine, which runs from here on.
    fn cli(&mut self, engine: Engine) -> anyhow::Result<Vec<String>> {
        match engine {
            Engine::Host => bail!("the host is no engine"),
            Engine::Podman => {
                if !self.podman {
                    self.make_room_for_podman()?;
                    self.podman = true;
                }
                Ok(podman_cli())
            }
            Engine::Docker | Engine::Kubelet => {
                if self.dockerd.is_none() {
                    self.dockerd = Some(self.start_docker()?);
                }
                Ok(vec!["/usr/bin/docker".into()])
            }
        }
    }

    /// podman keeps its containers where it always does, and nothing of it outlives the bench.
    fn make_room_for_podman(&self) -> anyhow::Result<()> {
        const HOME: &str = "/var/lib/containers";
        let data = self.beside("podman");
        fs::create_dir_all(&data)?;
        fs::create_dir_all(HOME)?;
        tell(&["mount", "-t", "tmpfs", "-o", "mode=755", "machine", HOME])?;
        let storage = format!("{HOME}/storage");
        fs::create_dir_all(&storage)?;
        tell(&["mount", "--bind", &data.display().to_string(), &storage]).map(drop)
    }

    /// What outlives this twin.
    fn beside(&self, name: &str) -> PathBuf {
        self.dir.parent().unwrap_or(&self.dir).join(name)
    }

    /// Its data lie where a file says, as on machines with a disk for them; nothing of it touches the host's firewall.
    fn start_docker(&self) -> anyhow::Result<Child> {
        let data = self.beside("docker");
        fs::create_dir_all(&data)?;
        fs::create_dir_all("/srv/docker")?;
        tell(&[
            "mount",
            "--bind",
            &data.display().to_string(),
            "/srv/docker",
        ])?;
        let settings = r#"{"data-root": "/srv/docker", "bridge": "none", "iptables": false, "ip-forward": false, "ip-masq": false}"#;
        write(Path::new("/etc/docker/daemon.json"), settings)?;
        let log = self.dir.join("dockerd.log");
        let file = File::create(&log)?;
        let mut child = Command::new("/usr/sbin/dockerd")
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .spawn()
            .context("dockerd cannot be started")?;
        let began = Instant::now();
        while tell(&["/usr/bin/docker", "version"]).is_err() {
            if child.try_wait()?.is_some() || began.elapsed() > PATIENCE {
                let text = fs::read_to_string(&log).unwrap_or_default();
                bail!(
                    "dockerd does not answer: {}",
                    crate::faults::last_words(&text)
                );
            }
            std::thread::sleep(Duration::from_millis(200));
        }
        tell(&["/usr/bin/docker", "network", "create", PROJECT])?;
        Ok(child)
    }

    /// The image of a place: that of the packages, with the place's own files on top.
    fn image(&self, cli: &[String], name: &str, place: &Place) -> anyhow::Result<String> {
        let base = image::name(&self.packages);
        if run(&with(cli, &["image", "inspect", &base])).is_err() {
            image::import(cli, &self.packages, &self.beside(&base))?;
        }
        if place.files.is_empty() && place.copies.is_empty() {
            return Ok(base);
        }
        let dir = self.dir.join(name);
        place.write_below(&dir.join("files"))?;
        write(
            &dir.join("Dockerfile"),
            &format!("FROM {base}\nCOPY files/ /\n"),
        )?;
        let image = format!("{PROJECT}-{name}");
        let at = dir.display().to_string();
        run(&with(cli, &["build", "-q", "-t", &image, &at]))?;
        Ok(image)
    }

    fn options(&self, name: &str, place: &Place) -> anyhow::Result<Vec<String>> {
        let called = |name: &str| format!("{PROJECT}-{name}-1");
        let mut line: Vec<String> = with(&[], &["run", "-d", "--name", &called(name)]);
        let mut add =
            |option: &str, value: &str| line.extend([option.to_owned(), value.to_owned()]);
        match (&place.network_of, place.engine) {
            (Some(other), _) => add("--network", &format!("container:{}", called(other))),
            (None, Engine::Docker) => {
                add("--network", PROJECT);
                add("--network-alias", place.service.as_deref().unwrap_or(name));
            }
            (None, _) => add("--network", "none"),
        }
        if place.engine == Engine::Kubelet {
            add("--cgroup-parent", POD);
        }
        if let Some(service) = &place.service {
            add("--label", &format!("com.docker.compose.project={PROJECT}"));
            add("--label", &format!("com.docker.compose.service={service}"));
        }
        for (name, value) in &place.env {
            add("--env", &format!("{name}={value}"));
        }
        place.memory.iter().for_each(|most| add("--memory", most));
        place.cpus.iter().for_each(|most| add("--cpus", most));
        for (path, text) in &place.mounts {
            let file = self.mounted(name, path);
            write(&file, text)?;
            add("--volume", &format!("{}:{path}:ro", file.display()));
        }
        if place.engine == Engine::Podman {
            // What podman would set is more than a machine without all rights may give.
            add("--ulimit", "nofile=20000:20000");
            add("--ulimit", "nproc=20000:20000");
        }
        if place.read_only {
            for path in ["/run", "/tmp", "/var/log", "/var/lib/nginx"] {
                add("--tmpfs", path);
            }
            line.push("--read-only".into());
        }
        Ok(line)
    }
}

/// The command line of podman. crun does not run on hosts with both kinds of control groups.
fn podman_cli() -> Vec<String> {
    let options = [
        "--runtime",
        "runc",
        "--cgroup-manager",
        "cgroupfs",
        "--events-backend",
        "file",
    ];
    with(&["/usr/bin/podman".into()], &options)
}

fn with(first: &[String], rest: &[&str]) -> Vec<String> {
    let rest = rest.iter().map(|word| (*word).to_owned());
    first.iter().cloned().chain(rest).collect()
}

fn run(line: &[String]) -> anyhow::Result<String> {
    let line: Vec<&str> = line.iter().map(String::as_str).collect();
    tell(&line)
}
