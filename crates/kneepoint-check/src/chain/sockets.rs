//! Which file a socket is, looked up before services are joined: its directory may be of a file system that no longer
//! answers.

use super::Seen;
use crate::files::abreast::{Until, abreast};
use crate::files::{Files as _, Root, parent};
use crate::snapshot::ListenEndpoint;
use std::collections::{BTreeMap, BTreeSet};

/// Looks at the files of all sockets that services listen at or ask and that were not looked at. Returns the directories
/// that did not answer.
pub(crate) fn look_up(all: &mut [Seen], until: Until) -> BTreeSet<String> {
    let mut wanted: BTreeMap<(usize, String), BTreeSet<String>> = BTreeMap::new();
    for (at, seen) in all.iter().enumerate() {
        let listens = seen.service.listens.iter().map(|one| &one.endpoint);
        let asks = seen.service.asks.iter().map(|(endpoint, _)| endpoint);
        for endpoint in listens.chain(asks) {
            match endpoint {
                ListenEndpoint::Unix(path) if !seen.sockets.contains_key(path) => {
                    let paths = wanted.entry((at, parent(path).to_owned())).or_default();
                    paths.insert(path.clone());
                }
                _ => {}
            }
        }
    }
    let (mut asked, mut items) = (Vec::new(), Vec::new());
    for ((at, dir), paths) in wanted {
        let Some(files) = &all[at].root else { continue };
        let name = format!("{} {dir}", all[at].service.pid);
        items.push((name, (files.clone(), paths.clone())));
        asked.push((at, dir, paths));
    }
    let found = abreast(items, until, |(files, paths): (Root, BTreeSet<String>)| {
        let files = paths.iter().map(|path| files.identity(path));
        files.collect::<Vec<_>>()
    });
    let mut silent = BTreeSet::new();
    for ((at, dir, paths), found) in asked.into_iter().zip(found) {
        let known = found.unwrap_or_else(|| {
            silent.insert(dir);
            vec![None; paths.len()]
        });
        all[at].sockets.extend(paths.into_iter().zip(known));
    }
    silent
}
