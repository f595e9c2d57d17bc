<?php

/*
 * An application that has Laravel Octane, as Octane keeps it: its worker, its sandbox for each request and its listeners, behind
 * the function that a server asks (docs/runtimes.md). To be copied into that application; this one has no Octane.
 */

use Illuminate\Foundation\Application;
use Illuminate\Http\Request;
use Laravel\Octane\ApplicationFactory;
use Laravel\Octane\Contracts\Client;
use Laravel\Octane\Octane;
use Laravel\Octane\OctaneResponse;
use Laravel\Octane\RequestContext;
use Laravel\Octane\Worker;

define('LARAVEL_START', microtime(true));

// As Octane's own start does: this is PHP's command line, and serves requests.
$_ENV['APP_RUNNING_IN_CONSOLE'] = false;

require_once __DIR__ . '/vendor/autoload.php';

/** Keeps the answer where Octane's client for Swoole sends it. */
$client = new class () implements Client {
    /** Status, headers, body. */
    public ?array $last = null;

    public function marshalRequest(RequestContext $context): array
    {
        [$server, $query, $form, $cookies, $body] = $context->asked;

        return [new Request($query, $form, [], $cookies, [], $server, $body), $context];
    }

    public function respond(RequestContext $context, OctaneResponse $octaneResponse): void
    {
        $response = $octaneResponse->response;
        $this->last = [
            $response->getStatusCode(),
            $response->headers->allPreserveCase(),
            $octaneResponse->outputBuffer . $response->getContent(),
        ];
    }

    public function error(Throwable $e, Application $app, Request $request, RequestContext $context): void
    {
        $text = Octane::formatExceptionForClient($e, $app->make('config')->get('app.debug'));
        $this->last = [500, ['Content-Type' => ['text/plain']], $text];
    }
};
$worker = new Worker(new ApplicationFactory(__DIR__), $client);
$worker->boot();

return static function (array $server, array $query, array $form, array $cookies, string $body) use ($client, $worker): array {
    $client->last = null;
    $context = new RequestContext(['asked' => [$server, $query, $form, $cookies, $body]]);
    $worker->handle(...$client->marshalRequest($context));

    return $client->last ?? [500, [], ''];
};
