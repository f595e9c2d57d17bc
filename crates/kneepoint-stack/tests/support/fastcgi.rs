//! The smallest FastCGI client that can run one script, for looking into a real FPM.

use std::io::{Read, Write};

fn record(kind: u8, content: &[u8]) -> Vec<u8> {
    let length = u16::try_from(content.len())
        .expect("a short record")
        .to_be_bytes();
    let mut bytes = vec![1, kind, 0, 1, length[0], length[1], 0, 0];
    bytes.extend_from_slice(content);
    bytes
}

fn pair(name: &str, value: &str) -> Vec<u8> {
    let length = |text: &str| (0x8000_0000 | text.len() as u32).to_be_bytes();
    [
        &length(name)[..],
        &length(value)[..],
        name.as_bytes(),
        value.as_bytes(),
    ]
    .concat()
}

/// Runs a script (or asks a status path) and returns what it wrote: headers and body.
pub(crate) fn get(mut stream: impl Read + Write, script: &str, path: &str) -> String {
    let params = [
        ("REQUEST_METHOD", "GET"),
        ("SCRIPT_FILENAME", script),
        ("SCRIPT_NAME", path),
        ("REQUEST_URI", path),
        ("QUERY_STRING", ""),
        ("SERVER_PROTOCOL", "HTTP/1.1"),
    ];
    let params: Vec<u8> = params
        .iter()
        .flat_map(|(name, value)| pair(name, value))
        .collect();
    let request = [
        record(1, &[0, 1, 0, 0, 0, 0, 0, 0]),
        record(4, &params),
        record(4, &[]),
        record(5, &[]),
    ];
    stream
        .write_all(&request.concat())
        .expect("FPM takes the request");
    let mut output = Vec::new();
    loop {
        let mut header = [0; 8];
        stream.read_exact(&mut header).expect("FPM answers");
        let length = usize::from(u16::from_be_bytes([header[4], header[5]]));
        let mut content = vec![0; length + usize::from(header[6])];
        stream
            .read_exact(&mut content)
            .expect("the record is whole");
        match header[1] {
            3 => return String::from_utf8_lossy(&output).into_owned(),
            _ => output.extend_from_slice(&content[..length]),
        }
    }
}
