//! Releases of applications whose scripts OPcache keeps, and which of them are served no more: directories beside one another,
//! of which a directory that is served lies in one, whatever links lead there.

use crate::chain::Seen;
use crate::files::abreast::{Time, abreast};
use crate::files::{Files, Root, Unread, parent};
use crate::snapshot::CachedRelease;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// Most releases of one PHP that are looked at, and most directories that are served \[ours\].
const RELEASES: usize = 500;
const SERVED: usize = 2000;
/// How deep in its release a directory that is served lies at the most \[ours\].
const DEPTH: usize = 4;
/// By what nginx says what it serves.
const SAYS: [&str; 4] = [
    "root",
    "alias",
    "fastcgi_param script_filename",
    "fastcgi_param document_root",
];
/// Variables that begin with the directory of another line, and those of what is asked for in a directory.
const OF_ROOT: [&str; 3] = ["$document_root", "$realpath_root", "$request_filename"];
const ASKED: [&str; 3] = ["$fastcgi_script_name", "$document_uri", "$uri"];

/// The releases of some scripts, by what directories are called: those beside which there is another.
pub(super) fn kept(scripts: &[String]) -> Vec<CachedRelease> {
    let mut found: BTreeMap<&str, u64> = BTreeMap::new();
    for dir in scripts.iter().filter_map(|script| release_of(script)) {
        *found.entry(dir).or_default() += 1;
    }
    let mut beside: HashMap<&str, usize> = HashMap::new();
    for &dir in found.keys() {
        *beside.entry(parent(dir)).or_default() += 1;
    }
    let several = found.into_iter().filter(|(dir, _)| beside[parent(dir)] > 1);
    let releases = several.take(RELEASES).map(|(dir, scripts)| CachedRelease {
        dir: dir.to_owned(),
        scripts,
        is_old: false,
    });
    releases.collect()
}

/// The directory of the release that a script is of: one in `releases`, or the first that is called as a release.
fn release_of(script: &str) -> Option<&str> {
    let dirs = script.starts_with('/').then(|| parent(script))?;
    let (mut end, mut before, mut called) = (0, "", None);
    for (nth, name) in dirs.split('/').enumerate() {
        end += name.len() + usize::from(nth > 0);
        if before == "releases" {
            return Some(&dirs[..end]);
        }
        if called.is_none() && is_release(name) {
            called = Some(&dirs[..end]);
        }
        before = name;
    }
    called
}

/// Whether a directory is called as deployments call releases: by a time, a version or the hash of a commit.
fn is_release(name: &str) -> bool {
    let digits = name.chars().filter(char::is_ascii_digit).count();
    let is_time = digits >= 8 && has_only(name, "-_.TZ");
    let version = name.strip_prefix('v');
    let is_version = version.is_some_and(|rest| digits > 0 && has_only(rest, "."));
    let is_long = (7..=64).contains(&name.len());
    let is_hash = is_long && digits > 0 && digits < name.len() && has_only(name, "abcdef");
    is_time || is_version || is_hash
}

/// Whether a name has nothing but digits and these letters.
fn has_only(name: &str, more: &str) -> bool {
    let mut letters = name.chars();
    letters.all(|letter| letter.is_ascii_digit() || more.contains(letter))
}

/// The directories that are served, and whether those are all: some may be known by a request only.
fn served(all: &[Seen]) -> (BTreeSet<&str>, bool) {
    let roots = all.iter().flat_map(|seen| &seen.roots);
    let mut served: BTreeSet<&str> = roots.map(String::as_str).collect();
    let mut is_all = true;
    for nginx in all.iter().filter_map(|seen| seen.service.nginx.as_ref()) {
        let servers = nginx.servers.iter().map(|server| &server.settings);
        let passes = nginx.passes.iter().map(|pass| &pass.settings);
        for settings in servers.chain(passes) {
            let said = SAYS.iter().filter_map(|name| settings.text(name));
            for text in said.filter(|text| !OF_ROOT.iter().any(|name| text.starts_with(name))) {
                match dir_of(text) {
                    Some(dir) => served.extend(dir.starts_with('/').then_some(dir)),
                    None => is_all = false,
                }
            }
        }
    }
    (served, is_all)
}

/// The directory that a text of nginx serves; `None` where a variable tells it.
fn dir_of(text: &str) -> Option<&str> {
    let text = text.strip_suffix(" if_not_empty").unwrap_or(text);
    let (path, rest) = text.split_at(text.find('$').unwrap_or(text.len()));
    let is_told = rest.is_empty() || path.starts_with('/') && ASKED.contains(&rest);
    is_told.then(|| match path.ends_with(".php") {
        true => parent(path),
        false => path.trim_end_matches('/'),
    })
}

/// The files of a PHP, the directories that are served, and those of its releases.
type Item = (Root, Arc<[String]>, Vec<String>);

/// Marks the releases that are served no more. Where pools have roots of their own, paths lead elsewhere than they seem to, and
/// where no answer comes in time nothing is known: then none is marked.
pub(super) fn judge(all: &mut [Seen], time: Time) {
    let (served, is_all) = served(all);
    if served.len() > SERVED {
        return;
    }
    let served: Arc<[String]> = served.into_iter().map(str::to_owned).collect();
    let (mut places, mut items) = (Vec::new(), Vec::new());
    for (at, seen) in all.iter().enumerate() {
        let (Some(files), Some(php)) = (&seen.root, &seen.service.php) else {
            continue;
        };
        let mut pools = seen.service.pools.iter();
        if php.releases.is_empty() || pools.any(|pool| pool.settings.get("chroot").is_some()) {
            continue;
        }
        let dirs: Vec<String> = php.releases.iter().map(|one| one.dir.clone()).collect();
        places.push(at);
        let name = format!("releases of {}", seen.service.pid);
        items.push((name, (files.clone(), Arc::clone(&served), dirs)));
    }
    let work = move |(files, served, dirs): Item| Served::of(&files, &served, is_all).old(&dirs);
    let found = abreast(items, time.part(0.3), work);
    for (at, old) in places.into_iter().zip(found) {
        let (Some(old), Some(php)) = (old, &mut all[at].service.php) else {
            continue;
        };
        for release in &mut php.releases {
            release.is_old = old.contains(&release.dir);
        }
    }
}

/// The directories that are served, by what they lie in.
struct Served<'a> {
    files: &'a dyn Files,
    /// Whether no other is served.
    is_all: bool,
    within: HashMap<(u64, u64), Vec<&'a str>>,
}

impl<'a> Served<'a> {
    fn of(files: &'a dyn Files, served: &'a [String], is_all: bool) -> Self {
        let mut within: HashMap<_, Vec<&str>> = HashMap::new();
        for root in served {
            // Behind a link, `..` is what is above its end.
            let mut path = root.clone();
            for _ in 0..=DEPTH {
                let Some(identity) = files.identity(&path) else {
                    break;
                };
                within.entry(identity).or_default().push(root);
                path.push_str("/..");
            }
        }
        Self {
            files,
            is_all,
            within,
        }
    }

    /// Those in a directory; `None` where that is not there, or may not be seen.
    fn inside(&self, dir: &str) -> Option<&[&'a str]> {
        let found = self.within.get(&self.files.identity(dir)?);
        Some(found.map_or(&[], Vec::as_slice))
    }

    /// Which of some releases are served no more.
    fn old(&self, dirs: &[String]) -> BTreeSet<String> {
        let mut beside: BTreeMap<&str, Vec<&String>> = BTreeMap::new();
        for dir in dirs {
            beside.entry(parent(dir)).or_default().push(dir);
        }
        let all = beside.into_iter();
        let old = all.flat_map(|(above, dirs)| self.old_of(above, dirs));
        old.cloned().collect()
    }

    /// The same of those in one directory.
    fn old_of<'b>(&self, above: &str, mut dirs: Vec<&'b String>) -> Vec<&'b String> {
        let is_named = above.ends_with("/releases");
        // What is only called as a release may be anything, unless a link in the place of its name leads to the present one:
        // a link may as well lead to what is around all of them.
        let by_link = |root: &&str, dir: &str| {
            let name = dir.rsplit('/').next();
            root.split('/').all(|part| Some(part) != name)
        };
        let is_present = |dir: &&String| {
            let inside = self.inside(dir).unwrap_or_default();
            let mut roots = inside.iter();
            roots.any(|root| is_named || by_link(root, dir.as_str()))
        };
        let is_gone = |dir: &str| matches!(self.files.read(dir), Err(Unread::Missing));
        if self.is_all && dirs.iter().any(is_present) {
            dirs.retain(|dir| match self.inside(dir) {
                Some(inside) => inside.is_empty(),
                None => is_gone(dir.as_str()),
            });
        } else if is_named && dirs.iter().any(|dir| self.inside(dir).is_some()) {
            // Nobody was seen who serves any of them, or not all that is served: what is gone is old all the same.
            dirs.retain(|dir| is_gone(dir.as_str()));
        } else {
            dirs.clear();
        }
        dirs
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::case::Case;
    use crate::snapshot::{FpmPool, PhpService, Service, ServiceKind, SettingSource};
    use std::os::unix::fs::symlink;
    use std::time::Duration;

    fn owned(all: &[&str]) -> Vec<String> {
        all.iter().map(|one| (*one).to_owned()).collect()
    }

    #[test]
    fn releases_are_known_by_what_their_directories_are_called() {
        for dir in [
            "/srv/shop/releases/7",
            "/srv/shop/releases/blue",
            "/w/20261119220000",
            "/w/2026-11-19_22.00.00",
            "/w/v1.20",
            "/w/3f2a91c",
        ] {
            let script = format!("{dir}/vendor/v2/a.php");
            assert_eq!(release_of(&script), Some(dir));
        }
        for script in [
            "/w/releases/a.php",
            "/w/2026/a.php",
            "/w/vendor/a.php",
            "/w/v/defaced/a.php",
            "phar:///w/v2/a.phar/b.php",
            "a.php",
        ] {
            assert_eq!(release_of(script), None, "{script}");
        }
    }

    #[test]
    fn a_release_alone_is_none_of_several() {
        let of = |scripts: &[&str]| {
            let kept = kept(&owned(scripts)).into_iter();
            let told = kept.map(|one| format!("{} {}", one.dir, one.scripts));
            told.collect::<Vec<String>>()
        };
        assert!(of(&["/a/releases/1/x.php", "/b/releases/2/x.php"]).is_empty());
        let two = [
            "/a/releases/1/x.php",
            "/a/releases/2/x.php",
            "/a/releases/2/y/z.php",
        ];
        assert_eq!(of(&two), ["/a/releases/1 1", "/a/releases/2 2"]);
    }

    /// Which releases are old, where these directories are there, links lead somewhere, and others are served.
    fn check(
        there: &[&str],
        links: &[(&str, &str)],
        served: &[&str],
        expected: (&[&str], &[&str]),
    ) {
        check_of(there, links, (served, true), expected);
    }

    /// The same, where it is told whether no more are served.
    fn check_of(
        there: &[&str],
        links: &[(&str, &str)],
        (served, is_all): (&[&str], bool),
        (dirs, old): (&[&str], &[&str]),
    ) {
        let dir = tempfile::tempdir().expect("directory");
        for path in there {
            std::fs::create_dir_all(dir.path().join(path)).expect("made");
        }
        for (link, to) in links {
            symlink(to, dir.path().join(link)).expect("a link");
        }
        let root = Root::at(dir.path().to_str().expect("a path")).expect("a root");
        let served = owned(served);
        let found = Served::of(&root, &served, is_all).old(&owned(dirs));
        let old: BTreeSet<String> = owned(old).into_iter().collect();
        assert_eq!(found, old, "{served:?}");
    }

    const THERE: [&str; 2] = ["s/releases/1/public", "s/releases/3/public"];
    const THREE: [&str; 3] = ["/s/releases/1", "/s/releases/2", "/s/releases/3"];

    #[test]
    fn what_a_served_directory_lies_in_is_present_and_the_rest_is_old() {
        let others = ["/s/releases/1", "/s/releases/2"];
        let link = [("s/current", "/s/releases/3")];
        let expected: (&[&str], &[&str]) = (&THREE, &others);
        check(&THERE, &link, &["/s/current/public"], expected);
        check(&THERE, &[], &["/s/releases/3/public"], expected);
        let html = [("html", "s/releases/3/public")];
        check(&THERE, &html, &["/html"], expected);
        // Two sites, each with a release of its own.
        let both = ["/s/current/public", "/s/releases/1/public"];
        check(&THERE, &link, &both, (&THREE, &["/s/releases/2"]));
    }

    #[test]
    fn where_nobody_is_seen_to_serve_one_only_what_is_gone_is_old() {
        let gone = ["/s/releases/2"];
        check(&THERE, &[], &["/s/current"], (&THREE, &gone));
        check(&["s"], &[], &[], (&THREE, &[]));
    }

    #[test]
    fn directories_that_are_only_called_so_need_a_link_to_one() {
        let (there, dirs) = (["w/v1/public", "w/v2/public"], ["/w/v1", "/w/v2"]);
        check(&there, &[], &["/w/v2/public"], (&dirs, &[]));
        check(&there, &[], &[], (&dirs, &[]));
        let link = [("w/live", "v2")];
        check(&there, &link, &["/w/live/public"], (&dirs, &["/w/v1"]));
    }

    #[test]
    fn a_link_above_all_of_them_leads_to_no_release() {
        let there = ["data/sites/12345678/html", "data/sites/23456789/html"];
        let dirs = ["/data/sites/12345678", "/data/sites/23456789"];
        let link = [("sites", "data/sites")];
        check(&there, &link, &["/sites/12345678/html"], (&dirs, &[]));
    }

    #[test]
    fn where_a_request_tells_what_is_served_only_what_is_gone_is_old() {
        let served = (&["/s/releases/3/public"][..], false);
        check_of(&THERE, &[], served, (&THREE, &["/s/releases/2"]));
        let (there, dirs) = (["w/v1/public", "w/v2/public"], ["/w/v1", "/w/v2"]);
        let served = (&["/w/live/public"][..], false);
        check_of(&there, &[("w/live", "v2")], served, (&dirs, &[]));
    }

    #[test]
    fn every_line_of_nginx_that_says_what_is_served_counts() {
        const CONF: &str =
            "http { server { root /w/; location ~ php { LINE fastcgi_pass unix:/p; } } }";
        const NAME: &str = "fastcgi_param SCRIPT_FILENAME";
        let check = |line: &str, expected: (&str, bool)| {
            let conf = CONF.replace("LINE", line);
            let services = Case::healthy().nginx(&conf).0.services;
            let all: Vec<Seen> = services.into_iter().map(Seen::new).collect();
            let (dirs, is_all) = served(&all);
            let dirs: Vec<&str> = dirs.into_iter().collect();
            assert_eq!((dirs.join(" ").as_str(), is_all), expected, "{line}");
        };
        check("", ("/w", true));
        check("alias /v1/public/;", ("/v1/public /w", true));
        check("root $base/public;", ("/w", false));
        check("root /srv/$host;", ("/w", false));
        check("fastcgi_param DOCUMENT_ROOT /b;", ("/b /w", true));
        for (value, expected) in [
            ("$realpath_root$fastcgi_script_name", ("/w", true)),
            ("$request_filename", ("/w", true)),
            ("/b$fastcgi_script_name", ("/b /w", true)),
            ("/b/index.php if_not_empty", ("/b /w", true)),
            ("/b/$1", ("/w", false)),
            ("$uri", ("/w", false)),
        ] {
            check(&format!("{NAME} {value};"), expected);
        }
    }

    #[test]
    fn releases_of_a_php_are_marked_unless_its_pools_have_roots_of_their_own() {
        let dir = tempfile::tempdir().expect("directory");
        std::fs::create_dir_all(dir.path().join("s/releases/2")).expect("made");
        let marked = |chroot: Option<&str>| {
            let mut service = Service::new(ServiceKind::Fpm, 7);
            let mut pool = FpmPool::default();
            if let Some(path) = chroot {
                let source = SettingSource::file("/a", 1);
                pool.settings.set("chroot", path, source);
            }
            service.pools.push(pool);
            let scripts = owned(&["/s/releases/1/a.php", "/s/releases/2/a.php"]);
            service.php = Some(PhpService {
                releases: kept(&scripts),
                ..PhpService::default()
            });
            let mut all = [Seen {
                root: Root::at(dir.path().to_str().expect("a path")).ok(),
                roots: vec!["/s/releases/2".into()],
                ..Seen::new(service)
            }];
            judge(&mut all, Time::from_now(Duration::from_secs(60)));
            let php = all[0].service.php.as_ref().expect("PHP");
            let old = php.releases.iter().map(|one| one.is_old);
            old.collect::<Vec<bool>>()
        };
        assert_eq!(marked(None), [true, false]);
        assert_eq!(marked(Some("/s")), [false, false]);
    }
}
