//! Puts a rendered tier on disk.
//!
//! The lab's directories are root's until everything in them is written, and what is handed to a tier's user is handed over
//! by a handle: that user may run other programs already, and a path may mean something else when it is looked up again.

use crate::seed::SEED;
use crate::tier::{PHP_USER as USER, user_ids};
use crate::{ConfigFile, DirSpec, RenderedTier, StackError};
use kneepoint_model::LogFormat;
use rustix::fs::OFlags;
use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _, fchown};
use std::path::Path;

/// Permission bits of a file that everybody may read, for which the tier's own user is enough.
const READ_BY_ALL: u32 = 0o644;

/// Writes a tier's directories and files. Each file is replaced in one step, so that a crash leaves the old or
/// the new text. Owners are set only by root; files are then read by root and the tier's user alone.
///
/// # Errors
/// A directory or file cannot be created, written or handed to its owner.
pub fn install(tier: &RenderedTier) -> Result<(), StackError> {
    let mut dirs = Vec::new();
    for dir in &tier.dirs {
        dirs.push((make_dir(&dir.path)?, dir));
    }
    let reader = reader(tier);
    for file in &tier.files {
        write_file(file, reader)?;
    }
    hand_seed_over(tier, reader)?;
    for log in &tier.logs {
        // PHP's workers open it by themselves, in a directory in which they may make nothing.
        if log.format == LogFormat::PhpError && reader.is_some() {
            open_log(&log.path, USER)?;
        }
    }
    dirs.iter().rev().try_for_each(|(handle, dir)| {
        let group = dir.group.as_deref().or(dir.owner.as_deref());
        set_access(handle, &dir.path, dir.mode, dir.owner.as_deref(), group)
    })
}

/// Hands a tier's seed to the user it is loaded as; nobody else may read it.
fn hand_seed_over(tier: &RenderedTier, reader: Option<&str>) -> Result<(), StackError> {
    let Some(path) = tier.dirs.first().map(|dir| dir.path.join(SEED)) else {
        return Ok(());
    };
    match open(&path, OpenOptions::new().read(true)) {
        Ok(file) => set_access(&file, &path, 0o600, reader, reader),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(StackError::io("hand over", &path, &error)),
    }
}

/// The user that reads the tier's files beside root; `None` where no user is changed to.
fn reader(tier: &RenderedTier) -> Option<&str> {
    let owners = tier
        .dirs
        .iter()
        .find_map(|dir: &DirSpec| dir.owner.as_deref());
    tier.process.user.as_deref().or(owners)
}

/// Opens without following a link or waiting for somebody at the other end.
fn open(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = options
        .custom_flags(flags.bits().cast_signed())
        .open(path)?;
    Ok(file)
}

fn make_dir(path: &Path) -> Result<File, StackError> {
    let failed = |error: &io::Error| StackError::io("create", path, error);
    std::fs::create_dir_all(path).map_err(|error| failed(&error))?;
    let handle = open(path, OpenOptions::new().read(true)).map_err(|error| failed(&error))?;
    match handle.metadata().is_ok_and(|about| about.is_dir()) {
        true => Ok(handle),
        false => Err(failed(&io::Error::other("it is no directory"))),
    }
}

fn open_log(path: &Path, owner: &str) -> Result<(), StackError> {
    let failed = |error: &io::Error| StackError::io("create", path, error);
    let mut options = OpenOptions::new();
    options.append(true).create(true).mode(0o600);
    let file = open(path, &mut options).map_err(|error| failed(&error))?;
    match file.metadata().is_ok_and(|about| about.is_file()) {
        true => set_access(&file, path, 0o600, Some(owner), Some(owner)),
        false => Err(failed(&io::Error::other("it is no regular file"))),
    }
}

fn write_file(file: &ConfigFile, reader: Option<&str>) -> Result<(), StackError> {
    let mut name = file.path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let temporary = file.path.with_file_name(name);
    let failed = |error: &io::Error| StackError::io("write", &file.path, error);
    // A secret must not be readable even for a moment: the file is created without access for others.
    let _ = std::fs::remove_file(&temporary);
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    let mut handle = open(&temporary, &mut options).map_err(|error| failed(&error))?;
    handle
        .write_all(file.text.as_bytes())
        .and_then(|()| handle.sync_data())
        .map_err(|error| failed(&error))?;
    let (mode, group) = match reader {
        Some(reader) if file.mode == READ_BY_ALL && file.owner.is_none() => (0o640, Some(reader)),
        _ => (file.mode, file.owner.as_deref()),
    };
    set_access(&handle, &temporary, mode, file.owner.as_deref(), group)?;
    std::fs::rename(&temporary, &file.path).map_err(|error| failed(&error))
}

fn set_access(
    handle: &File,
    path: &Path,
    mode: u32,
    owner: Option<&str>,
    group: Option<&str>,
) -> Result<(), StackError> {
    let failed = |error: &io::Error| StackError::io("hand over", path, error);
    let ids = |name: &str| {
        user_ids(name).ok_or_else(|| {
            let what = format!("this machine has no user `{name}`");
            StackError::io("hand over", path, &what)
        })
    };
    let uid = owner.map(ids).transpose()?.map(|(uid, _)| uid);
    let gid = group.map(ids).transpose()?.map(|(_, gid)| gid);
    if uid.is_some() || gid.is_some() {
        fchown(handle, uid, gid).map_err(|error| failed(&error))?;
    }
    let mode = Permissions::from_mode(mode);
    handle.set_permissions(mode).map_err(|error| failed(&error))
}
