//! The commands in `deploy/` are ones that this program takes.

use super::Args;
use clap::Parser as _;
use std::path::Path;

/// A command of one of the files, without the program's name.
struct Line {
    file: String,
    words: Vec<String>,
}

/// Every command of Kneepoint in the files.
fn lines() -> Vec<Line> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy");
    let mut lines = Vec::new();
    for entry in std::fs::read_dir(dir).expect("deploy/ is there") {
        let path = entry.expect("it can be listed").path();
        let text = std::fs::read_to_string(&path).expect("it is text");
        let file = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let found = match file.rsplit_once('.').map_or("", |(_, ending)| ending) {
            "service" => unit(&text),
            "yaml" => lists(&text),
            "md" => shell(&text),
            _ => Vec::new(),
        };
        lines.extend(found.into_iter().map(|words| Line {
            file: file.clone(),
            words,
        }));
    }
    lines
}

/// `ExecStart` of a systemd unit, with the values that it gives its variables.
fn unit(text: &str) -> Vec<Vec<String>> {
    let variables = text
        .lines()
        .filter_map(|line| line.strip_prefix("Environment=")?.split_once('='));
    let variables: Vec<(&str, &str)> = variables
        .chain([("CREDENTIALS_DIRECTORY", "/run/credentials")])
        .collect();
    let of_line = |line: &str| {
        let mut line = line.replace("%l", "host");
        for (name, value) in &variables {
            line = line
                .replace(&format!("${{{name}}}"), value)
                .replace(&format!("${name}"), value);
        }
        line.split_whitespace().skip(1).map(str::to_owned).collect()
    };
    text.lines()
        .filter_map(|line| line.strip_prefix("ExecStart="))
        .map(of_line)
        .collect()
}

/// Arguments of containers: a list on one line, which is JSON too. Those of other programs begin with a flag.
fn lists(text: &str) -> Vec<Vec<String>> {
    let lists = text.lines().filter_map(|line| {
        let line = line.trim();
        line.strip_prefix("args: ")
            .or_else(|| line.strip_prefix("command: "))
    });
    let read = |list: &str| -> Vec<String> {
        serde_json::from_str(&list.replace("$(POD_NAME)", "pod")).expect("a list on one line")
    };
    lists
        .map(read)
        .filter(|words| !words.iter().take(1).any(|word| word.starts_with('-')))
        .collect()
}

/// Lines that a person types.
fn shell(text: &str) -> Vec<Vec<String>> {
    let typed = text
        .lines()
        .filter_map(|line| line.strip_prefix("kneepoint "));
    typed
        .map(|line| line.split_whitespace().map(str::to_owned).collect())
        .collect()
}

#[test]
fn every_command_in_deploy_is_one_that_this_program_takes() {
    let lines = lines();
    for file in [
        "kneepoint-agent.service",
        "compose.yaml",
        "agents.yaml",
        "run.yaml",
        "README.md",
    ] {
        assert!(
            lines.iter().any(|line| line.file == file),
            "no command of Kneepoint in {file}"
        );
    }
    for Line { file, words } in lines {
        let read = Args::try_parse_from(
            ["kneepoint".to_owned()]
                .into_iter()
                .chain(words.iter().cloned()),
        );
        if let Err(error) = read {
            panic!("deploy/{file}: `kneepoint {}`: {error}", words.join(" "));
        }
    }
}

#[test]
fn a_unit_is_read_with_its_variables() {
    let text = "Environment=RATE=5\nEnvironment=MORE=\nExecStart=/bin/kneepoint agent --max-rate ${RATE} --name %l $MORE\n";
    assert_eq!(unit(text), [["agent", "--max-rate", "5", "--name", "host"]]);
}
