//! The request a worker of PHP-FPM is at, from the parameters the web server sent it.
//!
//! `sapi_globals.request_info.request_uri` would be simpler and is of no use: under FPM it is the script
//! (fpm_main.c), so `/index.php` for every application with a front controller.

use crate::memory::{Memory, Range, ReadError, half, word};
use crate::sample::WorkerRequest;

/// `fd` of `fcgi_request` (main/fastcgi.c): the connection, or below 0.
const FD: usize = 8;
/// `ended`: whether the response is complete.
const ENDED: usize = 24;
/// `env.list`: the parameter that was added last.
const LIST: u64 = 9320;
/// `fcgi_hash_bucket`: length and address of name and value, and the one that was added before.
const NAME_LEN: usize = 4;
const NAME: usize = 8;
const VALUE_LEN: usize = 16;
const VALUE: usize = 24;
const NEXT: usize = 40;
const BUCKET_BYTES: usize = 48;
/// `request_info.request_method` of `sapi_globals` (main/SAPI.h), for other interfaces than FPM's.
const PLAIN_METHOD: u64 = 8;
/// `request_info.request_uri`: there it is what the client asked for.
const PLAIN_URI: u64 = 48;
/// Buckets lie one behind the other, the newest last; so many are read at a time.
const TOGETHER: usize = 64;
/// Most parameters of a request that are looked at.
const PARAMETERS: usize = 512;
/// Longest value that is read, in bytes.
const LONGEST: usize = 4096;
/// Longest method, where it is told as a text of its own.
const LONGEST_METHOD: usize = 32;

/// The parameters that are looked for.
const WANTED: [&str; 4] = [
    "REQUEST_METHOD",
    "REQUEST_URI",
    "SCRIPT_NAME",
    "HTTP_X_REQUEST_ID",
];

/// What a worker of FPM says of its request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Busy {
    /// It has none.
    Idle,
    /// It has one, whose parameters are here.
    With(u64),
    /// It could not be told.
    Unknown,
}

/// Whether a worker has a request. `sapi_globals` begins with the address of it.
pub(crate) fn busy(memory: &impl Memory, sapi_globals: u64) -> Result<Busy, ReadError> {
    let context = match memory.word(sapi_globals) {
        Ok(0) => return Ok(Busy::Idle),
        Ok(context) => context,
        Err(ReadError::Unmapped) => return Ok(Busy::Unknown),
        Err(error) => return Err(error),
    };
    let ranges = [
        Range {
            at: context,
            len: 32,
        },
        Range {
            at: context.wrapping_add(LIST),
            len: 8,
        },
    ];
    let gathered = memory.gather(&ranges)?;
    let (Some(fd), Some(ended)) = (half(gathered.part(0), FD), half(gathered.part(0), ENDED))
    else {
        return Ok(Busy::Unknown);
    };
    if fd.cast_signed() < 0 || ended != 0 {
        return Ok(Busy::Idle);
    }
    Ok(word(gathered.part(1), 0).map_or(Busy::Unknown, Busy::With))
}

/// The descriptor of the connection a worker's request came by.
pub(crate) fn connection(memory: &impl Memory, sapi_globals: u64) -> Option<i32> {
    let context = memory.word(sapi_globals).ok()?;
    let fd = memory.bytes(context.wrapping_add(FD as u64), 4).ok()?;
    half(&fd, 0).map(u32::cast_signed)
}

/// The request behind a list of parameters. What cannot be read is left out.
pub(crate) fn request(memory: &impl Memory, list: u64) -> Result<WorkerRequest, ReadError> {
    let buckets = buckets(memory, list)?;
    let names = buckets.iter().map(|bucket| bucket.name);
    let values = buckets.iter().map(|bucket| bucket.value);
    let gathered = memory.gather(&names.chain(values).collect::<Vec<_>>())?;
    let value = |name: &str| {
        let at = (0..buckets.len()).find(|at| gathered.part(*at) == name.as_bytes())?;
        let value = gathered.part(at + buckets.len());
        (!value.is_empty()).then(|| String::from_utf8_lossy(value).into_owned())
    };
    let [method, uri, script, id] = WANTED.map(value);
    // A worker that is just being sent its next request has parts of two.
    Ok(WorkerRequest {
        method: method.filter(|method| method.bytes().all(|byte| byte.is_ascii_uppercase())),
        path: [uri, script]
            .into_iter()
            .flatten()
            .find(|uri| uri.starts_with('/') || uri.contains("://"))
            .map(|uri| path_of(&uri)),
        id,
    })
}

/// The request of a worker that is no FPM's. What cannot be read is left out.
pub(crate) fn plain(memory: &impl Memory, sapi_globals: u64) -> WorkerRequest {
    let text = |offset, longest| {
        let at = memory.word(sapi_globals.wrapping_add(offset)).ok()?;
        let text = memory.text(at, longest).ok()?;
        (!text.is_empty()).then(|| String::from_utf8_lossy(&text).into_owned())
    };
    WorkerRequest {
        method: text(PLAIN_METHOD, LONGEST_METHOD),
        path: text(PLAIN_URI, LONGEST).map(|uri| path_of(&uri)),
        id: None,
    }
}

/// A URI without its query, which may hold secrets.
fn path_of(uri: &str) -> String {
    uri.split(['?', '#']).next().unwrap_or_default().to_owned()
}

/// A parameter.
struct Bucket {
    name: Range,
    value: Range,
}

/// The parameters whose names are as long as those that are wanted.
fn buckets(memory: &impl Memory, list: u64) -> Result<Vec<Bucket>, ReadError> {
    let mut found = Vec::new();
    let mut at = list;
    let mut block = Block::default();
    for _ in 0..PARAMETERS {
        if at == 0 {
            break;
        }
        let Some(bucket) = block.bucket(memory, at)? else {
            break;
        };
        let number = |offset| half(bucket, offset).and_then(|number| usize::try_from(number).ok());
        let range = |pointer, length| {
            Some(Range {
                at: word(bucket, pointer)?,
                len: number(length)?,
            })
        };
        if let (Some(name), Some(value)) = (range(NAME, NAME_LEN), range(VALUE, VALUE_LEN))
            && WANTED.iter().any(|wanted| wanted.len() == name.len)
            && value.len <= LONGEST
        {
            found.push(Bucket { name, value });
        }
        at = word(bucket, NEXT).unwrap_or(0);
    }
    Ok(found)
}

/// Buckets that were read together.
#[derive(Default)]
struct Block {
    start: u64,
    bytes: Vec<u8>,
}

impl Block {
    fn bucket(&mut self, memory: &impl Memory, at: u64) -> Result<Option<&[u8]>, ReadError> {
        if self.within(at).is_none() {
            let before = ((TOGETHER - 1) * BUCKET_BYTES) as u64;
            let all = at
                .checked_sub(before)
                .map(|start| (start, TOGETHER * BUCKET_BYTES));
            // The first ones lie at the beginning of their memory.
            for (start, len) in all.into_iter().chain([(at, BUCKET_BYTES)]) {
                match memory.bytes(start, len) {
                    Ok(bytes) => {
                        *self = Self { start, bytes };
                        break;
                    }
                    Err(ReadError::Unmapped) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(self
            .within(at)
            .and_then(|offset| self.bytes.get(offset..offset + BUCKET_BYTES)))
    }

    /// Where a bucket begins in what was read.
    fn within(&self, at: u64) -> Option<usize> {
        let offset = usize::try_from(at.checked_sub(self.start)?).ok()?;
        (offset.checked_add(BUCKET_BYTES)? <= self.bytes.len()).then_some(offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Words;

    const CONTEXT: u64 = 0x1000;
    const BUCKETS: u64 = 0x8000;

    /// The memory of a worker that was sent these parameters.
    fn worker(parameters: &[(&str, &str)]) -> Words {
        let mut words = Words::default();
        words.put(0x10, CONTEXT);
        words.put(CONTEXT + FD as u64, 4);
        let mut before = 0;
        for (index, (name, value)) in (0..).zip(parameters) {
            let (at, texts) = (BUCKETS + 48 * index, 0xa000 + 0x200 * index);
            words.put(at, (name.len() as u64) << 32);
            words.put(at + 8, texts);
            words.put(at + 16, value.len() as u64);
            words.put(at + 24, texts + 0x100);
            words.put(at + 40, before);
            words.text(texts, name);
            words.text(texts + 0x100, value);
            before = at;
        }
        words.put(CONTEXT + LIST, before);
        words
    }

    fn asked(parameters: &[(&str, &str)]) -> WorkerRequest {
        let memory = worker(parameters).memory();
        match busy(&memory, 0x10) {
            Ok(Busy::With(list)) => {
                assert_eq!(connection(&memory, 0x10), Some(4));
                request(&memory, list).expect("it can be read")
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_request_is_known_by_its_own_uri_and_id() {
        let request = asked(&[
            ("SCRIPT_NAME", "/index.php"),
            ("REQUEST_URI", "/orders/7?token=secret"),
            ("REQUEST_METHOD", "POST"),
            ("QUERY_STRING", "token=secret"),
            ("HTTP_X_REQUEST_ID", "r4"),
        ]);
        let text = |text: &str| Some(text.to_owned());
        let expected = WorkerRequest {
            method: text("POST"),
            path: text("/orders/7"),
            id: text("r4"),
        };
        assert_eq!(request, expected);
    }

    #[test]
    fn without_a_uri_it_is_the_script() {
        let request = asked(&[("SCRIPT_NAME", "/index.php")]);
        assert_eq!(request.path.as_deref(), Some("/index.php"));
        assert_eq!(asked(&[]), WorkerRequest::default());
    }

    #[test]
    fn parts_of_two_requests_are_no_path_and_no_method() {
        let request = asked(&[
            ("REQUEST_URI", "T_URI\u{fffd}/doku.php"),
            ("REQUEST_METHOD", "G\u{1}T"),
        ]);
        assert_eq!(request, WorkerRequest::default());
        let request = asked(&[("SCRIPT_NAME", "/doku.php"), ("REQUEST_URI", "UEST_URI")]);
        assert_eq!(request.path.as_deref(), Some("/doku.php"));
    }

    #[test]
    fn another_interface_tells_its_request_in_two_texts() {
        let mut words = Words::default();
        words.put(0x108, 0x2000);
        words.put(0x130, 0x2100);
        words.text(0x2000, "POST");
        words.text(0x2100, "/orders/7?token=secret");
        let request = plain(&words.memory(), 0x100);
        assert_eq!(request.method.as_deref(), Some("POST"));
        assert_eq!(request.path.as_deref(), Some("/orders/7"));
        assert_eq!(
            plain(&Words::default().memory(), 0x100),
            WorkerRequest::default()
        );
    }

    #[test]
    fn a_worker_without_a_connection_or_with_a_complete_response_is_idle() {
        let mut words = worker(&[]);
        words.put(CONTEXT + ENDED as u64, 1);
        assert_eq!(busy(&words.memory(), 0x10), Ok(Busy::Idle));
        let mut words = worker(&[]);
        words.put(CONTEXT + FD as u64, u64::MAX);
        assert_eq!(busy(&words.memory(), 0x10), Ok(Busy::Idle));
        assert_eq!(
            busy(&words.memory(), 0x18),
            Ok(Busy::Idle),
            "no request was ever made"
        );
    }
}
