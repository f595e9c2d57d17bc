//! What the tests of rendering and of real programs share.
#![allow(dead_code, reason = "each test binary uses a part")]
#![allow(
    clippy::disallowed_methods,
    reason = "these tests are the lab of the tiers they render"
)]

pub(crate) mod fastcgi;
pub(crate) mod rendering;
pub(crate) mod running;

use kneepoint_model::Layer;
use kneepoint_stack::{AppContext, ConfigText, Program, TierContext};
use std::collections::BTreeMap;
use std::path::Path;

/// A tier of a host with its own network, for golden texts.
pub(crate) fn context(layer: Layer, program: Program) -> TierContext {
    TierContext {
        layer,
        program,
        dir: "/lab/tier".into(),
        address: [10, 9, 0, 2].into(),
        port: None,
        upstream: None,
        peers: Vec::new(),
        app: AppContext {
            root: "/srv/shop".into(),
            front: "public/index.php".into(),
            env: BTreeMap::new(),
            takes_mail: false,
        },
        config: None,
        ini: None,
        seed: None,
        statements: Vec::new(),
        template: None,
        settings: BTreeMap::new(),
        cpus: 1.5,
        memory_bytes: 1 << 30,
        unix_socket: false,
        own_network: true,
        as_root: true,
        nonce: "0123abcd".into(),
    }
}

pub(crate) fn program(path: &str, version: &str) -> Program {
    Program {
        path: path.into(),
        version: version.into(),
        facts: settings(&[("conf_dir", "/etc/nginx"), ("prefix", "/usr/share/nginx")]),
        files: Vec::new(),
    }
}

pub(crate) fn settings(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    pairs.iter().map(owned).collect()
}

pub(crate) fn config(name: &str, text: &str) -> Option<ConfigText> {
    Some(ConfigText {
        path: Path::new("/srv/shop/deploy").join(name),
        text: text.to_owned(),
    })
}
