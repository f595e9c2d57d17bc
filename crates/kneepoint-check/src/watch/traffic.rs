//! What access logs gained: rate, failures and times of the last seconds.
//!
//! Every line counts; of a busy log only some are read in full, spread over what came.

mod window;

use super::moment::TrafficMoment;
use crate::files::Root;
use crate::snapshot::{Service, ServiceKind, Snapshot};
use kneepoint_access_log::{LineFormat, detect, parse_line};
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::time::{Duration, Instant};
use window::Window;

/// Most logs that are followed.
const LOGS: usize = 100;
/// Most bytes of a log that are read in one look; what is beyond is left out, and the rate of that second is too low.
const BYTES: u64 = 4 << 20;
/// Lines of a look that are read in full.
const READ: usize = 100;
/// Bytes at the end of a log from which its format is told where configuration does not.
const SAMPLE_BYTES: u64 = 16 << 10;
/// Time between two looks at whether the path leads to another file: logs are rotated.
const REOPEN: Duration = Duration::from_secs(5);
/// Longest beginning of a line that is kept until its end comes.
const LINE: usize = 128 << 10;

/// The access logs of all services.
#[derive(Debug, Default)]
pub(super) struct Traffic(Vec<Log>);

/// One log.
#[derive(Debug)]
struct Log {
    pid: u32,
    service: String,
    path: String,
    format: Option<LineFormat>,
    open: Option<Open>,
    /// When the path was looked at.
    looked: Option<Instant>,
    blind: Option<String>,
    window: Window,
}

#[derive(Debug)]
struct Open {
    file: File,
    identity: (u64, u64),
    at: u64,
    /// The beginning of a line whose end has not come.
    rest: Vec<u8>,
}

impl Traffic {
    /// Goes on with the logs of a new snapshot; what was counted of those that stay is kept.
    pub(super) fn following(mut self, snapshot: &Snapshot) -> Self {
        let mut logs = Vec::new();
        for service in &snapshot.services {
            for (path, format) in logs_of(service) {
                let same = |log: &Log| log.pid == service.pid && log.path == path;
                let known = self
                    .0
                    .iter()
                    .position(same)
                    .map(|at| self.0.swap_remove(at));
                let mut log = known.unwrap_or_else(|| Log::new(service, path));
                log.format = format.or(log.format.take());
                logs.push(log);
            }
        }
        logs.truncate(LOGS);
        Self(logs)
    }

    pub(super) fn look(&mut self) -> Vec<TrafficMoment> {
        let now = Instant::now();
        self.0.iter_mut().map(|log| log.look(now)).collect()
    }
}

impl Log {
    fn new(service: &Service, path: String) -> Self {
        Self {
            pid: service.pid,
            service: service.name(),
            path,
            format: None,
            open: None,
            looked: None,
            blind: None,
            window: Window::default(),
        }
    }

    fn look(&mut self, now: Instant) -> TrafficMoment {
        if self
            .looked
            .is_none_or(|at| now.duration_since(at) >= REOPEN)
        {
            self.looked = Some(now);
            self.reopen();
        }
        let lines = self.gained();
        self.take(&lines, now);
        TrafficMoment {
            path: self.path.clone(),
            service: self.service.clone(),
            rate_hz: self.window.rate_hz(now),
            failed_share: self.window.failed_share(),
            p95_s: self.window.p95_s(),
            requests: self.window.total,
            in_flight: 0,
            blind: self.blind.clone(),
        }
    }

    /// Opens the file that the path leads to now, where it is another one than before.
    fn reopen(&mut self) {
        let opened = Root::of(self.pid).and_then(|root| root.follow(&self.path));
        let (file, identity) = match opened {
            Ok(opened) => opened,
            Err(why) => {
                self.blind = Some(why.to_string());
                return;
            }
        };
        self.blind = None;
        if self
            .open
            .as_ref()
            .is_some_and(|open| open.identity == identity)
        {
            return;
        }
        let length = file.metadata().map_or(0, |about| about.len());
        if self.format.is_none() {
            self.format = sample(&file, length);
        }
        // The first file is followed from its end; one that took its place is new from its beginning.
        let at = if self.open.is_some() { 0 } else { length };
        self.open = Some(Open {
            file,
            identity,
            at,
            rest: Vec::new(),
        });
    }

    /// The whole lines that came since the last look, and how many they are.
    fn gained(&mut self) -> Vec<u8> {
        let Some(open) = &mut self.open else {
            return Vec::new();
        };
        let length = open.file.metadata().map_or(0, |about| about.len());
        if length < open.at {
            // It was cut: copytruncate.
            open.at = 0;
            open.rest.clear();
        }
        let skipped = (length - open.at).saturating_sub(BYTES);
        if skipped > 0 {
            open.at += skipped;
            open.rest.clear();
        }
        let mut bytes = std::mem::take(&mut open.rest);
        let known = bytes.len();
        bytes.resize(known + usize::try_from(length - open.at).unwrap_or(0), 0);
        let read = open.file.read_at(&mut bytes[known..], open.at).unwrap_or(0);
        bytes.truncate(known + read);
        open.at += read as u64;
        let end = memchr::memrchr(b'\n', &bytes).map_or(0, |at| at + 1);
        open.rest = bytes.split_off(end);
        if open.rest.len() > LINE {
            open.rest.clear();
        }
        bytes
    }

    fn take(&mut self, lines: &[u8], now: Instant) {
        let count = memchr::memchr_iter(b'\n', lines).count();
        self.window.begin(now, count as u64);
        if self.format.is_none() && count > 0 {
            self.format = detect(&texts(lines));
        }
        let Some(format) = &self.format else { return };
        let every = count.div_ceil(READ).max(1);
        for line in lines.split(|byte| *byte == b'\n').step_by(every) {
            let Ok(entry) = parse_line(format, &String::from_utf8_lossy(line)) else {
                continue;
            };
            let took = entry
                .timed
                .then(|| (entry.end_us - entry.start_us) as f32 / 1e6);
            let failed = entry.status.is_some_and(|status| status >= 500);
            self.window.add(took, failed);
        }
    }
}

/// The format of a log by its end.
fn sample(file: &File, length: u64) -> Option<LineFormat> {
    let from = length.saturating_sub(SAMPLE_BYTES);
    let mut bytes = vec![0; usize::try_from(length - from).unwrap_or(0)];
    let read = file.read_at(&mut bytes, from).unwrap_or(0);
    let mut lines = texts(&bytes[..read]);
    if from > 0 && !lines.is_empty() {
        lines.remove(0);
    }
    detect(&lines)
}

fn texts(bytes: &[u8]) -> Vec<String> {
    let lines = bytes
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty());
    let lines = lines
        .take(50)
        .map(|line| String::from_utf8_lossy(line).into_owned());
    lines.collect()
}

/// The access logs that a service writes to files, with their formats where they are known.
fn logs_of(service: &Service) -> Vec<(String, Option<LineFormat>)> {
    let mut found: Vec<(String, Option<LineFormat>)> = Vec::new();
    let values: Vec<String> = match (&service.nginx, service.kind) {
        (Some(nginx), _) => {
            let own = nginx.servers.iter().map(|server| &server.settings);
            let passes = nginx.passes.iter().map(|pass| &pass.settings);
            let all = own
                .chain(passes)
                .flat_map(|settings| settings.every("access_log"));
            all.map(|(text, _)| text.to_owned()).collect()
        }
        (None, ServiceKind::Apache) => {
            let all = service.settings.every("customlog");
            all.map(|(text, _)| text.to_owned()).collect()
        }
        _ => Vec::new(),
    };
    for value in values {
        let mut words = value.split(' ');
        let path = words.next().unwrap_or_default().trim_matches('"');
        let path = match service.settings.text("serverroot") {
            // Apache's paths are below its root; `|` hands lines to a program.
            Some(home) if !path.starts_with(['/', '|']) && !path.contains(':') => {
                format!("{}/{path}", home.trim_end_matches('/'))
            }
            _ => path.to_owned(),
        };
        let is_file = path.starts_with('/') && !path.starts_with("/dev/") && !path.contains('$');
        if !is_file || found.iter().any(|(known, _)| *known == path) {
            continue;
        }
        let name = words.next().filter(|word| !word.contains('='));
        // Formats without a definition, such as nginx's `combined`, are told by the lines.
        let text = name.and_then(|name| service.settings.text(&format!("log_format {name}")));
        let format = text.and_then(|text| LineFormat::parse(text).ok());
        found.push((path, format));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    fn line(second: u32, status: u16, took: &str) -> String {
        format!(
            "10.0.0.1 - - [28/Nov/2026:10:00:{second:02} +0000] \"GET / HTTP/1.1\" {status} 12 \"-\" \"curl\" {took}\n"
        )
    }

    #[test]
    fn a_log_is_followed_over_its_rotation() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("access.log");
        std::fs::write(&path, line(0, 200, "9.000")).expect("written");
        let service = Service::new(ServiceKind::Nginx, std::process::id());
        let mut log = Log::new(&service, path.display().to_string());
        let append = |text: &str| {
            let mut file = File::options().append(true).open(&path).expect("there");
            file.write_all(text.as_bytes()).expect("written");
        };
        let began = Instant::now();
        let after = |seconds| began + Duration::from_secs(seconds);
        // What was there before is past.
        assert_eq!(log.look(after(0)).requests, 0);
        append(&line(1, 200, "0.100"));
        append(&line(1, 502, "0.200"));
        append("10.0.0.1 - - [28/Nov");
        let moment = log.look(after(1));
        assert_eq!((moment.requests, moment.failed_share), (2, Some(0.5)));
        assert!(
            moment.p95_s.is_some_and(|p95| (p95 - 0.2).abs() < 1e-6),
            "{moment:?}"
        );
        std::fs::rename(&path, dir.path().join("access.log.1")).expect("rotated");
        std::fs::write(&path, line(7, 200, "0.300")).expect("written");
        let moment = log.look(after(7));
        assert_eq!((moment.requests, moment.blind), (3, None));
        std::fs::remove_file(&path).expect("removed");
        assert!(log.look(after(20)).blind.is_some());
    }

    #[test]
    fn the_logs_of_apache_lie_below_its_root() {
        let found = |log: &str| {
            let lines = [("serverroot", "/etc/httpd"), ("customlog", log)];
            let case = crate::rule::case::apache(&lines);
            let of_apache = |service: &&Service| service.kind == ServiceKind::Apache;
            let apache = case.0.services.iter().find(of_apache);
            let logs = logs_of(apache.expect("it is there"));
            logs.into_iter().map(|(path, _)| path).collect::<Vec<_>>()
        };
        assert_eq!(
            found("\"logs/access_log\" combined"),
            ["/etc/httpd/logs/access_log"]
        );
        assert_eq!(found("/l/a.log common"), ["/l/a.log"]);
        for elsewhere in ["\"|/usr/bin/rotatelogs /l/a\" common", "syslog:user common"] {
            assert_eq!(found(elsewhere), Vec::<String>::new(), "{elsewhere}");
        }
    }

    #[test]
    fn the_logs_of_nginx_have_the_formats_of_its_configuration() {
        let case = crate::rule::case::Case::healthy().nginx(
            "http {\n log_format timed escape=json '$remote_addr [$time_local] '\n  '\"$request\" $status rt=$request_time';\n \
             access_log /l/all.log;\n server {\n  access_log /l/first.log;\n  access_log /l/shop.log timed buffer=32k;\n  access_log /l/first.log timed;\n }\n server {\n  access_log syslog:server=x;\n }\n \
             server {\n  location / {\n   access_log off;\n   proxy_pass http://a;\n  }\n }\n}\n",
        );
        let logs = logs_of(&case.0.services[0]);
        let paths: Vec<&str> = logs.iter().map(|(path, _)| path.as_str()).collect();
        // Every line of a level, and each file once.
        assert_eq!(paths, ["/l/first.log", "/l/shop.log", "/l/all.log"]);
        let format = logs[1].1.as_ref().expect("a format");
        let text = "10.0.0.1 [28/Nov/2026:10:00:00 +0000] \"GET / HTTP/1.1\" 200 rt=0.250";
        let entry = parse_line(format, text).expect("a line");
        assert_eq!(
            (entry.timed, entry.end_us - entry.start_us),
            (true, 250_000)
        );
        assert_eq!(logs[2].1, None);
    }
}
