<?php

declare(strict_types=1);

namespace Plain;

/**
 * Settings of the deployment. PHP-FPM delivers `env[NAME]` of the pool to getenv().
 */
final class Env
{
    public static function string(string $name, string $default): string
    {
        $value = getenv($name);

        return $value === false || $value === '' ? $default : $value;
    }

    public static function bool(string $name, bool $default): bool
    {
        return filter_var(self::string($name, $default ? 'true' : 'false'), FILTER_VALIDATE_BOOL);
    }
}
