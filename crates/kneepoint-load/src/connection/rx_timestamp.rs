//! When bytes came, as the kernel noted it: so that taking them up a moment later falsifies no response time.

use crate::connection::socket::{last_error, set_option};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use std::os::fd::AsRawFd;
use std::time::{SystemTime, UNIX_EPOCH};

/// Room for one control message with a `timespec`, aligned as the kernel wants it.
#[repr(align(8))]
struct Control([u8; 64]);

/// Asks the kernel to note when the bytes of a TCP connection arrive.
pub(crate) fn enable(fd: &OwnedFd) -> Result<(), Errno> {
    set_option(fd, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1)
}

/// Reads what there is, and tells when the last of it came in nanoseconds of the wall clock, if the kernel noted it.
#[expect(
    unsafe_code,
    reason = "neither the standard library nor rustix reads the control message of SO_TIMESTAMPNS"
)]
pub(crate) fn receive(fd: &OwnedFd, buffer: &mut [u8]) -> Result<(usize, Option<u64>), Errno> {
    let mut control = Control([0; 64]);
    let mut part = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };
    // SAFETY: all-zero bytes are a valid `msghdr`: no name, no parts, no control messages.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = (&raw mut control.0).cast();
    message.msg_controllen = size_of::<Control>() as _;
    // SAFETY: the message points to one part within `buffer` and to `control`, both live and mutable for the call.
    let count = unsafe { libc::recvmsg(fd.as_raw_fd(), &raw mut message, 0) };
    let Ok(count) = usize::try_from(count) else {
        return Err(last_error());
    };
    Ok((count, noted(&message)))
}

#[expect(unsafe_code, reason = "control messages are read where they lie")]
fn noted(message: &libc::msghdr) -> Option<u64> {
    // SAFETY: the kernel filled the message in; its control buffer is still alive where it is called from.
    let header = unsafe { libc::CMSG_FIRSTHDR(message) };
    // SAFETY: the header is null, or lies aligned within the control buffer.
    let header = unsafe { header.as_ref() }?;
    if (header.cmsg_level, header.cmsg_type) != (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) {
        return None;
    }
    // SAFETY: a message of this type carries one `timespec`, which may lie unaligned.
    let time = unsafe {
        libc::CMSG_DATA(header)
            .cast::<libc::timespec>()
            .read_unaligned()
    };
    Some(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// The wall clock in nanoseconds.
pub(crate) fn wall_clock_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_nanos() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};
    use std::time::Duration;

    /// The kernel begins to note a moment after it is first asked, so the first bytes may come without.
    #[test]
    fn bytes_that_are_read_late_have_the_time_at_which_they_came() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let address = listener.local_addr().expect("bound");
        let near = OwnedFd::from(TcpStream::connect(address).expect("it listens"));
        let (mut far, _) = listener.accept().expect("it connected");
        enable(&near).expect("Linux");
        let mut buffer = [0; 16];
        for attempt in 0.. {
            let before = wall_clock_ns();
            far.write_all(b"hello").expect("connected");
            let after = wall_clock_ns();
            std::thread::sleep(Duration::from_millis(30));
            let (count, came) = receive(&near, &mut buffer).expect("it is there");
            assert_eq!(&buffer[..count], b"hello");
            match came {
                Some(came) => {
                    assert!((before..=after).contains(&came), "{before} {came} {after}");
                    break;
                }
                None => assert!(attempt < 100, "the kernel notes nothing"),
            }
        }
    }

    #[test]
    fn an_end_is_an_end_and_nothing_is_nothing() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let address = listener.local_addr().expect("bound");
        let near = TcpStream::connect(address).expect("it listens");
        near.set_nonblocking(true).expect("a socket");
        let near = OwnedFd::from(near);
        let (far, _) = listener.accept().expect("it connected");
        assert_eq!(receive(&near, &mut [0; 8]), Err(Errno::AGAIN));
        drop(far);
        let end = (0..1000).find_map(|_| match receive(&near, &mut [0; 8]) {
            Err(Errno::AGAIN) => {
                std::thread::sleep(Duration::from_millis(1));
                None
            }
            other => Some(other),
        });
        assert_eq!(end, Some(Ok((0, None))));
    }
}
