<?php

declare(strict_types=1);

use Plain\App;
use Plain\Clock;
use Plain\Database;
use Plain\Response;

// `php -S` serves the static page itself, as nginx does in a real chain.
if (PHP_SAPI === 'cli-server' && is_file(__DIR__ . parse_url($_SERVER['REQUEST_URI'], PHP_URL_PATH))) {
    return false;
}

spl_autoload_register(static function (string $class): void {
    if (str_starts_with($class, 'Plain\\')) {
        require dirname(__DIR__) . '/src/' . substr($class, 6) . '.php';
    }
});

$app = new App();

// PHP without data: a template over the status of a small imaginary shop.
$app->get('/', static function (array $query): Response {
    $departments = [];
    foreach (['books', 'garden', 'kitchen', 'music', 'tools'] as $index => $name) {
        $prices = array_map(static fn (int $n): int => 199 + ($n * 7919 + $index * 104729) % 4800, range(1, 12));
        $departments[$name] = ['items' => count($prices), 'from' => min($prices), 'mean' => intdiv(array_sum($prices), 12)];
    }
    $state = json_encode(['departments' => $departments, 'rendered' => date('c')], JSON_THROW_ON_ERROR | JSON_HEX_TAG);

    ob_start();
    require dirname(__DIR__) . '/templates/home.php';

    return Response::html((string) ob_get_clean());
});

$app->get('/db', static function (array $query): Response {
    $author = random_int(1, Database::AUTHORS);

    return Response::json(['author' => $author, 'articles' => (new Database())->articlesBy($author)]);
});

$app->get('/sleep', static function (array $query): Response {
    $ms = Clock::milliseconds($query);
    Clock::sleep($ms);

    return Response::json(['slept_ms' => $ms]);
});

$app->get('/cpu', static function (array $query): Response {
    $ms = Clock::milliseconds($query);

    return Response::json(['burned_ms' => $ms, 'rounds' => Clock::burn($ms)]);
});

$app->handle($_SERVER['REQUEST_METHOD'] ?? 'GET', $_SERVER['REQUEST_URI'] ?? '/', $_GET)->send();
