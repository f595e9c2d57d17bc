<?php

/*
 * The framework comes from `vendor` where Composer put one, otherwise from Debian's php-laravel-framework. Either way
 * it is older than the PHP that runs it: its deprecations are noise of every request.
 */

error_reporting(E_ALL & ~E_DEPRECATED & ~E_USER_DEPRECATED);

$vendor = dirname(__DIR__) . '/vendor/autoload.php';
require is_file($vendor) ? $vendor : __DIR__ . '/debian.php';

spl_autoload_register(static function (string $class): void {
    if (strncmp($class, 'App\\', 4) === 0) {
        $file = dirname(__DIR__) . '/app/' . strtr(substr($class, 4), '\\', '/') . '.php';
        if (is_file($file)) {
            require $file;
        }
    }
}, true, true);
