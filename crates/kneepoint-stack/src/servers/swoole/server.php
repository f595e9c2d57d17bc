<?php
// The server of a Swoole tier: begins the application once in each worker and asks it for every answer.
// KNEEPOINT_WORKER names the script that begins it and returns what answers a request:
// (server, query, form, cookies, body) -> [status, headers, body].

use Swoole\Http\Request;
use Swoole\Http\Response;
use Swoole\Http\Server;

$options = json_decode((string) file_get_contents(__DIR__ . '/swoole.json'), true);
$type = $options['port'] === 0 ? SWOOLE_SOCK_UNIX_STREAM : SWOOLE_SOCK_TCP;
$server = new Server($options['host'], $options['port'], SWOOLE_PROCESS, $type);
$server->set($options['server'] + [
    // One request after the other in each worker: frameworks keep the request in globals.
    'enable_coroutine' => false,
    'log_file' => $options['log'],
    'log_level' => SWOOLE_LOG_WARNING,
    'pid_file' => $options['pid'],
    'enable_static_handler' => true,
    'document_root' => $options['document_root'],
    'package_max_length' => 10 * 1024 * 1024,
]);

$answer = null;
$server->on('workerStart', static function () use (&$answer, $options): void {
    cli_set_process_title($options['title']);
    $answer = require getenv('KNEEPOINT_WORKER');
});

$server->on('request', static function (Request $request, Response $response) use (&$answer): void {
    $path = $request->server['request_uri'];
    if ($path === '/.well-known/kneepoint') {
        $response->header('Content-Type', 'text/plain');
        $response->end(file_get_contents(__DIR__ . '/identity.txt'));
        return;
    }
    if ($path === '/.well-known/kneepoint-probe.php') {
        ob_start();
        require __DIR__ . '/probe.php';
        $response->header('Content-Type', 'application/json');
        $response->end(ob_get_clean());
        return;
    }
    try {
        [$status, $headers, $body] = $answer(
            globals($request),
            $request->get ?? [],
            $request->post ?? [],
            array_map('urldecode', $request->cookie ?? []),
            (string) $request->rawContent(),
        );
    } catch (Throwable $error) {
        error_log((string) $error);
        [$status, $headers, $body] = [500, [], ''];
    }
    $response->status($status);
    foreach ($headers as $name => $values) {
        // More than one value of a name is Set-Cookie's case.
        $response->header((string) $name, count((array) $values) === 1 ? ((array) $values)[0] : (array) $values);
    }
    $response->end($body);
});

/** What PHP would have in $_SERVER. */
function globals(Request $request): array
{
    $server = array_change_key_case($request->server, CASE_UPPER);
    if (($server['QUERY_STRING'] ?? '') !== '') {
        $server['REQUEST_URI'] .= '?' . $server['QUERY_STRING'];
    }
    foreach ($request->header ?? [] as $name => $value) {
        $name = strtoupper(strtr($name, '-', '_'));
        $server[in_array($name, ['CONTENT_TYPE', 'CONTENT_LENGTH'], true) ? $name : "HTTP_$name"] = $value;
    }
    $server['SCRIPT_NAME'] = $server['PHP_SELF'] = '/index.php';
    $server['SERVER_NAME'] = explode(':', $server['HTTP_HOST'] ?? 'localhost')[0];
    return $server;
}

$server->start();
