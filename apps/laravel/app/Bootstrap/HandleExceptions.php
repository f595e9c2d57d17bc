<?php

namespace App\Bootstrap;

use Illuminate\Contracts\Foundation\Application;
use Illuminate\Foundation\Bootstrap\HandleExceptions as Base;

/**
 * The framework's handler, without deprecations: it would turn each one into a log record, most of them discarded.
 */
final class HandleExceptions extends Base
{
    private const LEVELS = E_ALL & ~E_DEPRECATED & ~E_USER_DEPRECATED;

    public function bootstrap(Application $app)
    {
        parent::bootstrap($app);

        error_reporting(self::LEVELS);
        set_error_handler([$this, 'handleError'], self::LEVELS);
    }
}
