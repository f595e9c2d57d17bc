//! Where applications are, as each service that executes PHP sees them.

use crate::chain::Seen;
use crate::files::abreast::{Time, abreast};
use crate::files::{Files, Root};
use crate::snapshot::ServiceKind;
use std::collections::{BTreeMap, BTreeSet};

/// The directories of applications, each beside the position of a service that executes PHP and sees it: with what makes
/// it the same directory elsewhere.
pub(super) type Places = BTreeMap<(usize, String), Option<(u64, u64)>>;

/// All of them, and the directories that did not answer.
pub(super) fn of(all: &[Seen], time: Time) -> (Places, BTreeSet<String>) {
    let served = all.iter().flat_map(|seen| seen.roots.iter());
    let served: BTreeSet<&String> = served.collect();
    let php = all
        .iter()
        .enumerate()
        .filter(|(_, seen)| seen.service.kind == ServiceKind::Fpm || seen.service.has_mod_php());
    let (mut asked, mut items) = (Vec::new(), Vec::new());
    for (at, seen) in php {
        let Some(files) = &seen.root else { continue };
        for dir in &served {
            asked.push((at, (*dir).clone()));
            items.push((name(seen, dir), (files.clone(), (*dir).clone())));
        }
    }
    let found = abreast(items, time.part(0.5), |(files, dir): (Root, String)| {
        let root = application_root(&files, &dir)?;
        let identity = files.identity(&root);
        Some((root, identity))
    });
    let (mut places, mut silent) = (Places::new(), BTreeSet::new());
    for ((at, dir), found) in asked.into_iter().zip(found) {
        match found {
            Some(Some((root, identity))) => {
                places.insert((at, root), identity);
            }
            Some(None) => {}
            None => {
                silent.insert(dir);
            }
        }
    }
    (places, silent)
}

/// What a directory of a service is called among what may not answer.
pub(super) fn name(seen: &Seen, dir: &str) -> String {
    format!("{} {dir}", seen.service.pid)
}

/// The directory of an application, from the one that is served: its parent where the front controller has one of its
/// own. `None` where PHP does not see it.
fn application_root(files: &dyn Files, served: &str) -> Option<String> {
    files.has_names(served).then_some(())?;
    let has = |dir: &str, name: &str| files.identity(&format!("{dir}/{name}")).is_some();
    let marks = ["composer.json", "artisan", ".env", "bin/console", "vendor"];
    if let Some((parent, _)) = served.rsplit_once('/')
        && !parent.is_empty()
        && marks.iter().any(|mark| has(parent, mark))
    {
        return Some(parent.to_owned());
    }
    Some(served.to_owned())
}
