<?php

use App\Support\Storage;
use Illuminate\Contracts\Console\Kernel as ConsoleKernel;
use Illuminate\Contracts\Debug\ExceptionHandler;
use Illuminate\Contracts\Http\Kernel as HttpKernel;
use Illuminate\Foundation\Application;

require_once __DIR__ . '/autoload.php';

$storage = Storage::prepare(getenv('APP_STORAGE') ?: dirname(__DIR__) . '/storage');

// The application directory may be read-only: what the framework caches goes to the storage directory as well.
// $_ENV is where env() looks besides the real environment, and it ends with the request.
foreach (['SERVICES', 'PACKAGES', 'CONFIG', 'ROUTES', 'EVENTS'] as $cache) {
    $_ENV["APP_{$cache}_CACHE"] ??= $storage . '/framework/cache/' . strtolower($cache) . '.php';
}

$app = new Application(dirname(__DIR__));
$app->useStoragePath($storage);

$app->singleton(HttpKernel::class, App\Http\Kernel::class);
$app->singleton(ConsoleKernel::class, App\Console\Kernel::class);
$app->singleton(ExceptionHandler::class, App\Exceptions\Handler::class);

return $app;
