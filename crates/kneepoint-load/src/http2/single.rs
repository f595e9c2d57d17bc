//! A single request over HTTP/2, outside a load.

use crate::connection::{Endpoint, Secure};
use crate::http2::exchange::exchange;
use crate::http2::h2_request::H2Request;
use crate::http2::opening::{NotOpened, open};
use crate::http2::timer::Timer;
use crate::http2::worker::runtime;
use crate::in_flight::Clock;
use crate::plan::LoadError;
use crate::response::Reply;
use futures_util::future::{Either, select};
use std::future::poll_fn;
use std::pin::pin;
use std::time::{Duration, Instant};

/// How long a single exchange took, from before the connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timing {
    /// To the first byte of the response.
    pub(crate) first_byte: Duration,
    /// To its last byte.
    pub(crate) elapsed: Duration,
}

/// Sends one request, given as the bytes that would go out in HTTP/1.1, on a new connection, and reads its response into
/// a reply that was made ready for it. What goes wrong is a sentence.
pub(crate) fn fetch(
    endpoint: &Endpoint,
    secure: Option<&Secure>,
    scheme: &str,
    wire: &[u8],
    timeout: Duration,
    reply: &mut Reply<'_>,
) -> Result<Result<Timing, String>, LoadError> {
    let clock = Clock {
        began: Instant::now(),
    };
    let request = match H2Request::new(wire, scheme) {
        Ok(request) => request,
        Err(why) => return Ok(Err(why)),
    };
    Ok(runtime()?.block_on(async {
        let response = one(endpoint, secure, &request, reply, clock);
        let late = expire(clock, timeout);
        match select(pin!(response), pin!(late)).await {
            Either::Left((fetched, _)) => fetched,
            Either::Right((why, _)) => Err(why),
        }
    }))
}

/// Waits until the time is up, and says so.
async fn expire(clock: Clock, timeout: Duration) -> String {
    let deadline = timeout.as_nanos() as u64;
    let failed = |errno| format!("timerfd: {errno}; raise `ulimit -n`");
    let mut timer = match Timer::new() {
        Ok(timer) => timer,
        Err(errno) => return failed(errno),
    };
    loop {
        let now = clock.now();
        if now >= deadline {
            return format!(
                "waiting for the response: nothing within {timeout:?}; check what the server is busy with"
            );
        }
        if let Err(errno) = timer.set(deadline, now) {
            return failed(errno);
        }
        if let Err(errno) = poll_fn(|context| timer.poll_expired(context)).await {
            return failed(errno);
        }
    }
}

async fn one(
    endpoint: &Endpoint,
    secure: Option<&Secure>,
    request: &H2Request,
    reply: &mut Reply<'_>,
    clock: Clock,
) -> Result<Timing, String> {
    let opened = open(endpoint, None, secure)
        .await
        .map_err(|why| match why {
            NotOpened::Refused(errno) => {
                format!("connecting: {errno}; check that the server runs and listens there")
            }
            NotOpened::Reset(errno) => {
                format!("during the handshake: {errno}; look into the server's error log")
            }
            NotOpened::Tls(why) => why,
            NotOpened::Protocol(malformed) => malformed.0.to_owned(),
        })?;
    let asked = exchange(
        opened.sender,
        request.with_cookies(""),
        request.body.clone(),
        std::mem::take(reply),
        clock,
    );
    // The connection ends by itself once nobody can request any more; until then it must be driven.
    let mut asked = pin!(asked);
    let done = match select(asked.as_mut(), opened.life).await {
        Either::Left((done, _)) => done,
        Either::Right((_, asked)) => asked.await,
    };
    *reply = done.reply;
    if let Some(error) = &done.failure {
        return Err(format!(
            "{error}; check that this address speaks HTTP/2, and look into the server's error log"
        ));
    }
    Ok(Timing {
        first_byte: Duration::from_nanos(done.first_byte),
        elapsed: Duration::from_nanos(clock.now()),
    })
}
