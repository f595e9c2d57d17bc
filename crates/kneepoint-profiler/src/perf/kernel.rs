//! What the kernel does for a process: the system call, fault or interrupt that a chain of its functions began with.

use std::collections::BTreeMap;

/// How names of the functions begin that enter a system call, by architecture and kernel version.
const CALLS: [&str; 4] = ["__x64_sys_", "__arm64_sys_", "__se_sys_", "__do_sys_"];
/// The function that calls what does a system call. A compiler may let that one's name vanish from the chain, where it ends
/// in a call of another (`ksys_read`): then that other is what the chain has next.
const DISPATCHES: [&str; 2] = ["do_syscall_64", "el0_svc_common"];
/// How names of functions begin by which the kernel was entered otherwise, and what that is called.
const ENTRIES: [(&str, &str); 10] = [
    ("asm_exc_page_fault", "page fault"),
    ("exc_page_fault", "page fault"),
    ("asm_sysvec_", "interrupt"),
    ("asm_common_interrupt", "interrupt"),
    ("el0t_64_irq", "interrupt"),
    ("el0_da", "page fault"),
    ("el0_ia", "page fault"),
    ("ret_from_fork", "kernel thread"),
    ("syscall_exit_to_user_mode", "end of a system call"),
    ("entry_SYSCALL_64", "entry of a system call"),
];

/// The kernel's functions by their addresses; empty where they are not told.
#[derive(Debug, Default)]
pub(super) struct Kernel {
    names: BTreeMap<u64, String>,
}

impl Kernel {
    /// Reads `/proc/kallsyms`; `None` where it tells no addresses.
    pub(super) fn read() -> Option<Self> {
        let text = std::fs::read_to_string("/proc/kallsyms").ok()?;
        Some(Self::parse(&text)).filter(|kernel| !kernel.names.is_empty())
    }

    fn parse(text: &str) -> Self {
        let functions = text.lines().filter_map(|line| {
            let mut words = line.split_ascii_whitespace();
            let at = u64::from_str_radix(words.next()?, 16).ok()?;
            let kind = words.next()?;
            // Without the right to see them, all addresses are 0.
            (at > 0 && kind.eq_ignore_ascii_case("t")).then_some(())?;
            Some((at, words.next()?.to_owned()))
        });
        Self {
            names: functions.collect(),
        }
    }

    fn name(&self, at: u64) -> Option<&str> {
        let (_, name) = self.names.range(..=at).next_back()?;
        Some(name)
    }

    /// The names of a chain of functions, the outermost first; `through` has the innermost first.
    pub(super) fn chain(&self, through: &[u64]) -> Vec<String> {
        let names = through.iter().rev().filter_map(|at| self.name(*at));
        names.map(str::to_owned).collect()
    }

    /// What a chain of functions does, the innermost first: `newfstatat`, `page fault`. Of several entries it is the
    /// outermost: what the process asked for. Without any, the innermost function by its name.
    pub(super) fn does(&self, through: &[u64]) -> Option<String> {
        let names = || through.iter().filter_map(|at| self.name(*at));
        let call = names().rev().find_map(|name| {
            let call = CALLS.iter().find_map(|prefix| name.strip_prefix(prefix))?;
            Some(call.to_owned())
        });
        let dispatched = || {
            let all: Vec<&str> = names().collect();
            let at = all.iter().rposition(|name| {
                let mut dispatch = DISPATCHES.iter();
                dispatch.any(|one| name.starts_with(one))
            })?;
            let next = all.get(at.checked_sub(1)?)?;
            Some(next.trim_start_matches("ksys_").to_owned())
        };
        let entry = || {
            names().rev().find_map(|name| {
                let entry = ENTRIES
                    .iter()
                    .find(|(prefix, _)| name.starts_with(prefix))?;
                Some(entry.1.to_owned())
            })
        };
        call.or_else(dispatched)
            .or_else(entry)
            .or_else(|| names().next().map(str::to_owned))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SYMBOLS: &str = "ffff0010 T __x64_sys_newfstatat\nffff0020 t vfs_statx\nffff0030 t lookup_fast\n\
        ffff0040 T asm_exc_page_fault\nffff0050 t clear_page\nffff0060 D some_data\nffff0070 t asm_sysvec_apic\n\
        ffff0080 t ksys_read\nffff0090 T do_syscall_64\nffff00a0 T entry_SYSCALL_64_after_hwframe\n";

    fn check(through: &[u64], expected: Option<&str>) {
        let does = Kernel::parse(SYMBOLS).does(through);
        assert_eq!(does.as_deref(), expected, "{through:x?}");
    }

    #[test]
    fn a_chain_is_named_by_what_the_process_asked_for() {
        check(&[0xffff_0035, 0xffff_0022, 0xffff_0011], Some("newfstatat"));
        check(&[0xffff_0051, 0xffff_0041], Some("page fault"));
        // An interrupt, or a fault, within a call is the call's.
        check(
            &[0xffff_0051, 0xffff_0041, 0xffff_0022, 0xffff_0012],
            Some("newfstatat"),
        );
        check(&[0xffff_0071], Some("interrupt"));
        check(
            &[0xffff_0022, 0xffff_0085, 0xffff_0095, 0xffff_00a1],
            Some("read"),
        );
        check(&[0xffff_0095, 0xffff_00a1], Some("entry of a system call"));
        check(&[0xffff_0033], Some("lookup_fast"));
        check(&[1], None);
        check(&[], None);
    }

    #[test]
    fn a_chain_is_told_from_the_outermost() {
        let chain = Kernel::parse(SYMBOLS).chain(&[0xffff_0035, 1, 0xffff_0022, 0xffff_0095]);
        assert_eq!(chain, ["do_syscall_64", "vfs_statx", "lookup_fast"]);
    }

    #[test]
    fn addresses_that_are_hidden_name_nothing() {
        let hidden = Kernel::parse("0000000000000000 T __x64_sys_read\n");
        assert_eq!(hidden.does(&[5]), None);
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "([0-9a-f]{0,20} [Tt]? ?[a-z_]{0,9}\n?){0,9}") {
            Kernel::parse(&text).does(&[0, 1, u64::MAX]);
        }
    }
}
