//! The system calls by which a process reaches for somebody else, and what they say of whom.

use crate::memory::{Memory, word};
use crate::trace::calls::{self, Call};
use kneepoint_model::Address;

/// Longest address that is read, in bytes: that of a Unix socket has 110.
const ADDRESS: u64 = 128;
/// Most messages of one call that are looked at.
const MESSAGES: u64 = 8;
/// Length of `struct mmsghdr` (socket.h) on 64-bit machines, in bytes.
const MESSAGE: u64 = 64;

/// A call that may reach somebody, with the places of its arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// A descriptor is connected: where the address stands, and its length.
    Connect(i32, u64, u64),
    /// Bytes are sent: where they stand, how many, and where and how long the address is to which (0 for that of the
    /// connection).
    Send(i32, (u64, u64), (u64, u64)),
    /// Messages are sent: the first `struct msghdr`, and how many there are.
    Messages(i32, u64, u64),
    /// Another program takes the place of the process: where its path stands.
    Execute(u64),
    /// A descriptor is closed.
    Close(i32),
    /// The process waits for its next connection.
    Accept,
}

/// What a call is, by its number; nothing when it reaches nobody.
pub(super) fn reach(number: i64, args: &[u64; 6]) -> Option<Reach> {
    // An int: the upper half of the register is not part of it.
    let fd = (args[0] as u32).cast_signed();
    Some(match number {
        libc::SYS_connect => Reach::Connect(fd, args[1], args[2]),
        libc::SYS_sendto => Reach::Send(fd, (args[1], args[2]), (args[4], args[5])),
        libc::SYS_sendmsg => Reach::Messages(fd, args[1], 1),
        libc::SYS_sendmmsg => Reach::Messages(fd, args[1], args[2]),
        libc::SYS_execve => Reach::Execute(args[0]),
        libc::SYS_execveat => Reach::Execute(args[1]),
        libc::SYS_close => Reach::Close(fd),
        libc::SYS_accept | libc::SYS_accept4 => Reach::Accept,
        _ => return None,
    })
}

/// The address at a place, where it is one of a kind that reaches beyond the machine's own tables.
pub(super) fn address(memory: &impl Memory, at: u64, length: u64) -> Option<Address> {
    let length = usize::try_from(length.min(ADDRESS)).ok()?;
    if at == 0 || length == 0 {
        return None;
    }
    Address::of_sockaddr(&memory.bytes(at, length).ok()?)
}

/// What a call sends and to whom, message by message; no address where that of the connection holds.
pub(super) fn sent(memory: &impl Memory, call: Reach) -> Vec<(Vec<u8>, Option<Address>)> {
    match call {
        Reach::Send(fd, (at, length), to) => {
            let bytes = calls::sent(memory, Call::Send(fd, at, length));
            vec![(bytes.unwrap_or_default(), address(memory, to.0, to.1))]
        }
        Reach::Messages(fd, at, count) => (0..count.min(MESSAGES))
            .map(|nth| at.wrapping_add(nth * MESSAGE))
            .map(|at| {
                let bytes = calls::sent(memory, Call::SendMessage(fd, at));
                (bytes.unwrap_or_default(), addressee(memory, at))
            })
            .collect(),
        _ => Vec::new(),
    }
}

/// To whom a `struct msghdr` is addressed: it begins with the place of the address and its length, an unsigned int.
fn addressee(memory: &impl Memory, at: u64) -> Option<Address> {
    let head = memory.bytes(at, 16).ok()?;
    let length = word(&head, 8)? & u64::from(u32::MAX);
    address(memory, word(&head, 0)?, length)
}

/// The name that a question to a nameserver is about (RFC 1035, section 4.1): `api.example.org`.
pub(super) fn question(packet: &[u8]) -> Option<String> {
    let is_question = packet.get(2)? & 0xf8 == 0;
    if !is_question || packet.get(4..6)? == [0, 0] {
        return None;
    }
    let mut name = String::new();
    let mut at = 12;
    loop {
        let length = usize::from(*packet.get(at)?);
        if length == 0 {
            break;
        }
        // A pointer is none of a question.
        let label = packet
            .get(at + 1..at + 1 + length)
            .filter(|_| length < 64)?;
        if !label.iter().all(u8::is_ascii_graphic) {
            return None;
        }
        if !name.is_empty() {
            name.push('.');
        }
        name.extend(
            label
                .iter()
                .map(|byte| char::from(byte.to_ascii_lowercase())),
        );
        at += 1 + length;
        if name.len() > 253 {
            return None;
        }
    }
    (!name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Words;
    use proptest::prelude::*;

    /// A question for a name, as a resolver asks it.
    fn asks(name: &str) -> Vec<u8> {
        let mut packet = vec![7, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        for label in name.split('.') {
            packet.push(u8::try_from(label.len()).expect("a short label"));
            packet.extend(label.as_bytes());
        }
        packet.extend([0, 0, 1, 0, 1]);
        packet
    }

    #[test]
    fn a_question_tells_its_name() {
        let check = |packet: &[u8], expected: Option<&str>| {
            assert_eq!(question(packet).as_deref(), expected, "{packet:?}");
        };
        let packet = asks("API.example.org");
        check(&packet, Some("api.example.org"));
        check(&packet[..20], None);
        let mut answer = packet;
        answer[2] |= 0x80;
        check(&answer, None);
        check(&asks(""), None);
        check(b"", None);
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn calls_are_known_by_their_numbers() {
        let args = [0xffff_ffff_0000_0007, 11, 12, 13, 14, 15];
        for (number, expected) in [
            (42, Some(Reach::Connect(7, 11, 12))),
            (44, Some(Reach::Send(7, (11, 12), (14, 15)))),
            (46, Some(Reach::Messages(7, 11, 1))),
            (307, Some(Reach::Messages(7, 11, 12))),
            (59, Some(Reach::Execute(args[0]))),
            (3, Some(Reach::Close(7))),
            (288, Some(Reach::Accept)),
            (1, None),
        ] {
            assert_eq!(reach(number, &args), expected, "{number}");
        }
    }

    #[test]
    fn a_message_tells_what_and_to_whom() {
        let mut words = Words::default();
        // 10.1.2.3, port 53, as it stands in memory.
        words.put(0x1000, u64::from_le_bytes([2, 0, 0, 53, 10, 1, 2, 3]));
        words.put(0x1008, 0);
        words.text(0x2000, "question");
        words.put(0x3000, 0x2000);
        words.put(0x3008, 8);
        for (at, value) in [(0, 0x1000), (8, 16), (16, 0x3000), (24, 1)] {
            words.put(0x4000 + at, value);
        }
        let to = Some("10.1.2.3:53".parse().expect("an address"));
        let expected = vec![(b"question".to_vec(), to)];
        assert_eq!(
            sent(&words.memory(), Reach::Messages(3, 0x4000, 1)),
            expected
        );
    }

    proptest! {
        #[test]
        fn a_question_for_any_name_tells_it(name in "[a-z0-9-]{1,40}(\\.[a-z0-9-]{1,40}){0,4}") {
            prop_assert_eq!(question(&asks(&name)), Some(name));
        }

        #[test]
        fn no_packet_panics(packet in proptest::collection::vec(any::<u8>(), 0..600)) {
            question(&packet);
        }
    }
}
