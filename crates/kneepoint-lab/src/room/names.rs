//! Which names lead where on a host: files in the place of the machine's `/etc/hosts` and `/etc/resolv.conf`.
//!
//! The nameserver is the host itself, where none listens: a question fails at once, as it cannot when the machine's own
//! nameserver is beyond reach, and who asks it can be seen to ask.

use super::said;
use crate::LabError;
use crate::error::Context as _;
use rustix::mount::{MountFlags, mount_bind, mount_remount};
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

const HOSTS: &str = "/etc/hosts";
const RESOLVER: &str = "/etc/resolv.conf";
/// What the C library assumes where it finds no such file; one question each, and no other names.
const NOBODY: &str = "nameserver 127.0.0.1\noptions attempts:1 timeout:1\n";

/// The files of one host.
#[derive(Debug)]
pub(crate) struct Names {
    hosts: PathBuf,
    resolver: PathBuf,
    /// Whether the host cannot do without them.
    needed: bool,
}

impl Names {
    /// Writes the files into a host's directory, where root alone may change them.
    ///
    /// # Errors
    /// They cannot be written.
    pub(crate) fn write(dir: &Path, names: &[(String, IpAddr)]) -> Result<Self, LabError> {
        let own = fs::read_to_string(HOSTS).unwrap_or_default();
        let put = |name: &str, text: &str| {
            let path = dir.join(name);
            let what = || format!("writing \"{}\"", path.display());
            fs::write(&path, text).context(what)?;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).context(what)?;
            Ok::<_, LabError>(path.clone())
        };
        Ok(Self {
            hosts: put("hosts", &merged(&own, names))?,
            resolver: put("resolv.conf", NOBODY)?,
            needed: !names.is_empty(),
        })
    }

    /// Puts the files over those of the machine, for the namespace of this thread.
    ///
    /// # Errors
    /// The kernel refused, or there is nothing to put them over.
    pub(super) fn hold(&self) -> io::Result<()> {
        if Path::new(HOSTS).is_file() {
            cover(&self.hosts, HOSTS)?;
        } else if self.needed {
            return Err(io::Error::other(format!(
                "there is no {HOSTS}; make an empty one, so that names of doubles can stand there"
            )));
        }
        // Often a link to where nothing is any more, and what is assumed without a file is the same.
        if Path::new(RESOLVER).is_file() {
            cover(&self.resolver, RESOLVER)?;
        }
        Ok(())
    }
}

fn cover(file: &Path, place: &str) -> io::Result<()> {
    mount_bind(file, place).map_err(said(&format!("covering {place}")))?;
    let flags = MountFlags::BIND | MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV;
    mount_remount(place, flags, c"").map_err(said(&format!("keeping {place} as it is")))
}

/// The machine's own names without those that lead elsewhere here, and then these.
fn merged(own: &str, names: &[(String, IpAddr)]) -> String {
    let mut text = String::new();
    for line in own.lines() {
        let bare = line.split('#').next().unwrap_or_default();
        let mut words = bare.split_whitespace();
        let Some(address) = words.next() else {
            continue;
        };
        let is_other = |word: &&str| {
            !names
                .iter()
                .any(|(name, _)| name.eq_ignore_ascii_case(word))
        };
        let kept: Vec<&str> = words.filter(is_other).collect();
        if !kept.is_empty() {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{address} {}", kept.join(" "));
        }
    }
    for (name, address) in names {
        let _ = writeln!(text, "{address} {name}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_leads_to_one_address_only() {
        let own = "127.0.0.1 localhost # here\n\n10.0.0.9 api.example.test mail.example.test\n10.0.0.8 API.example.test\n";
        let names = [("api.example.test".to_owned(), IpAddr::from([198, 18, 0, 3]))];
        let expected =
            "127.0.0.1 localhost\n10.0.0.9 mail.example.test\n198.18.0.3 api.example.test\n";
        assert_eq!(merged(own, &names), expected);
    }
}
