//! Copies of a Laravel and of a WordPress application whose settings are those of production: a database, a cache, a mail
//! server, an interface of somebody else and a socket, all on this machine. They are refused, with every one of them named in
//! one refusal; with doubles they run. Nobody is met.

use crate::support::company::among_others;
use crate::support::skipped;
use crate::support::{apps, kneepoint, needs_root, start, text, wait};
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

/// Where the package `wordpress` has its files.
const WORDPRESS: &str = "/usr/share/wordpress";

/// What the shop on Laravel does at the end of an order.
const LARAVEL_ORDER: &str = r#"
Route::get('/order', static function (): array {
    $mail = @stream_socket_client('tcp://' . env('MAIL_HOST') . ':' . env('MAIL_PORT'), $code, $why, 1);
    $rates = @file_get_contents(env('RATES_URL'));
    $queue = @stream_socket_client('unix://' . env('QUEUE_SOCKET'), $code, $why, 1);
    return ['mail' => (bool) $mail, 'rates' => $rates, 'queue' => (bool) $queue];
});
"#;

/// The same on WordPress, with its own means.
const WORDPRESS_ORDER: &str = r#"<?php
add_action('phpmailer_init', static function ($mailer): void {
    $mailer->isSMTP();
    $mailer->Host = SMTP_HOST;
    $mailer->Port = SMTP_PORT;
});
add_action('init', static function (): void {
    $cache = class_exists('Redis') ? new Redis() : null;
    try {
        $cached = $cache && $cache->connect(WP_REDIS_HOST, WP_REDIS_PORT) && $cache->ping();
    } catch (RedisException) {
        $cached = false;
    }
    $mail = wp_mail('someone@example.org', 'An order', 'Two of them.', 'From: shop@example.org');
    $rates = wp_remote_retrieve_body(wp_remote_get(RATES_URL));
    $queue = @stream_socket_client('unix://' . QUEUE_SOCKET, $code, $why, 1);
    header('content-type: application/json');
    echo json_encode(['cache' => (bool) $cached, 'mail' => $mail, 'rates' => $rates, 'queue' => (bool) $queue]);
    exit;
}, 0);
"#;

/// What WordPress looks for before it loads the rest.
const WORDPRESS_SEED: &str = "CREATE TABLE wp_options (option_id bigint unsigned NOT NULL AUTO_INCREMENT PRIMARY KEY, \
     option_name varchar(191) NOT NULL UNIQUE, option_value longtext NOT NULL, autoload varchar(20) NOT NULL DEFAULT 'yes');\n\
     INSERT INTO wp_options (option_name, option_value) VALUES ('siteurl', 'http://shop.example.test'), \
     ('home', 'http://shop.example.test'), ('active_plugins', 'a:0:{}');\n";

/// The servers of production, each of which counts who comes.
struct Production {
    tcp: [(&'static str, TcpListener); 4],
    unix: UnixListener,
    socket: PathBuf,
}

impl Production {
    fn start() -> Self {
        let listen = |name| {
            let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
            listener.set_nonblocking(true).expect("set");
            (name, listener)
        };
        let tcp = ["the database", "the cache", "the mail server", "the rates"].map(listen);
        let port = tcp[0].1.local_addr().expect("an address").port();
        // Directories such as /run are the lab's own: this one is not.
        let name = format!("/opt/production-it-{}-{port}.sock", std::process::id());
        let socket = PathBuf::from(name);
        let _ = fs::remove_file(&socket);
        let unix = UnixListener::bind(&socket).expect("a socket");
        unix.set_nonblocking(true).expect("set");
        fs::set_permissions(&socket, fs::Permissions::from_mode(0o777)).expect("mode");
        Self { tcp, unix, socket }
    }

    fn ports(&self) -> [u16; 4] {
        let port = |nth: usize| self.tcp[nth].1.local_addr().expect("an address").port();
        [0, 1, 2, 3].map(port)
    }

    /// The doubles of those that have some, and that the socket stays unreachable.
    fn doubles(&self) -> (String, String) {
        let [_, _, mail, rates] = self.ports();
        let peers = format!(
            "[[peer]]\nhost = \"127.0.0.1\"\nkind = \"smtp\"\nport = {mail}\n\
             [[peer]]\nhost = \"127.0.0.1\"\nkind = \"http\"\nport = {rates}\nbody = 'rate 2'\n"
        );
        let unreachable = format!("unreachable = [\"{}\"]\n", self.socket.display());
        (unreachable, peers)
    }

    #[track_caller]
    fn check_alone(&self, said: &str) {
        for (name, listener) in &self.tcp {
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

/// A copy of an application, its servers, and the scenario's text of it.
struct Shop {
    directory: tempfile::TempDir,
    production: Production,
    /// `[app]` up to its tables, the tables of `[app]`, and requests.
    app: &'static str,
    tables: String,
    requests: String,
}

impl Shop {
    fn root(&self) -> PathBuf {
        self.directory.path().join("shop")
    }

    fn put(&self, path: &str, text: &str) {
        let path = self.root().join(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
        fs::write(path, text).expect("a file");
    }

    fn empty() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).expect("mode");
        Self {
            directory,
            production: Production::start(),
            app: "",
            tables: String::new(),
            requests: String::new(),
        }
    }

    fn laravel() -> Self {
        let shop = Self::empty();
        copy(&[apps().join("laravel")], &shop.root());
        let routes = fs::read_to_string(shop.root().join("routes/api.php")).expect("routes");
        shop.put("routes/api.php", &(routes + LARAVEL_ORDER));
        let [db, cache, mail, rates] = shop.production.ports();
        let socket = shop.production.socket.display();
        let env = format!(
            "DB_CONNECTION=mysql\nDB_HOST=127.0.0.1\nDB_PORT={db}\nREDIS_HOST=127.0.0.1\nREDIS_PORT={cache}\n\
             MAIL_HOST=127.0.0.1\nMAIL_PORT={mail}\nRATES_URL=http://127.0.0.1:{rates}/rates\nQUEUE_SOCKET={socket}\n"
        );
        shop.put(".env", &env);
        Self {
            app: "front = \"public/index.php\"\nkind = \"laravel\"\n",
            tables: "[app.env]\nAPP_ENV = \"production\"\n\
                     APP_KEY = \"base64:a25lZXBvaW50LWZpeHR1cmUtbm90LWEtc2VjcmV0ISE=\"\n"
                .to_owned(),
            // The first fails without a database, the second without a cache: both are still named.
            requests: "[[request]]\npath = \"/visits\"\nexpect = { status = 200, body_contains = \"visits\" }\n\
                 [[request]]\npath = \"/session\"\nsession = true\nexpect = { status = 200, body_contains = \"visits\" }\n\
                 [[request]]\npath = \"/order\"\nexpect = { status = 200, body_contains = '\"mail\":true,\"rates\":\"rate 2\"' }\n"
                .to_owned(),
            ..shop
        }
    }

    /// WordPress as Debian packs it, where it is installed.
    fn wordpress() -> Option<Self> {
        if !Path::new(WORDPRESS).join("wp-settings.php").exists() {
            skipped(&format!(
                "a copy of a WordPress in production needs the package wordpress in {WORDPRESS}"
            ));
            return None;
        }
        let shop = Self::empty();
        let files = [
            "index.php",
            "wp-blog-header.php",
            "wp-load.php",
            "wp-settings.php",
        ];
        fs::create_dir(shop.root()).expect("a directory");
        copy(
            &files.map(|name| Path::new(WORDPRESS).join(name)),
            &shop.root(),
        );
        copy(&[Path::new(WORDPRESS).join("wp-includes")], &shop.root());
        // What there is of the administration is asked for by every page.
        fs::create_dir(shop.root().join("wp-admin")).expect("a directory");
        let administration = [Path::new(WORDPRESS).join("wp-admin/includes")];
        copy(&administration, &shop.root().join("wp-admin"));
        // No page of this test has any.
        fs::remove_dir_all(shop.root().join("wp-includes/js")).expect("scripts");
        shop.put("wp-content/mu-plugins/order.php", WORDPRESS_ORDER);
        shop.put("seed.sql", WORDPRESS_SEED);
        let [db, cache, mail, rates] = shop.production.ports();
        let config = format!(
            "<?php\ndefine('DB_NAME', 'shop');\ndefine('DB_USER', 'shop');\ndefine('DB_PASSWORD', 'none');\n\
             define('DB_HOST', '127.0.0.1:{db}');\ndefine('DB_CHARSET', 'utf8mb4');\ndefine('DB_COLLATE', '');\n\
             define('WP_REDIS_HOST', '127.0.0.1');\ndefine('WP_REDIS_PORT', {cache});\n\
             define('SMTP_HOST', '127.0.0.1');\ndefine('SMTP_PORT', {mail});\n\
             define('RATES_URL', 'http://127.0.0.1:{rates}/rates');\ndefine('QUEUE_SOCKET', '{}');\n\
             define('DISABLE_WP_CRON', true);\n$table_prefix = 'wp_';\n\
             if (!defined('ABSPATH')) define('ABSPATH', __DIR__ . '/');\nrequire_once ABSPATH . 'wp-settings.php';\n",
            shop.production.socket.display()
        );
        shop.put("wp-config.php", &config);
        Some(Self {
            app: "front = \"index.php\"\nkind = \"wordpress\"\n",
            requests: "[[request]]\npath = \"/\"\nexpect = { status = 200, body_contains = \
                       '\"cache\":true,\"mail\":true,\"rates\":\"rate 2\"' }\n"
                .to_owned(),
            ..shop
        })
    }

    /// Runs a command on a scenario with these lines of `[app]`, tables of it, and tiers and doubles.
    fn run(&self, command: &[&str], app: &str, tables: &str, stack: &str) -> Output {
        let (kind, own, requests) = (self.app, &self.tables, &self.requests);
        let scenario = format!(
            "[app]\nroot = \".\"\n{kind}{app}{own}{tables}[stack]\nweb = {{ server = \"nginx\" }}\n\
             php = {{ runtime = \"fpm\" }}\n{stack}{requests}"
        );
        self.put("production.toml", &scenario);
        let mut kneepoint = kneepoint();
        kneepoint
            .arg(command[0])
            .arg(self.root().join("production.toml"));
        kneepoint
            .args(&command[1..])
            .args(["--no-report", "--runs"]);
        let runs = self.directory.path().join("runs");
        wait(start(kneepoint.arg(runs)), Duration::from_secs(280))
    }

    /// That it is refused before any load, with these words, and that nobody was met.
    #[track_caller]
    fn check_refused(&self, (app, tables, stack): (&str, &str, &str), expected: &[String]) {
        let output = self.run(&["tune", "--budget", "30s"], app, tables, stack);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        for words in expected {
            assert!(said.contains(words), "{words}\nis not in\n{said}");
        }
        let summary = text(&output.stdout);
        assert!(summary.contains(" 0 requests"), "{summary}");
        self.production.check_alone(&said);
    }

    /// That it runs, and that nobody was met.
    #[track_caller]
    fn check_runs(&self, (app, tables, stack): (&str, &str, &str)) {
        let whole = std::env::var_os("KNEEPOINT_PRODUCTION").is_some();
        let command = match whole {
            true => ["tune", "--budget", "60s"],
            false => ["limit", "--budget", "8s"],
        };
        let output = self.run(&command, app, tables, stack);
        let said = text(&output.stderr);
        assert!(matches!(output.status.code(), Some(0 | 4)), "{said}");
        assert!(text(&output.stdout).contains("R*"), "{said}");
        self.production.check_alone(&said);
    }
}

fn copy(what: &[PathBuf], to: &Path) {
    let copied = Command::new("cp").arg("-rL").args(what).arg(to).status();
    assert!(copied.expect("cp").success());
}

#[test]
fn a_laravel_shop_of_production_is_refused_by_name_and_runs_with_doubles_only() {
    if !needs_root("a copy of production") {
        return;
    }
    let _place = among_others();
    let shop = Shop::laravel();
    let [db, cache, mail, rates] = shop.production.ports();
    let socket = shop.production.socket.display();
    let named = [
        format!("127.0.0.1:{db}, at "),
        "for GET /visits; named by DB_HOST in .env, line 2".to_owned(),
        format!("127.0.0.1:{cache}, at "),
        "for GET /session; named by REDIS_HOST in .env, line 4".to_owned(),
        format!("127.0.0.1:{mail}, at routes/api.php:"),
        "for GET /order; named by MAIL_HOST in .env, line 6".to_owned(),
        format!("127.0.0.1:{rates}, at routes/api.php:"),
        "named by RATES_URL in .env, line 8".to_owned(),
        format!("{socket}, at routes/api.php:"),
        "named by QUEUE_SOCKET in .env, line 9".to_owned(),
    ];
    shop.check_refused(("", "", ""), &named);
    let (unreachable, peers) = shop.production.doubles();
    let stack = "cache = { server = \"redis\" }\ndb = { server = \"mariadb\", seed = \"seed-mysql.sql\" }\n";
    shop.check_runs((&unreachable, "", &format!("{stack}{peers}")));
}

#[test]
fn a_wordpress_shop_of_production_is_refused_by_name_and_runs_with_doubles_only() {
    if !needs_root("a copy of production") {
        return;
    }
    let _place = among_others();
    let Some(shop) = Shop::wordpress() else {
        return;
    };
    let [db, cache, mail, rates] = shop.production.ports();
    let socket = shop.production.socket.display();
    // It stops at its database: the others are known from its settings.
    let named = [
        format!("127.0.0.1:{db}, at wp-includes/"),
        "for GET /; named by DB_HOST in wp-config.php, line 5".to_owned(),
        format!("127.0.0.1:{cache}, named by WP_REDIS_HOST in wp-config.php, line 8"),
        format!("127.0.0.1:{mail}, named by SMTP_HOST in wp-config.php, line 10"),
        format!("127.0.0.1:{rates}, named by RATES_URL in wp-config.php, line 12"),
        format!("{socket}, named by QUEUE_SOCKET in wp-config.php, line 13"),
    ];
    shop.check_refused(("", "", ""), &named);
    let own_database = format!(
        "[[app.file]]\npath = \"wp-config.php\"\nfind = \"'127.0.0.1:{db}'\"\n\
         replace = \"getenv('DB_HOST') . ':' . getenv('DB_PORT')\"\n\
         [[app.file]]\npath = \"wp-config.php\"\nfind = \"'DB_NAME', 'shop'\"\nreplace = \"'DB_NAME', getenv('DB_DATABASE')\"\n\
         [[app.file]]\npath = \"wp-config.php\"\nfind = \"'DB_USER', 'shop'\"\nreplace = \"'DB_USER', getenv('DB_USERNAME')\"\n\
         [[app.file]]\npath = \"wp-config.php\"\nfind = \"'DB_PASSWORD', 'none'\"\nreplace = \"'DB_PASSWORD', getenv('DB_PASSWORD')\"\n"
    );
    let db = "db = { server = \"mariadb\", seed = \"seed.sql\" }\n";
    let named = [
        format!("127.0.0.1:{cache}, at wp-content/mu-plugins/order.php:10"),
        format!("127.0.0.1:{mail}, at wp-content/mu-plugins/order.php:14"),
        format!("127.0.0.1:{rates}, at wp-content/mu-plugins/order.php:15"),
        format!("{socket}, at wp-content/mu-plugins/order.php:16"),
    ];
    shop.check_refused(("", &own_database, db), &named);
    let own_cache = format!(
        "[[app.file]]\npath = \"wp-config.php\"\nfind = \"'WP_REDIS_HOST', '127.0.0.1'\"\nreplace = \"'WP_REDIS_HOST', getenv('REDIS_HOST')\"\n\
         [[app.file]]\npath = \"wp-config.php\"\nfind = \"'WP_REDIS_PORT', {cache}\"\nreplace = \"'WP_REDIS_PORT', (int) getenv('REDIS_PORT')\"\n"
    );
    let (unreachable, peers) = shop.production.doubles();
    let tables = format!("{own_database}{own_cache}");
    let stack = format!("cache = {{ server = \"redis\" }}\n{db}{peers}");
    shop.check_runs((&unreachable, &tables, &stack));
}
