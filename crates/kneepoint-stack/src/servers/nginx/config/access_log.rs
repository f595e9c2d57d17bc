//! The access log: off, buffered, or as written.

use super::NginxConfig;

impl NginxConfig {
    pub(super) fn set_access_log(&mut self, kind: &str, file: &str) {
        if self.get("access_log").as_deref() == Some(kind) {
            return;
        }
        let format = self
            .effective("access_log")
            .and_then(|args| args.get(1).filter(|arg| !arg.contains('=')).cloned())
            .unwrap_or_else(|| "combined".into());
        match kind {
            "off" => self.set_effective("access_log", &["off"]),
            "on" => self.set_effective("access_log", &[file, &format]),
            _ => self.set_effective("access_log", &[file, &format, "buffer=64k", "flush=1s"]),
        }
    }
}

pub(super) fn log_kind(args: &[String]) -> &'static str {
    match args.first().map(String::as_str) {
        Some("off") => "off",
        _ if args
            .iter()
            .any(|arg| arg.starts_with("buffer=") || arg.starts_with("gzip")) =>
        {
            "buffered"
        }
        _ => "on",
    }
}
