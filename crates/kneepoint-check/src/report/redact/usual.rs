//! Words that every system has, and words that the check says by itself: they name nobody.

use crate::rules::CHECKS;
use std::collections::BTreeSet;
use std::sync::LazyLock;

/// Words of paths, files, users, services and hosts that say nothing of whose they are.
const USUAL: &str = "\
    bin boot dev etc home lib lib32 lib64 libexec media mnt opt private proc root run sbin share snap spool srv sys tmp usr var \
    access active apps archive asset assets backup bak bootstrap build builds cache caches cgi client cnf cfg conf config configs \
    configuration content core cron current data database db debug default defaults deploy dist docs document documents domains \
    en enabled available env error errors etc ext extensions fastcgi fcgi files framework front gz global htdocs html httpdocs \
    httpd image images img include includes index info ini init inc install js json local locks lock log logs main master media \
    mods module modules name old override pages php phar pid plugins pool pools prod production proxy pub public \
    release releases resources routes scan scgi scope script scripts server servers service services session sessions \
    settings shared site sites slice slow slowlog so sock socket sockets src ssl static status storage stderr stdout store \
    stream streams system target temp template templates test tests themes tls tools upload uploads upstream user users uwsgi \
    vendor vhost vhosts views web webroot worker workers writable www xml yaml yml \
    address args backend certs cgroup cgroups comm cpu cpus cpuset default docker dockerd events fd fs hugepages io ipc \
    ipv4 ipv6 kernel libpod machine maps max mem memory mm mnt module net ns oom peak pids pressure rss smaps somaxconn stat \
    swap swappiness sysctl task tcp threads transparent vm containerd crio cri kubepods burstable besteffort guaranteed lxc podman pod \
    alpine apache apache2 apcu bitnami composer cpanel debian drupal dokuwiki fpm frankenphp haproxy igbinary \
    imagick joomla kneepoint laravel litespeed magento mariadb mariadbd mediawiki memcache memcached msgpack mysql mysqld \
    newrelic nextcloud nginx nodejs npm opcache openresty pecl percona pgbouncer pgsql phpfpm phpmyadmin plesk postgres postgresql \
    prestashop redis remi rh roundcube shopware sury swoole symfony typo3 ubuntu unit valkey wordpress wp xdebug zend zz zzz zzzz \
    admin api app application artisan blog cdn cms console daemon dev development http https jobs live localhost mail main node \
    nobody queue queues scheduler staging stage supervisor webserver websocket \
    com net org info biz edu gov io dev app eu de fr uk co nl at ch it es pl se no dk fi be cz ru ua us ca au jp cn in br example \
    internal invalid lan localdomain test x86 \
    bcmath bz2 calendar ctype curl dom exif ffi fileinfo ftp gd gettext gmp iconv imap intl ldap mbstring mysqli mysqlnd pdo posix readline \
    shmop simplexml soap sodium sqlite3 sysvmsg sysvsem sysvshm tidy tokenizer xmlreader xmlwriter xsl zip \
    no off on true false yes none auto is the and or of id key text plain uri url request response host header headers remote \
    addr group owner mode path type size time date number value values title";

/// Endings of names of files and units.
const ENDINGS: [&str; 12] = [
    "conf", "ini", "cnf", "cfg", "sock", "socket", "log", "pid", "service", "scope", "slice", "d",
];

/// Words that have the number of a version behind them. Behind any other a number may be a customer's: `web12`, `u4711`.
const VERSIONED: [&str; 18] = [
    "fpm",
    "http",
    "ipv",
    "lib",
    "mariadb",
    "mysql",
    "mysqlnd",
    "nginx",
    "node",
    "pgsql",
    "php",
    "phpfpm",
    "postgresql",
    "python",
    "redis",
    "tcp",
    "tls",
    "udp",
];

/// What ends the name of a host that is written without anything around it.
const DOMAINS: [&str; 34] = [
    "com", "net", "org", "info", "biz", "edu", "gov", "io", "dev", "app", "eu", "de", "fr", "uk",
    "nl", "at", "ch", "it", "es", "pl", "se", "dk", "fi", "cz", "us", "ca", "au", "jp", "cn", "br",
    "example", "internal", "lan", "test",
];

static USUAL_WORDS: LazyLock<BTreeSet<&str>> = LazyLock::new(|| USUAL.split(' ').collect());

/// Every word of the rules' own texts.
static OWN_WORDS: LazyLock<BTreeSet<String>> = LazyLock::new(|| {
    let texts = CHECKS.iter().flat_map(|rule| {
        [
            rule.name,
            rule.title,
            rule.what_it_is,
            rule.how_it_shows,
            rule.unless,
            rule.what_to_write,
        ]
    });
    texts.flat_map(words).map(str::to_lowercase).collect()
});

/// The words of a text: rows of letters and digits.
pub(super) fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|letter: char| !letter.is_alphanumeric())
        .filter(|word| !word.is_empty())
}

/// Whether a word, in small letters, names nobody wherever it stands: `nginx`, `sites`, `php82`, a number.
pub(super) fn is_usual(word: &str) -> bool {
    let bare = word.trim_end_matches(|letter: char| letter.is_ascii_digit());
    is_number(word)
        || word.chars().nth(1).is_none()
        || USUAL_WORDS.contains(word)
        || VERSIONED.contains(&bare)
}

/// Whether a word, in small letters, is a number, a size or a time: `20`, `4m`, `512mb`, `1h30m`.
fn is_number(word: &str) -> bool {
    const UNITS: [&str; 23] = [
        "", "b", "k", "m", "g", "t", "kb", "mb", "gb", "tb", "ki", "mi", "gi", "kib", "mib", "gib",
        "ns", "us", "ms", "s", "min", "h", "d",
    ];
    let is_digit = |letter: char| letter.is_ascii_digit();
    let mut rest = word;
    while !rest.is_empty() {
        let unit = rest.trim_start_matches(is_digit);
        let end = unit.find(is_digit).unwrap_or(unit.len());
        if unit.len() == rest.len() || !UNITS.contains(&&unit[..end]) {
            return false;
        }
        rest = &unit[end..];
    }
    !word.is_empty()
}

/// Whether a word, in small letters, is one that the check says by itself: it is a name only where names stand.
pub(super) fn is_own(word: &str) -> bool {
    OWN_WORDS.contains(word)
}

/// A name of a file or a unit without its endings.
pub(super) fn stem(name: &str) -> &str {
    match name.rsplit_once('.') {
        Some((stem, ending)) if ENDINGS.contains(&ending) && !stem.is_empty() => self::stem(stem),
        _ => name,
    }
}

/// Whether a word with dots is the name of a host.
pub(super) fn is_host(word: &str) -> bool {
    word.rsplit_once('.').is_some_and(|(before, last)| {
        !before.is_empty() && DOMAINS.contains(&last.to_ascii_lowercase().as_str())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_sizes_and_times_name_nobody() {
        for number in ["4096", "4m", "128mb", "1gib", "30s", "1h30m", "64k"] {
            assert!(is_usual(number), "{number}");
        }
        for name in [
            "4shop", "8f3a9c", "shop4m", "m4shop", "u12345", "web12", "c4711", "k8", "site7",
        ] {
            assert!(!is_usual(name), "{name}");
        }
    }

    #[test]
    fn what_every_system_has_is_usual() {
        let name = |path: &str| path.split('/').all(|part| words(part).all(is_usual));
        for path in [
            "/etc/nginx/sites-enabled/default",
            "/etc/php/8.2/fpm/pool.d/www.conf",
            "/etc/php/8.2/fpm/conf.d/20-opcache.ini",
            "/run/php/php8.2-fpm.sock",
            "/usr/local/etc/php-fpm.d/zz-docker.conf",
            "/var/www/html/public",
            "/var/log/nginx/access.log",
            "/sys/fs/cgroup/system.slice/memory.max",
            "/etc/sysctl.d/zz-kneepoint.conf",
        ] {
            let unusual: Vec<&str> = words(path)
                .filter(|word| !is_usual(word) && !is_own(word))
                .collect();
            assert!(name(path) || unusual.is_empty(), "{path}: {unusual:?}");
        }
        for theirs in ["customer", "acme2", "müller", "8f3a9c"] {
            assert!(!is_usual(theirs) && !is_own(theirs), "{theirs}");
        }
    }
}
