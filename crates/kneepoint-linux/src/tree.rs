//! The processes below a first one, followed from look to look.

use crate::process::children;
use std::collections::HashSet;
use std::io;

/// Refreshes between two looks for children of processes that had none.
const LEAF_LOOKS: u32 = 5;
/// Most processes of one tier that are followed.
const PROCESSES: usize = 4096;

/// The processes of a tier: a first process and its descendants.
#[derive(Debug)]
pub struct Tree {
    root: u32,
    parents: HashSet<u32>,
    seen: HashSet<u32>,
    looks: u32,
}

impl Tree {
    /// Of this first process.
    #[must_use]
    pub fn new(root: u32) -> Self {
        Self {
            root,
            parents: HashSet::from([root]),
            seen: HashSet::new(),
            looks: 0,
        }
    }

    /// The processes there are now, the first one first.
    ///
    /// # Errors
    /// The first process is gone.
    pub fn refresh(&mut self) -> io::Result<Vec<u32>> {
        // Three hundred idle workers have no children: asking each of them every second is wasted.
        let look_at_all = self.looks.is_multiple_of(LEAF_LOOKS);
        self.looks = self.looks.wrapping_add(1);
        let mut pids = vec![self.root];
        let mut parents = HashSet::from([self.root]);
        let mut at = 0;
        while at < pids.len() && pids.len() < PROCESSES {
            let pid = pids[at];
            at += 1;
            if !look_at_all && !self.parents.contains(&pid) && self.seen.contains(&pid) {
                continue;
            }
            match children(pid) {
                Ok(found) if found.is_empty() => {}
                Ok(found) => {
                    parents.insert(pid);
                    pids.extend(found);
                }
                Err(why) if pid == self.root => return Err(why),
                Err(_) => {}
            }
        }
        self.parents = parents;
        self.seen = pids.iter().copied().collect();
        Ok(pids)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_in_its_own_tree() {
        let mut tree = Tree::new(std::process::id());
        assert_eq!(tree.refresh().expect("we live")[0], std::process::id());
        assert!(Tree::new(u32::MAX).refresh().is_err());
    }
}
