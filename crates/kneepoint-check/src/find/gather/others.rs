//! What programs other than nginx and PHP-FPM have in force.

use crate::config::{self, Reader, Subject};
use crate::process::Program;
use crate::snapshot::{Blind, ListenEndpoint, Listener, ServiceKind, Settings};
use kneepoint_model::LogFormat;

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

/// Where a program writes what it says. Of one whose settings are hidden nobody knows, nor of one that only prints, unless
/// it is in a container.
pub(super) fn log_of(
    kind: ServiceKind,
    settings: &Settings,
    (is_hidden, is_contained): (bool, bool),
) -> Option<(&str, LogFormat)> {
    let (path, format) = match kind {
        ServiceKind::Redis => (settings.text("logfile"), LogFormat::Redis),
        ServiceKind::Mysql => (settings.text("log_error"), LogFormat::Mariadb),
        // Without a file it prints what it says.
        ServiceKind::Pgbouncer => {
            let printed = (!is_hidden).then_some("/dev/stderr");
            (settings.text("logfile").or(printed), LogFormat::Pgbouncer)
        }
        // It prints what it and PHP say.
        ServiceKind::FrankenPhp => {
            let printed = is_contained.then_some("/dev/stderr");
            (printed, LogFormat::PhpError)
        }
        _ => return None,
    };
    Some((path?, format))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::SettingSource;

    #[test]
    fn nobody_is_said_to_print_whose_settings_are_hidden() {
        let path = |settings: &Settings, is_hidden| {
            let log = log_of(ServiceKind::Pgbouncer, settings, (is_hidden, false));
            log.map(|(path, _)| path.to_owned())
        };
        let mut settings = Settings::default();
        assert_eq!(path(&settings, false).as_deref(), Some("/dev/stderr"));
        assert_eq!(path(&settings, true), None);
        let source = SettingSource::file("/p.ini", 1);
        settings.set("logfile", "/var/log/p.log", source);
        assert_eq!(path(&settings, false).as_deref(), Some("/var/log/p.log"));
    }
}
