//! A search whose load several generators of the lab send.

use crate::support::company::among_waiting;
use crate::support::{descends, kneepoint, needs_root, start, text, wait, waiting_site};
use kneepoint_linux::process::all;
use serde_json::Value;
use std::fs;
use std::time::{Duration, Instant};

/// The user nobody.
const NOBODY: &str = "65534";

/// Two workers that wait 20 ms for each request bear 100 requests a second at most, whoever asks.
#[test]
fn agents_of_the_lab_find_the_limit_and_are_nobody() {
    if !needs_root("a lab with generators of its own") {
        return;
    }
    let _place = among_waiting();
    let directory = tempfile::tempdir().expect("temp dir");
    let runs = directory.path().join("runs");
    let scenario = waiting_site(directory.path(), "site", 20).join("kneepoint.toml");
    let lines = fs::read_to_string(&scenario).expect("scenario read");
    fs::write(&scenario, format!("{lines}\n[generators]\ncount = 2\n")).expect("scenario written");
    let child = start(
        kneepoint()
            .arg("limit")
            .arg(&scenario)
            .args(["--set", "php.pm=static", "--set", "php.pm.max_children=2"])
            .args(["--budget", "45s", "--no-report", "--json", "-", "--runs"])
            .arg(&runs),
    );
    let rights = rights_of_agents(child.id());
    let output = wait(child, Duration::from_secs(240));
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(rights.len(), 2, "{rights:?}");
    for (users, capabilities) in &rights {
        assert_eq!(users, &vec![NOBODY.to_owned(); 4], "of all kinds of user");
        assert_eq!(capabilities.trim_matches('0'), "", "none is in force");
    }

    let run: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let limit = &run["summary"]["base_hz"];
    // Its interval is wide on a machine that is not quiet.
    let (low, high) = (limit["low"].as_f64(), limit["high"].as_f64());
    assert!(low < Some(100.0) && high > Some(70.0), "{limit}");
    let shares = run["run"]["trials"][0]["load"]["generators"].as_array();
    assert_eq!(shares.map(Vec::len), Some(2), "each has its part");
}

/// Users and effective capabilities of the two agents of this run's lab, once they are there. They are told in `/proc` by their
/// first argument and by who their ancestors are.
fn rights_of_agents(of: u32) -> Vec<(Vec<String>, String)> {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        let agents: Vec<_> = all()
            .into_iter()
            .filter(|pid| is_agent(*pid) && descends(*pid, of))
            .filter_map(rights)
            .collect();
        // An agent gives up root as its first deed: until then it is not looked at.
        let ready = agents.iter().all(|(users, _)| users[0] == NOBODY);
        if (agents.len() == 2 && ready) || Instant::now() > until {
            return agents;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn is_agent(pid: u32) -> bool {
    let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    command.split(|byte| *byte == 0).nth(1) == Some(b"__agent")
}

fn rights(pid: u32) -> Option<(Vec<String>, String)> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let words = |name: &str| {
        let rest = status.lines().find_map(|line| line.strip_prefix(name))?;
        Some(
            rest.split_whitespace()
                .map(str::to_owned)
                .collect::<Vec<_>>(),
        )
    };
    Some((words("Uid:")?, words("CapEff:")?.pop()?))
}
