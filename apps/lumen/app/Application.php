<?php

namespace App;

use Laravel\Lumen\Application as Lumen;

/**
 * Lumen's, without deprecations: it is older than the PHP that runs it, and would turn each one into a log record.
 */
final class Application extends Lumen
{
    private const LEVELS = E_ALL & ~E_DEPRECATED & ~E_USER_DEPRECATED;

    protected function registerErrorHandling()
    {
        parent::registerErrorHandling();

        error_reporting(self::LEVELS);
        set_error_handler(fn (int $level, string $message, string $file = '', int $line = 0) => $this->handleError($level, $message, $file, $line), self::LEVELS);
    }
}
