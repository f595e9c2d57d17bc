//! Settings of the kernel: of the host, or of the network namespace that a container has for itself.

use super::{Fix, FixFile, restart};
use crate::snapshot::Service;

/// Its name comes behind those of all other such files, of which the last that sets a name holds.
const FILE: &str = "/etc/sysctl.d/zz-kneepoint.conf";
/// Of that file alone: `sysctl --system` would set all that other files say once more.
const APPLY: &str = "sysctl -p /etc/sysctl.d/zz-kneepoint.conf";

impl Fix {
    /// A setting of the kernel.
    pub(crate) fn sysctl(service: &Service, name: &str, value: &str) -> Self {
        Self::sysctls(service, &[(name, value)])
    }

    /// Settings of the kernel that belong together.
    pub(crate) fn sysctls(service: &Service, all: &[(&str, &str)]) -> Self {
        let each = |form: &dyn Fn(&str, &str) -> String| {
            let lines = all.iter().map(|(name, value)| form(name, value));
            lines.collect::<Vec<_>>()
        };
        let lines = each(&|name, value| format!("{name} = {value}"));
        match &service.place.container {
            Some(_) if all.iter().any(|(name, _)| is_of_host(name)) => Self::words(format!(
                "On the host, for a container cannot have it: write {} to {FILE}, and run `{APPLY}`.",
                lines.join(" and ")
            )),
            Some(container) if container.in_pod => {
                let each = each(&|name, value| format!("{{name: {name}, value: \"{value}\"}}"));
                Self::words(format!(
                    "In the pod's spec, `securityContext: {{sysctls: [{}]}}`, and create it anew.",
                    each.join(", ")
                ))
            }
            Some(container) => {
                let each = each(&|name, value| format!("\"{name}={value}\""));
                Self::words(format!(
                    "For the {}, in a compose file `sysctls: [{}]`, and create it anew: the host's own value does not hold there.",
                    container.called(),
                    each.join(", ")
                ))
            }
            None => Self {
                text: format!(
                    "Write {FILE} (a line of the same name in /etc/sysctl.conf may come after it):"
                ),
                lines: Vec::new(),
                file: Some(FixFile::new(FILE, lines.join("\n") + "\n")),
                apply: match all.iter().any(|(name, _)| *name == "net.core.somaxconn") {
                    // A queue keeps the length with which it was opened, also over a reload.
                    true => restart(service, APPLY),
                    false => APPLY.into(),
                },
            },
        }
    }
}

/// Whether only the host can set it, so that a container which is to set it does not start.
fn is_of_host(name: &str) -> bool {
    name.starts_with("fs.") || name == "net.netfilter.nf_conntrack_max"
}
