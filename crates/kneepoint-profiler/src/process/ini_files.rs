//! The files of settings that a PHP read when it was started, from its memory. PHP-FPM overwrites its command line and its
//! environment, so that nothing else tells of `-c` and PHP_INI_SCAN_DIR.

use crate::error::ProfilerError;
use crate::memory::{Memory, ProcessMemory, ReadError};
use crate::process::Finder;
use crate::process::elf::{IniSymbols, Symbol};

/// Longest list of files that is read, in bytes.
const LIST: usize = 64 << 10;

/// The files of settings that a PHP read when it was started.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct IniFiles {
    /// php.ini, whatever it is called; `None` where there was none.
    pub main: Option<String>,
    /// The directories whose files it read after that, in their order.
    pub dirs: Vec<String>,
}

/// The files of settings that a process read; `None` where it does not tell.
///
/// # Errors
/// It is no PHP, or may not be read.
pub fn ini_files(pid: u32) -> Result<Option<IniFiles>, ProfilerError> {
    let symbols = Finder::default().find(pid)?.ini;
    let memory = ProcessMemory::of(pid).ok_or(ProfilerError::Gone { pid })?;
    match read(&memory, symbols) {
        Ok(found) => Ok(found),
        Err(ReadError::Gone) => Err(ProfilerError::Gone { pid }),
        Err(ReadError::Denied) => Err(ProfilerError::denied(pid)),
        Err(ReadError::Unmapped) => Ok(None),
    }
}

fn read(memory: &impl Memory, symbols: IniSymbols) -> Result<Option<IniFiles>, ReadError> {
    let (Some(opened), Some(files)) = (symbols.opened, symbols.files) else {
        return Ok(None);
    };
    let main = text_behind(memory, opened)?;
    let files = text_behind(memory, files)?.unwrap_or_default();
    // It may point into the environment, which PHP-FPM has overwritten with its title since.
    let given = symbols.dirs.map(|dirs| text_behind(memory, dirs));
    let given = given.and_then(Result::ok).flatten().unwrap_or_default();
    let scanned = files.split(',').map(str::trim).filter_map(|path| {
        let (dir, _) = path.rsplit_once('/')?;
        (!dir.is_empty()).then(|| dir.to_owned())
    });
    let mut dirs: Vec<String> = Vec::new();
    // A directory without files is found in what was given only.
    let empty = given.split(':').filter(|dir| dir.starts_with('/'));
    for dir in scanned.chain(empty.map(|dir| dir.trim_end_matches('/').to_owned())) {
        if !dirs.contains(&dir) {
            dirs.push(dir);
        }
    }
    Ok(Some(IniFiles { main, dirs }))
}

/// The text that a variable points to; `None` where it points nowhere.
fn text_behind(memory: &impl Memory, variable: Symbol) -> Result<Option<String>, ReadError> {
    let at = memory.word(variable.at)?;
    if at == 0 {
        return Ok(None);
    }
    let text = memory.text(at, LIST)?;
    Ok(Some(String::from_utf8_lossy(&text).into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Fake;
    use proptest::prelude::*;
    use rustix::process::{Pid, Signal};
    use std::fs;
    use std::os::unix::net::UnixStream;
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};

    #[test]
    fn a_process_without_php_is_refused() {
        assert!(matches!(
            ini_files(std::process::id()),
            Err(ProfilerError::NotPhp { .. })
        ));
    }

    #[test]
    #[expect(
        clippy::disallowed_methods,
        reason = "this crate knows no lab: its tests start the server themselves"
    )]
    fn a_php_fpm_tells_what_it_was_started_with() {
        let dir = tempfile::tempdir().expect("a directory");
        let at = |name: &str| dir.path().join(name).display().to_string();
        for sub in ["own", "scan"] {
            fs::create_dir(at(sub)).expect("a directory");
        }
        let socket = at("fpm.sock");
        let conf = format!(
            "[global]\nerror_log = {}\n[www]\nlisten = {socket}\npm = static\npm.max_children = 1\n",
            at("log")
        );
        for (name, text) in [
            ("own/php.ini", "memory_limit = 77M\n"),
            ("scan/a.ini", "display_errors = 0\n"),
            ("fpm.conf", &conf),
        ] {
            fs::write(at(name), text).expect("written");
        }
        let fpm = Command::new("php-fpm8.2")
            .args(["-R", "-F", "-c", &at("own"), "-y", &at("fpm.conf")])
            .env("PHP_INI_SCAN_DIR", at("scan"))
            .stderr(Stdio::null())
            .spawn();
        // Without this PHP there is nothing to ask.
        let Ok(mut fpm) = fpm else { return };
        // It writes its title over its environment before it listens.
        let until = Instant::now() + Duration::from_secs(20);
        while UnixStream::connect(&socket).is_err() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(20));
        }
        let found = ini_files(fpm.id());
        // Asked to end, it ends its worker, too.
        let asked = rustix::process::kill_process(Pid::from_child(&fpm), Signal::TERM);
        asked.expect("it is ours");
        fpm.wait().expect("it ends");
        let expected = IniFiles {
            main: Some(at("own/php.ini")),
            dirs: vec![at("scan")],
        };
        match found {
            Err(ProfilerError::Denied { .. }) => (),
            found => assert_eq!(found.expect("readable"), Some(expected)),
        }
    }

    proptest! {
        #[test]
        fn no_memory_panics(words in proptest::collection::vec(prop_oneof![
            (0_u64..512).prop_map(|n| n * 8), any::<u64>(),
        ], 512)) {
            let at = |at| Some(Symbol { at, size: 8 });
            let symbols = IniSymbols { opened: at(8), files: at(16), dirs: at(24) };
            let _ = read(&Fake::flat(&words), symbols);
        }
    }
}
