//! One request and its response, as a future that touches nothing but its own.

use crate::in_flight::Clock;
use crate::response::Reply;
use bytes::Bytes;
use h2::Reason;
use h2::client::SendRequest;
use http::Request;
use kneepoint_model::Outcome;

/// A request on its way, and in the end what came of it.
#[derive(Debug)]
pub(crate) struct Exchange<'p> {
    pub(crate) reply: Reply<'p>,
    /// When the head of the response came; 0 without.
    pub(crate) first_byte: u64,
    /// Bytes of its body.
    pub(crate) received: usize,
    /// Why it is not complete.
    pub(crate) failure: Option<h2::Error>,
}

/// Sends a request and reads its response. Dropped before its end, it resets its stream (CANCEL).
pub(crate) async fn exchange<'p>(
    sender: SendRequest<Bytes>,
    request: Request<()>,
    body: Option<Bytes>,
    reply: Reply<'p>,
    clock: Clock,
) -> Exchange<'p> {
    let mut exchange = Exchange {
        reply,
        first_byte: 0,
        received: 0,
        failure: None,
    };
    exchange.failure = exchange.run(sender, request, body, clock).await.err();
    exchange
}

impl Exchange<'_> {
    async fn run(
        &mut self,
        sender: SendRequest<Bytes>,
        request: Request<()>,
        body: Option<Bytes>,
        clock: Clock,
    ) -> Result<(), h2::Error> {
        let mut sender = sender.ready().await?;
        let (response, mut outgoing) = sender.send_request(request, body.is_none())?;
        if let Some(body) = body {
            // The crate keeps what the server's window does not admit yet.
            outgoing.send_data(body, true)?;
        }
        let (head, mut incoming) = response.await?.into_parts();
        self.first_byte = clock.now();
        self.reply.status = head.status.as_u16();
        for (name, value) in &head.headers {
            self.reply.on_header(name.as_str(), value.as_bytes());
        }
        while let Some(piece) = incoming.data().await {
            let piece = piece?;
            self.received += piece.len();
            self.reply.on_body(&piece);
            incoming.flow_control().release_capacity(piece.len())?;
        }
        Ok(())
    }

    /// How a request ended that failed.
    pub(crate) fn outcome(&self, error: &h2::Error) -> Outcome {
        // What the crate itself complains of is what the server sent wrongly.
        if !error.is_io() && !error.is_remote() {
            Outcome::Protocol
        } else if self.first_byte == 0 {
            Outcome::Reset
        } else {
            Outcome::Truncated
        }
    }

    /// Whether the request was surely not processed, so that a new connection puts it right: GOAWAY names the last
    /// request that was taken, and REFUSED_STREAM says it of one (RFC 9113, section 8.7). Where its connection may have
    /// been closed `meanwhile`, the end of that says so, too.
    pub(crate) fn is_stale(&self, error: &h2::Error, meanwhile: bool) -> bool {
        let by_server = error.is_remote()
            && (error.is_go_away() || error.reason() == Some(Reason::REFUSED_STREAM));
        self.first_byte == 0 && (by_server || (error.is_io() && meanwhile))
    }
}
