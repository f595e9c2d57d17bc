<?php
// Answers for the interpreter this FPM master runs. Rendered and read by Kneepoint; one JSON object.
$loaded = extension_loaded('Zend OPcache');
$names = array_merge(
    ['realpath_cache_size', 'realpath_cache_ttl', 'open_basedir', 'memory_limit', 'max_execution_time', 'display_errors', 'log_errors',
     'error_reporting', 'session.save_handler', 'default_socket_timeout', 'auto_prepend_file', 'zend.assertions', 'xdebug.mode'],
    $loaded ? array_keys(ini_get_all('zend opcache', false) ?: []) : []
);
$ini = [];
foreach ($names as $name) {
    $value = ini_get($name);
    $ini[$name] = $value === false ? null : $value;
}
header('Content-Type: application/json');
echo json_encode([
    'version' => PHP_VERSION,
    'sapi' => PHP_SAPI,
    'zts' => (bool) PHP_ZTS,
    'loaded' => $loaded,
    'opcache' => $loaded && function_exists('opcache_get_status') ? @opcache_get_status(false) : false,
    'ini' => $ini,
    'extensions' => array_values(array_unique(array_merge(get_loaded_extensions(), get_loaded_extensions(true)))),
    'realpath_cache_size' => realpath_cache_size(),
], JSON_PARTIAL_OUTPUT_ON_ERROR | JSON_INVALID_UTF8_SUBSTITUTE), "\n";
