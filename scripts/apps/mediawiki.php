<?php
// Writes the pages of the wiki as text files. usage: php mediawiki.php DIRECTORY

require __DIR__ . '/words.php';
$pages = [];
for ($i = 1; $i <= 20; $i++) {
    $text = "'''" . title($i) . "''' is a page of this wiki.{{Note|" . words($i, 5) . "}}\n\n";
    for ($s = 1; $s <= 5; $s++) {
        $text .= "== Section $s ==\n" . words($i * 10 + $s, 120) . '<ref>' . words($s, 6) . "</ref>\n\n";
        $text .= '* [[' . title(($i + $s) % 20 + 1) . "]]\n* [[Main Page]]\n\n";
        $text .= "{| class=\"wikitable\"\n! Name !! Value\n";
        for ($r = 1; $r <= 8; $r++) {
            $text .= "|-\n| " . title($r) . ' || {{#expr: ' . $r . " * 7}}\n";
        }
        $text .= "|}\n\n";
    }
    $pages[title($i)] = $text . "<references />\n[[Category:Harbour]]\n";
}
$pages['Template:Note'] = "<div class=\"note\">Note: {{{1}}}</div>";
$list = '';
for ($i = 1; $i <= 20; $i++) {
    $list .= '* [[' . title($i) . "]]\n";
}
$pages['Main Page'] = "Welcome to the harbour wiki.\n\n" . $list;
foreach ($pages as $title => $text) {
    file_put_contents("$argv[1]/$title.txt", $text);
}
