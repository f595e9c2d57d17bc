//! What the fuzz targets of `fuzz/` call: every reader of a configuration, on a file system whose every file is the input,
//! so that what it includes is itself.

use super::{
    IniPlaces, Reader, Subject, apache, fpm, haproxy, mysql, nginx, pgbouncer, php_ini, postgresql,
    redis,
};
use crate::files::{Content, Files, Name, Unread};
use crate::process::Program;

struct Everywhere<'a>(&'a [u8]);

impl Files for Everywhere<'_> {
    fn read(&self, _path: &str) -> Result<Content, Unread> {
        Ok(Content {
            bytes: self.0.to_vec(),
            modified_s: 0.0,
            length: self.0.len() as u64,
        })
    }

    fn tail(&self, path: &str, _bytes: u64) -> Result<Content, Unread> {
        self.read(path)
    }

    fn names(&self, _dir: &str) -> Result<Vec<Name>, Unread> {
        let name = |name: &str, is_dir| Name {
            name: name.to_owned(),
            is_dir,
        };
        Ok(vec![
            name("a.conf", false),
            name("b", true),
            name("c.ini", false),
        ])
    }

    fn identity(&self, _path: &str) -> Option<(u64, u64)> {
        Some((1, 1))
    }
}

/// Reads the input as the configuration of each program; its first byte says which.
///
/// # Panics
/// A reader does.
pub fn configuration(input: &[u8]) {
    let Some((which, text)) = input.split_first() else {
        return;
    };
    let args = ["program", "-f", "/a.conf"].map(str::to_owned);
    let env = |name: &str| (name == "PGDATA").then(|| "/data".to_owned());
    let subject = Subject {
        files: &Everywhere(text),
        args: &args,
        cwd: "/",
        env: &env,
        loaded_s: 0.0,
    };
    let mut reader = Reader::new(&subject);
    match which % 9 {
        0 => drop(nginx(&subject, &Program::default())),
        1 => drop(fpm(&mut reader, "/fpm.conf", "/usr", &env)),
        2 => drop(mysql(&subject, &mut reader, &Program::default())),
        3 => drop(postgresql(&subject, &mut reader)),
        4 => drop(redis(&subject, &mut reader, &[])),
        5 => drop(haproxy(&subject, &mut reader)),
        6 => drop(apache(&subject, &mut reader)),
        8 => drop(pgbouncer(&subject, &mut reader)),
        _ => {
            let places = IniPlaces {
                files: vec!["/php.ini".to_owned()],
                dirs: vec!["/conf.d".to_owned()],
                told: false,
            };
            drop(php_ini(&mut reader, &places, &env));
        }
    }
}
