//! Kernel settings of one host's network namespace.

use crate::LabError;
use crate::error::Context as _;
use crate::isolation::netns;
use std::fs;
use std::os::fd::AsFd;
use std::path::PathBuf;

/// Where a setting lives, once it is clear that it can belong to a single host.
fn path(name: &str) -> Result<PathBuf, LabError> {
    let what = || format!("setting `{name}`");
    let legal = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    if !name.chars().all(legal) || name.split('.').any(str::is_empty) {
        return Err(LabError::bad_plan(format!(
            "`{name}` is no kernel setting; write it like net.core.somaxconn"
        )));
    }
    if !name.starts_with("net.") {
        return Err(LabError::Unsupported {
            what: what(),
            why: "it belongs to the whole machine and not to one host; \
                  the lab changes nothing outside its hosts"
                .into(),
        });
    }
    Ok(PathBuf::from("/proc/sys").join(name.replace('.', "/")))
}

/// Sets a kernel setting within a network namespace.
///
/// # Errors
/// The name is no per-host setting, this kernel has it not, or it refuses the value.
pub(crate) fn set(netns: impl AsFd + Sync, name: &str, value: &str) -> Result<(), LabError> {
    let path = path(name)?;
    netns::inside(Some(netns), || {
        if !path.exists() {
            return Err(LabError::Unsupported {
                what: format!("setting `{name}`"),
                why: "this kernel has no such setting per network namespace".into(),
            });
        }
        fs::write(&path, value).context(|| format!("setting `{name}` to `{value}`"))
    })?
}

/// Reads a kernel setting within a network namespace, fields separated by single spaces.
///
/// # Errors
/// The name is no per-host setting, or this kernel has it not.
pub(crate) fn get(netns: impl AsFd + Sync, name: &str) -> Result<String, LabError> {
    let path = path(name)?;
    let text = netns::inside(Some(netns), || fs::read_to_string(&path))?
        .context(|| format!("reading `{name}`"))?;
    Ok(text.split_whitespace().collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_settings_of_a_namespace_have_a_path() {
        assert_eq!(
            path("net.ipv4.tcp_tw_reuse").expect("is per host"),
            PathBuf::from("/proc/sys/net/ipv4/tcp_tw_reuse")
        );
        let check = |name: &str, words: &str| {
            let error = path(name).expect_err(name).to_string();
            assert!(error.contains(words), "{name}: {error}");
        };
        check("vm.overcommit_memory", "whole machine");
        check("kernel.core_pattern", "whole machine");
        check("net/../kernel/panic", "no kernel setting");
        check("net..kernel", "no kernel setting");
        check("", "no kernel setting");
    }
}
