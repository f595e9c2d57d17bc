<?php

/*
 * The application for servers that keep it between requests (Swoole, RoadRunner, FrankenPHP's workers): it is booted once, and what a
 * request leaves behind is forgotten. Returns what answers a request:
 * (server, query, form, cookies, body) -> [status, headers, body].
 */

use Illuminate\Contracts\Http\Kernel;
use Illuminate\Http\Request;
use Illuminate\Session\Middleware\StartSession;
use Illuminate\Support\Facades\Facade;

define('LARAVEL_START', microtime(true));

// As Octane does: this is PHP's command line, and serves requests.
$_ENV['APP_RUNNING_IN_CONSOLE'] = false;

$app = require __DIR__ . '/bootstrap/app.php';
$kernel = $app->make(Kernel::class);
$kernel->bootstrap();

return static function (array $server, array $get, array $post, array $cookies, string $body) use ($app, $kernel): array {
    $request = new Request($get, $post, [], $cookies, [], $server, $body);
    $response = $kernel->handle($request);
    $kernel->terminate($request, $response);

    // Who was logged in, which session it was, which cookies were to be set: the next request is someone else's.
    foreach (['auth', 'auth.driver', 'cookie', 'redirect', 'request', 'session', 'session.store', StartSession::class] as $name) {
        $app->forgetInstance($name);
    }
    Facade::clearResolvedInstances();

    return [$response->getStatusCode(), $response->headers->allPreserveCase(), (string) $response->getContent()];
};
