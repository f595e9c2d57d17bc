//! Sums samples of the CPU up by tier, mapped file and symbol.

use super::Hit;
use super::kernel::Kernel;
use super::mapped::{self, Functions, Mapped};
use kneepoint_linux::process;
use kneepoint_model::Layer;
use kneepoint_model::account::{KernelStack, NativeAccount, NativeShare};
use std::collections::{BTreeMap, HashMap};

/// Files and symbols of a tier that are kept, the largest.
const KEPT: usize = 40;
/// Chains of the kernel's functions of a tier that are kept, the largest: a picture shows no more.
const KEPT_STACKS: usize = 300;
/// What the kernel is called among the mapped files.
const KERNEL: &str = "the kernel";
/// What is told of a process that ended before it was asked for what is mapped into it, and of addresses in none of it.
const UNKNOWN: &str = "unknown";
/// Most processes between one and the first of its tier.
const GENERATIONS: usize = 16;

/// A process that was met.
#[derive(Debug)]
struct Process {
    layer: Option<Layer>,
    /// Its program's name.
    name: String,
    /// What is mapped into it, where it is of a tier.
    mapped: Vec<Mapped>,
}

/// Samples, and the processes they are of.
pub(super) struct Tally {
    /// The first process of each tier.
    tiers: HashMap<u32, Layer>,
    processes: HashMap<u32, Process>,
    in_programs: HashMap<(u32, u64), u64>,
    in_kernel: HashMap<(u32, Vec<u64>), u64>,
}

impl Tally {
    pub(super) fn new(tiers: &[(Layer, u32)]) -> Self {
        Self {
            tiers: tiers.iter().map(|(layer, pid)| (*pid, *layer)).collect(),
            processes: HashMap::new(),
            in_programs: HashMap::new(),
            in_kernel: HashMap::new(),
        }
    }

    /// Counts a sample.
    pub(super) fn add(&mut self, hit: &Hit<'_>) {
        let process = self.processes.entry(hit.pid);
        let process = process.or_insert_with(|| Process::of(hit.pid, &self.tiers));
        // A library may have been loaded since.
        let is_new = !hit.in_kernel && mapped::find(&process.mapped, hit.at).is_none();
        if process.layer.is_some() && is_new {
            process.map_again(hit.pid);
        }
        let count = match hit.in_kernel {
            true => self
                .in_kernel
                .entry((hit.pid, hit.through.to_vec()))
                .or_default(),
            false => self.in_programs.entry((hit.pid, hit.at)).or_default(),
        };
        *count += 1;
    }

    /// What was met, by tier; what is no tier's by program.
    pub(super) fn accounts(self, kernel: &Kernel) -> Vec<NativeAccount> {
        let mut sums: BTreeMap<Option<Layer>, BTreeMap<NativeShare, u64>> = BTreeMap::new();
        let mut kernels: BTreeMap<Option<Layer>, BTreeMap<Vec<String>, u64>> = BTreeMap::new();
        let mut functions = Functions::default();
        let share = |object: &str, symbol| NativeShare {
            object: object.to_owned(),
            symbol,
            samples: 0,
        };
        for ((pid, at), count) in self.in_programs {
            let Some(process) = self.processes.get(&pid) else {
                continue;
            };
            let found = mapped::find(&process.mapped, at);
            let met = match (process.layer, found) {
                (None, _) => share(&process.name, None),
                (_, None) => share(UNKNOWN, None),
                (_, Some(mapped)) => share(&mapped.object, functions.name(mapped, at)),
            };
            let layer = sums.entry(process.layer).or_default();
            *layer.entry(met).or_default() += count;
        }
        for ((pid, through), count) in self.in_kernel {
            let Some(process) = self.processes.get(&pid) else {
                continue;
            };
            let met = match process.layer {
                None => share(&process.name, None),
                Some(_) => share(KERNEL, kernel.does(&through)),
            };
            let of_tier = process.layer.map(|_| kernel.chain(&through));
            if let Some(chain) = of_tier.filter(|chain| !chain.is_empty()) {
                let chains = kernels.entry(process.layer).or_default();
                *chains.entry(chain).or_default() += count;
            }
            let layer = sums.entry(process.layer).or_default();
            *layer.entry(met).or_default() += count;
        }
        let mut accounts: Vec<NativeAccount> = sums
            .into_iter()
            .map(|(layer, met)| NativeAccount {
                kernel: stacks(kernels.remove(&layer).unwrap_or_default()),
                ..account(layer, met)
            })
            .collect();
        accounts.sort_by_key(|account| std::cmp::Reverse(account.samples));
        accounts
    }
}

/// The largest of the kernel's stacks.
fn stacks(chains: BTreeMap<Vec<String>, u64>) -> Vec<KernelStack> {
    let stack = |(functions, samples)| KernelStack { functions, samples };
    let mut stacks: Vec<KernelStack> = chains.into_iter().map(stack).collect();
    stacks.sort_by_key(|stack| std::cmp::Reverse(stack.samples));
    stacks.truncate(KEPT_STACKS);
    stacks
}

fn account(layer: Option<Layer>, met: BTreeMap<NativeShare, u64>) -> NativeAccount {
    let mut objects: BTreeMap<String, u64> = BTreeMap::new();
    let mut symbols = Vec::new();
    for (share, samples) in met {
        *objects.entry(share.object.clone()).or_default() += samples;
        if share.symbol.is_some() {
            symbols.push(NativeShare { samples, ..share });
        }
    }
    let mut objects: Vec<NativeShare> = objects
        .into_iter()
        .map(|(object, samples)| NativeShare {
            object,
            symbol: None,
            samples,
        })
        .collect();
    let samples = objects.iter().map(|one| one.samples).sum();
    for shares in [&mut objects, &mut symbols] {
        shares.sort_by_key(|one| std::cmp::Reverse(one.samples));
        shares.truncate(KEPT);
    }
    NativeAccount {
        layer,
        samples,
        objects,
        symbols,
        kernel: Vec::new(),
    }
}

impl Process {
    fn of(pid: u32, tiers: &HashMap<u32, Layer>) -> Self {
        let layer = layer(pid, tiers);
        let name = process::name_of(pid).unwrap_or_default();
        Self {
            layer,
            name: match name.as_str() {
                "" => UNKNOWN.to_owned(),
                _ => name,
            },
            mapped: layer.map_or_else(Vec::new, |_| mapped::of_process(pid)),
        }
    }

    /// Asks once more what is mapped; what was, is forgotten only where the process still answers.
    fn map_again(&mut self, pid: u32) {
        let now = mapped::of_process(pid);
        if !now.is_empty() {
            self.mapped = now;
        }
    }
}

/// Which tier a process is of, by its ancestors.
fn layer(pid: u32, tiers: &HashMap<u32, Layer>) -> Option<Layer> {
    let mut pid = pid;
    for _ in 0..GENERATIONS {
        if let Some(layer) = tiers.get(&pid) {
            return Some(*layer);
        }
        pid = process::parent_of(pid).filter(|parent| *parent > 1)?;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hit(pid: u32, at: u64, in_kernel: bool) -> Hit<'static> {
        Hit {
            pid,
            at,
            in_kernel,
            through: &[],
        }
    }

    #[test]
    fn samples_are_summed_by_tier_and_what_is_none_by_program() {
        let own = std::process::id();
        let mut tally = Tally::new(&[(Layer::Db, own)]);
        for _ in 0..3 {
            tally.add(&hit(own, 1, false));
        }
        tally.add(&hit(own, u64::MAX, true));
        tally.add(&hit(1, 1, false));
        let accounts = tally.accounts(&Kernel::default());
        assert_eq!(
            (accounts[0].layer, accounts[0].samples),
            (Some(Layer::Db), 4)
        );
        let objects: Vec<_> = accounts[0]
            .objects
            .iter()
            .map(|one| (one.object.as_str(), one.samples))
            .collect();
        assert_eq!(objects, [("unknown", 3), ("the kernel", 1)]);
        assert_eq!((accounts[1].layer, accounts[1].samples), (None, 1));
        let first = std::fs::read_to_string("/proc/1/comm").expect("a first process");
        assert_eq!(accounts[1].objects[0].object, first.trim());
    }

    #[test]
    fn a_child_is_of_its_parents_tier() {
        let parent = std::os::unix::process::parent_id();
        let tiers = HashMap::from([(parent, Layer::Php)]);
        assert_eq!(layer(std::process::id(), &tiers), Some(Layer::Php));
        assert_eq!(layer(1, &tiers), None);
    }
}
