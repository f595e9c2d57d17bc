//! Readers that leave: the exit code says what was found, whoever reads what is printed.

use crate::support::company::briefly_among_others;
use crate::support::{kneepoint, plain_scenario, text, wait};
use kneepoint_experiment::RunStore;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::time::Duration;

/// A server whose every answer is this status.
fn server(status: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/", listener.local_addr().expect("an address"));
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            std::thread::spawn(move || {
                let mut bytes = [0; 4096];
                while matches!(stream.read(&mut bytes), Ok(1..)) {
                    let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n");
                    if stream.write_all(answer.as_bytes()).is_err() {
                        return;
                    }
                }
            });
        }
    });
    url
}

/// The exit code of a command whose two readers have left before it begins.
#[track_caller]
fn check(command: &mut Command, expected: i32) {
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("starts");
    drop((child.stdout.take(), child.stderr.take()));
    let output = wait(child, Duration::from_secs(120));
    assert_eq!(output.status.code(), Some(expected), "{}", output.status);
}

#[test]
fn a_load_whose_threshold_broke_fails_whoever_reads() {
    let url = server("500 Broken");
    for how in [&["--json"][..], &[]] {
        let arguments = [
            "load",
            &url,
            "-q",
            "50",
            "-z",
            "2s",
            "--threshold",
            "errors<1%",
        ];
        check(kneepoint().args(arguments).args(how), 1);
    }
}

#[test]
fn a_command_that_failed_fails_whoever_reads() {
    check(kneepoint().args(["limit", "/nowhere/kneepoint.toml"]), 2);
}

#[test]
fn a_run_goes_on_to_its_end_whoever_reads() {
    let _place = briefly_among_others();
    let directory = tempfile::tempdir().expect("temp dir");
    let scenario = plain_scenario(directory.path(), "");
    let mut command = kneepoint();
    command.arg("limit").arg(&scenario);
    command.args(["--simulate=none", "--no-report", "--json", "-", "--runs"]);
    check(command.arg(directory.path()), 0);
    let files = RunStore::list(directory.path());
    let run = RunStore::read(files.last().expect("a run file")).expect("it is readable");
    assert_eq!(run.ended, "finished");
}

#[test]
fn a_full_disk_behind_standard_output_is_a_failure() {
    let url = server("200 OK");
    let full = std::fs::File::options().write(true).open("/dev/full");
    let child = kneepoint()
        .args(["load", &url, "-q", "50", "-z", "1s", "--good", "20s"])
        .stdout(full.expect("/dev/full"))
        .stderr(Stdio::piped())
        .spawn()
        .expect("starts");
    let output = wait(child, Duration::from_secs(60));
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
}
