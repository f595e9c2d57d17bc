<?php
// What one request does here is what the test of the evidence pass counts: see calls.rs.
function reads($times) {
    for ($i = 0; $i < $times; $i++) {
        file_get_contents(__DIR__ . '/part.php'); //: reads
    }
    return @file_get_contents(__DIR__ . '/absent.php'); //: absent
}
function looks() {
    clearstatcache();
    return is_file(__DIR__ . '/fpm.conf'); //: looks
}
function locks() {
    $file = fopen('/tmp', 'r'); //: directory
    flock($file, LOCK_SH); //: locks
}
class Peer {
    public static function greet() {
        $peer = stream_socket_client('unix://' . __DIR__ . '/php.sock'); //: connects
        fwrite($peer, 'GET /greeting/77?key=secret HTTP/1.1' . "\r\nHost: peer.example\r\n\r\n"); //: greets
        fclose($peer);
    }
}
reads((int) ($_GET['times'] ?? 3));
looks();
locks();
usleep(2000); //: sleeps
Peer::greet();
echo 'done';
