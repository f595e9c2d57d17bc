//! What programs other than nginx and PHP-FPM have in force.

use crate::config::{self, Reader, Subject};
use crate::process::Program;
use crate::snapshot::{Blind, ListenEndpoint, Listener, ServiceKind, Settings};

/// What the configuration of a program other than nginx and PHP-FPM says.
#[derive(Default)]
pub(super) struct Found {
    /// `None` where nothing tells what it was started with.
    pub(super) settings: Option<Settings>,
    /// Whom it asks.
    pub(super) asks: Vec<(ListenEndpoint, String)>,
    /// Directories whose PHP it hands on, and to whom.
    pub(super) hands: Vec<(String, ListenEndpoint)>,
    /// Where it keeps its data.
    pub(super) data: Option<String>,
}

pub(super) fn read_others(
    kind: ServiceKind,
    subject: &Subject<'_>,
    reader: &mut Reader<'_>,
    (program, listens): (&Program, &[Listener]),
) -> Found {
    let mut found = Found::default();
    found.settings = match kind {
        ServiceKind::Redis => config::redis(subject, reader, listens),
        ServiceKind::Mysql => Some(config::mysql(subject, reader, program)),
        ServiceKind::Postgresql => {
            let (settings, dir) = config::postgresql(subject, reader);
            found.data = Some(dir);
            Some(settings)
        }
        ServiceKind::Pgbouncer => config::pgbouncer(subject, reader),
        ServiceKind::Apache => {
            let apache = config::apache(subject, reader);
            (found.asks, found.hands) = (apache.asks, apache.hands);
            Some(apache.settings)
        }
        ServiceKind::Haproxy => {
            let (settings, targets) = config::haproxy(subject, reader);
            found.asks = targets;
            Some(settings)
        }
        _ => {
            let why = "its settings are not read yet";
            let remedy = "none: it is only drawn into the picture";
            reader.hint(Blind::new(kind.name(), why, remedy));
            None
        }
    };
    found
}
