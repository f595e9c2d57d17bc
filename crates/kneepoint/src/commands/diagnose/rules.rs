//! `kneepoint rules` and `kneepoint explain`.

use crate::FOUND;
use crate::args::RulesArgs;
use crate::session::print;
use anyhow::Result;
use kneepoint_diagnosis::{RULES, explain as explain_rule};
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
    for rule in kneepoint_check::CHECKS {
        print(&format!("{:<7} {}", rule.code, rule.title))?;
    }
    print("\nkneepoint explain CODE tells more about one of them.")?;
    Ok(ExitCode::SUCCESS)
}

pub(in crate::commands) fn explain(code: &str) -> Result<ExitCode> {
    if let Some(text) = explain_rule(code).or_else(|| kneepoint_check::explain(code)) {
        print(&text)?;
        return Ok(ExitCode::SUCCESS);
    }
    let codes = RULES
        .iter()
        .map(|rule| rule.code)
        .collect::<Vec<_>>()
        .join(", ");
    print(&format!("there is no rule `{code}`; there are: {codes}"))?;
    Ok(ExitCode::from(FOUND))
}
