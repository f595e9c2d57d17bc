//! The vocabulary of Kneepoint: terms, units, estimators and the run record.
//!
//! This crate alone says what a tier, a tunable, an offered rate or a finding *is*. Every other crate
//! speaks in its types, so a number that leaves one crate means the same in the next.
//!
//! It must never do IO, read a clock, draw a random number, or know a program's file formats. Everything
//! here is a value or a pure function of values.

pub mod account;
mod app_switch;
pub mod autostop;
pub mod body;
pub mod capacity;
pub mod contest;
pub mod expectation;
pub mod finding;
pub mod folding;
pub mod gate;
pub mod histogram;
pub mod import;
pub mod inside;
pub mod load;
pub mod log;
pub mod metric;
mod owner;
mod pieces;
mod place;
pub mod ports;
pub mod process;
pub mod redact;
pub mod replay;
pub mod run;
pub mod running;
pub mod scenario;
pub mod schedule;
pub mod session;
pub mod stack;
pub mod statistics;
pub mod threshold;
pub mod units;
pub mod variables;
pub mod workload;

pub use account::Account;
pub use app_switch::{AppSwitch, SwitchKind};
pub use autostop::Autostop;
pub use body::{Body, FileContent, Part, PartContent};
pub use capacity::CapacityPlan;
pub use contest::Contest;
pub use expectation::{Expect, HeaderExpectation, StatusRange};
pub use finding::{Confidence, Effect, Evidenced, Finding, PairedMeasure, Remedy};
pub use gate::{GateResult, GateVerdict};
pub use histogram::LatencyHistogram;
pub use import::{Imported, Profile};
pub use inside::{
    CallKind, CallSum, CallTrace, MetStack, SlowPlace, SlowRequests, StackProfile, TracedCall,
    TracedRoute,
};
pub use load::{
    Health, LoadPoint, Outcome, OutcomeCounts, Second, SessionCounts, SlowRequest, Validity,
};
pub use log::{LogEvent, LogKind};
pub use metric::{Kind, Metric, Series, SeriesSet};
pub use owner::{Owner, OwnerKind};
pub use place::{Place, own_place};
pub use process::{CommandOutput, CommandSpec, Commands, ProcessSpec, Ready, Signal};
pub use run::{CpuTime, JournalEntry, Run, Trial};
pub use running::{CgroupPaths, Endpoint, LogFormat, LogSource, RunningTier, Sum, Workers};
pub use scenario::{AppKind, AppSetting, Budget, FilePatch, HostLimits, Scenario, TierSpec};
pub use schedule::{Arrivals, FirstArrival, Schedule, Segment};
pub use session::{ClosedLoop, Script, Sessions, ThinkTime, VisitShape};
pub use stack::{
    Address, Apply, Layer, ServerKind, Setting, SettingKey, Stack, Tier, Tunable, ValueKind,
    WorkerPool,
};
pub use statistics::Interval;
pub use threshold::Threshold;
pub use variables::{Capture, CaptureFrom, Feeder, RowOrder};
pub use workload::{Method, Request, Slo, Workload};
