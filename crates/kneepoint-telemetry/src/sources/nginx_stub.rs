//! nginx by its stub_status page.

use crate::source::{Failure, Lane, Open, Probe, Sink, Source};
use crate::transport::http_get;
use kneepoint_linux::file::{number, words};
use kneepoint_model::metric::{
    NGINX_ACCEPTS, NGINX_ACTIVE, NGINX_HANDLED, NGINX_REQUESTS, NGINX_WRITING,
};
use kneepoint_model::{Address, Endpoint};
use std::time::Duration;

/// Metadata.
pub(super) static SOURCE: Source = Source {
    name: "nginx-stub",
    about: "connections and requests of nginx, from stub_status",
    requirements: "ngx_http_stub_status_module and a location that serves it",
    overhead: "one request a second to nginx, which counts it among its own",
    cadence: Duration::from_secs(1),
    metrics: &[
        NGINX_ACCEPTS,
        NGINX_HANDLED,
        NGINX_REQUESTS,
        NGINX_ACTIVE,
        NGINX_WRITING,
    ],
    lane: Lane::Own,
    open: Open::Tier(|tier| {
        tier.endpoints.iter().find_map(|endpoint| match endpoint {
            Endpoint::NginxStub { address, path } => Some(Box::new(NginxStub {
                address: address.clone(),
                path: path.clone(),
            }) as Box<dyn Probe>),
            _ => None,
        })
    }),
};

struct NginxStub {
    address: Address,
    path: String,
}

impl Probe for NginxStub {
    fn sample(&mut self, sink: &mut Sink) -> Result<(), Failure> {
        let page = http_get(&self.address, &self.path).map_err(|why| {
            Failure::on(
                "stub_status at",
                format!("{}{}", self.address, self.path),
                why,
            )
        })?;
        let status = parse(&page).ok_or_else(|| {
            Failure::on(
                "stub_status at",
                &self.address,
                "the page is not stub_status",
            )
        })?;
        for (metric, value) in SOURCE.metrics.iter().zip(status) {
            sink.push(*metric, value as f64);
        }
        Ok(())
    }
}

/// Accepts, handled, requests, active, writing.
fn parse(page: &[u8]) -> Option<[u64; 5]> {
    let mut lines = page.split(|b| *b == b'\n');
    let active = number(lines.next()?.strip_prefix(b"Active connections: ")?)?;
    lines
        .next()?
        .starts_with(b"server accepts handled requests")
        .then_some(())?;
    let mut counts = words(lines.next()?).map(number);
    let mut states = words(lines.next()?);
    states.find(|word| *word == b"Writing:")?;
    Some([
        counts.next()??,
        counts.next()??,
        counts.next()??,
        active,
        number(states.next()?)?,
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PAGE: &str = "Active connections: 291 \nserver accepts handled requests\n 16630948 16630947 31070465 \nReading: 6 Writing: 179 Waiting: 106 \n";

    #[test]
    fn the_page_is_read() {
        assert_eq!(
            parse(PAGE.as_bytes()),
            Some([16_630_948, 16_630_947, 31_070_465, 291, 179])
        );
        assert_eq!(parse(b"<html>404</html>"), None);
    }

    proptest! {
        #[test]
        fn no_page_panics(at in 0..PAGE.len(), garbage in proptest::collection::vec(any::<u8>(), 0..20)) {
            parse(&[&PAGE.as_bytes()[..at], &garbage[..]].concat());
        }
    }
}
