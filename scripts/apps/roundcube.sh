# Roundcube's login page with its schema in MariaDB, where its sessions and its cache are kept.
need php
need_extension pdo_mysql mbstring intl xml
unpack roundcube-core roundcube-mysql php-auth-sasl php-mail-mime php-masterminds-html5 php-net-sieve php-net-smtp \
    php-net-socket php-pear php-guzzlehttp-guzzle php-guzzlehttp-promises php-guzzlehttp-psr7 php-psr-http-client \
    php-psr-http-factory php-psr-http-message php-getallheaders php-symfony-deprecation-contracts \
    libjs-bootstrap4 libjs-codemirror libjs-jquery libjs-jquery-minicolors libjs-jquery-ui libjs-jstimezonedetect \
    libjs-popper.js
base=$root/usr/share/roundcube
rm -rf "$base/plugins/jqueryui/config.inc.php"
take "$base" "$app"
take "$root/usr/share/php" "$app/vendor"
mkdir -p "$app/config" "$app/logs" "$app/temp"
cp "$root/etc/roundcube/defaults.inc.php" "$root/etc/roundcube/mimetypes.php" "$app/config/"
rm -rf "$app/installer"
# What Debian keeps elsewhere, back where upstream has it.
sed -i "s|define('INSTALL_PATH', '/var/lib/roundcube/')|define('INSTALL_PATH', dirname(\$_SERVER['SCRIPT_FILENAME']).'/')|" \
    "$app/program/include/iniset.php"
cat >"$app/vendor/autoload.php" <<'PHP'
<?php
set_include_path(__DIR__ . PATH_SEPARATOR . get_include_path());
require_once 'Masterminds/HTML5/autoload.php';
PHP
cat >"$app/config/config.inc.php" <<'PHP'
<?php
$config = [];
$config['db_dsnw'] = 'mysql://roundcube_live:k3-not-a-secret@db.internal.example/roundcube';
$config['imap_host'] = 'imap.internal.example:143';
$config['smtp_host'] = 'smtp.internal.example:587';
$config['product_name'] = 'Harbour Mail';
$config['des_key'] = 'bench-not-a-secret-24-by';
$config['plugins'] = [];
$config['skin'] = 'elastic';
$config['enable_installer'] = false;
PHP
start_database
sql -e 'CREATE DATABASE roundcube CHARACTER SET utf8mb4'
sql roundcube <"$app/SQL/mysql.initial.sql"
for user in $(seq 1 20); do
    echo "INSERT INTO users (username, mail_host, created, language) VALUES ('reader$user@example.org', 'imap.internal.example', '2026-01-01 00:00:00', 'en_US');"
done | sql roundcube
dump roundcube "$app/roundcube.sql"
