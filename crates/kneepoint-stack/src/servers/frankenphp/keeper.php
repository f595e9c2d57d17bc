<?php
// Keeps the application of a FrankenPHP worker. KNEEPOINT_WORKER names the script that begins it and returns what answers
// a request: (server, query, form, cookies, body) -> [status, headers, body].
ignore_user_abort(true);

$answer = require getenv('KNEEPOINT_WORKER');
$handle = static function () use ($answer): void {
    $body = (string) file_get_contents('php://input');
    [$status, $headers, $text] = $answer($_SERVER, $_GET, $_POST, $_COOKIE, $body);
    http_response_code($status);
    foreach ($headers as $name => $values) {
        foreach ((array) $values as $value) {
            header("$name: $value", false);
        }
    }
    echo $text;
};

$most = (int) getenv('KNEEPOINT_MAX_REQUESTS');
for ($served = 0; $most === 0 || $served < $most; ++$served) {
    if (!frankenphp_handle_request($handle)) {
        break;
    }
}
