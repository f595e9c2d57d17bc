<?php
// Writes the pages of the wiki as text files. usage: php dokuwiki.php DIRECTORY

require __DIR__ . '/words.php';
$start = "====== The Harbour Notes ======\n\n" . words(1, 80) . "\n\n";
for ($i = 1; $i <= 20; $i++) {
    $start .= "  * [[notes:page$i|" . title($i) . "]]\n";
    $text = '====== ' . title($i) . " ======\n\n";
    for ($s = 1; $s <= 5; $s++) {
        $text .= "===== Section $s =====\n\n" . words($i * 10 + $s, 120) . '((' . words($s, 6) . "))\n\n";
        $text .= '  * [[notes:page' . (($i + $s) % 20 + 1) . "]]\n  * [[:start]]\n\n^ Name ^ Value ^\n";
        for ($r = 1; $r <= 8; $r++) {
            $text .= '| ' . title($r) . ' | ' . $r * 7 . " |\n";
        }
        $text .= "\n<code php>\n<?php\nfunction section$s(array \$list): int { return count(\$list) + $s; }\n</code>\n\n";
    }
    @mkdir("$argv[1]/notes", 0777, true);
    file_put_contents("$argv[1]/notes/page$i.txt", $text);
}
file_put_contents("$argv[1]/start.txt", $start);
