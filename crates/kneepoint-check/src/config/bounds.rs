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

#[cfg(test)]
mod tests {
    use crate::config::{Reader, Subject, nginx};
    use crate::files::Memory;
    use crate::process::Program;

    fn subject(files: &Memory) -> Subject<'_> {
        Subject {
            files,
            args: &[],
            cwd: "/",
            env: &|_| None,
            loaded_s: 0.0,
        }
    }

    #[test]
    fn what_is_beyond_a_bound_is_counted_and_the_rest_is_judged() {
        let mut files = Memory::of(&[(
            "/etc/nginx/nginx.conf",
            "http { gzip on; include inc/*.conf; tcp_nodelay off; }",
        )]);
        let text = "add_header a b;\n".repeat(60_000);
        for at in 0..20 {
            files
                .0
                .insert(format!("/etc/nginx/inc/{at:02}.conf"), text.clone());
        }
        let found = nginx(&subject(&files), &Program::default());
        assert_eq!(
            found.files.len(),
            1 + 4 + 1,
            "one more is seen to be too much"
        );
        let [blind] = found.blind.as_slice() else {
            panic!("{:?}", found.blind);
        };
        assert_eq!(blind.what, "/etc/nginx/inc/04.conf and 15 more files");
        assert!(blind.why.contains("300000 directives"), "{blind:?}");
        assert!(blind.weighs && !blind.remedy.is_empty());
        assert_eq!(found.settings.text("gzip"), Some("on"));
        assert_eq!(found.settings.text("tcp_nodelay"), Some("off"));
    }

    #[test]
    fn a_host_of_a_thousand_sites_is_read_to_its_end() {
        let mut files = Memory::of(&[
            ("/etc/nginx/nginx.conf", "http { include sites/*; }"),
            (
                "/etc/nginx/fastcgi_params",
                &"fastcgi_param A b;\n".repeat(25),
            ),
            ("/etc/nginx/tls", &"ssl_protocols TLSv1.3;\n".repeat(15)),
        ]);
        let place = "location /x { include fastcgi_params; fastcgi_pass unix:/run/php.sock; }\n";
        let site = format!(
            "server {{ server_name a b c;\n include tls;\n{}{} }}",
            "add_header X \"a b c d\";\n".repeat(100),
            place.repeat(3)
        );
        for at in 0..1000 {
            files
                .0
                .insert(format!("/etc/nginx/sites/{at:04}"), site.clone());
        }
        let found = nginx(&subject(&files), &Program::default());
        assert_eq!(found.blind, []);
        assert_eq!(found.nginx.servers.len(), 1000);
        assert_eq!(found.nginx.passes.len(), 3000);
        assert_eq!(found.files.len(), 1003, "each once");
    }

    #[test]
    fn tables_are_no_directives() {
        let table = "1.2.3.4 x;\n".repeat(400_000);
        let files = Memory::of(&[
            (
                "/etc/nginx/nginx.conf",
                "http { geo $a { include geo; } gzip on; }",
            ),
            ("/etc/nginx/geo", &table),
        ]);
        let found = nginx(&subject(&files), &Program::default());
        assert_eq!(found.blind, []);
        assert_eq!(found.files.len(), 2, "that it changed is seen all the same");
        assert_eq!(found.settings.text("gzip"), Some("on"));
    }

    #[test]
    fn the_same_refusals_are_told_once() {
        let files = Memory::default();
        let mut reader = Reader::new(&subject(&files));
        for at in 0..9 {
            assert_eq!(reader.must(&format!("/{at}")), None);
        }
        reader.unread("/x", "it is odd", "look");
        let (_, blind) = reader.done();
        let said: Vec<&str> = blind.iter().map(|one| one.what.as_str()).collect();
        assert_eq!(said, ["/0 and 8 more files", "/x"]);
    }

    #[test]
    fn patterns_are_compared_with_so_many_names_only() {
        let mut files = Memory::of(&[("/etc/nginx/nginx.conf", &"include d/*;\n".repeat(50_000))]);
        for at in 0..100 {
            files.0.insert(format!("/etc/nginx/d/{at}"), String::new());
        }
        let found = nginx(&subject(&files), &Program::default());
        let [blind] = found.blind.as_slice() else {
            panic!("{:?}", found.blind);
        };
        assert!(blind.what.starts_with("/etc/nginx/d/"), "{blind:?}");
    }
}
