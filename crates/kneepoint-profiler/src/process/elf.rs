//! The symbols of PHP in a program or library, from its dynamic table: that one survives stripping.

use object::elf::PT_LOAD;
use object::read::elf::{ElfFile64, ProgramHeader};
use object::{Object, ObjectSymbol};

/// What is looked for. The first is in every PHP.
const NAMES: [&str; 10] = [
    "module_registry",
    "sapi_module",
    "executor_globals",
    "sapi_globals",
    "executor_globals_offset",
    "sapi_globals_offset",
    "tsrm_get_ls_cache_tcb_offset",
    "php_ini_opened_path",
    "php_ini_scanned_files",
    "php_ini_scanned_path",
];

/// Those of PHP's symbols that a file defines, in the order of [`NAMES`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Exports {
    /// Address of the byte that stands first in the file: addresses are relative to it.
    first: u64,
    symbols: [Option<Symbol>; NAMES.len()],
}

/// Where PHP's globals are in a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Symbols {
    pub(crate) globals: Globals<Symbol>,
    pub(crate) module_registry: Symbol,
    pub(crate) sapi_module: Option<Symbol>,
    pub(crate) ini: IniSymbols,
}

/// Variables that point to the names of the files of settings that PHP read (main/php_ini.c).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct IniSymbols {
    /// `php_ini_opened_path`: php.ini.
    pub(crate) opened: Option<Symbol>,
    /// `php_ini_scanned_files`: those of directories, with commas between them.
    pub(crate) files: Option<Symbol>,
    /// `php_ini_scanned_path`: these directories, with colons between them.
    pub(crate) dirs: Option<Symbol>,
}

/// How a program comes to PHP's globals. Where they are is a [`Symbol`], or where that is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Globals<T> {
    /// They are variables (NTS).
    Variables {
        /// `executor_globals`.
        executor: T,
        /// `sapi_globals`.
        sapi: T,
    },
    /// Each thread has its own, one behind the other (ZTS).
    OfThreads {
        /// `executor_globals_offset`: how far into them those of the executor are.
        executor: T,
        /// `sapi_globals_offset`.
        sapi: T,
        /// `tsrm_get_ls_cache_tcb_offset`, a function: where in a thread's storage the pointer to them is.
        pointer: T,
    },
}

/// A variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Symbol {
    /// Its address.
    pub(crate) at: u64,
    /// Its length in bytes.
    pub(crate) size: u64,
}

/// What a process turned out to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    /// PHP.
    Php(Symbols),
    /// PHP whose threads do not tell where their globals are.
    ThreadSafe,
    /// Something else.
    Other,
}

impl Exports {
    /// The same where the file is mapped from `base` on.
    pub(crate) fn mapped_at(self, base: u64) -> Self {
        let move_by = base.wrapping_sub(self.first);
        let moved = |symbol: Symbol| Symbol {
            at: symbol.at.wrapping_add(move_by),
            ..symbol
        };
        Self {
            first: base,
            symbols: self.symbols.map(|symbol| symbol.map(moved)),
        }
    }

    /// Whether PHP itself is in the file. A program that only uses its library may have some of its variables, too.
    pub(crate) fn has_php(&self) -> bool {
        self.symbols[0].is_some()
    }

    /// The symbols as a program sees them that has loaded a library: its own come first. So the dynamic linker does it,
    /// which moves variables of the library that the program refers to into the program (`R_X86_64_COPY`).
    pub(crate) fn with_library(self, library: Self) -> Self {
        let mut symbols = self.symbols;
        for (own, other) in symbols.iter_mut().zip(library.symbols) {
            *own = own.or(other);
        }
        Self { symbols, ..self }
    }

    /// What it comes to.
    pub(crate) fn found(&self) -> Found {
        let [
            Some(module_registry),
            sapi_module,
            executor,
            sapi,
            executor_offset,
            sapi_offset,
            pointer,
            opened,
            files,
            dirs,
        ] = self.symbols
        else {
            return Found::Other;
        };
        let globals = match (executor, sapi, executor_offset, sapi_offset, pointer) {
            (Some(executor), Some(sapi), ..) => Globals::Variables { executor, sapi },
            (_, _, Some(executor), Some(sapi), Some(pointer)) => Globals::OfThreads {
                executor,
                sapi,
                pointer,
            },
            (_, _, Some(_), ..) => return Found::ThreadSafe,
            _ => return Found::Other,
        };
        Found::Php(Symbols {
            globals,
            module_registry,
            sapi_module,
            ini: IniSymbols {
                opened,
                files,
                dirs,
            },
        })
    }
}

impl Symbols {
    /// Whether each thread has globals of its own.
    pub(crate) fn of_threads(&self) -> bool {
        matches!(self.globals, Globals::OfThreads { .. })
    }
}

/// Looks for PHP in an ELF file; nothing when it is none.
pub(crate) fn look(file: &[u8]) -> Option<Exports> {
    let elf = ElfFile64::<object::Endianness>::parse(file).ok()?;
    let symbols = NAMES.map(|name| {
        let found = elf
            .dynamic_symbols()
            .find(|symbol| symbol.is_definition() && symbol.name() == Ok(name))?;
        Some(Symbol {
            at: found.address(),
            size: found.size(),
        })
    });
    let endian = elf.endian();
    let mut segments = elf.elf_program_headers().iter();
    let first = segments.find(|segment| segment.p_type(endian) == PT_LOAD)?;
    let first = first.p_vaddr(endian).wrapping_sub(first.p_offset(endian));
    Some(Exports { first, symbols })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn this_program_is_no_php() {
        let own = std::fs::read("/proc/self/exe").expect("our own program");
        assert_eq!(look(&own).expect("a program").found(), Found::Other);
        assert_eq!(look(b""), None);
    }

    fn at(at: u64) -> Symbol {
        Symbol { at, size: 8 }
    }

    /// A library of PHP with threads, at 0x1000 of its file.
    fn library() -> Exports {
        let symbols = [0x1100, 0x1200, 0, 0, 0x1300, 0x1400, 0x1500, 0x1600, 0, 0];
        Exports {
            first: 0x1000,
            symbols: symbols.map(|address| (address > 0).then(|| at(address))),
        }
    }

    #[test]
    fn what_a_program_took_from_its_library_is_in_the_program() {
        let mut program = Exports {
            first: 0,
            symbols: [None; NAMES.len()],
        };
        program.symbols[5] = Some(at(0x20));
        assert_eq!((program.has_php(), program.found()), (false, Found::Other));
        let loaded = library().mapped_at(0x7000_0000);
        let both = program.mapped_at(0x5000_0000).with_library(loaded);
        let expected = Symbols {
            globals: Globals::OfThreads {
                executor: at(0x7000_0300),
                sapi: at(0x5000_0020),
                pointer: at(0x7000_0500),
            },
            module_registry: at(0x7000_0100),
            sapi_module: Some(at(0x7000_0200)),
            ini: IniSymbols {
                opened: Some(at(0x7000_0600)),
                ..IniSymbols::default()
            },
        };
        assert_eq!(both.found(), Found::Php(expected));
    }

    #[test]
    fn php_is_told_by_how_it_keeps_its_globals() {
        let mut php = library();
        php.symbols[6] = None;
        assert_eq!(php.found(), Found::ThreadSafe);
        php.symbols[2] = Some(at(1));
        php.symbols[3] = Some(at(2));
        assert!(matches!(php.found(), Found::Php(symbols) if !symbols.of_threads()));
    }

    proptest! {
        #[test]
        fn no_damaged_file_panics(damage in proptest::collection::vec((0_usize..4096, any::<u8>()), 1..60)) {
            let mut own = std::fs::read("/proc/self/exe").expect("our own program");
            own.truncate(65_536);
            for (at, byte) in damage {
                own[at] = byte;
            }
            look(&own);
        }
    }
}
