//! The end of a slow log of PHP-FPM: the stacks of slow requests, and whom each was waiting for.

use super::{stamped, whole_lines};
use crate::files::{Content, Files};
use crate::snapshot::{LogHits, RECENT_S, SlowLog, SlowPeer};
use kneepoint_model::{LogKind, Place};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// How much of the end of a slow log is read, in bytes \[ours\]: some hundred stacks.
const TAIL_BYTES: u64 = 2 << 20;
/// Most frames of one stack.
const FRAMES: usize = 64;
/// How many of the most frequent places are kept.
const TOLD: usize = 3;
/// Most letters of the name of a function.
const NAME: usize = 120;

/// The requests that the end of a slow log tells of.
pub(crate) struct Stacks {
    path: String,
    all: Vec<Stack>,
}

/// One slow request.
#[derive(Default)]
struct Stack {
    pool: String,
    /// When it was met: as it is written, in seconds of whatever zone, and how many seconds ago.
    said: String,
    at: f64,
    age_s: f64,
    script: String,
    /// From the innermost outwards: the function that is called, and the line that calls it.
    frames: Vec<Place>,
}

impl Stacks {
    /// Reads the end of a slow log. `None` where that cannot be done, or it tells of no request of the last days.
    pub(crate) fn read(files: &dyn Files, path: &str, now_s: f64) -> Option<Self> {
        let content = files.tail(path, TAIL_BYTES).ok()?;
        let end_age_s = (now_s - content.modified_s).max(0.0);
        let found = Self::of(&content, path, end_age_s);
        (!found.all.is_empty()).then_some(found)
    }

    fn of(content: &Content, path: &str, end_age_s: f64) -> Self {
        let text = content.text();
        let mut all: Vec<Stack> = Vec::new();
        let mut latest = f64::NEG_INFINITY;
        for line in whole_lines(&text, content) {
            let (line, stamp) = stamped(line, path);
            if let Some(frame) = frame(&line) {
                let stack = all.last_mut();
                if let Some(stack) = stack.filter(|stack| stack.frames.len() < FRAMES) {
                    stack.frames.push(frame);
                }
            } else if let Some(script) = line.strip_prefix("script_filename = ") {
                if let Some(stack) = all.last_mut() {
                    script.clone_into(&mut stack.script);
                }
            } else if let Some((said, at)) = stamp {
                latest = latest.max(at);
                all.extend(pool(&line).map(|pool| Stack {
                    pool: pool.to_owned(),
                    said,
                    at,
                    ..Stack::default()
                }));
            }
        }
        // Lines carry local time of somewhere: the distance to the last one is free of that.
        for stack in &mut all {
            stack.age_s = end_age_s + (latest - stack.at);
        }
        all.retain(|stack| stack.age_s < RECENT_S);
        Self {
            path: path.to_owned(),
            all,
        }
    }

    /// What it tells of a pool, which keeps sessions by this handler where it is known; `None` where it tells of no request
    /// of it.
    pub(crate) fn of_pool(&self, name: &str, sessions: Option<&str>) -> Option<SlowLog> {
        let all = self.all.iter();
        let own: Vec<&Stack> = all.filter(|stack| stack.pool == name).collect();
        let (first, last) = (own.first()?, own.last()?);
        let hits = LogHits {
            kind: LogKind::RequestSlow,
            count: own.len() as u64,
            first: first.said.clone(),
            last: last.said.clone(),
            age_s: own.iter().map(|stack| stack.age_s).reduce(f64::min),
            path: self.path.clone(),
            pool: Some(name.to_owned()),
        };
        let innermost = || own.iter().filter_map(|stack| stack.frames.first());
        let code = own.iter().filter_map(|stack| {
            let mut frames = stack.frames.iter();
            frames.find(|frame| frame.is_own())
        });
        let scripts = own.iter().map(|stack| stack.script.clone());
        let waited = |stack: &&Stack| waited_for(&stack.frames, sessions);
        Some(SlowLog {
            hits,
            calls: most(innermost().map(called)),
            own: most(code.map(Place::at)),
            scripts: most(scripts.filter(|script| !script.is_empty())),
            peers: most(own.iter().filter_map(waited)),
        })
    }
}

/// The most frequent, with how often each comes.
fn most<T: Ord>(all: impl Iterator<Item = T>) -> Vec<(T, u64)> {
    let mut counts: BTreeMap<T, u64> = BTreeMap::new();
    for one in all {
        *counts.entry(one).or_default() += 1;
    }
    let mut counts: Vec<(T, u64)> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| Reverse(*count));
    counts.truncate(TOLD);
    counts
}

/// The pool of a line with which a request begins: `[27-Nov-2026 13:20:11]  [pool www] pid 13873`.
fn pool(line: &str) -> Option<&str> {
    let (_, rest) = line.split_once(" [pool ")?;
    let (pool, number) = rest.split_once("] pid ")?;
    number.trim_end().parse::<u32>().ok().map(|_| pool)
}

/// `[0x00007f5ab5c13b90] get() /srv/a.php:7`: the function that is called, and the line that calls it.
fn frame(line: &str) -> Option<Place> {
    let (_, call) = line.strip_prefix("[0x")?.split_once("] ")?;
    let (function, place) = call.split_once("() ")?;
    let (file, number) = place.rsplit_once(':')?;
    Some(Place {
        function: function.chars().take(NAME).collect(),
        file: (file != "unknown").then(|| file.to_owned()),
        line: number.trim_end().parse().ok(),
    })
}

/// `get() at /srv/a.php:7`.
fn called(frame: &Place) -> String {
    match &frame.file {
        Some(_) => format!("{}() at {}", frame.function, frame.at()),
        None => format!("{}()", frame.function),
    }
}

/// Methods of clients of Redis and Memcached that others have as well.
const OF_CLIENTS: [&str; 22] = [
    "auth", "command", "connect", "del", "delete", "eval", "exec", "exists", "expire", "get",
    "getmulti", "keys", "multi", "pconnect", "ping", "publish", "rpush", "scan", "select", "set",
    "setmulti", "ttl",
];

/// What PHP does by itself, whoever's code calls it.
const OF_PHP: [&str; 4] = ["igbinary_unserialize", "sleep", "unserialize", "usleep"];

/// Functions by whom they wait for, in small letters. A slow log has no classes: exec() may be PDO's or start a program.
const CALLS: [(SlowPeer, &[&str]); 7] = [
    (
        SlowPeer::Redis,
        &[
            "blpop", "brpop", "evalsha", "hget", "hgetall", "hmget", "hset", "mget", "sadd",
            "setex", "smembers", "zadd", "zrange",
        ],
    ),
    (
        SlowPeer::Database,
        &[
            "begintransaction",
            "commit",
            "execute",
            "execute_query",
            "fetchall",
            "multi_query",
            "query",
            "real_connect",
            "real_query",
            "rollback",
        ],
    ),
    (
        SlowPeer::Server,
        &[
            "__dorequest",
            "curl_exec",
            "curl_multi_exec",
            "curl_multi_select",
            "fsockopen",
            "get_headers",
            "pfsockopen",
            "stream_socket_client",
        ],
    ),
    (
        SlowPeer::Names,
        &[
            "checkdnsrr",
            "dns_get_record",
            "gethostbyaddr",
            "gethostbyname",
            "gethostbynamel",
        ],
    ),
    (SlowPeer::Lock, &["flock", "sem_acquire", "session_start"]),
    (
        SlowPeer::Pause,
        &["sleep", "time_nanosleep", "time_sleep_until", "usleep"],
    ),
    (
        SlowPeer::Program,
        &[
            "mail",
            "passthru",
            "pclose",
            "popen",
            "proc_close",
            "proc_open",
            "shell_exec",
            "system",
        ],
    ),
];

/// What the paths of clients of databases have, in small letters.
const OF_DATABASES: [&str; 5] = ["/pdo", "dbal", "/database/", "/db/", "/db.php"];

/// Calls of which one may be the lock for which the innermost pauses \[ours\]: libraries have their own sleep().
const NEAR: usize = 4;

/// Whom a request waits for, by its innermost calls.
fn waited_for(frames: &[Place], sessions: Option<&str>) -> Option<SlowPeer> {
    let call = frames.first()?;
    // Only files are surely locked: other handlers may wait for a server, and lock or not.
    let has_files = sessions.is_none_or(|handler| handler == "files");
    if !has_files && call.function.eq_ignore_ascii_case("session_start") {
        return None;
    }
    // Who waits for a lock that cannot tell when it is free tries again after a pause.
    let is_lock = |frame: &Place| {
        let file = frame.file.as_deref().unwrap_or_default();
        let file = file.to_ascii_lowercase();
        file.contains("/lock") || file.contains("/limiters/")
    };
    match peer(call)? {
        SlowPeer::Pause if frames.iter().take(NEAR).any(is_lock) => Some(SlowPeer::Lock),
        found => Some(found),
    }
}

/// Whom a call waits for, by the names of its function and its file.
fn peer(frame: &Place) -> Option<SlowPeer> {
    let function = frame.function.to_ascii_lowercase();
    let file = frame.file.as_deref().unwrap_or_default();
    let file = file.to_ascii_lowercase();
    let installed = file
        .split_once("/vendor/")
        .or_else(|| file.split_once("/wp-content/"));
    let last = file.rsplit('/').next().unwrap_or_default();
    let is_client = |of: &str| {
        let is_named = OF_CLIENTS.contains(&function.as_str()) && last.contains(of);
        let is_theirs = !OF_PHP.contains(&function.as_str());
        is_named || is_theirs && installed.is_some_and(|(_, within)| within.contains(of))
    };
    let has = |words: &[&str]| words.iter().any(|word| file.contains(*word));
    let is_sql = |name: &str| {
        let begins = ["mysqli_", "mysql_", "pg_"];
        begins.iter().any(|begin| name.starts_with(*begin))
    };
    match function.as_str() {
        _ if is_client("redis") => Some(SlowPeer::Redis),
        _ if is_client("memcache") => Some(SlowPeer::Memcached),
        // Of PDO, though PHP itself has an exec() that starts a program.
        "exec" | "__construct" | "connect" if has(&OF_DATABASES) => Some(SlowPeer::Database),
        "fsync" | "fdatasync" => Some(SlowPeer::Disk),
        name if is_sql(name) => Some(SlowPeer::Database),
        name => {
            let known = CALLS.iter().find(|(_, names)| names.contains(&name));
            known.map(|(peer, _)| *peer)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::Memory;
    use proptest::prelude::*;

    /// A shop whose sessions are in Redis, as the slow log of its pool tells of it; the first line is what is left of
    /// an older request.
    const SHOP: &str = "ession() /srv/shop/vendor/acme/kit/Session.php:12\n\
        \n[27-Nov-2026 13:20:11]  [pool shop] pid 13873\n\
        script_filename = /srv/shop/public/index.php\n\
        [0x00007f5ab5c13b90] connect() /srv/shop/vendor/laravel/framework/src/Illuminate/Redis/Connectors/PhpRedisConnector.php:158\n\
        [0x00007f5ab5c13b10] establish() /srv/shop/vendor/laravel/framework/src/Illuminate/Cache/RedisStore.php:93\n\
        [0x00007f5ab5c13a60] put() /srv/shop/app/Http/Middleware/CountVisits.php:31\n\
        [0x00007f5ab5c13910] Illuminate\\Pipeline\\{closure}() /srv/shop/vendor/laravel/framework/src/Illuminate/Pipeline/Pipeline.php:167\n\
        [0x00007f5ab5c13880] handle() /srv/shop/public/index.php:56\n\
        \n[27-Nov-2026 13:20:14]  [pool blog] pid 13901\n\
        script_filename = /srv/blog/index.php\n\
        [0x00007f5ab5c13b90] curl_exec() /srv/blog/feed.php:9\n\
        [0x00007f5ab5c13880] \n\
        \n[27-Nov-2026 13:21:02]  [pool shop] pid 13874\n\
        script_filename = /srv/shop/public/index.php\n\
        [0x00007f5ab5c13b90] connect() /srv/shop/vendor/laravel/framework/src/Illuminate/Redis/Connectors/PhpRedisConnector.php:158\n\
        [0x00007f5ab5c13a60] put() /srv/shop/app/Http/Middleware/CountVisits.php:31\n\
        \n[27-Nov-2026 13:21:11]  [pool shop] pid 13880\n\
        script_filename = /srv/shop/public/report.php\n\
        [0x00007f5ab5c13b90] execute() /srv/shop/app/Report.php:77\n";

    fn of(text: &str) -> Stacks {
        let content = Content {
            bytes: text.into(),
            modified_s: 0.0,
            length: 1 << 30,
        };
        Stacks::of(&content, "/var/log/slow.log", 10.0)
    }

    #[test]
    fn stacks_are_counted_by_call_by_own_line_and_by_peer() {
        let shop = of(SHOP).of_pool("shop", None).expect("three requests");
        assert_eq!((shop.hits.count, shop.hits.age_s), (3, Some(10.0)));
        assert_eq!(shop.hits.first, "27-Nov-2026 13:20:11");
        let connect = "connect() at /srv/shop/vendor/laravel/framework/src/Illuminate/Redis/Connectors/PhpRedisConnector.php:158";
        assert_eq!(shop.calls[0], (connect.to_owned(), 2));
        assert_eq!(shop.calls[1].0, "execute() at /srv/shop/app/Report.php:77");
        let visits = "/srv/shop/app/Http/Middleware/CountVisits.php:31";
        assert_eq!(shop.own[0], (visits.to_owned(), 2));
        let index = "/srv/shop/public/index.php".to_owned();
        assert_eq!(shop.scripts[0], (index, 2));
        assert_eq!(shop.peer_of_most(), Some((SlowPeer::Redis, 2)));
        assert_eq!(shop.peers[1], (SlowPeer::Database, 1));
        // A log may be of several pools, and the end of a stack may be empty.
        let blog = of(SHOP).of_pool("blog", None).expect("one request");
        assert_eq!(
            blog.calls,
            [("curl_exec() at /srv/blog/feed.php:9".to_owned(), 1)]
        );
        assert!(of(SHOP).of_pool("www", None).is_none());
    }

    #[test]
    fn what_is_long_ago_or_no_slow_log_tells_of_nobody() {
        let later = format!("{SHOP}\n[27-Dec-2026 13:21:11]  [pool shop] pid 13880\n");
        let shop = of(&later).of_pool("shop", None).expect("the last one");
        assert_eq!((shop.hits.count, shop.calls.len()), (1, 0));
        assert_eq!(shop.peer_of_most(), None);
        let fpm = "[27-Nov-2026 13:20:11] WARNING: [pool shop] child 7 started\n";
        let files = Memory::of(&[("/slow.log", ""), ("/fpm.log", fpm)]);
        for path in ["/slow.log", "/fpm.log", "/missing.log"] {
            assert!(Stacks::read(&files, path, 100.0).is_none(), "{path}");
        }
        let files = Memory::of(&[("/slow.log", SHOP)]);
        assert!(Stacks::read(&files, "/slow.log", 100.0).is_some());
    }

    #[test]
    fn stacks_that_are_printed_are_found_in_docker_s_own_file() {
        let kept = |line: &str| {
            let time = "2026-11-27T13:20:11.5Z";
            let value = serde_json::json!({"log": format!("{line}\n"), "time": time});
            format!("{value}\n")
        };
        let text: String = SHOP.lines().map(kept).collect();
        let content = Content {
            length: text.len() as u64,
            bytes: text.into(),
            modified_s: 0.0,
        };
        let stacks = Stacks::of(&content, "/x/1-json.log", 10.0);
        let shop = stacks.of_pool("shop", None).expect("three requests");
        assert_eq!((shop.hits.count, shop.calls[0].1), (3, 2));
    }

    #[test]
    fn whom_a_call_waits_for_is_told_by_names() {
        for case in [
            "get /w/vendor/predis/predis/src/Client.php > Redis",
            "hasMacro /w/vendor/laravel/framework/src/Illuminate/Redis/Connection.php > Redis",
            "connect /w/src/RedisCache.php > Redis",
            "render /w/src/RedisCache.php > nobody",
            "get /w/src/Cart.php > nobody",
            "get /w/wp-content/plugins/memcached/object-cache.php > Memcached",
            "mysqli_query /w/wp-includes/class-wpdb.php > a database",
            "pg_query_params /w/a.php > a database",
            "exec /w/vendor/doctrine/dbal/src/Driver/PDO/Connection.php > a database",
            // It may be that of PDO, and start a program.
            "exec /w/resize.php > nobody",
            "shell_exec /w/resize.php > another program",
            // It may read a file.
            "file_get_contents /w/a.php > nobody",
            "curl_exec /w/a.php > another server",
            "gethostbyname /w/a.php > the DNS",
            "session_start /w/a.php > a lock",
            "usleep /w/vendor/symfony/lock/Lock.php > a lock",
            "usleep /w/blocks.php > a pause in the code",
            "usleep /w/vendor/acme/redis-queue/Worker.php > a pause in the code",
            "usleep /w/vendor/laravel/framework/src/Illuminate/Redis/Limiters/A.php > a lock",
            "unserialize /w/vendor/acme/cache/RedisStore.php > nobody",
            "fsync /w/a.php > the disk",
            "preg_match /w/a.php > nobody",
        ] {
            let (call, expected) = case.split_once(" > ").expect("an expectation");
            let (function, file) = call.split_once(' ').expect("a file");
            let frame = Place {
                function: function.to_owned(),
                file: Some(file.to_owned()),
                line: Some(7),
            };
            let found = waited_for(&[frame], None).map_or("nobody", SlowPeer::name);
            assert_eq!(found, expected, "{case}");
        }
    }

    #[test]
    fn a_pause_of_a_lock_is_no_pause_of_the_code() {
        let frame = |(function, file): (&str, &str)| Place {
            function: function.to_owned(),
            file: Some(file.to_owned()),
            line: Some(7),
        };
        let of = |calls: &[(&str, &str)]| {
            let frames: Vec<Place> = calls.iter().copied().map(frame).collect();
            waited_for(&frames, None)
        };
        let pause = (
            "usleep",
            "/w/vendor/laravel/framework/src/Illuminate/Support/Sleep.php",
        );
        let lock = (
            "sleep",
            "/w/vendor/laravel/framework/src/Illuminate/Cache/Lock.php",
        );
        let own = ("block", "/w/app/Report.php");
        assert_eq!(of(&[pause, pause, lock, own]), Some(SlowPeer::Lock));
        assert_eq!(of(&[pause, own, own, own, lock]), Some(SlowPeer::Pause));
    }

    #[test]
    fn a_session_is_surely_a_lock_only_in_files() {
        let text = SHOP.replace("execute()", "session_start()");
        let waited = |sessions: Option<&str>| {
            let shop = of(&text).of_pool("shop", sessions).expect("three requests");
            shop.peers.contains(&(SlowPeer::Lock, 1))
        };
        assert!(waited(None) && waited(Some("files")));
        assert!(!waited(Some("redis")));
    }

    #[test]
    fn a_frame_is_taken_apart() {
        let of = |line: &str| frame(line).map(|frame| called(&frame));
        let found = of("[0x7f5ab5c13b90] [INCLUDE_OR_EVAL]() /srv/my shop/a.php:17");
        let included = "[INCLUDE_OR_EVAL]() at /srv/my shop/a.php:17";
        assert_eq!(found.as_deref(), Some(included));
        let found = of("[0x7f5ab5c13b90] sleep() unknown:0");
        assert_eq!(found.as_deref(), Some("sleep()"));
        assert_eq!(of("[0x7f5ab5c13b90] "), None);
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "(\\[0x7f\\] |f\\(\\) /a:1|\\[27-Nov-2026 13:20:11\\]  \\[pool www\\] pid 7|\\PC|\n){0,40}") {
            let _ = of(&text).of_pool("www", None);
        }
    }
}
