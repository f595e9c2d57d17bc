<?php

use App\Application;
use App\Exceptions\Handler;
use Illuminate\Contracts\Debug\ExceptionHandler;
use Laravel\Lumen\Bootstrap\LoadEnvironmentVariables;

require_once __DIR__ . '/autoload.php';

// What a new Lumen 8 application does.
(new LoadEnvironmentVariables(dirname(__DIR__)))->bootstrap();
date_default_timezone_set(env('APP_TIMEZONE', 'UTC'));

$app = new Application(dirname(__DIR__));
// The application directory may be read-only.
$app->useStoragePath(getenv('APP_STORAGE') ?: dirname(__DIR__) . '/storage');
$app->singleton(ExceptionHandler::class, Handler::class);
$app->configure('app');
$app->router->group([], static function ($router): void {
    require dirname(__DIR__) . '/routes/web.php';
});

return $app;
