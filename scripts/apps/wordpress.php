<?php
// Installs WordPress into the database that its wp-config.php names, by its own installer, and writes posts.
// usage: php wordpress.php DIRECTORY

require __DIR__ . '/words.php';
const SITE = 'http://blog.example.org';
$_SERVER['HTTP_HOST'] = 'blog.example.org';
$_SERVER['REQUEST_URI'] = '/';
define('WP_INSTALLING', true);
define('WP_SITEURL', SITE);
// A blog that is being filled tells nobody and looks nothing up.
define('WP_HTTP_BLOCK_EXTERNAL', true);
require $argv[1] . '/wp-load.php';
require ABSPATH . 'wp-admin/includes/upgrade.php';
function wp_mail()
{
    return true;
}

wp_install('The Harbour Paper', 'editor', 'editor@example.org', true, '', 'not-a-secret');
update_option('siteurl', SITE);
update_option('home', SITE);
update_option('permalink_structure', '/%postname%/');
flush_rewrite_rules(false);
$categories = [];
foreach (['News', 'Trade', 'Weather', 'People', 'Letters'] as $category) {
    $categories[] = wp_create_category($category);
}
for ($i = 1; $i <= 50; $i++) {
    $paragraphs = [];
    for ($p = 0; $p < 6; $p++) {
        $paragraphs[] = '<!-- wp:paragraph --><p>' . words($i * 10 + $p, 60) . '</p><!-- /wp:paragraph -->';
    }
    $post = wp_insert_post([
        'post_title' => title($i),
        'post_content' => implode("\n", $paragraphs),
        'post_status' => 'publish',
        'post_author' => 1,
        'post_date' => gmdate('Y-m-d H:i:s', 1767225600 + $i * 86400),
        'post_category' => [$categories[$i % 5]],
        'tags_input' => ['tag' . $i % 7, 'tag' . $i % 11],
    ]);
    add_post_meta($post, 'reading_minutes', $i % 9 + 1);
    for ($c = 0; $c < $i % 5; $c++) {
        wp_insert_comment([
            'comment_post_ID' => $post,
            'comment_author' => title($c + 1),
            'comment_author_email' => "reader$c@example.org",
            'comment_content' => words($i * 100 + $c, 20),
            'comment_approved' => 1,
        ]);
    }
}
for ($i = 1; $i <= 4; $i++) {
    wp_insert_post(['post_title' => 'Page ' . title($i), 'post_content' => words($i, 200), 'post_status' => 'publish',
        'post_type' => 'page', 'post_author' => 1]);
}
