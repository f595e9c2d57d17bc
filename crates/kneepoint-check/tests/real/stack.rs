//! Stacks for the tests: started in a private directory, ended with the test.

use crate::ports::free_port;
use crate::skip::skipped;
use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::net::TcpStream;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Servers that run.
pub(crate) struct Stack {
    pub(crate) dir: tempfile::TempDir,
    children: Vec<Child>,
}

impl Drop for Stack {
    fn drop(&mut self) {
        for child in &mut self.children {
            let pid = child.id().to_string();
            let _ = Command::new("kill").args(["-TERM", &pid]).status();
        }
        for child in &mut self.children {
            let _ = child.wait();
        }
    }
}

/// The time as a log writes it.
pub(crate) fn now(format: &str) -> String {
    let output = Command::new("date")
        .arg(format!("+{format}"))
        .env("LC_ALL", "C")
        .output();
    String::from_utf8(output.expect("date").stdout)
        .expect("text")
        .trim()
        .to_owned()
}

/// PHP-FPM, whatever its version.
fn fpm() -> Option<PathBuf> {
    let entries = fs::read_dir("/usr/sbin").ok()?.flatten();
    let mut found: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    found.retain(|path| {
        path.file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with("php-fpm"))
    });
    found.sort();
    found.pop()
}

/// Whether the servers are there and may be started; says why not.
pub(crate) fn can_run(test: &str) -> bool {
    let root = fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0);
    let there = Path::new("/usr/sbin/nginx").exists()
        && Path::new("/usr/bin/redis-server").exists()
        && fpm().is_some();
    if !root || !there {
        skipped(&format!("{test} needs root, nginx, PHP-FPM and Redis"));
    }
    root && there
}

const SICK_FPM: &str = "[global]
pid = DIR/fpm.pid
error_log = DIR/fpm.log
[www]
user = www-data
group = www-data
listen = DIR/www.sock
pm = dynamic
pm.max_children = 5
pm.start_servers = 2
pm.min_spare_servers = 1
pm.max_spare_servers = 3
pm.max_requests = 100
pm.status_path = /status
catch_workers_output = yes
php_admin_value[memory_limit] = -1
php_admin_value[open_basedir] = DIR
php_admin_flag[display_errors] = on
[slow]
user = www-data
listen = DIR/slow.sock
pm = ondemand
pm.max_children = 20
";

const HEALTHY_FPM: &str = "[global]
pid = DIR/fpm.pid
error_log = DIR/fpm.log
process_control_timeout = 10s
[www]
user = www-data
listen = DIR/www.sock
pm = static
pm.max_children = 8
pm.max_requests = 0
request_terminate_timeout = 50s
request_slowlog_timeout = 5s
slowlog = DIR/slow.log
php_admin_flag[display_errors] = off
";

const SICK_NGINX: &str = "user root;
worker_processes 1;
pid DIR/nginx.pid;
error_log DIR/nginx.log;
events {
 worker_connections 512;
}
http {
 access_log DIR/access.log;
 keepalive_requests 50;
 send_timeout 1s;
 gzip on;
 gzip_comp_level 9;
 include DIR/sites/*;
 server {
  listen 127.0.0.1:PORT;
  root DIR/app/public;
  location / {
   proxy_pass http://127.0.0.1:81;
  }
  location ~ php {
   fastcgi_keep_conn on;
   fastcgi_pass unix:DIR/www.sock;
  }
  location /slow {
   fastcgi_pass unix:DIR/slow.sock;
  }
 }
}
";

const HEALTHY_NGINX: &str = "user root;
worker_processes auto;
worker_rlimit_nofile 16384;
pid DIR/nginx.pid;
error_log DIR/nginx.log;
events {
 worker_connections 4096;
}
http {
 access_log DIR/access.log combined buffer=64k flush=1s;
 sendfile on;
 gzip on;
 gzip_comp_level 4;
 gzip_types application/json;
 upstream app {
  server 127.0.0.1:81;
  keepalive 64;
 }
 include DIR/sites/*;
 server {
  listen 127.0.0.1:PORT;
  root DIR/app/public;
  location / {
   proxy_http_version 1.1;
   proxy_set_header Connection \"\";
   proxy_pass http://app;
  }
  location ~ php {
   fastcgi_pass unix:DIR/www.sock;
  }
 }
}
";

impl Stack {
    /// A stack with every fault planted.
    pub(crate) fn sick() -> Self {
        let redis = "maxclients 3\nmaxmemory 100mb\nmaxmemory-policy noeviction\n";
        let stack = Self::prepared(SICK_NGINX, SICK_FPM, redis);
        let full = || {
            format!(
                "[{}] WARNING: [pool www] server reached pm.max_children setting (5), consider raising it\n",
                now("%d-%b-%Y %H:%M:%S")
            )
        };
        let crash = format!(
            "[{}] WARNING: [pool www] child 7 exited on signal 11 (SIGSEGV) after 3.0 seconds from start\n",
            now("%d-%b-%Y %H:%M:%S")
        );
        // What PHP-FPM wrote before it was started counts no more.
        stack.write("fpm.log", &format!("{}{crash}", full()));
        let line = format!(
            "{} [error] 1#1: *1 upstream timed out (110: Connection timed out) while reading response header from upstream\n",
            now("%Y/%m/%d %H:%M:%S")
        );
        stack.write("nginx.log", &line);
        stack.write("app/artisan", "");
        stack.write(
            "app/.env",
            &format!(
                "APP_DEBUG=true\nSESSION_DRIVER=file\nREDIS_HOST=127.0.0.1\nREDIS_PORT={}\n",
                stack.redis_port()
            ),
        );
        stack.write("app/vendor/composer/autoload_real.php", "<?php\n");
        stack.write(
            "app/vendor/composer/autoload_classmap.php",
            "<?php return [\n'Composer\\\\InstalledVersions' => 1,\n];",
        );
        stack.write(
            "app/vendor/composer/autoload_psr4.php",
            &format!("<?php return [\n{}];", "'A' => 1,\n".repeat(9)),
        );
        let stack = stack.started(&["-d", "opcache.enable=0"]);
        let mut log = fs::OpenOptions::new();
        let log = log.append(true).open(stack.path("fpm.log"));
        let written = log.and_then(|mut log| log.write_all(full().repeat(3).as_bytes()));
        written.expect("a log that can be written to");
        stack
    }

    /// The same without any.
    pub(crate) fn healthy() -> Self {
        let redis = "maxmemory 100mb\nmaxmemory-policy allkeys-lru\nsave \"\"\n";
        Self::prepared(HEALTHY_NGINX, HEALTHY_FPM, redis).started(&[])
    }

    fn prepared(nginx: &str, fpm: &str, redis: &str) -> Self {
        let dir = tempfile::tempdir().expect("directory");
        let stack = Self {
            dir,
            children: Vec::new(),
        };
        for name in ["app/public", "sites", "tmp", "app/vendor/composer"] {
            fs::create_dir_all(stack.path(name)).expect("made");
        }
        let (port, redis_port) = (free_port().to_string(), free_port());
        let dir = stack.dir.path().display().to_string();
        let filled = |text: &str| text.replace("DIR", &dir).replace("PORT", &port);
        stack.write("nginx.conf", &filled(nginx));
        stack.write("fpm.conf", &filled(fpm));
        stack.write("app/public/index.php", "<?php echo 1;\n");
        let redis = format!(
            "bind 127.0.0.1\nport {redis_port}\ndir {dir}\nlogfile {dir}/redis.log\n{redis}"
        );
        stack.write("redis.conf", &redis);
        stack
    }

    fn redis_port(&self) -> u16 {
        let text = fs::read_to_string(self.path("redis.conf")).expect("there");
        let line = text.lines().find_map(|line| line.strip_prefix("port "));
        line.and_then(|port| port.parse().ok()).expect("a port")
    }

    fn started(mut self, fpm_args: &[&str]) -> Self {
        let mut nginx = Command::new("/usr/sbin/nginx");
        nginx
            .arg("-c")
            .arg(self.path("nginx.conf"))
            .args(["-g", "daemon off;"]);
        let mut php = Command::new(fpm().expect("PHP-FPM"));
        php.arg("-F")
            .arg("-y")
            .arg(self.path("fpm.conf"))
            .args(fpm_args);
        let mut redis = Command::new("/usr/bin/redis-server");
        redis.arg(self.path("redis.conf"));
        for command in [&mut nginx, &mut php, &mut redis] {
            self.start(command);
        }
        let socket = self.path("www.sock");
        self.wait_for("PHP-FPM", || UnixStream::connect(&socket).is_ok());
        let port = self.redis_port();
        self.wait_for("Redis", || TcpStream::connect(("127.0.0.1", port)).is_ok());
        let pid = self.path("nginx.pid");
        self.wait_for("nginx", || pid.exists());
        // Workers are started, and what was written is written.
        std::thread::sleep(Duration::from_millis(1500));
        self
    }

    /// nginx within another root directory, that holds what is put into it and the programs of the host.
    pub(crate) fn in_another_root(fill: impl FnOnce(&Path)) -> Self {
        let dir = tempfile::tempdir().expect("directory");
        let mut stack = Self {
            dir,
            children: Vec::new(),
        };
        for name in [
            "usr",
            "lib",
            "lib64",
            "dev",
            "run",
            "log",
            "var/lib/nginx",
            "tmp",
            "etc",
        ] {
            fs::create_dir_all(stack.path(name)).expect("made");
        }
        for name in ["etc/passwd", "etc/group"] {
            fs::copy(format!("/{name}"), stack.path(name)).expect("copied");
        }
        fill(stack.dir.path());
        let script = "set -e; for name in usr lib lib64 dev; do mount --rbind /$name $0/$name; done; \
            exec chroot $0 /usr/sbin/nginx -g 'daemon off;'";
        let mut command = Command::new("unshare");
        command
            .args(["--mount", "--propagation", "private", "sh", "-c", script])
            .arg(stack.dir.path());
        stack.start(&mut command);
        let pid = stack.path("run/nginx.pid");
        stack.wait_for("nginx in another root", || pid.exists());
        std::thread::sleep(Duration::from_millis(500));
        stack
    }

    fn start(&mut self, command: &mut Command) {
        let output = fs::File::create(self.path("output")).expect("a file");
        let errors = output.try_clone().expect("a file");
        let child = command
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors)
            .spawn();
        self.children.push(child.expect("it starts"));
    }

    fn wait_for(&mut self, what: &str, is_there: impl Fn() -> bool) {
        let began = Instant::now();
        while !is_there() {
            let said = fs::read_to_string(self.path("output")).unwrap_or_default();
            assert!(
                began.elapsed() < Duration::from_secs(60),
                "{what} does not come up: {said}"
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).expect("written");
    }

    /// The first processes of the servers.
    pub(crate) fn pids(&self) -> Vec<u32> {
        self.children.iter().map(Child::id).collect()
    }
}

/// Everything below a directory: contents, owners, modes and times, that of the last reading included.
pub(crate) fn everything(root: &Path) -> BTreeMap<PathBuf, String> {
    let mut all = BTreeMap::new();
    let mut pending = vec![root.to_owned()];
    while let Some(path) = pending.pop() {
        let about = fs::symlink_metadata(&path).expect("there");
        let times = (
            about.atime(),
            about.atime_nsec(),
            about.mtime(),
            about.mtime_nsec(),
            about.ctime(),
        );
        let content = if about.is_file() { about.len() } else { 0 };
        if about.is_dir() {
            let entries = fs::read_dir(&path).expect("a directory").flatten();
            pending.extend(entries.map(|entry| entry.path()));
        }
        // Listing a directory here is what changes its time of access.
        let shown = if about.is_dir() {
            format!("{}", about.mtime())
        } else {
            format!("{times:?} {content} {}", about.mode())
        };
        all.insert(path, shown);
    }
    all
}
