//! SMTP (RFC 5321) as far as a client needs to hand over mail: everything is taken, and nothing kept.

use crate::answers::Answers;
use crate::lines::line;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};

/// Longest line, in bytes: RFC 5321 allows 1000, clients send more.
const LINE: usize = 64 << 10;
/// Longest mail, in bytes.
const MAIL: usize = 256 << 20;

/// What comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    Command,
    /// Lines of an exchange of names and passwords, of which none is looked at.
    Login(u32),
    Mail,
    Nothing,
}

/// Talks to a client until it leaves.
///
/// # Errors
/// It says nothing for too long, says a line without end, or is gone.
pub(crate) fn talk(from: impl Read, mut to: impl Write, answers: &Answers) -> io::Result<()> {
    let mut reader = BufReader::new(from);
    to.write_all(b"220 double ESMTP\r\n")?;
    let mut next = Next::Command;
    while next != Next::Nothing {
        if next == Next::Mail {
            read_mail(&mut reader)?;
            answers.think();
            to.write_all(b"250 2.0.0 taken\r\n")?;
            next = Next::Command;
            continue;
        }
        let Some(line) = line(&mut reader, LINE)? else {
            break;
        };
        let reply;
        (reply, next) = answer(&line, next);
        to.write_all(reply.as_bytes())?;
    }
    Ok(())
}

fn answer(line: &[u8], state: Next) -> (&'static str, Next) {
    const TAKEN: &str = "235 2.7.0 welcome\r\n";
    if let Next::Login(left) = state {
        return match left {
            0 => (TAKEN, Next::Command),
            // `Password:` in base64, as clients expect it.
            left => ("334 UGFzc3dvcmQ6\r\n", Next::Login(left - 1)),
        };
    }
    let text = String::from_utf8_lossy(line).to_ascii_uppercase();
    let mut words = text.split_whitespace();
    let (verb, argument) = (words.next().unwrap_or_default(), words.next());
    let reply = match verb {
        "EHLO" => {
            "250-double\r\n250-8BITMIME\r\n250-SIZE 268435456\r\n250-AUTH PLAIN LOGIN\r\n250 SMTPUTF8\r\n"
        }
        "HELO" => "250 double\r\n",
        "MAIL" | "RCPT" | "RSET" | "NOOP" => "250 2.0.0 ok\r\n",
        "VRFY" => "252 2.0.0 perhaps\r\n",
        "DATA" => return ("354 go on\r\n", Next::Mail),
        "QUIT" => return ("221 2.0.0 bye\r\n", Next::Nothing),
        "AUTH" => {
            return match (argument, words.next()) {
                (Some("LOGIN"), None) => ("334 VXNlcm5hbWU6\r\n", Next::Login(1)),
                (Some("LOGIN"), Some(_)) => ("334 UGFzc3dvcmQ6\r\n", Next::Login(0)),
                (Some("PLAIN"), None) => ("334 \r\n", Next::Login(0)),
                (Some("PLAIN"), Some(_)) => (TAKEN, Next::Command),
                _ => ("504 5.5.4 no such way\r\n", Next::Command),
            };
        }
        "STARTTLS" => "502 5.5.1 a double has no certificate\r\n",
        _ => "500 5.5.2 not understood\r\n",
    };
    (reply, Next::Command)
}

/// Reads a mail up to the line with nothing but a dot.
fn read_mail(reader: &mut impl BufRead) -> io::Result<()> {
    let mut left = MAIL;
    while let Some(line) = line(reader, LINE.min(left))? {
        if line == b"." {
            return Ok(());
        }
        left = left.saturating_sub(line.len() + 2);
    }
    Err(ErrorKind::UnexpectedEof.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Double;
    use kneepoint_model::PeerKind;
    use proptest::prelude::*;
    use std::time::Duration;

    /// The codes of the answers to what a client says.
    fn codes(said: &[u8]) -> Vec<String> {
        let answers = Answers::of(&Double {
            listen: "127.0.0.1:1".parse().expect("an address"),
            kind: PeerKind::Smtp,
            latency: Duration::ZERO,
            capacity: 1,
            status: 200,
            body: String::new(),
        });
        let mut to = Vec::new();
        let _ = talk(said, &mut to, &answers);
        let text = String::from_utf8(to).expect("text");
        let last = |line: &&str| line.as_bytes().get(3) == Some(&b' ');
        text.lines()
            .filter(last)
            .map(|line| line[..3].to_owned())
            .collect()
    }

    #[test]
    fn mail_is_taken_as_often_as_it_is_sent() {
        let one =
            "MAIL FROM:<a@b>\r\nRCPT TO:<c@d>\r\nDATA\r\nSubject: x\r\n\r\n..\r\nQUIT\r\n.\r\n";
        let said = format!("EHLO me\r\n{one}{one}QUIT\r\nNOOP\r\n");
        let mail = ["250", "250", "354", "250"];
        let expected = [&["220", "250"][..], &mail, &mail, &["221"]].concat();
        assert_eq!(codes(said.as_bytes()), expected);
    }

    #[test]
    fn a_client_may_log_in_and_not_encrypt() {
        for (said, expected) in [
            (
                "AUTH LOGIN\r\ndQ==\r\ncA==\r\n",
                &["220", "334", "334", "235"][..],
            ),
            ("AUTH LOGIN dQ==\r\ncA==\r\n", &["220", "334", "235"]),
            ("AUTH PLAIN\r\nAHUAcA==\r\n", &["220", "334", "235"]),
            ("auth plain AHUAcA==\r\n", &["220", "235"]),
            ("AUTH CRAM-MD5\r\n", &["220", "504"]),
            ("STARTTLS\r\nBDAT 3\r\n", &["220", "502", "500"]),
        ] {
            assert_eq!(codes(said.as_bytes()), expected, "{said}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            codes(&bytes);
            codes(&[b"DATA\r\n", &bytes[..]].concat());
        }
    }
}
