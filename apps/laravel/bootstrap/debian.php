<?php

/*
 * Debian's packages, loaded as Composer would load them: one loader by namespace, absolute paths, and the files of
 * functions. Their own autoloaders are 79, asked in turn for every class, from 80 files that are themselves looked for
 * along the include path: what no application that Composer installed pays at every request.
 */

const DEBIAN = '/usr/share/php/';

// They still name each other relatively; nothing of theirs is in the working directory.
set_include_path(DEBIAN);

spl_autoload_register(static function (string $class): void {
    $path = strtr($class, '\\', '/') . '.php';
    $paths = [$path];
    if (strncmp($class, 'Illuminate\\Support\\', 19) === 0) {
        // Two packages that share the namespace of a third.
        $paths[] = 'Illuminate/Collections/' . substr($path, 19);
        $paths[] = 'Illuminate/Macroable/' . substr($path, 19);
    }
    foreach ($paths as $path) {
        if (is_file(DEBIAN . $path)) {
            require DEBIAN . $path;
            return;
        }
    }
});

foreach ([
    'Illuminate/Collections/helpers.php',
    'Illuminate/Events/functions.php',
    'Illuminate/Foundation/helpers.php',
    'Illuminate/Support/helpers.php',
    'Opis/Closure/functions.php',
    'Ramsey/Uuid/functions.php',
    'Swift/swift_required.php',
    'Symfony/Component/String/Resources/functions.php',
    'Symfony/Component/Translation/Resources/functions.php',
    'Symfony/Component/VarDumper/Resources/functions/dump.php',
    'Symfony/Contracts/Deprecation/function.php',
] as $functions) {
    require_once DEBIAN . $functions;
}
