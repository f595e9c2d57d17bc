//! Forms with a CSRF token, on a real Laravel behind nginx and PHP-FPM.

use crate::support::company::briefly_among_others;
use crate::support::{apps, free_port};
use kneepoint_load::{Engine, LoadPlan, Mode, Progress, Rehearsal, Target, fetch};
use kneepoint_model::{
    Address, Arrivals, Body, LoadPoint, Outcome, Request, StatusRange, ThinkTime, Workload,
};
use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);

/// Laravel in a private directory, ended with the value. It keeps sessions and cache in files.
struct Laravel {
    children: Vec<Child>,
    address: SocketAddr,
    directory: tempfile::TempDir,
}

impl Drop for Laravel {
    fn drop(&mut self) {
        for child in &mut self.children {
            // SIGTERM lets the master end its own workers.
            let _ = Command::new("kill").arg(child.id().to_string()).status();
            let _ = child.wait();
        }
    }
}

fn start(program: &str, arguments: &[&str], config: &Path) -> Child {
    Command::new(program)
        .args(arguments)
        .arg(config)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap_or_else(|error| panic!("{program}: {error}; run make deps"))
}

fn fpm_program() -> String {
    let programs = fs::read_dir("/usr/sbin").into_iter().flatten().flatten();
    let programs = programs.map(|entry| entry.path().display().to_string());
    let mut found: Vec<String> = programs
        .filter(|path| path.starts_with("/usr/sbin/php-fpm"))
        .collect();
    found.sort();
    found.pop().expect("php-fpm is installed: make deps")
}

impl Laravel {
    fn start() -> Self {
        let directory = tempfile::tempdir().expect("temp dir");
        let at = directory.path().display().to_string();
        let open = fs::Permissions::from_mode(0o777);
        fs::create_dir(directory.path().join("storage")).expect("storage");
        for path in [directory.path(), &directory.path().join("storage")] {
            fs::set_permissions(path, open.clone()).expect("mode");
        }
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let public = apps()
            .join("laravel/public")
            .canonicalize()
            .expect("apps/laravel");
        let fpm = directory.path().join("fpm.conf");
        let settings = format!(
            "[global]\nerror_log={at}/fpm.log\n[www]\nlisten={at}/php.sock\nlisten.mode=0666\n\
             pm=static\npm.max_children=4\nuser=www-data\ngroup=www-data\n\
             env[APP_KEY]=\"base64:a25lZXBvaW50LWZpeHR1cmUtbm90LWEtc2VjcmV0ISE=\"\n\
             env[APP_STORAGE]={at}/storage\nenv[SESSION_DRIVER]=file\nenv[CACHE_DRIVER]=file\n"
        );
        fs::write(&fpm, settings).expect("fpm.conf");
        let nginx = directory.path().join("nginx.conf");
        let settings = format!(
            "daemon off; pid {at}/nginx.pid; error_log {at}/error.log; events {{}}\n\
             http {{ access_log off; client_body_temp_path {at}/b; proxy_temp_path {at}/p; \
             fastcgi_temp_path {at}/f; uwsgi_temp_path {at}/u; scgi_temp_path {at}/s;\n\
             server {{ listen {address}; root {public}; location / {{ include /etc/nginx/fastcgi.conf; \
             fastcgi_param SCRIPT_FILENAME {public}/index.php; fastcgi_param SCRIPT_NAME /index.php; \
             fastcgi_pass unix:{at}/php.sock; }} }} }}\n",
            public = public.display()
        );
        fs::write(&nginx, settings).expect("nginx.conf");
        let laravel = Self {
            children: vec![
                start(&fpm_program(), &["-R", "-F", "-y"], &fpm),
                start("/usr/sbin/nginx", &["-e", "stderr", "-c"], &nginx),
            ],
            address,
            directory,
        };
        let began = Instant::now();
        loop {
            match fetch(&laravel.target(), &Request::get("/"), None, PATIENCE) {
                Ok(fetched) if fetched.status == 200 => return laravel,
                Err(error) if began.elapsed() > PATIENCE => panic!("no answer: {error}"),
                Ok(fetched) if began.elapsed() > PATIENCE => {
                    let log = fs::read_to_string(laravel.directory.path().join("fpm.log"));
                    let body = String::from_utf8_lossy(&fetched.body).into_owned();
                    panic!("status {}: {body} {log:?}", fetched.status)
                }
                _ => std::thread::sleep(Duration::from_millis(50)),
            }
        }
    }

    fn target(&self) -> Target {
        Target::http(Address::Tcp(self.address), self.address.to_string())
    }

    /// Ten arrivals a second for two seconds.
    fn load(&self, workload: Workload) -> LoadPoint {
        self.load_until(workload, "const(10,2)", u64::MAX)
    }

    /// A load that ends with its schedule, or as soon as this many requests have ended.
    fn load_until(&self, workload: Workload, schedule: &str, requests: u64) -> LoadPoint {
        let mode = Mode::Open {
            schedule: schedule.parse().expect("a schedule"),
            arrivals: Arrivals::Even,
        };
        let mut plan = LoadPlan::new(self.target(), workload, mode);
        plan.slo.timeout = PATIENCE;
        let stop = AtomicBool::new(false);
        let told = |progress: &Progress| stop.store(progress.ended >= requests, Ordering::Relaxed);
        Engine::run(&plan, &told, &stop).expect("the load runs")
    }
}

/// The visitors of `apps/laravel/visitors.toml`.
fn visitors() -> Workload {
    let path = apps().join("laravel/visitors.toml");
    let scenario = kneepoint::config::load(&path).unwrap_or_else(|errors| panic!("{errors}"));
    scenario.workload
}

#[test]
fn a_form_is_sent_with_the_token_of_its_page() {
    let _place = briefly_among_others();
    let laravel = Laravel::start();
    let workload = visitors();
    let rehearsal = Rehearsal::new(&laravel.target(), &workload, None, PATIENCE);
    let steps: Vec<String> = rehearsal
        .expect("it can be sent")
        .map(|step| {
            let step = step.expect("a response");
            assert_eq!(step.missed, None, "{step:?}");
            format!("{}: {}", step.request, step.fetched.status)
        })
        .collect();
    let session = ["GET /: 200", "POST /search: 302", "GET /: 200"];
    assert_eq!(steps, [session, session].concat());
}

#[test]
fn visitors_send_the_form_in_their_sessions() {
    let _place = briefly_among_others();
    let laravel = Laravel::start();
    let mut workload = visitors();
    if let Some(sessions) = &mut workload.sessions {
        sessions.think_time = ThinkTime::None;
    }
    // Fewer users than visits: each visitor begins with nothing all the same.
    workload.users = 5;
    // A visit is three requests. The last ones have as long as a busy machine takes.
    let point = laravel.load_until(workload, "const(10,2) const(0,60)", 20 * 3);
    assert_eq!(point.outcomes.failed(), 0, "{:?}", point.examples);
    let sessions = point.sessions.expect("visits are counted");
    assert_eq!(
        (sessions.started, sessions.completed, sessions.broken_off),
        (20, 20, 0),
        "{sessions:?}"
    );
    let posted = point.outcomes.by_status.get(&302).copied();
    assert_eq!(posted, Some(20), "{point:?}");
}

#[test]
fn without_the_token_the_form_is_refused() {
    let _place = briefly_among_others();
    let laravel = Laravel::start();
    let mut workload = visitors();
    workload.sessions = None;
    for (index, change) in [(1, "form"), (2, "header")] {
        let mut without = workload.clone();
        let request = &mut without.requests[index];
        match change {
            "form" => {
                let fields = vec![("q".into(), "hats".into())];
                request.body = Some(Body::Form(fields));
            }
            _ => request.headers.clear(),
        }
        request.session = true;
        without.requests = vec![request.clone()];
        let point = laravel.load(without);
        assert_eq!(point.outcomes.by_status.get(&419), Some(&20), "{point:?}");
        assert_eq!(point.outcomes.of(Outcome::HttpError), 20);
        let example = &point.examples[0];
        let expected = "POST /search: http error, status 419, expected status 302";
        assert!(example.starts_with(expected), "{example}");
    }
}

/// Users without sessions send pages and forms in any order: a form goes out when its page has come, and is kept back
/// before, in words.
#[test]
fn a_form_without_its_page_is_never_sent() {
    let _place = briefly_among_others();
    let laravel = Laravel::start();
    let mut workload = visitors();
    workload.sessions = None;
    workload.users = 1;
    workload.requests.truncate(2);
    let point = laravel.load(workload.clone());
    let (ok, kept_back) = (
        point.outcomes.of(Outcome::Ok),
        point.outcomes.of(Outcome::NoValue),
    );
    assert_eq!(ok + kept_back, 20, "{point:?}");
    let sent = point.outcomes.by_status.get(&302).copied();
    assert!(sent.is_some_and(|sent| sent > 0), "{point:?}");

    // A page that gives no token is wrong, and its form is not sent with an empty one.
    workload.requests[0].path = "/session".into();
    workload.requests[0].expect.body_contains.clear();
    workload.requests[0].expect.status = vec![StatusRange::from(200)];
    let point = laravel.load(workload);
    let wrong = point.outcomes.of(Outcome::WrongBody);
    assert!(wrong > 0, "{point:?}");
    assert_eq!(wrong + point.outcomes.of(Outcome::NoValue), 20, "{point:?}");
    assert_eq!(point.outcomes.by_status.get(&419), None);
    let said = point.examples.join("\n");
    for expected in [
        "GET /session: wrong body, status 200, expected a value for {{csrf}} between",
        "POST /search: not sent: nothing was captured for {{csrf}}",
    ] {
        assert!(said.contains(expected), "{said}");
    }
}
