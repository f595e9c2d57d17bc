//! The vocabulary of Kneepoint: terms, units, estimators and the run record.
//!
//! This crate alone says what a tier, a tunable, an offered rate or a finding *is*. Every other crate
//! speaks in its types, so a number that leaves one crate means the same in the next.
//!
//! It must never do IO, read a clock, draw a random number, or know a program's file formats. Everything
//! here is a value or a pure function of values.

pub mod comparable;
pub mod condition;
pub mod evidence;
pub mod load;
pub mod pieces;
pub mod record;
pub mod redact;
pub mod scenario;
pub mod stack;
pub mod statistics;
pub mod units;
pub mod workload;

// Modules that other crates name often are at hand without their room.
pub use condition::{autostop, threshold};
pub use evidence::{account, folding, inside, log, metric, running};
pub use load::histogram;
pub use record::{capacity, contest, finding, gate, mending, replay, run};
pub use stack::{ports, process, value_kind};
pub use workload::{body, expectation, schedule, session, variables};

pub use condition::autostop::Autostop;
pub use condition::threshold::Threshold;
pub use evidence::account::Account;
pub use evidence::chain::{LockChain, LockChains, LockKind, LockParty, LockWait, lock_chains};
pub use evidence::inside::{
    CallKind, CallSum, CallTrace, MetAtOnce, MetStack, SlowPlace, SlowRequests, StackProfile,
    TracedCall, TracedRoute,
};
pub use evidence::log::{LogEvent, LogKind};
pub use evidence::metric::{Kind, Metric, Series, SeriesSet};
pub use evidence::place::owner::{Owner, OwnerKind};
pub use evidence::place::{Place, own_place};
pub use evidence::running::{
    CgroupPaths, Endpoint, LogFormat, LogSource, RunningTier, Sum, Workers,
};
pub use load::histogram::LatencyHistogram;
pub use load::{
    AbortRule, GeneratorPart, Health, LoadPoint, Outcome, OutcomeCounts, Second, SessionCounts,
    SlowRequest, Validity,
};
pub use record::capacity::CapacityPlan;
pub use record::contest::Contest;
pub use record::finding::{Confidence, Effect, Evidenced, Finding, PairedMeasure, Remedy, Verdict};
pub use record::gate::{GateResult, GateVerdict};
pub use record::rule_page::{rule_page, rule_title};
pub use record::run::{CpuTime, JournalEntry, Run, Trial};
pub use scenario::{
    AppKind, AppSetting, Budget, FilePatch, HostLimits, JobSpec, PeerKind, PeerSpec, Scenario,
    TierSpec,
};
pub use stack::app_switch::{AppSwitch, SwitchKind, Unprepared};
pub use stack::change::Change;
pub use stack::process::{CommandOutput, CommandSpec, Commands, ProcessSpec, Ready, Signal};
pub use stack::value_kind::{Value, ValueKind};
pub use stack::{
    Address, Apply, Layer, ServerKind, Setting, SettingKey, Stack, Tier, Tunable, WorkerPool,
};
pub use statistics::Interval;
pub use workload::body::{Body, FileContent, Part, PartContent};
pub use workload::expectation::{Expect, HeaderExpectation, StatusRange};
pub use workload::schedule::{Arrivals, FirstArrival, Schedule, Segment};
pub use workload::session::{ClosedLoop, Script, Sessions, ThinkTime, VisitShape};
pub use workload::variables::{Capture, CaptureFrom, Feeder, RowOrder};
pub use workload::{
    Method, Request, Slo, Unsendable, ValueSource, VariableNames, Workload, check_request,
    check_workload,
};
