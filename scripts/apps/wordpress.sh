# WordPress with its own installer, fifty posts, their comments, and MariaDB.
need php
need_extension mysqli
unpack wordpress wordpress-theme-twentytwentythree php-getid3 \
    libjs-underscore libjs-cropper libjs-prototype libjs-scriptaculous
rm -f "$root/usr/share/wordpress/.htaccess"
take "$root/usr/share/wordpress" "$app"
rm -rf "$app/wp-content"
take "$root/var/lib/wordpress/wp-content" "$app/wp-content"
mkdir -p "$app/wp-content/mu-plugins"

# wp-config HOST USER PASSWORD: as upstream's sample has it, filled in.
wp_config() {
    cat >"$app/wp-config.php" <<PHP
<?php
/** The name of the database for WordPress */
define( 'DB_NAME', 'wordpress' );

/** Database username */
define( 'DB_USER', '$2' );

/** Database password */
define( 'DB_PASSWORD', '$3' );

/** Database hostname */
define( 'DB_HOST', '$1' );

/** Database charset to use in creating database tables. */
define( 'DB_CHARSET', 'utf8mb4' );

/** The database collate type. Don't change this if in doubt. */
define( 'DB_COLLATE', '' );

define( 'AUTH_KEY',         'bench-auth-key' );
define( 'SECURE_AUTH_KEY',  'bench-secure-auth-key' );
define( 'LOGGED_IN_KEY',    'bench-logged-in-key' );
define( 'NONCE_KEY',        'bench-nonce-key' );
define( 'AUTH_SALT',        'bench-auth-salt' );
define( 'SECURE_AUTH_SALT', 'bench-secure-auth-salt' );
define( 'LOGGED_IN_SALT',   'bench-logged-in-salt' );
define( 'NONCE_SALT',       'bench-nonce-salt' );

/** WordPress database table prefix. */
\$table_prefix = 'wp_';

define( 'WP_DEBUG', false );
define( 'DISABLE_WP_CRON', true ); // A timer of the host runs wp-cron.php.

/** Absolute path to the WordPress directory. */
if ( ! defined( 'ABSPATH' ) ) {
	define( 'ABSPATH', __DIR__ . '/' );
}

/** Sets up WordPress vars and included files. */
require_once ABSPATH . 'wp-settings.php';
PHP
}

start_database
sql -e 'CREATE DATABASE wordpress CHARACTER SET utf8mb4'
wp_config "localhost:$socket" root ''
php -d display_errors=stderr "$here/wordpress.php" "$app" >"$scratch/content.log" 2>&1 \
    || fail "WordPress cannot be filled: $(tail -n 5 "$scratch/content.log")"
dump wordpress "$app/wordpress.sql"
wp_config db.internal.example wp_live 'k3-not-a-secret'
