//! ApacheBench: `ab -n 1000 -c 10 -k http://127.0.0.1/`.
//!
//! A closed loop of `-c` workers until `-n` requests are done. `-t` sets a time limit and, standing after `-n` or
//! without it, 50 000 requests. Without `-k` every request has a connection of its own.

use crate::flags::{Flag, Given, Role, Style, Tool, flag, switch, value, words};
use crate::values::{count, header, whole, workers};
use crate::{Imported, ImportedBody, ImportedLoad, NO_TIME_LIMIT, Refusal, Syntax, is_command};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kneepoint_model::{ClosedLoop, Method};
use std::time::Duration;

pub(crate) static SYNTAX: Syntax = Syntax {
    name: "ab",
    example: "ab -n 1000 -c 10 -k http://127.0.0.1/",
    recognises: |text| is_command(text, &["ab"]),
    read,
};

/// Requests when only a time limit is given.
const REQUESTS_OF_A_TIMED_RUN: u64 = 50_000;

const FLAGS: &[Flag] = &[
    value(&["n"]),
    value(&["c"]),
    value(&["t"]),
    value(&["s"]),
    switch(&["k"]),
    switch(&["l"]),
    value(&["H"]),
    value(&["m"]),
    switch(&["i"]),
    value(&["p"]),
    value(&["u"]),
    value(&["T"]),
    value(&["C"]),
    value(&["A"]),
    flag(&["q"], false, Role::Quiet),
    flag(&["S"], false, Role::Quiet),
    flag(&["d"], false, Role::Quiet),
    flag(&["w"], false, Role::Quiet),
    flag(&["v"], true, Role::Quiet),
    flag(&["e"], true, Role::Quiet),
    flag(&["g"], true, Role::Quiet),
    flag(&["x"], true, Role::Quiet),
    flag(&["y"], true, Role::Quiet),
    flag(&["z"], true, Role::Quiet),
    flag(
        &["r"],
        false,
        Role::Dropped("an error on a socket never ends the load here"),
    ),
    flag(
        &["b"],
        true,
        Role::Dropped("buffers have the kernel's size"),
    ),
    flag(
        &["W"],
        true,
        Role::Dropped("the number of threads is chosen here"),
    ),
    flag(
        &["X"],
        true,
        Role::Dropped("requests go straight to the server, not through a proxy"),
    ),
    flag(
        &["P"],
        true,
        Role::Dropped("there is no proxy to authenticate at"),
    ),
    flag(
        &["B"],
        true,
        Role::Dropped("the source address is chosen here"),
    ),
    flag(&["f"], true, Role::Dropped("the TLS version is negotiated")),
    flag(
        &["Z"],
        true,
        Role::Dropped("the TLS ciphers are negotiated"),
    ),
];

static TOOL: Tool = Tool {
    name: "ab",
    style: Style::Getopt,
    flags: FLAGS,
};

fn read(text: &str) -> Result<Imported, Refusal> {
    let words = words(text)?;
    let given = TOOL.read(&words[1..])?;
    let concurrency = given.last("c").map_or(Ok(1), |c| count(c, &[]))?;
    let requests = requests(&given)?;
    if concurrency as u64 > requests {
        return Err(Refusal::new(
            given.last("c").unwrap_or("1"),
            format!(
                "more workers than requests, of which there are {requests}; write a -n of at least {concurrency}"
            ),
        ));
    }
    let mut read = Imported::new(ImportedLoad::Closed(ClosedLoop {
        duration: given.last("t").map_or(Ok(NO_TIME_LIMIT), seconds)?,
        requests: Some(requests),
        ..ClosedLoop::new(workers(concurrency), NO_TIME_LIMIT)
    }));
    read.threads = Some(1);
    read.connections = Some(concurrency);
    read.keep_alive = Some(given.is_on("k"));
    read.timeout = Some(
        given
            .last("s")
            .map_or(Ok(Duration::from_secs(30)), seconds)?,
    );
    read.url = given.url()?;
    request(&given, &mut read)?;
    read.notes.clone_from(&given.notes);
    read.note("ab speaks HTTP/1.0; requests here are HTTP/1.1.");
    read.note(
        "ab ends the whole run when a connection is silent for its timeout; here that request ends and counts as a \
         timeout, and the load goes on.",
    );
    if !given.is_on("l") {
        read.note(
            "ab without -l counts a page of another length than the first as failed; lengths are not compared here.",
        );
    }
    Ok(read)
}

/// `-n` and `-t` in the order in which they stand: `-t` sets the number, and a later `-n` sets it again.
fn requests(given: &Given) -> Result<u64, Refusal> {
    let mut requests = 1;
    for (name, value) in &given.flags {
        match *name {
            "n" => requests = whole(value, &[])?,
            "t" => requests = REQUESTS_OF_A_TIMED_RUN,
            _ => {}
        }
    }
    if requests == 0 {
        return Err(Refusal::new(
            "-n 0",
            "no request would be sent; write at least 1",
        ));
    }
    Ok(requests)
}

/// A whole number of seconds, as ab takes them.
fn seconds(text: &str) -> Result<Duration, Refusal> {
    let seconds = whole(text, &[])?;
    if seconds == 0 || seconds > NO_TIME_LIMIT.as_secs() {
        let instead = "this is no usable number of seconds; write for example 30";
        return Err(Refusal::new(text, instead));
    }
    Ok(Duration::from_secs(seconds))
}

/// Method, headers and body.
fn request(given: &Given, read: &mut Imported) -> Result<(), Refusal> {
    read.headers = given.all("H").map(header).collect::<Result<_, _>>()?;
    for cookie in given.all("C") {
        read.headers
            .push(("Cookie".into(), cookie.trim().to_owned()));
    }
    if let Some(login) = given.last("A") {
        let value = format!("Basic {}", STANDARD.encode(login));
        read.headers.push(("Authorization".into(), value));
    }
    for (flag, method) in [("p", "POST"), ("u", "PUT")] {
        if let Some(file) = given.last(flag) {
            read.method = Some(Method(method.into()));
            read.body = Some(ImportedBody::File(file.to_owned()));
            let kind = given.last("T").unwrap_or("text/plain").trim();
            read.headers.push(("Content-Type".into(), kind.to_owned()));
        }
    }
    if given.is_on("i") {
        read.method = Some(Method("HEAD".into()));
    }
    if let Some(method) = given.last("m") {
        read.method = Some(Method(method.to_owned()));
    }
    Ok(())
}
