<?php

/*
 * Debian's php-laravel-lumen-framework, and what it stands on from Debian's packages, loaded as Composer would load them: absolute
 * paths, and the files of functions. Lumen brings its own helpers; the framework's (Illuminate/Foundation) must not come
 * before them.
 */

error_reporting(E_ALL & ~E_DEPRECATED & ~E_USER_DEPRECATED);

const DEBIAN = '/usr/share/php/';

// Debian's packages name each other relatively; nothing of theirs is in the working directory.
set_include_path(DEBIAN);

spl_autoload_register(static function (string $class): void {
    $path = strtr($class, '\\', '/') . '.php';
    $files = [DEBIAN . $path];
    if (strncmp($class, 'App\\', 4) === 0) {
        $files = [dirname(__DIR__) . '/app/' . substr($path, 4)];
    } elseif (strncmp($class, 'Illuminate\\Support\\', 19) === 0) {
        // Two packages that share the namespace of a third.
        $files[] = DEBIAN . 'Illuminate/Collections/' . substr($path, 19);
        $files[] = DEBIAN . 'Illuminate/Macroable/' . substr($path, 19);
    }
    foreach ($files as $file) {
        if (is_file($file)) {
            require $file;
            return;
        }
    }
});

foreach ([
    DEBIAN . 'FastRoute/functions.php',
    DEBIAN . 'Illuminate/Collections/helpers.php',
    DEBIAN . 'Illuminate/Events/functions.php',
    DEBIAN . 'Laravel/Lumen/helpers.php',
    DEBIAN . 'Illuminate/Support/helpers.php',
    DEBIAN . 'Opis/Closure/functions.php',
    DEBIAN . 'Ramsey/Uuid/functions.php',
    DEBIAN . 'Symfony/Component/String/Resources/functions.php',
    DEBIAN . 'Symfony/Component/Translation/Resources/functions.php',
    DEBIAN . 'Symfony/Component/VarDumper/Resources/functions/dump.php',
    DEBIAN . 'Symfony/Contracts/Deprecation/function.php',
] as $functions) {
    require_once $functions;
}
