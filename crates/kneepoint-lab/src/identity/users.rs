//! Users by name, from `/etc/passwd` and `/etc/group`.

use crate::LabError;
use crate::error::Context as _;
use rustix::process::{Gid, Uid};
use std::fs;

/// What a process needs to run as a user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Account {
    pub(crate) uid: Uid,
    pub(crate) gid: Gid,
    pub(crate) groups: Vec<Gid>,
}

/// True when this process may do what only root may.
pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// The account to switch to for `user`; `None` when it is the caller's own, so that nothing has to be done.
///
/// # Errors
/// No such user, or another user without being root.
pub(crate) fn account(user: Option<&str>) -> Result<Option<Account>, LabError> {
    let Some(user) = user else { return Ok(None) };
    let read = |path: &str| fs::read_to_string(path).context(|| format!("reading \"{path}\""));
    let found = find(user, &read("/etc/passwd")?, &read("/etc/group")?).ok_or_else(|| {
        LabError::NoUser {
            user: user.to_owned(),
        }
    })?;
    if found.uid == rustix::process::geteuid() {
        Ok(None)
    } else if is_root() {
        Ok(Some(found))
    } else {
        Err(LabError::NeedsRoot {
            what: format!("running a process as user `{user}`"),
        })
    }
}

fn find(user: &str, passwd: &str, group: &str) -> Option<Account> {
    let fields: Vec<&str> = passwd
        .lines()
        .map(|line| line.split(':').collect::<Vec<_>>())
        .find(|fields| fields.first() == Some(&user))?;
    let uid = Uid::from_raw(fields.get(2)?.parse().ok()?);
    let gid = Gid::from_raw(fields.get(3)?.parse().ok()?);
    let mut groups = vec![gid];
    for line in group.lines() {
        let fields: Vec<&str> = line.split(':').collect();
        let member = fields
            .get(3)
            .is_some_and(|members| members.split(',').any(|member| member == user));
        let id = fields.get(2).and_then(|id| id.parse().ok());
        if let (true, Some(id)) = (member, id.map(Gid::from_raw)) {
            groups.push(id);
        }
    }
    Some(Account { uid, gid, groups })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_has_its_supplementary_groups() {
        let passwd = "root:x:0:0::/:/bin/sh\npostgres:x:105:111:,,,:/var/lib:/bin/sh\nbad:x:y:1\n";
        let group = "postgres:x:111:\nssl-cert:x:110:other,postgres\nshort:x\n";
        let found = find("postgres", passwd, group).expect("is there");
        assert_eq!(found.uid.as_raw(), 105);
        let groups: Vec<u32> = found.groups.iter().map(|gid| gid.as_raw()).collect();
        assert_eq!(groups, [111, 110]);
        assert_eq!(find("bad", passwd, group), None);
        assert_eq!(find("nobody-at-all", passwd, group), None);
    }
}
