//! Looking at an application in the lab page by page, before anything is known of it.

use super::{Outsider, Testbed, Watch, arm};
use crate::error::ExperimentError;
use kneepoint_load::{Fetched, Target, fetch};
use kneepoint_model::{Endpoint, Layer, Request, Scenario};
use kneepoint_telemetry::CpuAccount;
use std::time::Duration;

/// Longest wait for a page. The first one compiles the whole application.
const LONGEST: Duration = Duration::from_secs(20);

/// A page that was looked at.
#[derive(Debug, Clone, PartialEq)]
pub struct Visited {
    /// What came.
    pub fetched: Fetched,
    /// CPU time of PHP meanwhile, in ms; `None` where it cannot be read.
    pub php_ms: Option<f64>,
}

/// What PHP says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Php {
    /// Its version: `8.2.36`.
    pub version: String,
    /// The extensions it has loaded, as it calls them.
    pub extensions: Vec<String>,
}

impl Testbed {
    /// Stands an arm up without asking it for anything: for an application that nobody has looked at yet.
    ///
    /// # Errors
    /// A program is missing or refuses its configuration, or the database refuses its seed.
    pub fn stand_up_unasked(
        &mut self,
        name: &str,
        scenario: &Scenario,
    ) -> Result<(), ExperimentError> {
        self.tear_down(name);
        let arm = arm::stand_up(self, name, scenario).inspect_err(|_| self.remove_hosts(name))?;
        self.arms.insert(name.to_owned(), arm);
        Ok(())
    }

    /// Asks an arm for something, and says what came and what it took.
    ///
    /// # Errors
    /// There is no such arm, or no complete response within 20 s.
    pub fn visit(&self, name: &str, request: &Request) -> Result<Visited, ExperimentError> {
        let arm = self.arm(name)?;
        let php: Vec<_> = arm
            .running
            .iter()
            .filter(|tier| tier.layer == Layer::Php)
            .collect();
        let account = || CpuAccount::read(php.iter().copied());
        let before = account();
        let fetched = fetch(&arm.target, request, self.client.netns.as_deref(), LONGEST)?;
        let accounts = before.zip(account());
        let php_ms = accounts.map(|(before, after)| after.tiers_s_since(&before) * 1e3);
        Ok(Visited {
            fetched,
            php_ms: php_ms.filter(|_| !php.is_empty()),
        })
    }

    /// Begins to watch whom PHP of an arm tries to reach. What is visited under a watch is not to be timed.
    ///
    /// # Errors
    /// There is no such arm.
    pub fn watch(&self, name: &str) -> Result<Watch, ExperimentError> {
        Ok(self.arm(name)?.watch())
    }

    /// Ends a watch: whom PHP tried to reach outside of the lab, or why nobody knows, which is empty without PHP.
    ///
    /// # Errors
    /// There is no such arm.
    pub fn outsiders(
        &self,
        name: &str,
        watch: Watch,
    ) -> Result<Result<Vec<Outsider>, String>, ExperimentError> {
        Ok(self.arm(name)?.outsiders(watch, self.lab.dir()))
    }

    /// The host by which an arm is asked, as pages may repeat it.
    ///
    /// # Errors
    /// There is no such arm.
    pub fn host_header(&self, name: &str) -> Result<String, ExperimentError> {
        Ok(self.arm(name)?.target.host().to_owned())
    }

    /// What PHP of an arm says of itself; `None` where it does not say, as without PHP-FPM.
    ///
    /// # Errors
    /// There is no such arm.
    pub fn php(&self, name: &str) -> Result<Option<Php>, ExperimentError> {
        let endpoints = self
            .arm(name)?
            .running
            .iter()
            .flat_map(|tier| &tier.endpoints);
        let mut probe = endpoints.filter_map(|endpoint| match endpoint {
            Endpoint::PhpProbe { address, script } => {
                let root = script.parent().unwrap_or(script);
                Some(Target::fastcgi(address.clone(), script, root))
            }
            _ => None,
        });
        let said = probe.next_back().and_then(|target| {
            let said = fetch(&target, &Request::get("/"), None, LONGEST).ok()?;
            serde_json::from_slice::<serde_json::Value>(&said.body).ok()
        });
        Ok(said.map(|said| Php {
            version: said["version"].as_str().unwrap_or_default().to_owned(),
            extensions: said["extensions"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(|name| name.as_str().map(str::to_owned))
                .collect(),
        }))
    }

    /// The last lines of PHP's logs of an arm, each on a line of its own; empty when there are none.
    ///
    /// # Errors
    /// There is no such arm.
    pub fn last_words(&self, name: &str) -> Result<String, ExperimentError> {
        Ok(self.arm(name)?.last_words())
    }

    /// A text of an arm's application with its files named as they are in the user's directory.
    ///
    /// # Errors
    /// There is no such arm.
    pub fn without_copy(&self, name: &str, text: &str) -> Result<String, ExperimentError> {
        Ok(self.arm(name)?.without_copy(text))
    }
}
