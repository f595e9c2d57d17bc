//! The account: where the CPU goes at R*, and where a request's time goes, part by part, with what is not explained.

use crate::{Layer, Owner, Place};
use serde::{Deserialize, Serialize};

/// Where the CPU and a request's time go in one phase of a diagnosis. Every part is a mean over the requests that finished.
///
/// What is *explained* of the CPU: a tier counts whole by its control group, which is exact, except PHP, which counts as far as
/// its stacks name the code that was at work ([`CodeAccount::named_share`]). What is explained of the time: parts with a
/// name of their own ([`TimeKind::is_explained`]).
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Account {
    /// The phase: `knee`, or `over` where that was not driven; empty where nothing was measured.
    pub phase: String,
    /// Which configuration.
    pub arm: String,
    /// Requests offered a second.
    pub offered_hz: f64,
    /// Requests that finished, failed ones included.
    pub requests: u64,
    /// Their mean response time in ms.
    pub response_ms: f64,
    /// The CPU of each tier, then of what else ran on the machine; the largest first in either group.
    pub cpu: Vec<CpuPart>,
    /// What PHP's CPU went into, by the stacks of workers that computed; `None` where none were sampled.
    pub code: Option<CodeAccount>,
    /// What the CPU of each tier went into, by mapped file and symbol; empty where that was not sampled.
    #[serde(default)]
    pub native: Vec<NativeAccount>,
    /// The parts of the response time in the order a request meets them; they add up to it.
    pub time: Vec<TimePart>,
    /// What should be known besides.
    pub notes: Vec<String>,
}

/// Whose CPU time it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CpuOf {
    /// A tier of the stack, by its control group.
    Tier(Layer),
    /// Jobs that ran beside the requests.
    Jobs,
    /// The load generator.
    Generator,
    /// Programs that are neither the stack's nor Kneepoint.
    Others,
    /// What the machine was busy with and no other part has: interrupts, and Kneepoint's own looking.
    Rest,
}

impl CpuOf {
    /// What it is called: `php`, `other programs`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Tier(layer) => layer.name(),
            Self::Jobs => "jobs beside the requests",
            Self::Generator => "generator",
            Self::Others => "other programs",
            Self::Rest => "interrupts and Kneepoint's measuring",
        }
    }
}

/// A part of the CPU time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct CpuPart {
    /// Whose.
    pub of: CpuOf,
    /// Cores used on average.
    pub cores: f64,
    /// CPU time for each request in ms.
    pub ms: f64,
    /// Share of the stack's CPU (all tiers are 1 together); 0 for what is no tier.
    pub share: f64,
}

/// What PHP's CPU went into, by stacks sampled in time: those of workers that did not wait.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct CodeAccount {
    /// The phase in which they were sampled.
    pub phase: String,
    /// Stacks of workers that computed, those that could not be read included.
    pub stacks: u64,
    /// By owner, largest first. With `unnamed`, the shares add up to 1.
    pub owners: Vec<OwnerShare>,
    /// By file, largest first; the first few.
    pub files: Vec<FileShare>,
    /// By function, largest first; the first few.
    pub functions: Vec<FunctionShare>,
    /// Share of stacks on which no code of a file was (the engine began or ended a request, or compiled its first file), and
    /// of those that could not be read.
    pub unnamed: f64,
}

/// The fewest stacks that say where PHP's CPU goes: with fewer, a share is wrong by more than 18 points \[ours\].
pub const FEWEST_STACKS: u64 = 30;

impl CodeAccount {
    /// Share of PHP's CPU that is attributed to the code of a named owner: stacks with code of a file over all stacks that
    /// computed; nothing where there are fewer than [`FEWEST_STACKS`].
    #[must_use]
    pub fn named_share(&self) -> f64 {
        match self.stacks {
            stacks if stacks < FEWEST_STACKS => 0.0,
            _ => (1.0 - self.unnamed).clamp(0.0, 1.0),
        }
    }

    /// How far a share may be off, at most, in 19 of 20 cases: 1.96 standard errors of a half. Stacks that follow one another
    /// are taken to be independent.
    #[must_use]
    pub fn margin(&self) -> f64 {
        match self.stacks {
            0 => 1.0,
            stacks => (1.96 * 0.5 / (stacks as f64).sqrt()).min(1.0),
        }
    }
}

/// What the code of one owner takes of PHP's CPU.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OwnerShare {
    /// Whose code.
    pub owner: Owner,
    /// Share of stacks whose innermost code of a file is its.
    pub share: f64,
    /// Share of stacks with code of it anywhere: what it takes with all it calls.
    pub with_calls: f64,
}

/// What the code of one file takes of PHP's CPU.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FileShare {
    /// The file.
    pub file: String,
    /// Share of stacks whose innermost code of a file is in it.
    pub share: f64,
}

/// What one function takes of PHP's CPU.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FunctionShare {
    /// The function at work: one of a file, with its line that was met most, or one of PHP itself.
    pub place: Place,
    /// Who called it, where it is one of PHP itself (`password_verify`): the line that was met most.
    pub caller: Option<Place>,
    /// Whose code it, or its caller, is.
    pub owner: Owner,
    /// Share of stacks on which it is innermost.
    pub share: f64,
    /// Share of stacks on which it is at all.
    pub with_calls: f64,
}

/// What the CPU of one tier went into below its code: mapped files and their symbols.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct NativeAccount {
    /// The tier; `None` for all that is none.
    pub layer: Option<Layer>,
    /// Samples of its CPU time.
    pub samples: u64,
    /// By mapped file, largest first: `php-fpm8.2`, `libz.so.1.2.13`, `the kernel`.
    pub objects: Vec<NativeShare>,
    /// By mapped file and symbol, largest first; the first few.
    pub symbols: Vec<NativeShare>,
    /// What the kernel was met at for it, largest first; the first few hundred. Empty where the kernel's functions are not
    /// told.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kernel: Vec<KernelStack>,
}

impl NativeAccount {
    /// The share of the kernel's work for it that was met in a function or in what that calls; `None` where none was met.
    #[must_use]
    pub fn kernel_share(&self, function: &str) -> Option<f64> {
        let sum = |stacks: &mut dyn Iterator<Item = &KernelStack>| -> u64 {
            stacks.map(|stack| stack.samples).sum()
        };
        let whole = sum(&mut self.kernel.iter());
        let is_in = |stack: &&KernelStack| stack.functions.iter().any(|name| name == function);
        let within = sum(&mut self.kernel.iter().filter(is_in));
        (whole > 0).then(|| within as f64 / whole as f64)
    }
}

/// Calls within the kernel that a tier was met at work in.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct KernelStack {
    /// Names of functions, the outermost first: `do_syscall_64`, `__sys_connect`, `__inet_hash_connect`.
    pub functions: Vec<String>,
    /// Samples in it.
    pub samples: u64,
}

/// A mapped file, or a symbol in one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub struct NativeShare {
    /// The file's name without its directory.
    pub object: String,
    /// The symbol; nothing for a file as a whole, or where its table names none there.
    pub symbol: Option<String>,
    /// Samples in it.
    pub samples: u64,
}

/// What a request does in a part of its time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TimeKind {
    /// It waits in a queue for a worker.
    Queue,
    /// It computes: CPU time by the tier's control group.
    Cpu,
    /// Its worker is ready to run and has no core.
    Core,
    /// Its worker waits: the call and for whom, `recv db`.
    Wait(String),
    /// Its worker is busy in a state that nobody saw.
    Unseen,
    /// Nothing looked: the network, and servers that wait for a core.
    Rest,
}

impl TimeKind {
    /// Whether it says where the time goes.
    #[must_use]
    pub fn is_explained(&self) -> bool {
        !matches!(self, Self::Unseen | Self::Rest)
    }
}

/// A part of the response time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TimePart {
    /// Where.
    pub layer: Layer,
    /// What it does.
    pub kind: TimeKind,
    /// In words: `accept queue`, `computing`, `waiting: recv db`.
    pub what: String,
    /// Mean for each request in ms.
    pub ms: f64,
    /// Share of the response time.
    pub share: f64,
    /// Where in the code it waits, the largest share first, of the stacks that were met in this wait.
    pub lines: Vec<WaitLine>,
}

/// A line that waits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WaitLine {
    /// The innermost place of the application's own code, or else of any file.
    pub place: Place,
    /// Share of the stacks in this wait.
    pub share: f64,
}

impl Account {
    /// Whether there is nothing to tell.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.cpu.is_empty() && self.time.is_empty()
    }

    /// CPU time of the stack for each request in ms.
    #[must_use]
    pub fn stack_ms(&self) -> f64 {
        self.tiers().map(|(_, part)| part.ms).sum()
    }

    /// The CPU of the tiers, largest first.
    pub fn tiers(&self) -> impl Iterator<Item = (Layer, &CpuPart)> {
        self.cpu.iter().filter_map(|part| match part.of {
            CpuOf::Tier(layer) => Some((layer, part)),
            _ => None,
        })
    }

    /// Share of the stack's CPU that a tier takes; 0 where that is not known.
    #[must_use]
    pub fn cpu_share(&self, layer: Layer) -> f64 {
        let mut tiers = self.tiers();
        let part = tiers.find(|(of, _)| *of == layer);
        part.map_or(0.0, |(_, part)| part.share)
    }

    /// Share of the stack's CPU that is explained; `None` where no tier's was measured. See [`Account`].
    #[must_use]
    pub fn explained_share(&self) -> Option<f64> {
        let named = self.code.as_ref().map_or(0.0, CodeAccount::named_share);
        let mut tiers = self.tiers().peekable();
        tiers.peek()?;
        let explained = tiers.map(|(layer, part)| match layer {
            Layer::Php => part.share * named,
            _ => part.share,
        });
        Some(explained.sum::<f64>().clamp(0.0, 1.0))
    }

    /// Share of the response time that is explained; `None` where no request finished. See [`Account`].
    #[must_use]
    pub fn time_explained_share(&self) -> Option<f64> {
        let explained = self.time.iter().filter(|part| part.kind.is_explained());
        (!self.time.is_empty()).then(|| {
            explained
                .map(|part| part.share)
                .sum::<f64>()
                .clamp(0.0, 1.0)
        })
    }

    /// Share of the stack's CPU that the code of an owner takes; 0 where that is not known.
    #[must_use]
    pub fn owner_share(&self, owner: &Owner) -> f64 {
        let owners = self.code.iter().flat_map(|code| &code.owners);
        let share = owners
            .filter(|one| one.owner == *owner)
            .map(|one| one.share);
        share.sum::<f64>() * self.cpu_share(Layer::Php)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tier(layer: Layer, share: f64) -> CpuPart {
        CpuPart {
            of: CpuOf::Tier(layer),
            cores: share,
            ms: share * 10.0,
            share,
        }
    }

    fn account(stacks: u64, unnamed: f64) -> Account {
        Account {
            cpu: vec![tier(Layer::Php, 0.8), tier(Layer::Db, 0.2)],
            code: Some(CodeAccount {
                stacks,
                unnamed,
                ..CodeAccount::default()
            }),
            ..Account::default()
        }
    }

    #[test]
    fn a_tier_is_explained_by_its_group_and_php_by_its_stacks() {
        let explained = account(400, 0.25).explained_share();
        assert!((explained.expect("tiers") - 0.8).abs() < 1e-9);
        let account = Account {
            code: None,
            ..account(0, 0.0)
        };
        assert!((account.explained_share().expect("tiers") - 0.2).abs() < 1e-9);
        assert_eq!(Account::default().explained_share(), None);
    }

    #[test]
    fn a_handful_of_stacks_explains_nothing() {
        let few = account(FEWEST_STACKS - 1, 0.0).explained_share();
        assert!((few.expect("tiers") - 0.2).abs() < 1e-9);
        let margin = |stacks| account(stacks, 0.0).code.map(|code| code.margin());
        assert_eq!(margin(0), Some(1.0));
        assert!(margin(FEWEST_STACKS).is_some_and(|margin| (0.17..0.18).contains(&margin)));
    }

    #[test]
    fn an_account_is_read_from_before_it_had_samples_of_programs() {
        let json = serde_json::to_value(account(1, 0.0)).expect("JSON");
        let mut old = json.clone();
        old.as_object_mut().expect("an object").remove("native");
        let read: Account = serde_json::from_value(old).expect("an account");
        assert_eq!(read, account(1, 0.0));
    }
}
