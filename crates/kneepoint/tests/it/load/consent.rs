//! A host that is not this machine, also one behind a tunnel, is loaded when it says so, or a person does.

use super::{load, says};
use crate::support::company::briefly_among_others;
use crate::support::text;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Answers every request, also that for the consent, and says where it listens.
const SERVER: &str = r#"
use Socket;
$SIG{CHLD} = "IGNORE";
socket(S, PF_INET, SOCK_STREAM, 0) && bind(S, sockaddr_in(0, INADDR_LOOPBACK)) && listen(S, 99) or die;
$| = 1;
print +(sockaddr_in(getsockname S))[0], "\n";
while (accept(C, S)) {
    if (!fork) {
        while (sysread(C, $_, 9999)) {
            my $body = m{/.well-known/kneepoint} ? $ARGV[0] : "x";
            my $status = $body eq "" ? "404 No" : "200 OK";
            syswrite C, "HTTP/1.1 $status\r\ncontent-length: " . length($body) . "\r\n\r\n$body";
        }
        exit;
    }
    close C;
}
"#;

/// A server whose program has the name of one that hands connections on.
struct Tunnel {
    child: Child,
    url: String,
}

impl Tunnel {
    fn start(directory: &Path, consent: &str) -> Self {
        let program = directory.join("ssh");
        if !program.exists() {
            symlink("/usr/bin/perl", &program).expect("a link");
        }
        let mut child = Command::new(program)
            .args(["-e", SERVER, consent])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("perl, of which every Debian has one");
        let mut port = String::new();
        let out = child.stdout.as_mut().expect("a pipe");
        BufReader::new(out).read_line(&mut port).expect("a line");
        let url = format!("http://127.0.0.1:{}/", port.trim());
        Self { child, url }
    }
}

impl Drop for Tunnel {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn consent(rate: u32, until: &str) -> String {
    format!(r#"{{"host": "127.0.0.1", "highest_rate": {rate}, "until": "{until}"}}"#)
}

#[test]
fn a_tunnel_is_said_to_be_one_and_loaded_when_somebody_allows_it() {
    let _place = briefly_among_others();
    let directory = tempfile::tempdir().expect("a directory");
    let told = |consent: &str, arguments: &[&str]| {
        let tunnel = Tunnel::start(directory.path(), consent);
        let usual = [tunnel.url.as_str(), "-z", "300ms"];
        let output = load(&[&usual[..], arguments].concat());
        let said = format!("{}{}", text(&output.stdout), text(&output.stderr));
        (output.status.code(), said)
    };
    let rate = ["-q", "40"].as_slice();
    let willing = || consent(50, "2999-01-01T00:00:00Z");
    let (code, said) = told("", rate);
    assert_eq!(code, Some(2), "{said}");
    says(
        &said,
        &[
            "is a tunnel: `ssh` (process ",
            "--i-own 127.0.0.1",
            "status 404",
        ],
    );
    let (code, said) = told("", &["-q", "40", "--i-own", "127.0.0.1"]);
    assert_eq!(code, Some(0), "{said}");

    let (code, said) = told(&willing(), rate);
    assert_eq!(code, Some(0), "{said}");
    says(&said, &["allows at most 50.0/s until 2999-01-01T00:00:00Z"]);
    for (consent, arguments, words) in [
        (
            consent(30, "2999-01-01T00:00:00Z"),
            rate,
            "allows 30 requests a second",
        ),
        (
            consent(50, "2020-01-01T00:00:00Z"),
            rate,
            "ended at 2020-01-01T00:00:00Z",
        ),
        (willing(), ["-c", "2"].as_slice(), "no highest rate"),
        (
            willing().replace("127.0.0.1", "other.test"),
            rate,
            "the consent of another host, `other.test`",
        ),
        (
            willing(),
            ["-q", "40", "-H", "hOST: victim.test"].as_slice(),
            "victim.test serves the consent of another host, `127.0.0.1`",
        ),
        (
            willing(),
            [
                "-q",
                "40",
                "-H",
                "Host: victim.test",
                "--i-own",
                "localhost",
            ]
            .as_slice(),
            "--i-own victim.test",
        ),
    ] {
        let (code, said) = told(&consent, arguments);
        assert_eq!(code, Some(2), "{said}");
        says(&said, &[words]);
    }
}
