//! A first scenario for an application, from looking at its directory, at this machine and at the application itself in
//! the lab.
//!
//! Nothing here changes the application's directory: what it needs to run against the lab's database is written into the
//! scenario, as changes to the private copy, where a person sees it.

mod draft;
mod settings;
mod visit;

pub use draft::{draft, took};
pub use settings::seeds::Seed;
pub use settings::{DbEngine, EnvValue, FileChange};
pub use visit::{Visit, VisitNeeds, VisitOutcome, VisitPage, visit};

use crate::config;
use anyhow::{Result, bail};
use kneepoint_model::AppKind;
use kneepoint_stack::detect::detect_dir;
use std::path::Path;

/// What a draft is made from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InitFacts {
    /// What kind of application it is.
    pub kind: AppKind,
    /// What people call it.
    pub name: String,
    /// The application's directory, relative to where the scenario will be.
    pub root: String,
    /// The front controller, relative to the root.
    pub front: String,
    /// What of PHP the application says it needs.
    pub needs: VisitNeeds,
    /// The database it uses; `None` where none is to be seen.
    pub engine: Option<DbEngine>,
    /// The file that says so, where one does.
    pub told_in: Option<String>,
    /// The dump that its database begins with.
    pub seed: Option<Seed>,
    /// Whether it uses Redis.
    pub redis: bool,
    /// What its environment needs beside what the lab offers.
    pub env: Vec<EnvValue>,
    /// What its private copy needs to be changed.
    pub changes: Vec<FileChange>,
    /// What was found and what is missing, a sentence each.
    pub notes: Vec<String>,
    /// Cores of the machine.
    pub cores: usize,
    /// Memory of the machine in bytes.
    pub memory_bytes: u64,
}

/// Looks at an application and at this machine. The scenario is meant to be written into `root`.
///
/// # Errors
/// The directory holds no front controller; the message says where it was looked for.
pub fn look(root: &Path) -> Result<InitFacts> {
    let Some(found) = detect_dir(root) else {
        bail!(
            "`{}` has no front controller (looked for {} and for those of known frameworks): name the directory of a \
             PHP application",
            root.display(),
            config::FRONTS.join(" and ")
        );
    };
    let machine = kneepoint_experiment::machine();
    let mut facts = InitFacts {
        kind: found.kind,
        name: found.name.into(),
        root: ".".into(),
        front: found.front.display().to_string(),
        needs: needs(root),
        engine: None,
        told_in: None,
        seed: None,
        redis: false,
        env: Vec::new(),
        changes: Vec::new(),
        notes: Vec::new(),
        cores: machine.cores as usize,
        memory_bytes: machine.memory_bytes,
    };
    settings::look(root, &found, &mut facts);
    Ok(facts)
}

/// What of PHP composer.json asks for.
fn needs(root: &Path) -> VisitNeeds {
    let text = settings::read(&root.join("composer.json")).unwrap_or_default();
    let json: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
    let required = json["require"].as_object();
    let names = required.into_iter().flat_map(|required| required.keys());
    VisitNeeds {
        version: json["require"]["php"].as_str().map(str::to_owned),
        extensions: names
            .filter_map(|name| name.strip_prefix("ext-").map(str::to_owned))
            .collect(),
    }
}

#[cfg(test)]
mod tests;
