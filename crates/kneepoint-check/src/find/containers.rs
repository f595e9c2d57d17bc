//! What the keepers of containers wrote down about one: its name, its compose service, its environment, its log.

use crate::files::{Files, Root};
use crate::process;
use crate::snapshot::Container;
use serde_json::Value;

/// Where Docker keeps everything unless `daemon.json` says otherwise: as a package, and as a snap.
const DOCKER: [&str; 2] = ["/var/lib/docker", "/var/snap/docker/common/var-lib-docker"];
/// Docker's own settings.
const DAEMON: &str = "/etc/docker/daemon.json";
/// podman's containers.
const PODMAN: &str = "/var/lib/containers/storage/overlay-containers";
/// Bundles as OCI has them, of containerd and CRI-O: before the id, and behind it.
const BUNDLES: [(&str, &str); 3] = [
    (
        "/run/containerd/io.containerd.runtime.v2.task/k8s.io",
        "config.json",
    ),
    (
        "/run/containers/storage/overlay-containers",
        "userdata/config.json",
    ),
    (PODMAN, "userdata/config.json"),
];

/// What a container was started with.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Record {
    /// Its variables.
    pub(super) env: Vec<(String, String)>,
    /// The command line of its first process.
    command: Vec<String>,
}

impl Record {
    /// The command line of a program, where the container was started with it; a script may stand before it.
    pub(super) fn line_of(&self, program: &str) -> Option<Vec<String>> {
        let is = |word: &String| word.rsplit('/').next() == Some(program);
        let at = self.command.iter().position(is)?;
        Some(self.command[at..].to_vec())
    }
}

/// What a container was started with; its name and service are put into it. Empty where nobody wrote anything that can be
/// read.
pub(super) fn describe(container: &mut Container) -> Record {
    Root::at("/").map_or_else(|_| Record::default(), |host| of_files(container, &host))
}

/// The file of what a container prints, where Docker keeps it.
pub(super) fn log(container: &Container) -> Option<String> {
    let host = Root::at("/").ok()?;
    docker_dirs(&host, &container.id)
        .map(|dir| format!("{dir}/{}-json.log", container.id))
        .find(|path| host.identity(path).is_some())
}

fn of_files(container: &mut Container, host: &dyn Files) -> Record {
    let json =
        |path: &str| -> Option<Value> { serde_json::from_slice(&host.read(path).ok()?.bytes).ok() };
    let docker =
        docker_dirs(host, &container.id).find_map(|dir| json(&format!("{dir}/config.v2.json")));
    if let Some(value) = docker {
        return of_docker(container, &value);
    }
    if let Some(list) = json(&format!("{PODMAN}/containers.json")) {
        container.name = podman_name(&list, &container.id);
    }
    let bundle = BUNDLES
        .iter()
        .find_map(|(before, behind)| json(&format!("{before}/{}/{behind}", container.id)));
    bundle.map_or_else(Record::default, |value| of_bundle(container, &value))
}

/// The directories that Docker may have for a container.
fn docker_dirs(host: &dyn Files, id: &str) -> impl Iterator<Item = String> {
    let settings = host.read(DAEMON).ok();
    let settings: Option<Value> =
        settings.and_then(|content| serde_json::from_slice(&content.bytes).ok());
    let said = |name: &str| Some(settings.as_ref()?.get(name)?.as_str()?.to_owned());
    // `graph` is what it was called before Docker 17.05.
    let homes = said("data-root").or_else(|| said("graph")).into_iter();
    let homes = homes.chain(DOCKER.map(str::to_owned));
    let id = id.to_owned();
    homes.map(move |home| format!("{}/containers/{id}", home.trim_end_matches('/')))
}

fn of_docker(container: &mut Container, value: &Value) -> Record {
    let text = |pointer: &str| Some(value.pointer(pointer)?.as_str()?.to_owned());
    container.name = text("/Name").map(|name| name.trim_start_matches('/').to_owned());
    container.compose_service = text("/Config/Labels/com.docker.compose.service");
    let program = value["Path"].as_str().map(str::to_owned);
    Record {
        env: variables(value.pointer("/Config/Env")),
        command: program
            .into_iter()
            .chain(words(value.get("Args")))
            .collect(),
    }
}

fn podman_name(list: &Value, id: &str) -> Option<String> {
    let mut all = list.as_array()?.iter();
    let own = all.find(|one| one["id"] == id)?;
    Some(own["names"].get(0)?.as_str()?.to_owned())
}

/// A bundle's process, and what Kubernetes calls the container.
fn of_bundle(container: &mut Container, value: &Value) -> Record {
    let names = [
        "io.kubernetes.cri.container-name",
        "io.kubernetes.container.name",
    ];
    let annotation = |name: &&str| Some(value.get("annotations")?.get(*name)?.as_str()?.to_owned());
    if container.name.is_none() {
        container.name = names.iter().find_map(annotation);
    }
    Record {
        env: variables(value.pointer("/process/env")),
        command: words(value.pointer("/process/args")),
    }
}

fn words(list: Option<&Value>) -> Vec<String> {
    let list = list.and_then(|list| list.as_array());
    let words = list.into_iter().flatten().filter_map(|word| word.as_str());
    words.map(str::to_owned).collect()
}

fn variables(list: Option<&Value>) -> Vec<(String, String)> {
    let pair = |line: &String| {
        let (name, value) = line.split_once('=')?;
        Some((name.to_owned(), value.to_owned()))
    };
    words(list).iter().filter_map(pair).collect()
}

/// Whether a process is in the container that somebody means.
pub(super) fn is_of(pid: u32, wanted: &str) -> bool {
    let groups = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
    process::container(&groups).is_some_and(|mut container| {
        describe(&mut container);
        container.is_named(wanted)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::Memory;
    use crate::snapshot::Runtime;

    fn container(runtime: Runtime) -> Container {
        Container {
            id: "ab".into(),
            runtime,
            name: None,
            compose_service: None,
            in_pod: false,
        }
    }

    const DOCKERS: &str = r#"{"Name":"/shop-php-1","Path":"docker-entrypoint.sh","Args":["redis-server","--save",""],"Config":{"Env":["PM=static","X"],"Labels":{"com.docker.compose.service":"php"}}}"#;

    #[test]
    fn dockers_names_and_environment_are_taken_over() {
        let files = Memory::of(&[("/var/lib/docker/containers/ab/config.v2.json", DOCKERS)]);
        let mut docker = container(Runtime::Docker);
        let record = of_files(&mut docker, &files);
        assert_eq!(record.env, [("PM".to_owned(), "static".to_owned())]);
        let line = record.line_of("redis-server").expect("started with it");
        assert_eq!(line, ["redis-server", "--save", ""]);
        assert_eq!(record.line_of("nginx"), None);
        assert_eq!(docker.called(), "container php");
        assert_eq!(docker.name.as_deref(), Some("shop-php-1"));
    }

    #[test]
    fn docker_may_keep_its_containers_elsewhere() {
        let files = Memory::of(&[
            (DAEMON, r#"{"data-root": "/data/docker/"}"#),
            ("/data/docker/containers/ab/config.v2.json", DOCKERS),
        ]);
        // A kubelet's groups do not tell that Docker keeps the container.
        let mut docker = container(Runtime::Containerd);
        assert_eq!(of_files(&mut docker, &files).env.len(), 1);
        assert_eq!(docker.name.as_deref(), Some("shop-php-1"));
        let dirs: Vec<String> = docker_dirs(&files, "ab").collect();
        assert_eq!(dirs[0], "/data/docker/containers/ab");
        assert!(dirs.contains(&"/var/lib/docker/containers/ab".to_owned()));
    }

    #[test]
    fn podman_and_kubernetes_are_read_by_their_bundles() {
        let bundle = r#"{"process":{"env":["PM=ondemand"]},"annotations":{"io.kubernetes.cri.container-name":"php"}}"#;
        let list = r#"[{"id":"xy","names":["other"]},{"id":"ab","names":["shop-php-1"]}]"#;
        let podman = Memory::of(&[
            (&format!("{PODMAN}/containers.json"), list),
            (&format!("{PODMAN}/ab/userdata/config.json"), bundle),
        ]);
        let mut own = container(Runtime::Podman);
        assert_eq!(
            of_files(&mut own, &podman).env,
            [("PM".to_owned(), "ondemand".to_owned())]
        );
        assert_eq!(own.name.as_deref(), Some("shop-php-1"));
        let (before, behind) = BUNDLES[0];
        let kubernetes = Memory::of(&[(&format!("{before}/ab/{behind}"), bundle)]);
        let mut own = container(Runtime::Containerd);
        assert_eq!(of_files(&mut own, &kubernetes).env.len(), 1);
        assert_eq!(own.name.as_deref(), Some("php"));
        let nothing = of_files(&mut container(Runtime::Lxc), &Memory::default());
        assert_eq!(nothing, Record::default());
    }
}
