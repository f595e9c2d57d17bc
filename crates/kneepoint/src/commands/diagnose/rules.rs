//! `kneepoint rules` and `kneepoint explain`.

use crate::FOUND;
use crate::args::RulesArgs;
use crate::session::print;
use anyhow::Result;
use kneepoint_check::CHECKS;
use kneepoint_diagnosis::{RULES, explain as explain_rule};
use std::collections::BTreeSet;
use std::process::ExitCode;

pub(in crate::commands) fn run(args: &RulesArgs) -> Result<ExitCode> {
    if args.json {
        let rules: Vec<_> = RULES
            .iter()
            .map(|rule| serde_json::json!({ "code": rule.code, "name": rule.name, "title": rule.title, "since": rule.since }))
            .collect();
        print(&serde_json::to_string_pretty(&rules)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    for rule in RULES {
        print(&format!("{:<7} {}", rule.code, rule.title))?;
    }
    print("\nwithout load, by kneepoint check:")?;
    for rule in CHECKS {
        print(&format!("{:<7} {}", rule.code, rule.title))?;
    }
    print("\nkneepoint explain CODE tells more about one of them.")?;
    Ok(ExitCode::SUCCESS)
}

pub(in crate::commands) fn explain(code: &str) -> Result<ExitCode> {
    // One matter may be found in two ways: under load, and in what is configured.
    let pages = [explain_rule(code), kneepoint_check::explain(code)];
    let pages: Vec<String> = pages.into_iter().flatten().collect();
    if !pages.is_empty() {
        print(&pages.join("\n"))?;
        return Ok(ExitCode::SUCCESS);
    }
    let codes: BTreeSet<&str> = RULES
        .iter()
        .map(|rule| rule.code)
        .chain(CHECKS.iter().map(|rule| rule.code))
        .collect();
    let codes: Vec<&str> = codes.into_iter().collect();
    let codes = codes.join(", ");
    print(&format!("there is no rule `{code}`; there are: {codes}"))?;
    Ok(ExitCode::from(FOUND))
}
