//! A real nginx with certificates of its own, in a private directory.

#![expect(
    clippy::disallowed_methods,
    reason = "a test starts its own servers and ends them by their process id"
)]

use super::free_address;
use kneepoint_load::{Target, Tls, Verify, fetch};
use kneepoint_model::{Address, Request};
use rcgen::{BasicConstraints, Certificate, CertificateParams, DnType, IsCa, KeyPair};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// The name the certificates are for.
pub(crate) const NAME: &str = "site.test";
pub(crate) const LARGE_BYTES: usize = 4 << 20;

/// nginx, ended with its value.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // The master ends its workers when it is asked to, and orphans them when it is killed.
        let _ = kill_process(Pid::from_child(&self.0), Signal::TERM);
        let _ = self.0.wait();
    }
}

/// An authority, with its certificate as a file.
struct Authority {
    certificate: Certificate,
    key: KeyPair,
    path: PathBuf,
}

impl Authority {
    fn create(dir: &Path, name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().expect("a key");
        let certificate = params.self_signed(&key).expect("signed");
        let path = dir.join(format!("{name}.pem"));
        fs::write(&path, certificate.pem()).expect("written");
        Self {
            certificate,
            key,
            path,
        }
    }

    /// Issues a certificate for [`NAME`] and the loopback, valid until a year, as `name.pem` and `name.key`.
    fn issue(&self, dir: &Path, name: &str, until: i32) {
        let names = vec![NAME.to_owned(), "127.0.0.1".to_owned()];
        let mut params = CertificateParams::new(names).expect("valid names");
        params.distinguished_name.push(DnType::CommonName, NAME);
        params.not_before = rcgen::date_time_ymd(2020, 1, 1);
        params.not_after = rcgen::date_time_ymd(until, 1, 1);
        let key = KeyPair::generate().expect("a key");
        let signed = params.signed_by(&key, &self.certificate, &self.key);
        let pem = signed.expect("signed").pem();
        fs::write(dir.join(format!("{name}.pem")), pem).expect("written");
        fs::write(dir.join(format!("{name}.key")), key.serialize_pem()).expect("written");
    }
}

/// One nginx with a door for each kind of connection.
pub(crate) struct Site {
    dir: TempDir,
    /// The authority that signed its certificates, and one that did not.
    pub(crate) ca: PathBuf,
    pub(crate) other_ca: PathBuf,
    /// HTTP/1.1 over TLS.
    pub(crate) tls: SocketAddr,
    /// The same with a certificate that has expired.
    pub(crate) expired: SocketAddr,
    /// HTTP/2 over TLS.
    pub(crate) tls_h2: SocketAddr,
    /// HTTP/2 in the clear.
    pub(crate) h2c: SocketAddr,
    /// The same, which says goodbye after ten requests.
    pub(crate) goaway: SocketAddr,
    /// The same, which allows two requests at a time.
    pub(crate) narrow: SocketAddr,
    _nginx: Running,
}

/// What every door serves: a page, a large file, one that trickles (its first second brings 20 000 of 60 000 bytes),
/// an answer to anything posted, and a cookie.
fn locations(root: &str) -> String {
    format!(
        "root {root}/public;\n client_max_body_size 0;\n\
         location = /slow {{ limit_rate 20000; }}\n\
         location = /echo {{ return 200 \"$request_method $http_content_length\"; }}\n\
         location = /cookie {{ add_header Set-Cookie \"id=1; path=/\"; return 200 \"cookie=$cookie_id\"; }}\n"
    )
}

fn config(dir: &Path, doors: &[(SocketAddr, &str, &str)]) -> String {
    let root = dir.display().to_string();
    let locations = locations(&root);
    let servers: String = doors
        .iter()
        .map(|(address, how, settings)| {
            let settings = settings.replace("ROOT", &root);
            format!("server {{\n listen {address} {how};\n server_name {NAME};\n {settings}\n {locations} }}\n")
        })
        .collect();
    format!(
        "daemon off;\nuser root;\nworker_processes 1;\npid {root}/nginx.pid;\nerror_log {root}/nginx.log;\n\
         events {{ worker_connections 1024; }}\n\
         http {{\n keepalive_requests 1000000;\n log_format reused \"$ssl_session_reused\";\n access_log {root}/reused.log reused;\n\
         client_body_temp_path {root}/body;\n proxy_temp_path {root}/proxy;\n\
         fastcgi_temp_path {root}/fastcgi;\n uwsgi_temp_path {root}/uwsgi;\n scgi_temp_path {root}/scgi;\n\
         {servers}}}\n"
    )
}

impl Site {
    pub(crate) fn start() -> Self {
        let dir = tempfile::tempdir().expect("temporary directory");
        let path = dir.path();
        let authority = Authority::create(path, "authority");
        let other = Authority::create(path, "other");
        authority.issue(path, "good", 2100);
        authority.issue(path, "expired", 2021);
        let public = path.join("public");
        fs::create_dir_all(&public).expect("created");
        let large = format!("{}the end", "x".repeat(LARGE_BYTES - 7));
        for (name, text) in [
            ("index.html", "hello"),
            ("large", &large),
            ("slow", &"s".repeat(60_000)),
        ] {
            fs::write(public.join(name), text).expect("written");
        }
        let [tls, expired, tls_h2, h2c, goaway, narrow] = [(); 6].map(|()| free_address());
        let good = "ssl_certificate ROOT/good.pem; ssl_certificate_key ROOT/good.key;";
        let old = "ssl_certificate ROOT/expired.pem; ssl_certificate_key ROOT/expired.key;";
        let config = config(
            path,
            &[
                (tls, "ssl", good),
                (expired, "ssl", old),
                (tls_h2, "ssl http2", good),
                (h2c, "http2", ""),
                (goaway, "http2", "keepalive_requests 10;"),
                (narrow, "http2", "http2_max_concurrent_streams 2;"),
            ],
        );
        let file = path.join("nginx.conf");
        fs::write(&file, config).expect("written");
        let child = Command::new("nginx")
            .arg("-p")
            .arg(path)
            .arg("-c")
            .arg(&file)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let child =
            child.unwrap_or_else(|error| panic!("nginx: {error}; run scripts/install-deps"));
        let site = Self {
            ca: authority.path,
            other_ca: other.path,
            tls,
            expired,
            tls_h2,
            h2c,
            goaway,
            narrow,
            _nginx: Running(child),
            dir,
        };
        await_answer(&site.https(site.tls));
        site
    }

    /// HTTP/1.1 over TLS at a door, trusting the site's authority.
    pub(crate) fn https(&self, door: SocketAddr) -> Target {
        let tls = Tls::new(NAME).with_verify(Verify::CaFile(self.ca.clone()));
        Target::http(Address::Tcp(door), NAME).with_tls(tls)
    }

    /// How many requests came on a session that was resumed, and how many in all. nginx writes its log after the
    /// response, so the last lines are waited for.
    pub(crate) fn resumed(&self, requests: usize) -> (usize, usize) {
        let began = Instant::now();
        loop {
            let log = fs::read_to_string(self.dir.path().join("reused.log")).unwrap_or_default();
            let all = log.lines().count();
            if all >= requests || began.elapsed() > PATIENCE {
                return (log.lines().filter(|line| *line == "r").count(), all);
            }
            thread::sleep(Duration::from_millis(20));
        }
    }
}

fn await_answer(target: &Target) {
    let began = Instant::now();
    loop {
        match fetch(target, &Request::get("/"), None, PATIENCE) {
            Ok(fetched) if fetched.status == 200 => return,
            other if began.elapsed() > PATIENCE => panic!("{target:?}: {other:?}"),
            _ => thread::sleep(Duration::from_millis(20)),
        }
    }
}
