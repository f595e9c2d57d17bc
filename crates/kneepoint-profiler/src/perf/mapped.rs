//! The files that are mapped into a process, and the functions in them.

use crate::process::{Mapping, parse_maps, readable};
use kneepoint_linux::process;
use object::elf::PT_LOAD;
use object::read::elf::{ElfFile64, ProgramHeader};
use object::{Object, ObjectSymbol, SymbolKind};
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Largest file that is read for its symbols, in bytes.
const FILE_BYTES: u64 = 512 << 20;

/// A file that is mapped into a process.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Mapped {
    start: u64,
    end: u64,
    offset: u64,
    /// Its name without its directory: `libz.so.1.2.13`, `[vdso]`. That of the program itself is the one it was started by.
    pub(super) object: String,
    /// Where it can be read; nothing for what is no file.
    path: Option<PathBuf>,
}

/// What lies in a process's memory, by its `/proc/PID/maps`; empty when it is gone.
pub(super) fn of_process(pid: u32) -> Vec<Mapped> {
    let maps = std::fs::read(format!("/proc/{pid}/maps")).unwrap_or_default();
    let own = started_as(pid);
    let mapped = parse_maps(&maps).into_iter();
    let mapped = mapped.filter_map(|one| {
        let mapped = Mapped::of(pid, &one)?;
        Some(match &own {
            Some((program, name)) if program.as_os_str().as_bytes() == one.path => Mapped {
                object: name.clone(),
                ..mapped
            },
            _ => mapped,
        })
    });
    mapped.collect()
}

/// The file of a process's program, and the name it was started by, where that leads to the file: on Debian `redis-server`
/// is a link to `redis-check-rdb`, which nobody runs. A script's name leads to the script, and one that the process gave
/// itself nowhere.
fn started_as(pid: u32) -> Option<(PathBuf, String)> {
    let link = format!("/proc/{pid}/exe");
    let program = std::fs::read_link(&link).ok()?;
    let name = process::name_of(pid)?;
    let within = Path::new("/proc").join(pid.to_string()).join("root");
    let named = within
        .join(program.strip_prefix("/").ok()?)
        .with_file_name(&name);
    let file = |path: &Path| {
        let metadata = std::fs::metadata(path).ok()?;
        Some((metadata.dev(), metadata.ino()))
    };
    (file(&named)? == file(Path::new(&link))?).then_some((program, name))
}

impl Mapped {
    fn of(pid: u32, mapping: &Mapping<'_>) -> Option<Self> {
        let end = mapping.end()?;
        let path = String::from_utf8_lossy(mapping.path).into_owned();
        let is_file = path.starts_with('/') && !is_memory(&path);
        let object = match path.rsplit('/').next().unwrap_or_default() {
            _ if !is_file && !path.starts_with("[vdso") => "generated code".to_owned(),
            name => name.trim_end_matches(" (deleted)").to_owned(),
        };
        Some(Self {
            start: mapping.start,
            end,
            offset: mapping.offset,
            object,
            path: is_file.then(|| readable(pid, mapping)),
        })
    }
}

/// Memory that only looks like a file: that of a JIT compiler, or shared between processes.
fn is_memory(path: &str) -> bool {
    ["/dev/zero", "/memfd:", "/SYSV", "//anon", "/anon_hugepage"]
        .iter()
        .any(|prefix| path.starts_with(prefix))
}

/// Which of what is mapped has an address.
pub(super) fn find(mapped: &[Mapped], at: u64) -> Option<&Mapped> {
    mapped.iter().find(|one| (one.start..one.end).contains(&at))
}

/// The functions of files, each read once.
#[derive(Debug, Default)]
pub(super) struct Functions {
    known: HashMap<(u64, u64), Option<Table>>,
}

/// The functions of one file: by address, with the address behind the last byte and the name.
#[derive(Debug, Default, PartialEq, Eq)]
struct Table {
    functions: BTreeMap<u64, (u64, String)>,
    /// Parts of the file: where they begin, how long they are, and at which address they are meant to lie.
    parts: Vec<(u64, u64, u64)>,
}

impl Functions {
    /// The function at an address of what is mapped; nothing where the file's tables name none there.
    pub(super) fn name(&mut self, mapped: &Mapped, at: u64) -> Option<String> {
        let path = mapped.path.as_ref()?;
        let file = File::open(path).ok()?;
        let metadata = file.metadata().ok()?;
        let key = (metadata.dev(), metadata.ino());
        let table = self.known.entry(key).or_insert_with(|| {
            let mut bytes = Vec::new();
            file.take(FILE_BYTES).read_to_end(&mut bytes).ok()?;
            Table::parse(&bytes)
        });
        let offset = at.wrapping_sub(mapped.start).wrapping_add(mapped.offset);
        table.as_ref()?.name(offset).map(str::to_owned)
    }
}

impl Table {
    fn parse(bytes: &[u8]) -> Option<Self> {
        let elf = ElfFile64::<object::Endianness>::parse(bytes).ok()?;
        let endian = elf.endian();
        let loaded = elf.elf_program_headers().iter();
        let parts = loaded
            .filter(|part| part.p_type(endian) == PT_LOAD)
            .map(|part| {
                (
                    part.p_offset(endian),
                    part.p_filesz(endian),
                    part.p_vaddr(endian),
                )
            });
        let symbols = elf.symbols().chain(elf.dynamic_symbols());
        let functions = symbols
            .filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.size() > 0)
            .filter_map(|symbol| {
                let end = symbol.address().checked_add(symbol.size())?;
                Some((symbol.address(), (end, symbol.name().ok()?.to_owned())))
            });
        Some(Self {
            functions: functions.collect(),
            parts: parts.collect(),
        })
    }

    /// The function at a place of the file.
    fn name(&self, offset: u64) -> Option<&str> {
        let address = self.parts.iter().find_map(|(begin, len, address)| {
            let within = offset.checked_sub(*begin)?;
            (within < *len).then(|| address.wrapping_add(within))
        })?;
        let (_, (end, name)) = self.functions.range(..=address).next_back()?;
        (address < *end).then_some(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::process::{Command, Stdio};

    #[test]
    fn a_function_of_this_program_is_found_by_its_address() {
        let mapped = of_process(std::process::id());
        let at = a_function_with_a_name as *const () as usize as u64;
        let found = find(&mapped, at).expect("this program");
        let name = Functions::default().name(found, at).expect("a symbol");
        assert!(name.contains("a_function_with_a_name"), "{name}");
    }

    #[inline(never)]
    fn a_function_with_a_name() -> u64 {
        std::hint::black_box(7)
    }

    #[test]
    #[expect(
        clippy::disallowed_methods,
        reason = "a program is needed that a link leads to"
    )]
    fn a_program_is_called_by_the_link_it_was_started_by() {
        let dir = tempfile::tempdir().expect("a directory");
        let (file, link) = (dir.path().join("check-rdb"), dir.path().join("server"));
        std::fs::copy("/bin/sh", &file).expect("a shell");
        std::os::unix::fs::symlink("check-rdb", &link).expect("a link");
        let mut child = Command::new(&link)
            .args(["-c", "echo up; read line"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a shell");
        // Before that its files may not be mapped yet.
        let mut up = [0; 3];
        let said = child.stdout.as_mut().expect("its output");
        said.read_exact(&mut up).expect("it runs");
        let objects: Vec<String> = of_process(child.id())
            .into_iter()
            .map(|one| one.object)
            .collect();
        drop(child.stdin.take());
        child.wait().expect("its end");
        assert!(objects.iter().any(|name| name == "server"), "{objects:?}");
        assert!(objects.iter().all(|name| name != "check-rdb"));
    }

    #[test]
    fn an_address_behind_a_functions_end_is_in_none() {
        let table = Table {
            functions: [
                (0x100, (0x110, "a".to_owned())),
                (0x140, (0x150, "b".to_owned())),
            ]
            .into(),
            parts: vec![(0, 0x40, 0x0), (0x40, 0x100, 0x100)],
        };
        assert_eq!(table.name(0x40), Some("a"));
        assert_eq!(table.name(0x4f), Some("a"));
        assert_eq!(table.name(0x50), None);
        assert_eq!(table.name(0x85), Some("b"));
        assert_eq!(table.name(0x4000), None);
    }

    #[test]
    fn memory_without_a_file_is_generated_code() {
        let names = |maps: &str| -> Vec<String> {
            let mapped = parse_maps(maps.as_bytes()).into_iter();
            let mapped = mapped.filter_map(|one| Mapped::of(1, &one));
            mapped.map(|one| one.object).collect()
        };
        let maps = "1000-2000 r-xp 00000000 08:01 5 /usr/lib/libz.so.1\n2000-3000 rwxp 0 0:0 0 \n\
            3000-4000 rwxs 0 0:1 9 /dev/zero (deleted)\n5000-6000 r-xp 0 0:0 0 [vdso]\nx-y r 0 0 0 /a\n";
        assert_eq!(
            names(maps),
            ["libz.so.1", "generated code", "generated code", "[vdso]"]
        );
    }

    proptest! {
        #[test]
        fn no_damaged_file_panics(damage in proptest::collection::vec((0_usize..4096, any::<u8>()), 1..60)) {
            let mut own = std::fs::read("/proc/self/exe").expect("our own program");
            own.truncate(65_536);
            for (at, byte) in damage {
                own[at] = byte;
            }
            if let Some(table) = Table::parse(&own) {
                table.name(4096);
            }
        }
    }
}
