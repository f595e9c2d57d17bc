//! The files of an FPM tier.

use super::USER;
use super::documents::Documents;
use crate::php::{self, PROBE};
use crate::text::ini::{Ini, Section};
use crate::{ConfigFile, TierContext};

pub(super) fn files(context: &TierContext, documents: &Documents) -> Vec<ConfigFile> {
    let file = |name: &str, user_name: Option<String>, text: String| {
        ConfigFile::new(context.dir.join(name), user_name, text)
    };
    let name = |config: &Option<crate::ConfigText>, usual: &str| {
        Some(
            config
                .as_ref()
                .map_or_else(|| usual.to_owned(), |config| config.name()),
        )
    };
    let mut main = documents.main.to_string();
    for name in ["www.conf", "app-env.conf", "probe.conf"] {
        main.push_str(&format!("include = {}\n", context.path(name)));
    }
    let mut files = vec![
        file("php-fpm.conf", Some("php-fpm.conf".into()), main),
        file(
            "www.conf",
            name(&context.config, "www.conf"),
            documents.pool.to_string(),
        ),
        file("probe.conf", None, probe_pool(context)),
        file("probe.php", None, PROBE.into()),
    ];
    // It carries passwords.
    let mut env = file("app-env.conf", None, app_env(context, documents));
    env.mode = 0o600;
    files.push(env);
    files.extend(documents.php.files(context));
    files
}

/// The application's environment as a continuation of its pool.
fn app_env(context: &TierContext, documents: &Documents) -> String {
    let mut text = Ini::default();
    let section = Section::Named(&documents.pool_name);
    for (name, value) in php::app_env(context) {
        // FPM refuses an empty value, but takes a variable of its own environment that is not there for one.
        let value = if value.is_empty() {
            "$KNEEPOINT_EMPTY"
        } else {
            &value
        };
        text.set_text(section, &format!("env[{name}]"), value);
    }
    text.to_string()
}

/// A pool of one child in the same master: it sees the same shared memory, and answers when the
/// application's pool is busy. Restrictions of the application do not bind it.
fn probe_pool(context: &TierContext) -> String {
    let mut text = Ini::default();
    let mut set = |key: &str, value: &str| text.set(Section::Named("kneepoint-probe"), key, value);
    if context.as_root {
        set("user", USER);
        set("group", USER);
    }
    set("listen", &context.path("run/probe.sock"));
    set("pm", "static");
    set("pm.max_children", "1");
    set("request_terminate_timeout", "5s");
    for name in [
        "opcache.restrict_api",
        "auto_prepend_file",
        "auto_append_file",
        "open_basedir",
    ] {
        set(&format!("php_admin_value[{name}]"), "");
    }
    set("php_admin_flag[display_errors]", "off");
    text.to_string()
}
