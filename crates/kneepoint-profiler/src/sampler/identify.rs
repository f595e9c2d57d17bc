//! Which PHP a process runs, and whether its memory looks as that one lays it out.

use crate::abi::{PHP_ABIS, PhpAbi, constant};
use crate::error::ProfilerError;
use crate::memory::{Memory, ReadError, half, word};
use crate::process::elf::{Symbol, Symbols};
use crate::sample::Attached;
use crate::sampler::storage::Places;
use crate::stack::pointers::StackPointers;

/// A PHP whose layout is known and was found in place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Php {
    /// `8.2.35`.
    pub(crate) version: String,
    pub(crate) abi: &'static PhpAbi,
    /// Name of its server interface: `fpm-fcgi`. Empty when it is not told.
    pub(crate) sapi: String,
    pub(crate) executor_globals: Symbol,
    pub(crate) sapi_globals: Symbol,
}

/// Modules that are looked through for the one that is always there.
const MODULES: u32 = 1024;
/// Longest name of a module, a version or an interface that is read, in bytes.
const NAME: usize = 64;
/// Times the globals are read before they are called wrong: a running worker changes them.
const LOOKS: usize = 20;

/// Which PHP a process runs, by what all its threads share.
pub(crate) fn named(
    pid: u32,
    memory: &impl Memory,
    symbols: &Symbols,
) -> Result<Named, ProfilerError> {
    let module = module(pid, memory, symbols.module_registry.at)?;
    let sapi = symbols.sapi_module.and_then(|at| sapi(memory, at.at));
    Ok(Named {
        module,
        sapi: sapi.unwrap_or_default(),
    })
}

/// A PHP by what it says of itself.
pub(crate) struct Named {
    module: Module,
    sapi: String,
}

impl Named {
    /// In the words of the crate's face.
    pub(crate) fn into_attached(self) -> Attached {
        Attached {
            version: self.module.version,
            sapi: self.sapi,
            threads: self.module.zts,
        }
    }
}

/// Identifies the PHP whose globals are at these places.
pub(crate) fn identify(
    pid: u32,
    memory: &impl Memory,
    symbols: &Symbols,
    globals: Places,
) -> Result<Php, ProfilerError> {
    let Named { module, sapi } = named(pid, memory, symbols)?;
    let Module {
        version,
        zend_api,
        debug,
        zts,
    } = module;
    let Some(abi) = PhpAbi::of(zend_api) else {
        let known: Vec<&str> = PHP_ABIS.iter().map(|abi| abi.minor).collect();
        let known = known.join(", ");
        return Err(ProfilerError::UnknownPhp {
            pid,
            version,
            zend_api,
            known,
        });
    };
    if debug {
        return Err(ProfilerError::DebugBuild { pid, version });
    }
    if zts != symbols.of_threads() {
        return Err(ProfilerError::ThreadSafe { pid });
    }
    let wrong = |field, found: String, expected| ProfilerError::Layout {
        pid,
        version: version.clone(),
        field,
        found,
        expected,
    };
    let minor = version
        .strip_prefix(abi.minor)
        .map(|rest| rest.starts_with('.'));
    if minor != Some(true) {
        let found = format!("{zend_api}, of PHP {}", abi.minor);
        return Err(wrong(
            "zend_module_entry.zend_api",
            found,
            "that of the version",
        ));
    }
    let last = abi.current_execute_data + 8;
    if globals.executor.size < last {
        let found = format!("{} bytes long", globals.executor.size);
        return Err(wrong(
            "executor_globals",
            found,
            "as long as the fields that are read need",
        ));
    }
    check_stack(pid, memory, globals.executor.at, abi, &wrong)?;
    Ok(Php {
        sapi,
        executor_globals: globals.executor,
        sapi_globals: globals.sapi,
        version,
        abi,
    })
}

/// What every module says of the PHP it was built for (Zend/zend_modules.h).
struct Module {
    version: String,
    zend_api: u32,
    debug: bool,
    zts: bool,
}

/// The module `standard`, which no PHP is without.
fn module(pid: u32, memory: &impl Memory, registry: u64) -> Result<Module, ProfilerError> {
    let refused = |error| match error {
        ReadError::Gone => ProfilerError::Gone { pid },
        ReadError::Denied => ProfilerError::denied(pid),
        ReadError::Unmapped => ProfilerError::Layout {
            pid,
            version: "7.4 to 8.5".to_owned(),
            field: "module_registry",
            found: "unreadable".to_owned(),
            expected: "a table with the module `standard`",
        },
    };
    let table = memory.bytes(registry, 32).map_err(refused)?;
    let used = half(&table, 24).unwrap_or(0).min(MODULES);
    let buckets = word(&table, 16).unwrap_or(0);
    for index in 0..u64::from(used) {
        let Ok(entry) = memory.word(buckets.wrapping_add(index * 32)) else {
            continue;
        };
        if let Some(module) = standard(memory, entry) {
            return Ok(module);
        }
    }
    Err(refused(ReadError::Unmapped))
}

fn standard(memory: &impl Memory, entry: u64) -> Option<Module> {
    let bytes = memory.bytes(entry, 96).ok()?;
    let name = text(memory, word(&bytes, 32)?)?;
    (name == "standard").then_some(())?;
    Some(Module {
        version: text(memory, word(&bytes, 88)?)?,
        zend_api: half(&bytes, 4)?,
        debug: *bytes.get(8)? != 0,
        zts: *bytes.get(9)? != 0,
    })
}

/// The name of the server interface, which `sapi_module` begins with (main/SAPI.h).
fn sapi(memory: &impl Memory, at: u64) -> Option<String> {
    text(memory, memory.word(at).ok()?)
}

/// A short text that can be read.
fn text(memory: &impl Memory, at: u64) -> Option<String> {
    let text = String::from_utf8(memory.text(at, NAME).ok()?).ok()?;
    (!text.is_empty() && text.chars().all(|c| c.is_ascii_graphic() || c == ' ')).then_some(text)
}

/// The pointers into the stack are in order: bottom, top, end; and the current frame is aligned.
fn check_stack(
    pid: u32,
    memory: &impl Memory,
    globals: u64,
    abi: &PhpAbi,
    wrong: &impl Fn(&'static str, String, &'static str) -> ProfilerError,
) -> Result<(), ProfilerError> {
    let mut last = None;
    for _ in 0..LOOKS {
        let stack = memory.bytes(globals + abi.vm_stack_top, constant::EG_BYTES);
        let stack = match stack {
            Ok(stack) => StackPointers::parse(&stack),
            Err(ReadError::Gone) => return Err(ProfilerError::Gone { pid }),
            Err(ReadError::Denied) => return Err(ProfilerError::denied(pid)),
            Err(ReadError::Unmapped) => StackPointers::parse(&[]),
        };
        match stack.oddity() {
            None => return Ok(()),
            oddity => last = oddity,
        }
    }
    last.map_or(Ok(()), |(field, found, expected)| {
        Err(wrong(field, format!("{found:#x}"), expected))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::elf::Globals;
    use crate::testing::{Fake, Words};
    use proptest::prelude::*;

    const REGISTRY: u64 = 0x2000;
    const BUCKETS: u64 = 0x3000;
    const ENTRY: u64 = 0x4000;
    const GLOBALS: u64 = 0x5000;

    /// A PHP without threads.
    fn symbols(places: Places, registry: Symbol) -> Symbols {
        let Places { executor, sapi } = places;
        Symbols {
            globals: Globals::Variables { executor, sapi },
            module_registry: registry,
            sapi_module: None,
            ini: crate::process::elf::IniSymbols::default(),
        }
    }

    /// The memory of a PHP that is idle, and where its globals are.
    fn php() -> (Words, Places) {
        let mut words = Words::default();
        words.put(REGISTRY + 16, BUCKETS);
        words.put(REGISTRY + 24, 2);
        // The first bucket is empty.
        words.put(BUCKETS + 32, ENTRY);
        words.put(ENTRY, 20_220_829 << 32);
        words.put(ENTRY + 8, 0);
        words.put(ENTRY + 32, 0x6000);
        words.put(ENTRY + 88, 0x6100);
        words.text(0x6000, "standard");
        words.text(0x6100, "8.2.35");
        let at = |at, size| Symbol { at, size };
        let places = Places {
            executor: at(GLOBALS, 1800),
            sapi: at(0x7000, 552),
        };
        (words, places)
    }

    #[track_caller]
    fn check(change: impl Fn(&mut Words, &mut Places), expected: &str) {
        let (mut words, mut places) = php();
        change(&mut words, &mut places);
        let at = REGISTRY;
        let symbols = symbols(places, Symbol { at, size: 56 });
        let told = match identify(7, &words.memory(), &symbols, places) {
            Ok(php) => format!("PHP {}", php.version),
            Err(error) => error.to_string(),
        };
        assert!(told.contains(expected), "expected `{expected}` in: {told}");
    }

    #[test]
    fn a_php_that_fits_is_known_by_its_version() {
        check(|_, _| {}, "PHP 8.2.35");
    }

    #[test]
    fn what_does_not_fit_is_refused_by_name() {
        check(
            |words, _| words.put(ENTRY, 20_200_101 << 32),
            "zend_api 20200101",
        );
        check(
            |words, _| words.put(ENTRY, 20_210_902 << 32),
            "zend_module_entry.zend_api",
        );
        check(|words, _| words.put(ENTRY + 8, 1), "debug build");
        check(|words, _| words.put(ENTRY + 8, 1 << 8), "thread-safe");
        check(|words, _| words.put(BUCKETS + 32, 0), "module_registry");
        check(
            |_, places| places.executor.size = 490,
            "executor_globals is 490 bytes long",
        );
        let stack = |words: &mut Words, fields: [u64; 4]| {
            for (offset, field) in [456, 464, 472, 488].into_iter().zip(fields) {
                words.put(GLOBALS + offset, field);
            }
        };
        check(
            |words, _| stack(words, [0x8100, 0x9000, 0x8000, 0x8020]),
            "PHP 8.2.35",
        );
        check(
            |words, _| stack(words, [0x8100, 0x9000, 0, 0]),
            "executor_globals.vm_stack is 0x0",
        );
        check(
            |words, _| stack(words, [0x7100, 0x9000, 0x8000, 0]),
            "vm_stack_top is 0x7100",
        );
        check(
            |words, _| stack(words, [0x8100, 0x8000, 0x8000, 0]),
            "vm_stack_end is 0x8000",
        );
        check(
            |words, _| stack(words, [0x8100, 0x9000, 0x8000, 0x8021]),
            "current_execute_data is 0x8021",
        );
    }

    proptest! {
        #[test]
        fn no_memory_panics(words in proptest::collection::vec(prop_oneof![
            (0_u64..256).prop_map(|n| n * 8), any::<u64>(), Just(u64::from_ne_bytes(*b"standard")),
        ], 256)) {
            let memory = Fake::flat(&words);
            let at = |at| Symbol { at, size: 4096 };
            let places = Places { executor: at(8), sapi: at(16) };
            let mut symbols = symbols(places, at(24));
            symbols.sapi_module = Some(at(32));
            let _ = identify(7, &memory, &symbols, places);
        }
    }
}
