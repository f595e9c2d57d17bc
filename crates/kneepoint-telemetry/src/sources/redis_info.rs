//! Redis by its INFO command.

use crate::bounded::Bounded;
use crate::source::{Failure, Lane, Open, Probe, Sink, Source};
use crate::transport::{Stream, parse_bulk};
use kneepoint_linux::file::number;
use kneepoint_model::metric::{
    REDIS_CLIENTS, REDIS_COMMANDS, REDIS_CONNECTIONS, REDIS_MAX_CLIENTS, REDIS_REJECTED,
};
use kneepoint_model::{Address, Endpoint, Metric};
use std::io::{self, Read, Write};
use std::time::Duration;

/// Metadata.
pub(super) static SOURCE: Source = Source {
    name: "redis-info",
    about: "connections, clients and commands of Redis, from INFO",
    requirements: "a connection to Redis without a password",
    overhead: "one INFO a second on a connection that is kept: about 0.1 ms of Redis' only thread",
    cadence: Duration::from_secs(1),
    metrics: &[
        REDIS_CONNECTIONS,
        REDIS_REJECTED,
        REDIS_COMMANDS,
        REDIS_CLIENTS,
        REDIS_MAX_CLIENTS,
    ],
    lane: Lane::Own,
    open: Open::Tier(|tier| {
        tier.endpoints.iter().find_map(|endpoint| match endpoint {
            Endpoint::Redis { address } => Some(Box::new(RedisInfo {
                address: address.clone(),
                stream: None,
            }) as Box<dyn Probe>),
            _ => None,
        })
    }),
};

/// Fields of INFO and the metrics they fill. Our own connection is not one of the clients.
const FIELDS: [(&str, Metric, f64); 5] = [
    ("total_connections_received", REDIS_CONNECTIONS, 0.0),
    ("rejected_connections", REDIS_REJECTED, 0.0),
    ("total_commands_processed", REDIS_COMMANDS, 0.0),
    ("connected_clients", REDIS_CLIENTS, 1.0),
    ("maxclients", REDIS_MAX_CLIENTS, 0.0),
];

struct RedisInfo {
    address: Address,
    stream: Option<Stream>,
}

impl RedisInfo {
    fn info(&mut self) -> io::Result<Vec<u8>> {
        let stream = match &mut self.stream {
            Some(stream) => stream,
            closed => closed.insert(Stream::connect(&self.address)?),
        };
        stream.write_all(b"*1\r\n$4\r\nINFO\r\n")?;
        let mut stream = Bounded::of(stream);
        let mut answer = Vec::new();
        let mut buffer = [0; 16 * 1024];
        loop {
            let length = stream.read(&mut buffer)?;
            answer.extend(&buffer[..length]);
            if let Some(text) = parse_bulk(&answer)? {
                // What follows is the line end of the bulk string; reading it along keeps the stream in step.
                if answer.len() >= text.len() + 2 && answer.ends_with(b"\r\n") {
                    return Ok(text.to_vec());
                }
            }
            if length == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }
}

impl Probe for RedisInfo {
    fn sample(&mut self, sink: &mut Sink) -> Result<(), Failure> {
        let text = self.info().map_err(|why| {
            self.stream = None;
            Failure::on("INFO of Redis at", &self.address, why)
        })?;
        for (name, metric, ours) in FIELDS {
            let value = field(&text, name).ok_or_else(|| {
                Failure::on(
                    "INFO of Redis has no field",
                    name,
                    "is it Redis 6 or later?",
                )
            })?;
            sink.push(metric, (value as f64 - ours).max(0.0));
        }
        Ok(())
    }
}

/// The number of a field: `connected_clients:7`.
fn field(text: &[u8], name: &str) -> Option<u64> {
    text.split(|b| *b == b'\n').find_map(|line| {
        let value = line.strip_prefix(name.as_bytes())?.strip_prefix(b":")?;
        number(value)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn fields_are_found_by_their_whole_name() {
        let text = b"# Clients\r\nconnected_clients:7\r\nmaxclients:10000\r\n# Stats\r\ntotal_connections_received:41\r\n";
        assert_eq!(field(text, "maxclients"), Some(10000));
        assert_eq!(field(text, "connected_clients"), Some(7));
        assert_eq!(field(text, "clients"), None);
    }

    proptest! {
        #[test]
        fn no_text_panics(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            field(&bytes, "maxclients");
        }
    }
}
