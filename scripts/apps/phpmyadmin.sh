# phpMyAdmin with a configuration and its login page; it shows others' data and has none of its own.
need php
need_extension mysqli mbstring xml
unpack phpmyadmin php-composer-ca-bundle php-fig-http-message-util php-getallheaders php-google-recaptcha \
    php-mariadb-mysql-kbs php-nikic-fast-route php-phpmyadmin-motranslator php-phpmyadmin-shapefile \
    php-phpmyadmin-sql-parser php-psr-cache php-psr-container php-psr-http-factory php-psr-http-message php-psr-log \
    php-slim-psr7 php-symfony-cache php-symfony-cache-contracts php-symfony-config php-symfony-dependency-injection \
    php-symfony-deprecation-contracts php-symfony-expression-language php-symfony-filesystem php-symfony-polyfill-php80 \
    php-symfony-service-contracts php-symfony-var-exporter php-twig php-twig-i18n-extension php-webmozart-assert \
    libjs-codemirror libjs-jquery libjs-jquery-mousewheel libjs-jquery-tablesorter libjs-jquery-timepicker libjs-jquery-ui
take "$root/usr/share/phpmyadmin" "$app"
take "$root/usr/share/php" "$app/vendor"
mkdir -p "$app/tmp"
# What Debian keeps elsewhere, back where upstream has it.
cat >"$app/vendor/autoload.php" <<'PHP'
<?php
set_include_path(__DIR__ . PATH_SEPARATOR . get_include_path());
require __DIR__ . '/../autoload.php';
PHP
sed -i -e "s|'autoloadFile' => .*|'autoloadFile' => ROOT_PATH . 'vendor/autoload.php',|" \
    -e "s|'tempDir' => .*|'tempDir' => ROOT_PATH . 'tmp/',|" \
    -e "s|'configFile' => .*|'configFile' => ROOT_PATH . 'config.inc.php',|" "$app/libraries/vendor_config.php"
cat >"$app/config.inc.php" <<'PHP'
<?php
declare(strict_types=1);

$cfg['blowfish_secret'] = 'bench-0123456789-bench-012345678';
$i = 0;
$i++;
$cfg['Servers'][$i]['auth_type'] = 'cookie';
$cfg['Servers'][$i]['host'] = 'db.internal.example';
$cfg['Servers'][$i]['compress'] = false;
$cfg['Servers'][$i]['AllowNoPassword'] = false;
$cfg['UploadDir'] = '';
$cfg['SaveDir'] = '';
PHP
