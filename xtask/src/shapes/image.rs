//! An image of this machine's own packages: no registry is asked.

use super::chores::{tell, write};
use anyhow::{Context as _, ensure};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Command, Stdio};

/// Packages that every image has: a shell and its tools.
const BASE: [&str; 7] = [
    "base-files",
    "bash",
    "coreutils",
    "dash",
    "debianutils",
    "libc-bin",
    "sed",
];
/// What packages made when they were installed, and a program needs.
const MADE: [&str; 13] = [
    "/etc/passwd",
    "/etc/group",
    "/etc/nsswitch.conf",
    "/etc/ld.so.cache",
    "/etc/alternatives",
    "/etc/ssl/openssl.cnf",
    "/etc/php",
    "/etc/nginx",
    "/etc/apache2",
    "/etc/mime.types",
    "/var/lib/nginx",
    "/var/www",
    "/tmp",
];
/// What nobody runs.
const LEFT_OUT: [&str; 6] = [
    "/usr/share/doc",
    "/usr/share/man",
    "/usr/share/info",
    "/usr/share/locale",
    "/usr/share/lintian",
    "/usr/lib/debug",
];

/// The name of the image of some packages.
pub(super) fn name(packages: &[String]) -> String {
    let mut name = format!("kneepoint-{}", packages.join("-"));
    name.retain(|letter| letter.is_ascii_alphanumeric() || letter == '-');
    name
}

/// Makes the image of some packages of this machine, and of all they depend on.
///
/// # Errors
/// A package is not installed, or the engine refuses.
pub(super) fn import(cli: &[String], packages: &[String], list: &Path) -> anyhow::Result<()> {
    let known = tell(&[
        "dpkg-query",
        "-W",
        "-f",
        "${binary:Package}\t${Pre-Depends}, ${Depends}\t${Provides}\n",
    ])?;
    let wanted = BASE
        .into_iter()
        .map(str::to_owned)
        .chain(packages.iter().cloned());
    let all = closure(&known, wanted.collect())?;
    let mut paths = listed(&all)?;
    paths.extend(MADE.iter().map(|path| (*path).to_owned()));
    let mut text: String = ["/bin", "/sbin", "/lib", "/lib64"].join("\n") + "\n";
    for path in existing(&paths) {
        text.push_str(&path);
        text.push('\n');
    }
    write(list, &text)?;
    let mut tar = Command::new("tar")
        .args([
            "--create",
            "--absolute-names",
            "--transform",
            "flags=r;s,^/,,",
        ])
        .args(["--no-recursion", "--files-from"])
        .arg(list)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .context("tar cannot be started")?;
    let files = tar.stdout.take().context("tar has no output")?;
    let output = Command::new(&cli[0])
        .args(&cli[1..])
        .args(["import", "-", &name(packages)])
        .stdin(files)
        .output()?;
    tar.wait()?;
    ensure!(
        output.status.success(),
        "the image cannot be imported: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(())
}

/// Packages with everything they depend on, of what is installed.
fn closure(known: &str, mut open: Vec<String>) -> anyhow::Result<BTreeSet<String>> {
    let bare = |name: &str| name.split([' ', ':', '(']).next().unwrap_or("").to_owned();
    let mut depends: BTreeMap<String, (String, Vec<String>)> = BTreeMap::new();
    let mut provided: BTreeMap<String, String> = BTreeMap::new();
    for line in known.lines() {
        let mut fields = line.split('\t');
        let full = fields.next().unwrap_or_default().to_owned();
        let words = |text: &str| -> Vec<String> {
            let all = text.split([',', '|']).map(|one| bare(one.trim()));
            all.filter(|one| !one.is_empty()).collect()
        };
        let needs = words(fields.next().unwrap_or_default());
        for name in words(fields.next().unwrap_or_default()) {
            provided.entry(name).or_insert_with(|| bare(&full));
        }
        depends.insert(bare(&full), (full, needs));
    }
    let mut all = BTreeSet::new();
    let mut seen = BTreeSet::new();
    let asked: BTreeSet<String> = open.iter().cloned().collect();
    while let Some(name) = open.pop() {
        if !seen.insert(name.clone()) {
            continue;
        }
        match depends.get(&name) {
            Some((full, needs)) => {
                all.insert(full.clone());
                open.extend(needs.iter().cloned());
            }
            None => {
                ensure!(
                    !asked.contains(&name),
                    "package {name} is not installed: apt-get install {name}"
                );
                open.extend(provided.get(&name).cloned());
            }
        }
    }
    Ok(all)
}

/// The files of packages.
fn listed(packages: &BTreeSet<String>) -> anyhow::Result<Vec<String>> {
    let mut line = vec!["dpkg-query", "-L"];
    line.extend(packages.iter().map(String::as_str));
    let text = tell(&line)?;
    let paths = text.lines().filter(|line| line.starts_with('/'));
    Ok(paths.map(str::to_owned).collect())
}

/// The paths that are there, what is below those that packages made, and no path through one of the links to `/usr`.
fn existing(paths: &[String]) -> BTreeSet<String> {
    let mut open: Vec<String> = Vec::new();
    for path in paths {
        let linked = ["/bin/", "/sbin/", "/lib/", "/lib64/"];
        let through = linked.iter().any(|link| path.starts_with(link));
        open.push(if through {
            format!("/usr{path}")
        } else {
            path.clone()
        });
    }
    let mut found = BTreeSet::new();
    while let Some(path) = open.pop() {
        let out = LEFT_OUT.iter().any(|left| path.starts_with(left));
        if out || matches!(path.as_str(), "/." | "/bin" | "/sbin" | "/lib" | "/lib64") {
            continue;
        }
        let Ok(about) = std::fs::symlink_metadata(&path) else {
            continue;
        };
        let made = MADE.iter().any(|made| path.starts_with(made)) && path != "/tmp";
        if about.is_dir() && made {
            let entries = std::fs::read_dir(&path).into_iter().flatten().flatten();
            open.extend(entries.map(|entry| entry.path().display().to_string()));
        }
        found.insert(path);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_come_with_all_they_need() {
        let known = "a:amd64\tb (>= 1), c | d\t\nb\t, x-y\t\nd\t\t\ne\t\tx-y (= 1)\nz\t\t\n";
        let all = closure(known, vec!["a".into()]).expect("a closure");
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        assert_eq!(all, ["a:amd64", "b", "d", "e"]);
        let error = closure(known, vec!["q".into()]).expect_err("not there");
        assert!(error.to_string().contains("apt-get install q"));
        assert_eq!(name(&["php8.2-fpm".into()]), "kneepoint-php82-fpm");
    }
}
