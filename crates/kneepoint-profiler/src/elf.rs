//! The symbols of PHP in a program or library, from its dynamic table: that one survives stripping.

use object::elf::PT_LOAD;
use object::read::elf::{ElfFile64, ProgramHeader};
use object::{Object, ObjectSymbol};

/// Where PHP's globals are, as addresses of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Symbols {
    /// Address of the byte that stands first in the file: addresses are relative to it.
    first: u64,
    pub(crate) globals: Globals<Symbol>,
    pub(crate) module_registry: Symbol,
    pub(crate) sapi_module: Option<Symbol>,
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

/// What a file turned out to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    /// PHP.
    Php(Symbols),
    /// PHP whose threads do not tell where their globals are.
    ThreadSafe,
    /// Something else.
    Other,
}

impl Symbols {
    /// The same where the file is mapped from `base` on.
    pub(crate) fn mapped_at(self, base: u64) -> Self {
        let move_by = base.wrapping_sub(self.first);
        let moved = |symbol: Symbol| Symbol {
            at: symbol.at.wrapping_add(move_by),
            ..symbol
        };
        Self {
            first: base,
            globals: match self.globals {
                Globals::Variables { executor, sapi } => Globals::Variables {
                    executor: moved(executor),
                    sapi: moved(sapi),
                },
                Globals::OfThreads {
                    executor,
                    sapi,
                    pointer,
                } => Globals::OfThreads {
                    executor: moved(executor),
                    sapi: moved(sapi),
                    pointer: moved(pointer),
                },
            },
            module_registry: moved(self.module_registry),
            sapi_module: self.sapi_module.map(moved),
        }
    }

    /// Whether each thread has globals of its own.
    pub(crate) fn of_threads(&self) -> bool {
        matches!(self.globals, Globals::OfThreads { .. })
    }
}

#[cfg(test)]
impl Symbols {
    /// Of a file that is mapped at address 0.
    pub(crate) fn at_zero(globals: Globals<Symbol>, module_registry: Symbol) -> Self {
        Self {
            first: 0,
            globals,
            module_registry,
            sapi_module: None,
        }
    }
}

/// Looks for PHP in an ELF file.
pub(crate) fn look(file: &[u8]) -> Found {
    let Ok(elf) = ElfFile64::<object::Endianness>::parse(file) else {
        return Found::Other;
    };
    let symbol = |name: &str| {
        let found = elf
            .dynamic_symbols()
            .find(|symbol| symbol.is_definition() && symbol.name() == Ok(name))?;
        Some(Symbol {
            at: found.address(),
            size: found.size(),
        })
    };
    let endian = elf.endian();
    let segments = elf.elf_program_headers();
    let first = segments
        .iter()
        .find(|segment| segment.p_type(endian) == PT_LOAD)
        .map(|segment| {
            segment
                .p_vaddr(endian)
                .wrapping_sub(segment.p_offset(endian))
        });
    let symbols = |globals| {
        Some(Symbols {
            first: first?,
            globals,
            module_registry: symbol("module_registry")?,
            sapi_module: symbol("sapi_module"),
        })
    };
    if let (Some(executor), Some(sapi)) = (symbol("executor_globals"), symbol("sapi_globals")) {
        return symbols(Globals::Variables { executor, sapi }).map_or(Found::Other, Found::Php);
    }
    let Some(executor) = symbol("executor_globals_offset") else {
        return Found::Other;
    };
    let of_threads = || {
        symbols(Globals::OfThreads {
            executor,
            sapi: symbol("sapi_globals_offset")?,
            pointer: symbol("tsrm_get_ls_cache_tcb_offset")?,
        })
    };
    of_threads().map_or(Found::ThreadSafe, Found::Php)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn this_program_is_no_php() {
        let own = std::fs::read("/proc/self/exe").expect("our own program");
        assert_eq!(look(&own), Found::Other);
        assert_eq!(look(b""), Found::Other);
    }

    #[test]
    fn addresses_move_with_the_base() {
        let symbol = Symbol {
            at: 0x1500,
            size: 8,
        };
        let symbols = Symbols {
            first: 0x1000,
            globals: Globals::OfThreads {
                executor: symbol,
                sapi: symbol,
                pointer: symbol,
            },
            module_registry: symbol,
            sapi_module: Some(symbol),
        };
        let moved = Symbol {
            at: 0x7000_0500,
            size: 8,
        };
        let expected = Symbols {
            first: 0x7000_0000,
            globals: Globals::OfThreads {
                executor: moved,
                sapi: moved,
                pointer: moved,
            },
            module_registry: moved,
            sapi_module: Some(moved),
        };
        assert_eq!(symbols.mapped_at(0x7000_0000), expected);
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
