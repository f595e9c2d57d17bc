<?php

declare(strict_types=1);

namespace Plain;

/**
 * Turns one request into one response: an exact match on method and path, nothing dynamic.
 */
final class App
{
    /** @var array<string, callable(array<string, mixed>): Response> */
    private array $routes = [];

    /** @param callable(array<string, mixed>): Response $action */
    public function get(string $path, callable $action): void
    {
        $this->routes[$path] = $action;
    }

    /** @param array<string, mixed> $query */
    public function handle(string $method, string $uri, array $query): Response
    {
        if ($method !== 'GET' && $method !== 'HEAD') {
            return Response::text("method not allowed\n", 405, ['Allow' => 'GET, HEAD']);
        }

        $path = rawurldecode(explode('?', $uri, 2)[0]);
        if ($path !== '/') {
            $path = rtrim($path, '/');
        }

        $action = $this->routes[$path] ?? null;
        if ($action === null) {
            return Response::text("no such page\n", 404);
        }

        try {
            return $action($query);
        } catch (DatabaseMissing $e) {
            error_log('plain: ' . $e->getMessage());

            return Response::text($e->getMessage() . "\n", 500);
        }
    }
}
