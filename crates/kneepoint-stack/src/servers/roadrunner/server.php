<?php
// A worker of a RoadRunner tier: begins the application once and asks it for every answer.
// KNEEPOINT_WORKER names the script that begins it and returns what answers a request:
// (server, query, form, cookies, body) -> [status, headers, body].
//
// RoadRunner talks to it over standard input and output, in frames: a head of 12 bytes (version and length of the head in
// words, flags, length of the payload, CRC of these six bytes, two more), numbers of 4 bytes, and the payload. The first number
// says where the body begins. See pkg/frame of https://github.com/roadrunner-server/goridge.

const CONTROL = 0x01;
const RAW = 0x04;

/** Exactly so many bytes; null at the end of the input. */
function take(int $bytes): ?string
{
    $taken = '';
    while (strlen($taken) < $bytes) {
        $more = fread(STDIN, $bytes - strlen($taken));
        if ($more === false || $more === '') {
            return null;
        }
        $taken .= $more;
    }
    return $taken;
}

/** The next frame: its flags, what stands before the body, the body. */
function receive(): ?array
{
    $head = take(12);
    if ($head === null) {
        return null;
    }
    $words = ord($head[0]) & 0x0f;
    $flags = ord($head[1]);
    $length = unpack('V', $head, 2)[1];
    $numbers = $words > 3 ? unpack('V*', (string) take(($words - 3) * 4)) : [];
    $payload = $length > 0 ? take($length) : '';
    $begin = $numbers[1] ?? 0;
    return [$flags, substr((string) $payload, 0, $begin), substr((string) $payload, $begin)];
}

function send(int $flags, string $before, string $body): void
{
    $has_numbers = ($flags & CONTROL) === 0;
    $head = pack('CCV', 1 << 4 | ($has_numbers ? 4 : 3), $flags, strlen($before) + strlen($body));
    $head .= pack('VCC', crc32($head), 0, 0) . ($has_numbers ? pack('V', strlen($before)) : '');
    fwrite(STDOUT, $head . $before . $body);
    fflush(STDOUT);
}

/** What PHP would have in $_SERVER. */
function globals(array $request): array
{
    $address = parse_url($request['uri']);
    $query = (string) ($request['rawQuery'] ?? '');
    $server = [
        'REQUEST_METHOD' => $request['method'],
        'REQUEST_URI' => ($address['path'] ?? '/') . ($query === '' ? '' : "?$query"),
        'QUERY_STRING' => $query,
        'REMOTE_ADDR' => $request['remoteAddr'],
        'SERVER_PROTOCOL' => $request['protocol'],
        'REQUEST_TIME' => time(),
        'REQUEST_TIME_FLOAT' => microtime(true),
        'SERVER_NAME' => $address['host'] ?? 'localhost',
        'HTTP_HOST' => ($address['host'] ?? 'localhost') . (isset($address['port']) ? ':' . $address['port'] : ''),
        'SCRIPT_NAME' => '/index.php',
        'PHP_SELF' => '/index.php',
    ];
    foreach ($request['headers'] ?? [] as $name => $values) {
        $name = strtoupper(strtr($name, '-', '_'));
        $server[in_array($name, ['CONTENT_TYPE', 'CONTENT_LENGTH'], true) ? $name : "HTTP_$name"] = implode(', ', $values);
    }
    return $server;
}

/** What the application, or this script itself, answers: status, headers, body. */
function answer(callable $answer, array $request, string $body): array
{
    $server = globals($request);
    $path = explode('?', $server['REQUEST_URI'])[0];
    if ($path === '/.well-known/kneepoint') {
        return [200, ['Content-Type' => ['text/plain']], (string) file_get_contents(__DIR__ . '/identity.txt')];
    }
    if ($path === '/.well-known/kneepoint-probe.php') {
        ob_start();
        require __DIR__ . '/probe.php';
        return [200, ['Content-Type' => ['application/json']], (string) ob_get_clean()];
    }
    parse_str($server['QUERY_STRING'], $query);
    $is_form = (bool) ($request['parsed'] ?? false);
    $form = $is_form ? (json_decode($body, true) ?: []) : [];
    return $answer($server, $query, $form, $request['cookies'] ?? [], $is_form ? '' : $body);
}

/** What the application prints must not come between the frames, nor stay for as long as the worker does. */
function swallow(): void
{
    while (ob_get_level() > 0) {
        ob_end_clean();
    }
    ob_start(static fn (string $printed): string => '', 4096);
}

cli_set_process_title('kneepoint: roadrunner worker');
swallow();
$answer = require getenv('KNEEPOINT_WORKER');
while (($frame = receive()) !== null) {
    [$flags, $context, $body] = $frame;
    if ($flags & CONTROL) {
        $command = json_decode($context . $body, true);
        if ($command['stop'] ?? false) {
            break;
        }
        send(CONTROL, '', json_encode(['pid' => getmypid()]));
        continue;
    }
    swallow();
    try {
        [$status, $headers, $text] = answer($answer, json_decode($context, true), $body);
        $lists = array_map(static fn ($values): array => array_map('strval', array_values((array) $values)), $headers);
        $before = json_encode(['status' => $status, 'headers' => (object) $lists], JSON_INVALID_UTF8_SUBSTITUTE | JSON_THROW_ON_ERROR);
    } catch (Throwable $error) {
        error_log((string) $error);
        [$before, $text] = ['{"status":500,"headers":{}}', ''];
    }
    send(RAW, $before, $text);
}
