//! The access log: off, buffered, or as written.

use super::NginxConfig;
use crate::TierContext;

/// What of a log's parameters is about its buffer.
const OF_THE_BUFFER: &[&str] = &["buffer=", "gzip", "flush="];

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

    /// Gives logs whose buffers differ files of their own: nginx refuses a file with two buffers, and in the lab all logs
    /// would be one file.
    pub(in crate::servers::nginx) fn part_access_logs(&mut self, context: &TierContext) {
        let mut buffers: Vec<Vec<String>> = Vec::new();
        self.root.visit_mut(&mut |item| {
            let mut args = item.args();
            if item.name() != "access_log" || log_kind(&args) != "buffered" {
                return;
            }
            let of_it = |arg: &&String| OF_THE_BUFFER.iter().any(|word| arg.starts_with(word));
            let mut buffer: Vec<String> = args.iter().skip(1).filter(of_it).cloned().collect();
            buffer.sort();
            let known = buffers.iter().position(|known| *known == buffer);
            let at = known.unwrap_or(buffers.len());
            if known.is_none() {
                buffers.push(buffer);
            }
            if at > 0 {
                args[0] = context.path(&format!("log/access-{}.log", at + 1));
                item.set_args(&args.iter().map(String::as_str).collect::<Vec<_>>());
            }
        });
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
