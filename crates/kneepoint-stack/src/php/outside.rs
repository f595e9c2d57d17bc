//! What PHP reaches for by itself, without a line of the application: its mail, its databases' sockets, its sessions. In a lab
//! all of them lead into the lab, or nowhere.

use crate::{ConfigFile, StackError, TierContext};
use kneepoint_model::{Address, Layer};

/// The program that stands where mail would be handed on.
const NO_MAIL: &str = "no-mail";

/// Directives and values that hold whatever the user's php.ini says.
pub(super) fn defaults(context: &TierContext) -> Vec<(&'static str, String)> {
    // Clients take these where the application names `localhost`: the machine's own servers, otherwise.
    let socket = match peer(context, Layer::Db) {
        Some(Address::Unix(path)) => path.to_string_lossy().into_owned(),
        _ => context.path("run/no-database.sock"),
    };
    vec![
        ("sendmail_path", context.path(NO_MAIL)),
        ("mysqli.default_socket", socket.clone()),
        ("pdo_mysql.default_socket", socket),
        // Arguments of functions stand in traces otherwise, and traces in logs: passwords among them.
        ("zend.exception_ignore_args", "1".to_owned()),
    ]
}

fn peer(context: &TierContext, layer: Layer) -> Option<&Address> {
    let peers = context.peers.iter();
    let mut of_layer = peers.filter(|(of, _)| *of == layer);
    of_layer.next().map(|(_, address)| address)
}

/// A program that takes no mail and says so: `mail()` returns false, as on a host without a mail server. With a double of one,
/// it takes mail and forgets it.
pub(super) fn no_mail(context: &TierContext) -> ConfigFile {
    let does = match context.app.takes_mail {
        true => "exec cat >/dev/null",
        false => "echo 'no mail leaves the lab' >&2\nexit 75",
    };
    ConfigFile {
        mode: 0o755,
        ..ConfigFile::new(
            context.dir.join(NO_MAIL),
            None,
            format!("#!/bin/sh\n{does}\n"),
        )
    }
}

/// Where PHP keeps its sessions: files of the lab's own, or the lab's Redis.
///
/// # Errors
/// They are kept in a server that the lab does not have.
pub(super) fn sessions(
    context: &TierContext,
    get: impl Fn(&str) -> Option<String>,
) -> Result<Option<(&'static str, String)>, StackError> {
    const PATH: &str = "session.save_path";
    let handler = get("session.save_handler").unwrap_or_default();
    match handler.as_str() {
        "" | "files" => Ok(Some((PATH, context.path("sessions")))),
        // The application's own code, which asks whom its settings name.
        "user" => Ok(None),
        "redis" => match peer(context, Layer::Cache) {
            Some(redis) => {
                let path = get(PATH).unwrap_or_default();
                Ok(Some((PATH, in_redis(redis, &path))))
            }
            None => Err(StackError::Unusable {
                file: "session.save_handler".into(),
                what: "sessions are kept in Redis, and the scenario has none: add `cache = { server = \"redis\" }` to \
                       [stack], or set \"session.save_handler\" = \"files\" for PHP"
                    .into(),
            }),
        },
        other => Err(StackError::Unusable {
            file: "session.save_handler".into(),
            what: format!(
                "sessions are kept by `{other}`, of which the lab has no server: set \"session.save_handler\" = \
                 \"files\" for PHP, or \"redis\" with a Redis in the scenario"
            ),
        }),
    }
}

/// The lab's Redis with what was asked of the user's, save who logs in there: `tcp://10.0.0.2:6379?persistent=1`.
fn in_redis(redis: &Address, path: &str) -> String {
    let first = path.split([',', ' ']).next().unwrap_or_default();
    let asked = first.split_once('?').map_or("", |(_, asked)| asked);
    let kept = asked.split('&').filter(|pair| {
        let name = pair.split(['=', '[']).next().unwrap_or_default();
        !name.is_empty() && name != "auth"
    });
    let kept = kept.collect::<Vec<_>>().join("&");
    let address = match redis {
        Address::Tcp(address) => format!("tcp://{address}"),
        Address::Unix(path) => format!("unix://{}", path.display()),
    };
    match kept.as_str() {
        "" => address,
        kept => format!("{address}?{kept}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_in_redis_are_in_the_labs() {
        let redis = Address::Tcp("10.9.0.4:6379".parse().expect("an address"));
        let check = |path: &str, expected: &str| assert_eq!(in_redis(&redis, path), expected);
        check("", "tcp://10.9.0.4:6379");
        check(
            "tcp://prod.internal:6379?auth=s3cret&persistent=1&database=2",
            "tcp://10.9.0.4:6379?persistent=1&database=2",
        );
        check(
            "tcp://a:1?weight=1&auth[user]=u&auth[pass]=p, tcp://b:2?weight=2",
            "tcp://10.9.0.4:6379?weight=1",
        );
    }
}
