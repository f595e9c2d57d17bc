//! How much of one program's configuration is read: enough for a host of a thousand sites, and no more than fits a small
//! machine. What is left out is counted and told.

use crate::snapshot::Blind;

/// Most files, counted each time they are asked for; most bytes of them; most directives; most words of these.
const FILES: usize = 20_000;
const BYTES: usize = 16 << 20;
const DIRECTIVES: usize = 300_000;
const WORDS: usize = 2_000_000;
/// Most names of directories that patterns may be compared with.
const NAMES: usize = 200_000;
/// More files than this that cannot be read for the same reason are told together.
const APART: usize = 3;

/// What may still be read of one program's configuration.
#[derive(Debug)]
pub(super) struct Bounds {
    files: usize,
    bytes: usize,
    directives: usize,
    words: usize,
    pub(super) names: usize,
    left_out: Option<LeftOut>,
}

#[derive(Debug)]
struct LeftOut {
    first: String,
    count: usize,
    why: String,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            files: FILES,
            bytes: BYTES,
            directives: DIRECTIVES,
            words: WORDS,
            names: NAMES,
            left_out: None,
        }
    }
}

impl Bounds {
    /// Whether a file may still be opened. Once one was left out, all are: what comes later would override what does not
    /// hold.
    pub(super) fn opens(&mut self, path: &str) -> bool {
        if self.left_out.is_none() && self.files == 0 {
            self.leave(path, format!("{FILES} files"));
        } else if let Some(left_out) = &mut self.left_out {
            left_out.count += 1;
        }
        self.files = self.files.saturating_sub(1);
        self.left_out.is_none()
    }

    /// Whether a text that was read still fits.
    pub(super) fn takes(&mut self, path: &str, text: &str) -> bool {
        let (directives, words) = weight(text);
        let why = match () {
            () if text.len() > self.bytes => format!("{} MiB", BYTES >> 20),
            () if directives > self.directives => format!("{DIRECTIVES} directives"),
            () if words > self.words => format!("{WORDS} words"),
            () => {
                self.bytes -= text.len();
                self.directives -= directives;
                self.words -= words;
                return true;
            }
        };
        self.leave(path, why);
        false
    }

    /// Whether a pattern may still be compared with names.
    pub(super) fn seeks(&mut self) -> bool {
        if let Some(left_out) = &mut self.left_out {
            left_out.count += 1;
        }
        self.left_out.is_none()
    }

    /// Notes that a pattern could not be compared with every name.
    pub(super) fn cuts(&mut self, pattern: &str) {
        self.leave(pattern, format!("{NAMES} names that its patterns may mean"));
    }

    fn leave(&mut self, path: &str, why: String) {
        let first = path.to_owned();
        self.left_out = Some(LeftOut {
            first,
            count: 1,
            why,
        });
    }

    /// What was left out.
    pub(super) fn told(&self) -> Option<Blind> {
        let left_out = self.left_out.as_ref()?;
        let what = match left_out.count {
            1 => left_out.first.clone(),
            count => format!("{} and {} more files", left_out.first, count - 1),
        };
        let why = format!(
            "a configuration of more than {} is not read to its end: what came before is judged",
            left_out.why
        );
        let remedy = "look at these by hand, or include less: no program needs so much";
        Some(Blind::new(what, why, remedy).weighing())
    }
}

/// Directives and words of a text, in whatever grammar: no fewer than there are.
fn weight(text: &str) -> (usize, usize) {
    let (mut directives, mut words) = (0, 0);
    for line in text.lines().map(str::trim_start) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let ends = line.bytes().filter(|byte| matches!(byte, b';' | b'{'));
        let ends = ends.count();
        directives += ends.max(1);
        words += ends + line.split_ascii_whitespace().count();
    }
    (directives, words)
}

/// What is to be told of files that could not be read: many for the same reason once, with their count.
pub(super) fn together(all: Vec<Blind>) -> Vec<Blind> {
    let mut kept: Vec<(Blind, Vec<String>)> = Vec::new();
    let mut known = std::collections::HashMap::new();
    for blind in all {
        let key = (blind.why.clone(), blind.remedy.clone(), blind.weighs);
        match known.get(&key) {
            Some(&at) => {
                let (_, more): &mut (Blind, Vec<String>) = &mut kept[at];
                more.push(blind.what);
            }
            None => {
                known.insert(key, kept.len());
                kept.push((blind, Vec::new()));
            }
        }
    }
    let told = kept.into_iter().flat_map(|(first, more)| {
        let named = |what| Blind {
            what,
            ..first.clone()
        };
        match more.len() {
            count if count < APART => {
                let each: Vec<Blind> = more.into_iter().map(named).collect();
                [vec![first], each].concat()
            }
            count => vec![named(format!("{} and {count} more files", first.what))],
        }
    });
    told.collect()
}
