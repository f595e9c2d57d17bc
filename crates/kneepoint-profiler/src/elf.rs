//! The symbols of PHP in a program or library, from its dynamic table: that one survives stripping.

use object::elf::PT_LOAD;
use object::read::elf::{ElfFile64, ProgramHeader};
use object::{Object, ObjectSymbol};

/// Where PHP's globals are, as addresses of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Symbols {
    /// Address of the byte that stands first in the file: addresses are relative to it.
    first: u64,
    pub(crate) executor_globals: Symbol,
    pub(crate) sapi_globals: Symbol,
    pub(crate) module_registry: Symbol,
    pub(crate) sapi_module: Option<Symbol>,
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
    /// PHP without threads.
    Php(Symbols),
    /// PHP with threads.
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
            executor_globals: moved(self.executor_globals),
            sapi_globals: moved(self.sapi_globals),
            module_registry: moved(self.module_registry),
            sapi_module: self.sapi_module.map(moved),
        }
    }
}

#[cfg(test)]
impl Symbols {
    /// Of a file that is mapped at address 0.
    pub(crate) fn at_zero(
        executor_globals: Symbol,
        sapi_globals: Symbol,
        module_registry: Symbol,
    ) -> Self {
        Self {
            first: 0,
            executor_globals,
            sapi_globals,
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
    if symbol("executor_globals_offset").is_some() {
        return Found::ThreadSafe;
    }
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
    let symbols = || {
        Some(Symbols {
            first: first?,
            executor_globals: symbol("executor_globals")?,
            sapi_globals: symbol("sapi_globals")?,
            module_registry: symbol("module_registry")?,
            sapi_module: symbol("sapi_module"),
        })
    };
    symbols().map_or(Found::Other, Found::Php)
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
            executor_globals: symbol,
            sapi_globals: symbol,
            module_registry: symbol,
            sapi_module: None,
        };
        assert_eq!(
            symbols.mapped_at(0x7000_0000).executor_globals.at,
            0x7000_0500
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
            look(&own);
        }
    }
}
