<?php

namespace App\Support;

use RuntimeException;

/**
 * The writable directory, made by whichever request comes first.
 */
final class Storage
{
    /** In the order they are made: when the last one is there, all are. */
    private const DIRECTORIES = ['app', 'logs', 'framework', 'framework/cache', 'framework/cache/data', 'framework/sessions', 'framework/views'];

    public static function prepare(string $path): string
    {
        $path = rtrim($path, '/');
        if (is_dir($path . '/framework/views')) {
            return $path;
        }

        foreach (array_merge([''], self::DIRECTORIES) as $directory) {
            $directory = rtrim("$path/$directory", '/');
            // Another worker may have made it in between: only its absence is an error.
            if (! @mkdir($directory, 0775) && ! is_dir($directory)) {
                throw new RuntimeException("Storage directory $directory cannot be created: set APP_STORAGE to a writable directory.");
            }
        }

        return $path;
    }
}
