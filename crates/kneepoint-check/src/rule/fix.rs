//! What to do, in the words of whoever owns the stack: a drop-in for a host, the environment or a mounted file for a
//! container.

use crate::files::parent;
use crate::snapshot::{FpmPool, Service, ServiceKind, SettingSource, SettingValue, Settings};
use serde::Serialize;

/// What to do.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Fix {
    /// In words.
    pub text: String,
    /// The file to write, where one is enough.
    pub file: Option<FixFile>,
    /// How it takes effect.
    pub apply: String,
}

/// A file to write.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FixFile {
    /// Its path, as the process sees it.
    pub path: String,
    /// What it holds.
    pub content: String,
}

impl Fix {
    /// Something that no setting does.
    pub(crate) fn words(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            ..Self::default()
        }
    }

    /// Directives of a pool.
    pub(crate) fn pool(service: &Service, pool: &FpmPool, directives: &[(&str, String)]) -> Self {
        if let Some(fix) = by_variable(service, &pool.settings, directives) {
            return fix;
        }
        let defined = pool.settings.iter();
        let defined = defined.filter_map(|(_, value)| value.source.path());
        // The file that is read last of those that define the pool.
        let last = defined.max().unwrap_or("/etc/php-fpm.d/www.conf");
        if let Some(fix) = in_main(service, last, &pool.name, directives) {
            return fix;
        }
        let mut content = format!("[{}]\n", pool.name);
        for (name, value) in directives {
            content.push_str(&format!("{name} = {value}\n"));
        }
        Self::drop_in(service, last, "conf", content)
    }

    /// Directives of PHP-FPM itself.
    pub(crate) fn global(service: &Service, directives: &[(&str, String)]) -> Self {
        if let Some(fix) = by_variable(service, &service.settings, directives) {
            return fix;
        }
        let mut content = "[global]\n".to_owned();
        for (name, value) in directives {
            content.push_str(&format!("{name} = {value}\n"));
        }
        let pools = service.pools.iter().flat_map(|pool| pool.settings.iter());
        let last = pools.filter_map(|(_, value)| value.source.path()).max();
        let last = last.unwrap_or("/etc/php-fpm.d/www.conf");
        if let Some(fix) = in_main(service, last, "global", directives) {
            return fix;
        }
        Self::drop_in(service, last, "conf", content)
    }

    /// Settings of php.ini.
    pub(crate) fn ini(service: &Service, directives: &[(&str, String)]) -> Self {
        let empty = Settings::default();
        let ini = service.php.as_ref().map_or(&empty, |php| &php.ini);
        if let Some(fix) = by_variable(service, ini, directives) {
            return fix;
        }
        let content: String = directives
            .iter()
            .map(|(name, value)| format!("{name} = {value}\n"))
            .collect();
        let scanned = service
            .files
            .iter()
            .rev()
            .find(|file| file.path.ends_with(".ini") && !file.path.ends_with("php.ini"));
        let dir = scanned.map_or("/usr/local/etc/php/conf.d", |file| parent(&file.path));
        Self::drop_in(service, &format!("{dir}/99-last.ini"), "ini", content)
    }

    fn drop_in(service: &Service, beside: &str, ending: &str, content: String) -> Self {
        let dir = parent(beside);
        let last = beside.rsplit('/').next().unwrap_or_default();
        let name = ["zz-kneepoint", "zzz-kneepoint", "zzzz-kneepoint"]
            .map(|name| format!("{name}.{ending}"));
        let name = name
            .iter()
            .find(|name| name.as_str() > last)
            .unwrap_or(&name[2]);
        let path = format!("{dir}/{name}");
        let text = match &service.place.container {
            None => format!("Write {path}:"),
            Some(container) if container.in_pod => {
                format!("Mount a ConfigMap with this file at {path}:")
            }
            Some(container) => format!(
                "Mount this file into the {}, in a compose file `volumes: [\"./{name}:{path}:ro\"]`:",
                container.called()
            ),
        };
        Self {
            text,
            file: Some(FixFile { path, content }),
            apply: apply(service),
        }
    }

    /// A directive of nginx, or of another program whose later files do not override earlier ones: the line itself.
    pub(crate) fn line(service: &Service, value: &SettingValue, text: &str) -> Self {
        Self::at(service, value, "write instead", text)
    }

    /// What belongs beside a line that stays as it is.
    pub(crate) fn beside(service: &Service, value: &SettingValue, text: &str) -> Self {
        Self::at(service, value, "add beside it", text)
    }

    /// A line that is to go, or else `or`, which may be empty.
    pub(crate) fn without(service: &Service, value: &SettingValue, or: &str) -> Self {
        Self::at(service, value, &format!("remove the line{or}"), "")
    }

    /// Files are right as they are, and the program is to read them: `text` says so.
    pub(crate) fn reload(service: &Service, text: String) -> Self {
        Self {
            text,
            file: None,
            apply: apply(service),
        }
    }

    fn at(service: &Service, value: &SettingValue, verb: &str, text: &str) -> Self {
        let place = match &value.source {
            SettingSource::Default => match service.files.first() {
                Some(file) => format!("In {}, add", file.path),
                None => "Add".to_owned(),
            },
            SettingSource::Flag => "On its command line, or in a file instead".to_owned(),
            SettingSource::Memory { .. } => "Where it is set at run time".to_owned(),
            source => format!("In {source}, {verb}"),
        };
        let owner = match &service.place.container {
            Some(container) if container.in_pod => {
                " (the ConfigMap or image it comes from)".to_owned()
            }
            Some(container) => format!(
                " (the file that the {} mounts, or its image)",
                container.called()
            ),
            None => String::new(),
        };
        Self {
            text: match text {
                "" => format!("{place}{owner}"),
                text => format!("{place}{owner}: {text}"),
            },
            file: None,
            apply: apply(service),
        }
    }

    /// A setting of the kernel.
    pub(crate) fn sysctl(service: &Service, name: &str, value: &str) -> Self {
        let content = format!("{name} = {value}\n");
        match &service.place.container {
            Some(container) if container.in_pod => Self::words(format!(
                "In the pod's spec, `securityContext: {{sysctls: [{{name: {name}, value: \"{value}\"}}]}}`, and create it anew."
            )),
            Some(container) => Self::words(format!(
                "For the {}, in a compose file `sysctls: [\"{name}={value}\"]`, and create it anew: the host's own value does not \
                 hold there.",
                container.called()
            )),
            None => Self {
                text: "Write /etc/sysctl.d/60-kneepoint.conf:".into(),
                file: Some(FixFile {
                    path: "/etc/sysctl.d/60-kneepoint.conf".into(),
                    content,
                }),
                apply: "sysctl --system".into(),
            },
        }
    }
}

/// The main file itself, where that defines the pools: it then names no directory that a further file could be put into.
fn in_main(
    service: &Service,
    last: &str,
    section: &str,
    directives: &[(&str, String)],
) -> Option<Fix> {
    service.files.first().filter(|main| main.path == last)?;
    let lines: Vec<String> = directives
        .iter()
        .map(|(name, value)| format!("{name} = {value}"))
        .collect();
    Some(Fix {
        text: format!("In {last}, below [{section}], write: {}", lines.join(", ")),
        file: None,
        apply: apply(service),
    })
}

/// The environment, where that is what sets all of these.
fn by_variable(
    service: &Service,
    settings: &Settings,
    directives: &[(&str, String)],
) -> Option<Fix> {
    let pairs: Option<Vec<String>> = directives
        .iter()
        .map(|(name, value)| match &settings.get(name)?.source {
            SettingSource::Variable { name, .. } => Some(format!("{name}={value}")),
            _ => None,
        })
        .collect();
    let pairs = pairs.filter(|pairs| !pairs.is_empty())?.join(" ");
    let owner = match &service.place.container {
        Some(container) if container.in_pod => "in the pod's `env:`".to_owned(),
        Some(container) => format!(
            "of the {} (`environment:` in a compose file)",
            container.called()
        ),
        None => "of the unit that starts it (`systemctl edit`, Environment=)".to_owned(),
    };
    Some(Fix {
        text: format!("Set in the environment {owner}: {pairs}"),
        file: None,
        apply: "Create it anew: a reload keeps the old environment.".into(),
    })
}

/// How a changed file takes effect.
fn apply(service: &Service) -> String {
    if service.place.container.is_some() {
        return "Create the container anew.".into();
    }
    let restarts = matches!(
        service.kind,
        ServiceKind::Redis | ServiceKind::Mysql | ServiceKind::Postgresql
    );
    let verb = if restarts { "restart" } else { "reload" };
    match (&service.place.unit, service.kind) {
        (Some(unit), _) => format!("systemctl {verb} {unit}"),
        (None, ServiceKind::Nginx) => format!("nginx -t && kill -HUP {}", service.pid),
        (None, ServiceKind::Fpm) => format!("kill -USR2 {}", service.pid),
        _ => format!("{verb} it"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::{Container, Runtime};

    fn service(container: bool) -> (Service, FpmPool) {
        let mut service = Service::new(ServiceKind::Fpm, 7);
        service.place.container = container.then(|| Container {
            id: "a".repeat(64),
            runtime: Runtime::Docker,
            name: None,
            compose_service: Some("php".into()),
            in_pod: false,
        });
        let mut pool = FpmPool {
            name: "www".into(),
            ..FpmPool::default()
        };
        let path = "/usr/local/etc/php-fpm.d/zz-docker.conf";
        pool.settings
            .set("pm.max_children", "5", SettingSource::file(path, 3));
        (service, pool)
    }

    #[test]
    fn a_host_gets_a_drop_in_that_is_read_last() {
        let (service, pool) = service(false);
        let fix = Fix::pool(&service, &pool, &[("pm.max_children", "20".into())]);
        let file = fix.file.expect("a file");
        assert_eq!(file.path, "/usr/local/etc/php-fpm.d/zz-kneepoint.conf");
        assert_eq!(file.content, "[www]\npm.max_children = 20\n");
        assert_eq!(fix.apply, "kill -USR2 7");
    }

    #[test]
    fn a_pool_of_the_main_file_is_changed_there() {
        let (mut service, pool) = service(false);
        let path = "/usr/local/etc/php-fpm.d/zz-docker.conf".to_owned();
        service.files.push(crate::snapshot::ReadFile {
            path,
            modified_s: 0.0,
            newer: false,
        });
        let fix = Fix::pool(&service, &pool, &[("pm.max_children", "20".into())]);
        assert!(fix.file.is_none(), "{fix:?}");
        assert!(
            fix.text.ends_with("[www], write: pm.max_children = 20"),
            "{fix:?}"
        );
    }

    #[test]
    fn a_container_gets_a_mounted_file_or_its_environment() {
        let (service, mut pool) = service(true);
        let fix = Fix::pool(&service, &pool, &[("pm.max_children", "20".into())]);
        assert!(
            fix.text.contains("volumes:") && fix.apply.contains("anew"),
            "{fix:?}"
        );
        let variable = SettingSource::Variable {
            name: "MAX".into(),
            path: "/c".into(),
            line: 1,
        };
        pool.settings.set("pm.max_children", "5", variable);
        let fix = Fix::pool(&service, &pool, &[("pm.max_children", "20".into())]);
        assert!(
            fix.text.ends_with("MAX=20") && fix.file.is_none(),
            "{fix:?}"
        );
        let fix = Fix::sysctl(&service, "net.core.somaxconn", "4096");
        assert!(
            fix.text.contains("sysctls: [\"net.core.somaxconn=4096\"]"),
            "{fix:?}"
        );
    }
}
