//! PHP that a request holds within directories (`open_basedir`): the lab's own are added to them.

use super::config::NginxConfig;
use crate::TierContext;

/// What goes to PHP with each request may hold it within directories of the user's; its sessions are in one of the lab's.
pub(super) fn admit_lab(site: &mut NginxConfig, context: &TierContext) {
    let hosts = context.dir.parent().unwrap_or(&context.dir);
    let labs = format!(":{}:{}", context.app.root.display(), hosts.display());
    let admitted = |line: &str| {
        let dirs = line.trim().strip_prefix("open_basedir");
        let dirs = dirs.and_then(|rest| rest.trim_start().strip_prefix('='));
        let holds = |dirs: &str| !["", "none"].contains(&dirs.trim()) && !dirs.ends_with('"');
        match dirs.is_some_and(holds) {
            true => format!("{}{labs}", line.trim_end()),
            false => line.to_owned(),
        }
    };
    site.http().visit_mut(&mut |item| {
        let mut args = item.args();
        if item.name() != "fastcgi_param" || args.len() < 2 || !args[0].starts_with("PHP_") {
            return;
        }
        args[1] = args[1]
            .split('\n')
            .map(admitted)
            .collect::<Vec<_>>()
            .join("\n");
        item.set_args(&args.iter().map(String::as_str).collect::<Vec<_>>());
    });
}
