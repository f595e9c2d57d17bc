//! What Docker wrote down about a container: its name, its compose service, its environment.

use crate::files::{Files as _, Root};
use crate::snapshot::{Container, Runtime};

/// Where Docker keeps containers where nothing says otherwise.
const HOME: &str = "/var/lib/docker/containers";

/// The environment of a container; its name and service are put into it. Empty where Docker's files cannot be read.
pub(super) fn describe(container: &mut Container) -> Vec<(String, String)> {
    if container.runtime != Runtime::Docker {
        return Vec::new();
    }
    let path = format!("{HOME}/{}/config.v2.json", container.id);
    let Ok(content) = Root::at("/").and_then(|root| root.read(&path)) else {
        return Vec::new();
    };
    let value = serde_json::from_slice(&content.bytes).unwrap_or_default();
    of_json(container, &value)
}

fn of_json(container: &mut Container, value: &serde_json::Value) -> Vec<(String, String)> {
    let text = |pointer: &str| Some(value.pointer(pointer)?.as_str()?.to_owned());
    container.name = text("/Name").map(|name| name.trim_start_matches('/').to_owned());
    container.compose_service = text("/Config/Labels/com.docker.compose.service");
    let list = value
        .pointer("/Config/Env")
        .and_then(|list| list.as_array());
    let lines = list.into_iter().flatten().filter_map(|line| line.as_str());
    lines
        .filter_map(|line| line.split_once('='))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

/// Docker's own file of what a container prints.
pub(super) fn log(container: &Container) -> Option<String> {
    let id = &container.id;
    (container.runtime == Runtime::Docker).then(|| format!("{HOME}/{id}/{id}-json.log"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_environment_are_taken_over() {
        let text = r#"{"Name":"/shop-php-1","Config":{"Env":["PM=static","X"],"Labels":{"com.docker.compose.service":"php"}}}"#;
        let mut container = Container {
            id: "ab".into(),
            runtime: Runtime::Docker,
            name: None,
            compose_service: None,
            in_pod: false,
        };
        let env = of_json(&mut container, &serde_json::from_str(text).expect("JSON"));
        assert_eq!(env, [("PM".to_owned(), "static".to_owned())]);
        assert_eq!(container.called(), "container php");
        assert_eq!(container.name.as_deref(), Some("shop-php-1"));
        assert!(log(&container).is_some_and(|path| path.ends_with("/ab/ab-json.log")));
    }
}
