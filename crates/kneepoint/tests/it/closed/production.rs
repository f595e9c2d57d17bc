//! A Laravel application whose `.env` is that of production: its database, its cache, its mail server, an interface of somebody
//! else and a socket are on this machine. Tuning refuses it and names them; with doubles it runs. They meet nobody.

use crate::support::company::among_others;
use crate::support::{apps, kneepoint, needs_root, start, text, wait};
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

/// What a shop does at the end of an order.
const ORDER: &str = r#"
Route::get('/order', static function (): array {
    $mail = @stream_socket_client('tcp://' . env('MAIL_HOST') . ':' . env('MAIL_PORT'), $code, $why, 1);
    $rates = @file_get_contents(env('RATES_URL'));
    $queue = @stream_socket_client('unix://' . env('QUEUE_SOCKET'), $code, $why, 1);
    return ['mail' => (bool) $mail, 'rates' => $rates, 'queue' => (bool) $queue];
});
"#;

/// The servers of production, each of which counts who comes.
struct Production {
    names: [&'static str; 4],
    tcp: [TcpListener; 4],
    unix: UnixListener,
    socket: PathBuf,
}

impl Production {
    fn start() -> Self {
        let listen = |_| {
            let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
            listener.set_nonblocking(true).expect("set");
            listener
        };
        let socket = PathBuf::from(format!("/opt/production-it-{}.sock", std::process::id()));
        let _ = fs::remove_file(&socket);
        let unix = UnixListener::bind(&socket).expect("a socket");
        unix.set_nonblocking(true).expect("set");
        fs::set_permissions(&socket, fs::Permissions::from_mode(0o777)).expect("mode");
        Self {
            names: ["the database", "the cache", "the mail server", "the rates"],
            tcp: [(); 4].map(listen),
            unix,
            socket,
        }
    }

    fn ports(&self) -> [u16; 4] {
        let port = |listener: &TcpListener| listener.local_addr().expect("an address").port();
        [0, 1, 2, 3].map(|nth: usize| port(&self.tcp[nth]))
    }

    /// The `.env` of production.
    fn settings(&self) -> String {
        let [db, cache, mail, rates] = self.ports();
        let socket = self.socket.display();
        format!(
            "DB_CONNECTION=mysql\nDB_HOST=127.0.0.1\nDB_PORT={db}\nREDIS_HOST=127.0.0.1\nREDIS_PORT={cache}\n\
             MAIL_HOST=127.0.0.1\nMAIL_PORT={mail}\nRATES_URL=http://127.0.0.1:{rates}/rates\nQUEUE_SOCKET={socket}\n"
        )
    }

    #[track_caller]
    fn check_alone(&self, said: &str) {
        for (name, listener) in self.names.iter().zip(&self.tcp) {
            assert!(listener.accept().is_err(), "{name} was met: {said}");
        }
        assert!(self.unix.accept().is_err(), "the socket was met: {said}");
    }
}

impl Drop for Production {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.socket);
    }
}

/// A copy of the application, with the settings of production and a page that orders something.
fn copy(directory: &Path, production: &Production) -> PathBuf {
    let root = directory.join("shop");
    let copied = Command::new("cp")
        .arg("-r")
        .arg(apps().join("laravel"))
        .arg(&root)
        .status();
    assert!(copied.expect("cp").success());
    let routes = root.join("routes/api.php");
    let text = fs::read_to_string(&routes).expect("routes") + ORDER;
    fs::write(&routes, text).expect("routes");
    fs::write(root.join(".env"), production.settings()).expect(".env");
    fs::set_permissions(directory, fs::Permissions::from_mode(0o755)).expect("mode");
    root
}

fn tune(root: &Path, app: &str, stack: &str, expected: &str) -> Output {
    let scenario = format!(
        "[app]\nroot = \".\"\nfront = \"public/index.php\"\nkind = \"laravel\"\n{app}\
         [app.env]\nAPP_ENV = \"production\"\nAPP_KEY = \"base64:a25lZXBvaW50LWZpeHR1cmUtbm90LWEtc2VjcmV0ISE=\"\n\
         {stack}\n[[request]]\npath = \"/order\"\nexpect = {{ status = 200, body_contains = '{expected}' }}\n\
         [[request]]\npath = \"/visits\"\nexpect = {{ status = 200, body_contains = \"visits\" }}\n\
         [[request]]\npath = \"/session\"\nsession = true\nexpect = {{ status = 200, body_contains = \"visits\" }}\n"
    );
    fs::write(root.join("production.toml"), scenario).expect("a scenario");
    let mut command = kneepoint();
    command.arg("tune").arg(root.join("production.toml"));
    command.args(["--budget", "30s", "--no-report", "--runs"]);
    wait(
        start(command.arg(root.join("runs"))),
        Duration::from_secs(280),
    )
}

#[test]
fn what_is_set_up_for_production_is_named_and_runs_with_doubles_only() {
    if !needs_root("a copy of production") {
        return;
    }
    let _place = among_others();
    let directory = tempfile::tempdir().expect("a directory");
    let production = Production::start();
    let root = copy(directory.path(), &production);
    let servers = "[stack]\nweb = { server = \"nginx\" }\nphp = { runtime = \"fpm\" }\n";
    let output = tune(&root, "", servers, "queue");
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    let [db, cache, mail, rates] = production.ports();
    let socket = production.socket.display();
    for words in [
        format!("127.0.0.1:{db}"),
        "DB_HOST in .env, line 2".to_owned(),
        format!("127.0.0.1:{cache}"),
        "REDIS_HOST in .env, line 4".to_owned(),
        format!("127.0.0.1:{mail}"),
        "MAIL_HOST in .env, line 6".to_owned(),
        format!("127.0.0.1:{rates}"),
        "RATES_URL in .env, line 8".to_owned(),
        format!("{socket}, at routes/api.php:"),
        "QUEUE_SOCKET in .env, line 9".to_owned(),
    ] {
        assert!(said.contains(&words), "{words}\nis not in\n{said}");
    }
    production.check_alone(&said);

    let unreachable = format!("unreachable = [\"{socket}\"]\n");
    let stack = format!(
        "{servers}cache = {{ server = \"redis\" }}\n\
         db = {{ server = \"mariadb\", seed = \"seed-mysql.sql\" }}\n\
         [[peer]]\nhost = \"127.0.0.1\"\nkind = \"smtp\"\nport = {mail}\n\
         [[peer]]\nhost = \"127.0.0.1\"\nkind = \"http\"\nport = {rates}\nbody = 'rate 2'\n"
    );
    let output = tune(
        &root,
        &unreachable,
        &stack,
        "\"mail\":true,\"rates\":\"rate 2\"",
    );
    let said = text(&output.stderr);
    assert!(matches!(output.status.code(), Some(0 | 4)), "{said}");
    assert!(text(&output.stdout).contains("R*"), "{said}");
    production.check_alone(&said);
}
