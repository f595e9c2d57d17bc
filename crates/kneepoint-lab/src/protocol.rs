//! What owner and keeper say to each other: JSON lines, each request with a number that its answer repeats.

use crate::LabError;
use crate::identity::Identity;
use crate::plan::{Capabilities, HostInfo, HostPlan, LabPlan, Process, Stopped};
use crate::record::LabId;
use kneepoint_model::{CommandOutput, CommandSpec, ProcessSpec, Signal};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, Write};
use std::path::PathBuf;

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Request {
    Begin {
        plan: LabPlan,
        owner: Identity,
        /// Where the lab directory is to be made; absolute, since the keeper works elsewhere.
        base: PathBuf,
    },
    AddHost {
        plan: HostPlan,
    },
    RemoveHost {
        host: String,
    },
    Spawn {
        host: String,
        spec: Box<ProcessSpec>,
    },
    Exec {
        host: String,
        command: CommandSpec,
    },
    Signal {
        process: Process,
        signal: Signal,
    },
    Reload {
        process: Process,
    },
    Stop {
        process: Process,
    },
    Ended {
        process: Process,
    },
    SetSysctl {
        host: String,
        name: String,
        value: String,
    },
    GetSysctl {
        host: String,
        name: String,
    },
    SetCpus {
        host: String,
        cpus: f64,
    },
    End,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Answer {
    Begun(Box<Begun>),
    Host(Box<HostInfo>),
    Process(Process),
    Output(CommandOutput),
    Stopped(Stopped),
    Ended(Option<String>),
    Value(String),
    Done,
}

/// What a lab is once it has begun.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Begun {
    pub(crate) id: LabId,
    pub(crate) dir: PathBuf,
    pub(crate) hosts: Vec<HostInfo>,
    pub(crate) capabilities: Capabilities,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Numbered<T> {
    pub(crate) number: u64,
    pub(crate) body: T,
}

pub(crate) type Reply = Result<Answer, LabError>;

/// Writes one message as a line, in one call, so that threads may share a locked writer.
pub(crate) fn send<T: Serialize>(to: &mut impl Write, number: u64, body: T) -> io::Result<()> {
    let mut line = serde_json::to_vec(&Numbered { number, body })?;
    line.push(b'\n');
    to.write_all(&line)
}

/// Reads the next message; `None` at the end, or when the other side does not speak this language.
pub(crate) fn receive<T: DeserializeOwned>(from: &mut impl BufRead) -> Option<Numbered<T>> {
    let mut line = String::new();
    match from.read_line(&mut line) {
        Ok(1..) => serde_json::from_str(&line).ok(),
        _ => None,
    }
}
