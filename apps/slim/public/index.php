<?php

/*
 * The JSON endpoint of the Laravel application on a light framework: Debian's php-slim, which is older than the PHP that
 * runs it (its deprecations are noise of every request).
 */

error_reporting(E_ALL & ~E_DEPRECATED & ~E_USER_DEPRECATED);

require '/usr/share/php/Slim/autoload.php';

$app = new Slim\App();
// No static closure: Slim binds it to its container.
$app->get('/json', fn ($request, $response) => $response->withJson([
    'app_env' => getenv('APP_ENV') ?: 'production',
    'type' => 'slim',
    'number' => random_int(0, 2147483647),
    'headers' => $request->getHeaders(),
]));
$app->run();
